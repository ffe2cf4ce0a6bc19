"""Values that no thread can wait for and no process can have: refused at the start, with the name of the setting."""

import pytest

from groundwire.kernel.errors import InvalidRequestError
from groundwire.standalone.settings import load_settings

NUMBERS = [name for name, value in load_settings().shown().items() if isinstance(value, float)] + [
    "GROUNDWIRE_CALLER_UNITS_PER_SECOND",
    "GROUNDWIRE_CALLER_BURST",
]
MEMORY = ["PARSER_MEMORY_MIB", "PARSER_MEMORY_BASE_MIB", "PARSER_MEMORY_PER_BYTE"]


def refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> list[str]:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidRequestError) as caught:
        load_settings()
    return [violation.field for violation in caught.value.violations]


@pytest.mark.parametrize("name", NUMBERS)
def test_nothing_is_infinite(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert refused(monkeypatch, name, "inf") == [name]
    assert refused(monkeypatch, name, "nan") == [name]


@pytest.mark.parametrize("name", [name for name in NUMBERS if name.endswith("_S")])
def test_no_time_is_longer_than_a_thread_can_wait(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    assert refused(monkeypatch, name, "1e99") == [name]


@pytest.mark.parametrize("name", MEMORY)
def test_a_parser_cannot_have_more_memory_than_a_limit_can_say(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    variable = f"GROUNDWIRE_INGEST_{name}"
    assert refused(monkeypatch, variable, "99999999999999999999") == [variable]
