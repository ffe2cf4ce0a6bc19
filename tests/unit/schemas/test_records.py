"""Schemas of records: what is required, what is filled in, and how refusals read."""

from typing import Any

import pytest
from pydantic import ValidationError

from groundwire.kernel.errors import NotFoundError
from groundwire.schemas import (
    MODELS,
    FAQMetadata,
    MemoryMetadata,
    PersonaMetadata,
    SummaryMetadata,
    TurnMetadata,
    get_all_schemas,
    validate_metadata,
)

NOON = "2025-12-16T06:00:00+00:00"
RECORDS = ("persona", "faq", "memory", "turn", "summary")
NEEDED: dict[str, dict[str, Any]] = {
    "persona": {"version": "1"},
    "faq": {},
    "memory": {},
    "turn": {"conversation_id": "conv-abc123", "role": "user"},
    "summary": {"conversation_id": "conv-abc123"},
}


def _record(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": kind, "timestamp": NOON, **NEEDED[kind], **fields}


def _refused(kind: str, **fields: Any) -> dict[str, str]:
    """Return the messages by field."""
    given = {key: value for key, value in _record(kind, **fields).items() if value is not ...}
    with pytest.raises(ValidationError) as refused:
        validate_metadata(kind, given)
    return {str(error["loc"][0]): error["msg"] for error in refused.value.errors()}


@pytest.mark.requirement("S0-51")
def test_the_models_of_the_source_design_can_be_imported_and_used() -> None:
    made = (
        PersonaMetadata(type="persona", timestamp=NOON, version="1"),  # type: ignore[arg-type]  # text is parsed
        FAQMetadata(type="faq", timestamp=NOON),  # type: ignore[arg-type]  # the same
        MemoryMetadata(type="memory", timestamp=NOON),  # type: ignore[arg-type]  # the same
        TurnMetadata(type="turn", timestamp=NOON, conversation_id="conv-1", role="user"),  # type: ignore[arg-type]
        SummaryMetadata(type="summary", timestamp=NOON, conversation_id="conv-1"),  # type: ignore[arg-type]
    )
    assert [record.type for record in made] == list(RECORDS)
    assert set(get_all_schemas()) == set(MODELS)


@pytest.mark.parametrize("kind", RECORDS)
def test_the_type_is_required_and_fixed(kind: str) -> None:
    other = "faq" if kind != "faq" else "memory"
    for wrong in (..., other, "x", None, 1):
        assert "type" in _refused(kind, type=wrong)


@pytest.mark.requirement("T10")
@pytest.mark.parametrize(
    ("given", "canonical"),
    [
        (NOON, NOON),
        ("2025-12-16T06:00:00Z", NOON),
        ("2025-12-16T07:00:00+01:00", NOON),
        ("2025-12-14T20:12:53.986582Z", "2025-12-14T20:12:53.986582+00:00"),
        ("2025-12-16", None),
        ("2025-12-16T06:00:00", None),
        ("not-a-date", None),
        (1734328800, None),
        ("0001-01-01T00:00:00+14:00", None),
        (..., None),
    ],
)
def test_times_need_an_offset_and_come_back_in_one_form(given: Any, canonical: str | None) -> None:
    if canonical is None:
        assert "timestamp" in _refused("memory", timestamp=given)
    else:
        assert validate_metadata("memory", _record("memory", timestamp=given))["timestamp"] == canonical


@pytest.mark.parametrize("kind", RECORDS)
def test_source_and_scope_are_filled_in(kind: str) -> None:
    found = validate_metadata(kind, _record(kind))
    assert (found["source"], found["scope"]) == ("system", "global")
    assert validate_metadata(kind, _record(kind, scope="entity:project-alpha"))["scope"] == "entity:project-alpha"
    assert set(_refused(kind, source="x", scope="team:x")) == {"source", "scope"}
    assert "scope" in _refused(kind, scope="entity:")
    allowed = ("chat", "kb", "system", "import", *(("interaction", "derived") if kind == "memory" else ()))
    for source in ("chat", "kb", "system", "import", "interaction", "derived"):
        if source in allowed:
            assert validate_metadata(kind, _record(kind, source=source))["source"] == source
        else:
            assert "source" in _refused(kind, source=source)


def test_a_persona_needs_a_version_and_may_have_a_topic() -> None:
    version = "2025-12-14T20:12:53.986582Z"
    found = validate_metadata("persona", _record("persona", version=version, topic="tone"))
    assert (found["version"], found["topic"]) == (version, "tone")
    for wrong in (..., "", " ", 1, "x" * 65):
        assert "version" in _refused("persona", version=wrong)


def test_the_keys_of_an_faq_keep_their_underscores() -> None:
    found = validate_metadata("faq", _record("faq", topic="specialists", _specialist_name="web_search"))
    assert (found["_specialist_name"], found["_version"], found["topic"]) == ("web_search", "auto", "specialists")
    assert {"_specialist_name", "_version"} <= set(get_all_schemas()["faq"]["properties"])
    assert not {"specialist_name", "version"} & set(get_all_schemas()["faq"]["properties"])
    assert FAQMetadata(**_record("faq", specialist_name="ocr")).specialist_name == "ocr"


@pytest.mark.parametrize("wrong", [0, 6, 10, -1, "4", 4.0, 4.5, True, None, [3]])
def test_importance_is_a_whole_number_and_the_message_has_both_bounds(wrong: Any) -> None:
    message = _refused("memory", importance=wrong)["importance"]
    assert "importance must be between 1 and 5" in message


def test_importance_is_3_unless_given() -> None:
    assert validate_metadata("memory", _record("memory"))["importance"] == 3
    assert [validate_metadata("memory", _record("memory", importance=each))["importance"] for each in (1, 5)] == [1, 5]


def test_all_broken_fields_are_listed_at_once() -> None:
    assert set(_refused("memory", timestamp=..., importance=10)) == {"timestamp", "importance"}


@pytest.mark.requirement("T34")
def test_tags_are_trimmed_and_unique_lists() -> None:
    assert validate_metadata("memory", _record("memory", tags=[" a ", "b", "a"]))["tags"] == ["a", "b"]
    for wrong in (["a,b"], [" "], "a", ["a", 1], None):
        assert "tags" in _refused("memory", tags=wrong)


def test_the_entity_follows_from_the_scope_and_may_not_contradict_it() -> None:
    found = validate_metadata("memory", _record("memory", scope="entity:project-alpha"))
    assert found["entity"] == "project-alpha"
    assert "entity" in _refused("memory", scope="entity:project-alpha", entity="beta")
    assert validate_metadata("memory", _record("memory", entity="alpha"))["entity"] == "alpha"


@pytest.mark.requirement("C04")
def test_conversations_have_ids_of_one_form() -> None:
    for kind in ("memory", "turn", "summary"):
        for right in ("conv-abc123", "conv-123e4567-e89b-42d3-a456-426614174000"):
            assert validate_metadata(kind, _record(kind, conversation_id=right))["conversation_id"] == right
        for wrong in ("abc", "conv-", "conv-a b", 1):
            assert "conversation_id" in _refused(kind, conversation_id=wrong)
    for kind in ("turn", "summary"):
        assert "conversation_id" in _refused(kind, conversation_id=...)
    assert "conversation_id" not in validate_metadata("memory", _record("memory"))


def test_a_turn_has_a_role_and_counts_from_one() -> None:
    assert validate_metadata("turn", _record("turn", turn_index=1))["turn_index"] == 1
    assert "role" in _refused("turn", role="system")
    for wrong in (0, -1, True, "1", 1.0):
        assert "turn_index" in _refused("turn", turn_index=wrong)


def test_a_summary_covers_a_range_that_rises() -> None:
    for right in ("1-8", "9-16", "3-3"):
        assert validate_metadata("summary", _record("summary", turn_range=right))["turn_range"] == right
    for wrong in ("8-1", "a-b", "0-3", "1 - 8", "1-", "-1-2", "1-8\n"):
        assert "turn_range" in _refused("summary", turn_range=wrong)
    assert "summary_index" in _refused("summary", summary_index=0)


@pytest.mark.parametrize("kind", RECORDS)
def test_unknown_keys_are_refused_and_custom_ones_have_a_place(kind: str) -> None:
    assert "importanse" in _refused(kind, importanse=3)
    found = validate_metadata(kind, _record(kind, custom={"mood": "calm", "n": 1, "list": [1.5, 2.0]}))
    assert found["custom"] == {"mood": "calm", "n": 1, "list": [1.5, 2.0]}
    wrong: list[Any] = [{"a": {"b": 1}}, {"a": None}, {"a": []}, {"a": [1, "b"]}, {"a b": 1}, {"url": "x"}]
    wrong += [{"a": 2**63}, {"a": float("nan")}, {"a": "b\x00"}, {1: "a"}, [], {str(n): n for n in range(65)}]
    for each in wrong:
        assert "custom" in _refused(kind, custom=each)


def test_an_unknown_kind_is_not_found() -> None:
    with pytest.raises(NotFoundError):
        validate_metadata("dream", {})
