"""Hits as flat records under the names of the source designs."""

from datetime import UTC, datetime

import pytest

from groundwire.kernel.chunk import Chunk, StoredChunk
from groundwire.kernel.collection import ProfileName
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat
from groundwire.kernel.spans import Span
from groundwire.retrieve.wire.responses import flat_view

NOON = datetime(2026, 2, 10, 12, tzinfo=UTC)


def stored(fields: DocumentFields, section: str | None = None, pages: tuple[int, ...] = ()) -> StoredChunk:
    chunk = Chunk(
        sequence_num=3,
        span=Span(10, 20, 10, 20),
        content="two  words",
        token_count=2,
        chapter="One",
        section=section,
        hierarchy_path=("One", "Tides"),
        level=2,
        page_numbers=pages,
    )
    document = Document(
        document_id="doc_1",
        collection="docs",
        source_uri="https://example.org/a",
        format=DocumentFormat.HTML,
        source_hash="0" * 64,
        fields=fields,
        generation=1,
        chunk_count=4,
        total_chars=20,
        total_bytes=20,
        embedding_model="m",
        ingest_time=NOON,
        update_time=NOON,
    )
    return StoredChunk(42, "doc_1#chunk_003", 1, chunk, document, NOON, NOON)


@pytest.mark.requirement("S1-14")
@pytest.mark.requirement("S1-15")
@pytest.mark.requirement("S1-19")
def test_documents_have_first_page_all_pages_and_first_author() -> None:
    fields = DocumentFields(
        title="T", creators=("A", "B"), tags=("x", "y"), date_created=NOON, project="p", metadata={"mine": (1, 2)}
    )
    assert flat_view(stored(fields, "Tides", (5, 6)), ProfileName.DOCUMENTS) == {
        "mine": (1, 2),
        "doc_id": "doc_1",
        "chunk_id": "doc_1#chunk_003",
        "source": "https://example.org/a",
        "chunk_index": 3,
        "page": 5,
        "pages": "5,6",
        "section": "Tides",
        "char_start": 10,
        "char_end": 20,
        "title": "T",
        "author": "A",
        "date": "2026-02-10T12:00:00Z",
        "tags": "x,y",
        "project": "p",
        "timestamp": "2026-02-10T12:00:00Z",
    }


@pytest.mark.requirement("S1-24")
def test_what_has_no_value_has_no_key() -> None:
    keys = set(flat_view(stored(DocumentFields()), ProfileName.DOCUMENTS))
    assert keys == {"doc_id", "chunk_id", "source", "chunk_index", "char_start", "char_end", "timestamp"}


@pytest.mark.requirement("S3-19")
def test_web_pages_have_url_section_and_counts() -> None:
    assert flat_view(stored(DocumentFields()), ProfileName.WEB) == {
        "chunk_id": 42,
        "text": "two  words",
        "url": "https://example.org/a",
        "source_url": "https://example.org/a",
        "section_title": "Tides",
        "chunk_index": 3,
        "word_count": 2,
        "char_count": 10,
        "created_at": "2026-02-10T12:00:00Z",
    }


def test_books_have_chapter_section_number_and_text() -> None:
    record = flat_view(stored(DocumentFields(metadata={"text": "mine"}), "Tides"), ProfileName.BOOK)
    assert record == {"chapter": "One", "section": "Tides", "chunk_id": 42, "text": "two  words"}
    assert "section" not in flat_view(stored(DocumentFields()), ProfileName.BOOK)
