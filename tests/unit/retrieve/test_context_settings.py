"""Switches and limits of contexts come from the environment, under the names of the source design as well."""

import pytest

from groundwire.kernel.errors import InvalidRequestError
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.standalone.settings import load_settings

LIMITS = [
    pytest.param("RAG_TURN_TOP_K", "turn", 4, 20, marks=pytest.mark.requirement("S0-68")),
    pytest.param("RAG_FAQ_TOP_K", "faq", 2, 10, marks=pytest.mark.requirement("S0-69")),
    pytest.param("RAG_MEMORY_TOP_K", "memory", 3, 20, marks=pytest.mark.requirement("S0-70")),
    pytest.param("RAG_SUMMARY_TOP_K", "summary", 2, 10, marks=pytest.mark.requirement("S0-71")),
    pytest.param("RAG_PERSONA_TOP_K", "persona", 2, 10, marks=pytest.mark.requirement("S0-18")),
]
SWITCHES = [
    pytest.param("persona", marks=pytest.mark.requirement("S0-63")),
    pytest.param("faq", marks=pytest.mark.requirement("S0-64")),
    pytest.param("memory", marks=pytest.mark.requirement("S0-65")),
    pytest.param("turn", marks=pytest.mark.requirement("S0-66")),
    pytest.param("summary", marks=pytest.mark.requirement("S0-67")),
]


@pytest.mark.parametrize(("name", "kind", "default", "most"), LIMITS)
def test_limits_are_read_under_either_name_and_a_wrong_one_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, kind: str, default: int, most: int
) -> None:
    assert load_settings().retrieve.context_limits[kind] == default
    for variable in (name, f"GROUNDWIRE_RETRIEVE_{name}"):
        with monkeypatch.context() as environment:
            environment.setenv(variable, str(most))
            assert load_settings().retrieve.context_limits[kind] == most
            for wrong in ("0", str(most + 1), "many"):
                environment.setenv(variable, wrong)
                with pytest.raises(InvalidRequestError, match=name):
                    load_settings()


def test_the_name_with_the_prefix_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_TURN_TOP_K", "7")
    monkeypatch.setenv("GROUNDWIRE_RETRIEVE_RAG_TURN_TOP_K", "9")
    assert load_settings().retrieve.rag_turn_top_k == 9


@pytest.mark.parametrize("kind", SWITCHES)
def test_each_section_can_be_switched_off(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    every = set(RetrieveSettings().context_limits)
    assert kind in every
    monkeypatch.setenv(f"RAG_ENABLE_{kind.upper()}", "false")
    assert set(load_settings().retrieve.context_limits) == every - {kind}


@pytest.mark.requirement("S0-62")
def test_one_switch_is_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_ENABLED", "false")
    assert load_settings().retrieve.context_limits == {}
