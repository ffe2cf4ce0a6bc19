"""Canonical texts: exact, whatever the characters and wherever the segments end."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

from groundwire.catalog.generations import GenerationDraft
from groundwire.catalog.texts import SEGMENT_CHARS, live_text
from groundwire.kernel.chunk import MAX_CHUNK_CHARS
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import DataLossError, DocumentNotFoundError
from tests.catalogs import problems_of
from tests.integration.catalog.drafts import TENANT, Catalog, make_draft

ALPHABET = "ab é\n東🦀e\u0301\r\t'"


def live_texts(catalog: Catalog, document_id: str, spans: Sequence[tuple[int, int]]) -> list[str]:
    with catalog.database.read() as connection:
        return [live_text(connection, TENANT, "docs", document_id, *span) for span in spans]


def long_draft(text: str) -> GenerationDraft:
    """Make a draft of chunks as long as chunks may be."""
    pieces = [text[start : start + MAX_CHUNK_CHARS] for start in range(0, len(text), MAX_CHUNK_CHARS)]
    return make_draft(*pieces, joiner="")


@pytest.fixture(scope="module")
def long_text() -> str:
    return "".join(random.Random(1).choices(ALPHABET, k=SEGMENT_CHARS * 3 + 1234))


def test_slices_are_exact_also_across_segments(catalog: Catalog, docs: Collection, long_text: str) -> None:
    document, _ = catalog.put(docs, long_draft(long_text))
    chance = random.Random(2)
    spans = [(0, len(long_text)), (0, 0), (len(long_text), len(long_text))]
    spans += [
        (SEGMENT_CHARS - 1, SEGMENT_CHARS + 1),
        (SEGMENT_CHARS, 2 * SEGMENT_CHARS),
        (SEGMENT_CHARS, SEGMENT_CHARS),
    ]
    for _ in range(50):
        start = chance.randrange(len(long_text))
        spans.append((start, chance.randint(start, len(long_text))))
    found = live_texts(catalog, document.document_id, spans)
    assert found == [long_text[start:end] for start, end in spans]
    assert catalog.slice(TENANT, "docs", document.document_id, 1, spans) == list(filter(None, found))


@pytest.mark.parametrize("part_chars", [1000, SEGMENT_CHARS, SEGMENT_CHARS + 1, 10**9])
def test_parts_join_to_the_text_with_offsets_in_both_units(
    catalog: Catalog, docs: Collection, long_text: str, part_chars: int
) -> None:
    document, _ = catalog.put(docs, long_draft(long_text))
    parts = list(catalog.texts.parts(TENANT, "docs", document.document_id, None, part_chars))
    assert "".join(part.text for part in parts) == long_text
    assert all(len(part.text) == part_chars for part in parts[:-1])
    encoded = long_text.encode()
    for part in parts:
        assert long_text[part.start : part.start + len(part.text)] == part.text
        assert encoded[part.start_byte :].startswith(part.text.encode())


@pytest.mark.parametrize("span", [(-1, 2), (2, 1), (0, 6), (5, 9)])
def test_a_span_outside_the_text_is_data_loss(catalog: Catalog, docs: Collection, span: tuple[int, int]) -> None:
    document, _ = catalog.put(docs, make_draft("tides"))
    with pytest.raises(DataLossError):
        live_texts(catalog, document.document_id, [(0, 5), span])
    assert catalog.slice(TENANT, "docs", document.document_id, 1, [(0, 5), span]) == ["tides"]


def test_unknown_texts_are_not_found(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("tides"))
    for collection, document_id, generation in (
        ("docs", document.document_id, 2),
        ("docs", "unknown", 1),
        ("unknown", document.document_id, 1),
    ):
        with pytest.raises(DocumentNotFoundError):
            catalog.slice(TENANT, collection, document_id, generation, [(0, 1)])
        with pytest.raises(DocumentNotFoundError):
            catalog.texts.parts(TENANT, collection, document_id, generation, 10)


def test_a_text_deleted_while_it_is_read_ends_with_an_error(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("tides and moons"))
    parts = catalog.texts.parts(TENANT, "docs", document.document_id, None, 5)
    assert next(parts).text == "tides"
    catalog.documents.delete(TENANT, "docs", document.document_id)
    with pytest.raises(DocumentNotFoundError):
        next(parts)


def test_a_text_replaced_while_it_is_read_goes_on_as_it_began(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("tides and moons"))
    parts = catalog.texts.parts(TENANT, "docs", document.document_id, None, 5)
    first = next(parts).text
    catalog.put(docs, make_draft("quite another text", document_id=document.document_id, expected=1))
    assert first + "".join(part.text for part in parts) == "tides and moons"


def test_a_lost_segment_is_data_loss(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, long_draft("x" * (SEGMENT_CHARS + 10)))
    catalog.database.write(lambda connection: connection.exec_driver_sql("DELETE FROM text_segments WHERE number = 1"))
    with pytest.raises(DataLossError):
        live_texts(catalog, document.document_id, [(0, SEGMENT_CHARS + 5)])
    with pytest.raises(DataLossError):
        catalog.slice(TENANT, "docs", document.document_id, 1, [(0, SEGMENT_CHARS + 5)])
    assert any("text" in problem.message for problem in problems_of(catalog.database))


@pytest.mark.sqlite
def test_a_slice_of_a_large_text_reads_only_its_segments(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, long_draft("0123456789" * 700_000))
    statements: list[str] = []
    with catalog.database.read() as connection:
        driver: Any = connection.connection.driver_connection
        driver.set_trace_callback(statements.append)
    read = live_texts(catalog, document.document_id, [(6_000_000, 6_000_005)])
    assert read == ["01234"]
    assert any("text_segments" in statement and "[91]" in statement for statement in statements)
