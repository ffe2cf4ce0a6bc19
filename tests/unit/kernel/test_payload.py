from datetime import UTC, datetime

import pytest

from groundwire.kernel.chunk import Chunk, chunk_payload, same_filter_keys
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.filters import ALIASES, BUILT_IN_FIELDS, Payload, Value
from groundwire.kernel.spans import Span


def _payload(fields: DocumentFields, section: str | None = None) -> Payload:
    chunk = Chunk(0, Span(0, 4, 0, 4), "text", 1, "Chapter", section, ("Chapter",), 1)
    return chunk_payload(
        document_id="d",
        chunk_id="d#chunk_000",
        chunk_number=1,
        source_uri="a.md",
        document_format=DocumentFormat.MARKDOWN,
        fields=fields,
        chunk=chunk,
        ingested=datetime(2026, 3, 1, tzinfo=UTC),
    )


@pytest.mark.requirement("S1-24")
def test_a_field_without_a_value_is_absent() -> None:
    payload = _payload(DocumentFields())
    assert "section" not in payload
    assert "tags" not in payload
    assert "title" not in payload
    assert None not in payload.values()


@pytest.mark.requirement("S1-25")
def test_document_fields_are_copied_onto_the_chunk() -> None:
    created = datetime(2026, 2, 10, tzinfo=UTC)
    fields = DocumentFields(title="T", creators=("A", "B"), tags=("x",), date_created=created, metadata={"team": "red"})
    payload = _payload(fields, "Section")
    assert payload["creators"] == ("A", "B")
    assert payload["date_created"] == 1770681600000
    assert (payload["team"], payload["section"], payload["level"]) == ("red", "Section", 1)


def test_zero_is_a_value() -> None:
    assert _payload(DocumentFields())["sequence_num"] == 0


def test_every_built_in_key_of_a_payload_is_a_known_filter_field() -> None:
    fields = DocumentFields("T", ("A",), ("s",), "d", datetime.now(UTC), "en", "c", ("t",), "p")
    assert set(_payload(fields, "S")) <= set(BUILT_IN_FIELDS)
    assert set(ALIASES.values()) <= set(BUILT_IN_FIELDS)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("a", "a", True),
        ("a", "b", False),
        (("a",), "a", True),
        (("a", "b"), ("b", "a"), True),
        (("a", "b"), ("a", "c"), False),
        (1, 1.0, True),
        (1, True, False),
        (1, "1", False),
    ],
)
def test_filter_keys_differ_where_a_filter_tells_them_apart(one: Value, other: Value, same: bool) -> None:
    assert same_filter_keys({"team": one, "level": 2}, {"level": 2, "team": other}) == same


def test_a_key_that_only_one_payload_has_makes_them_differ() -> None:
    assert not same_filter_keys({"team": "red"}, {"team": "red", "level": 2})
    assert not same_filter_keys({"team": "red", "level": 2}, {"team": "red"})
