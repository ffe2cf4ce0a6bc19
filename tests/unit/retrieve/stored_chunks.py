"""Stored chunks with defaults."""

from datetime import UTC, datetime

from groundwire.kernel.chunk import Chunk
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat
from groundwire.kernel.hit import StoredChunk
from groundwire.kernel.spans import Span

_NOW = datetime(2026, 1, 1, tzinfo=UTC)


def stored_chunk(
    number: int, content: str, *, document_id: str = "doc_1", start: int | None = None, generation: int = 1
) -> StoredChunk:
    """Make a chunk that stands at `start`, by default far from all others."""
    start = 10_000 * number if start is None else start
    document = Document(
        document_id=document_id,
        collection="docs",
        source_uri=f"{document_id}.md",
        format=DocumentFormat.MARKDOWN,
        source_hash="0" * 64,
        fields=DocumentFields(),
        generation=generation,
        chunk_count=9,
        total_chars=100,
        total_bytes=100,
        embedding_model="m",
        ingest_time=_NOW,
        update_time=_NOW,
    )
    span = Span(start, start + len(content), start, start + len(content))
    chunk = Chunk(number, span, content, 1, f"Chapter {number}", None, (), 2)
    return StoredChunk(number, f"c{number}", generation, chunk, document, _NOW, _NOW)
