"""Settings of the source design are read under its own names; those with the prefix of the service win."""

import pytest

from groundwire.answer.settings import AnswerSettings
from groundwire.kernel.errors import InvalidRequestError
from groundwire.standalone.settings import load_settings


@pytest.mark.requirement("S0-62")
def test_the_master_switch_is_read_under_both_names(monkeypatch: pytest.MonkeyPatch) -> None:
    assert AnswerSettings().rag_enabled
    monkeypatch.setenv("RAG_ENABLED", "false")
    assert not AnswerSettings().rag_enabled
    monkeypatch.setenv("GROUNDWIRE_ANSWER_RAG_ENABLED", "true")
    assert AnswerSettings().rag_enabled


@pytest.mark.parametrize("count", ["0", "101"])
def test_a_summary_covers_1_to_100_exchanges(monkeypatch: pytest.MonkeyPatch, count: str) -> None:
    assert AnswerSettings().rag_summary_every_n_turns == 8
    monkeypatch.setenv("RAG_SUMMARY_EVERY_N_TURNS", count)
    with pytest.raises(InvalidRequestError, match="RAG_SUMMARY_EVERY_N_TURNS"):
        load_settings()
