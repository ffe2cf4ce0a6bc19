"""Chunks to rows and back."""

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import RowMapping, Select, select

from groundwire.catalog.document_rows import DOCUMENT_COLUMNS, to_document
from groundwire.catalog.tables import chunks, collections, documents
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.document import Document
from groundwire.kernel.filters import Payload
from groundwire.kernel.hit import StoredChunk
from groundwire.kernel.spans import Span

_CHUNK_COLUMNS = tuple(column for column in chunks.c if column.name not in {"payload", "content_hash", "tenant"})


def select_live_chunks(tenant: str) -> Select[Any]:
    """Return the statement for the chunks of live generations of a tenant with their documents, to be narrowed."""
    return (
        select(*_CHUNK_COLUMNS, *DOCUMENT_COLUMNS)
        .join_from(chunks, documents, chunks.c.document_key == documents.c.document_key)
        .join(collections, documents.c.collection_key == collections.c.collection_key)
        .where(chunks.c.tenant == tenant, chunks.c.live == 1)
    )


def to_stored_chunk(row: RowMapping, seen: dict[int, Document]) -> StoredChunk:
    """Make a chunk of a row of `select_live_chunks`; `seen` holds the documents of earlier rows by key."""
    key = row[documents.c.document_key]
    if key not in seen:
        seen[key] = to_document(row)
    return StoredChunk(
        chunk_number=row[chunks.c.chunk_number],
        chunk_id=row[chunks.c.chunk_id],
        generation=seen[key].generation,
        chunk=_to_chunk(row),
        document=seen[key],
    )


def _to_chunk(row: RowMapping) -> Chunk:
    c = chunks.c
    return Chunk(
        sequence_num=row[c.sequence_num],
        span=Span(row[c.char_start], row[c.char_end], row[c.byte_start], row[c.byte_end]),
        content=row[c.content],
        token_count=row[c.token_count],
        chapter=row[c.chapter],
        section=row[c.section],
        hierarchy_path=tuple(row[c.hierarchy_path]),
        level=row[c.level],
        page_numbers=tuple(row[c.page_numbers]),
        overlap_prev_chars=row[c.overlap_prev_chars],
        overlap_next_chars=row[c.overlap_next_chars],
        undersized=bool(row[c.undersized]),
    )


def to_payload(stored: str) -> Payload:
    """Make the filter keys of a chunk of their JSON."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(stored).items()}


def chunk_values(chunk: Chunk) -> Mapping[str, Any]:
    """Return the columns of a chunk that it knows itself."""
    return {
        "sequence_num": chunk.sequence_num,
        "char_start": chunk.span.start,
        "char_end": chunk.span.end,
        "byte_start": chunk.span.start_byte,
        "byte_end": chunk.span.end_byte,
        "content_hash": chunk.content_hash,
        "token_count": chunk.token_count,
        "page_numbers": list(chunk.page_numbers),
        "chapter": chunk.chapter,
        "section": chunk.section,
        "section_heading": chunk.section_title,
        "hierarchy_path": list(chunk.hierarchy_path),
        "level": chunk.level,
        "overlap_prev_chars": chunk.overlap_prev_chars,
        "overlap_next_chars": chunk.overlap_next_chars,
        "undersized": int(chunk.undersized),
        "content": chunk.content,
    }
