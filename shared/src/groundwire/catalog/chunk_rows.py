"""Chunks to rows and back."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, select, true

from groundwire.catalog.connections import decode_json, encode_json
from groundwire.catalog.document_rows import DOCUMENT_COLUMNS, loaded_values, to_document
from groundwire.catalog.generation_keys import IS_LIVE
from groundwire.catalog.tables import chunks, collections, documents, generations
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.clock import from_epoch_ms
from groundwire.kernel.document import Document
from groundwire.kernel.filters import Payload
from groundwire.kernel.hit import ChunkLinks, StoredChunk
from groundwire.kernel.spans import Span

_c = chunks.c
_other = chunks.alias("other")


def _id_of(sequence_num: ColumnElement[int], *, upper: bool) -> ColumnElement[str]:
    """Return the expression for the id of another chunk of the same generation, NULL where there is none."""
    of_generation = (_other.c.generation_key == _c.generation_key, _other.c.sequence_num == sequence_num)
    same_kind = true() if upper else and_(_c.upper == 0, _other.c.upper == 0)
    return select(_other.c.chunk_id).where(*of_generation, same_kind).correlate(chunks).scalar_subquery()


CHUNK_COLUMNS = (
    _c.chunk_number,
    _c.chunk_id,
    _c.sequence_num,
    _c.char_start,
    _c.char_end,
    _c.byte_start,
    _c.byte_end,
    _c.content,
    _c.token_count,
    _c.chapter,
    _c.section,
    _c.hierarchy_path,
    _c.level,
    _c.page_numbers,
    _c.overlap_prev_chars,
    _c.overlap_next_chars,
    _c.undersized,
    _c.section_heading,
    _c.sentence_index,
    _c.window_size,
    _c.parent,
    _c.grandparent,
    _c.upper,
    _c.indexed,
    _c.embedding_hash,
    _c.tags,
    _c.metadata,
    _c.embedding_timestamp,
    generations.c.create_time,
    _id_of(_c.sequence_num - 1, upper=False).label("previous_id"),
    _id_of(_c.sequence_num + 1, upper=False).label("following_id"),
    _id_of(_c.parent, upper=True).label("parent_id"),
    _id_of(_c.grandparent, upper=True).label("grandparent_id"),
)
_TIMES = len(CHUNK_COLUMNS) - 6
_DOCUMENT = len(CHUNK_COLUMNS)
OWN_COLUMNS = CHUNK_COLUMNS[2:_TIMES]
"""What `to_chunk` reads."""

SELECT_CHUNKS: Select[Any] = (
    select(*CHUNK_COLUMNS, *DOCUMENT_COLUMNS)
    .join_from(chunks, generations, _c.generation_key == generations.c.generation_key)
    .join(documents, _c.document_key == documents.c.document_key)
    .join(collections, documents.c.collection_key == collections.c.collection_key)
)
"""The chunks of all generations with their documents as they are now; to be narrowed to one document."""

SELECT_LIVE_CHUNKS = SELECT_CHUNKS.where(IS_LIVE)
"""The chunks of live generations of all tenants with their documents; to be narrowed to one tenant first of all."""


def to_stored_chunk(row: Sequence[Any], seen: dict[int, Document]) -> StoredChunk:
    """Make a chunk of a row of `SELECT_LIVE_CHUNKS`; `seen` holds the documents of earlier rows by key."""
    key = row[_DOCUMENT]
    if key not in seen:
        seen[key] = to_document(row[_DOCUMENT:])
    document = seen[key]
    return StoredChunk(
        chunk_number=row[0],
        chunk_id=row[1],
        generation=document.generation,
        chunk=to_chunk(row[2:_TIMES]),
        document=document,
        embed_time=from_epoch_ms(row[_TIMES]),
        ingest_time=from_epoch_ms(row[_TIMES + 1]),
        links=ChunkLinks(*row[_TIMES + 2 : _DOCUMENT]),
    )


def to_chunk(row: Sequence[Any]) -> Chunk:
    """Make a chunk of the values of `OWN_COLUMNS`."""
    sequence_num, start, end, start_byte, end_byte, content, tokens, chapter, section, path, level, *rest = row
    page_numbers, overlap_prev, overlap_next, undersized, heading, *links, embedding_hash, tags, metadata = rest
    sentence_index, window_size, parent, grandparent, upper, indexed = links
    span = Span(start, end, start_byte, end_byte)
    place = (chapter, section, tuple(path), level)
    return Chunk(
        *(sequence_num, span, content, tokens, *place),
        page_numbers=tuple(page_numbers),
        overlap_prev_chars=overlap_prev,
        overlap_next_chars=overlap_next,
        undersized=bool(undersized),
        sentence_index=sentence_index,
        window_size=window_size,
        parent=parent,
        grandparent=grandparent,
        upper=bool(upper),
        indexed=bool(indexed),
        given_heading=heading,
        given_embedding_hash=embedding_hash,
        tags=tuple(tags),
        metadata=loaded_values(metadata),
    )


def to_payload(stored: str) -> Payload:
    """Make the filter keys of a chunk of their JSON."""
    return loaded_values(decode_json(stored))


CHUNK_VALUES = (
    "sequence_num",
    "char_start",
    "char_end",
    "byte_start",
    "byte_end",
    "content_hash",
    "embedding_hash",
    "token_count",
    "page_numbers",
    "chapter",
    "section",
    "section_heading",
    "hierarchy_path",
    "level",
    "overlap_prev_chars",
    "overlap_next_chars",
    "undersized",
    "sentence_index",
    "window_size",
    "parent",
    "grandparent",
    "upper",
    "indexed",
    "tags",
    "metadata",
)
"""The columns that a chunk knows itself, but for its content; in the order of the table."""


def chunk_values(chunk: Chunk) -> tuple[Any, ...]:
    """Return the values of `CHUNK_VALUES`, JSON as text."""
    span = chunk.span
    return (
        chunk.sequence_num,
        *(span.start, span.end, span.start_byte, span.end_byte),
        chunk.content_hash,
        chunk.embedding_hash,
        chunk.token_count,
        encode_json(chunk.page_numbers),
        chunk.chapter,
        chunk.section,
        chunk.section_title,
        encode_json(chunk.hierarchy_path),
        chunk.level,
        chunk.overlap_prev_chars,
        chunk.overlap_next_chars,
        int(chunk.undersized),
        chunk.sentence_index,
        chunk.window_size,
        chunk.parent,
        chunk.grandparent,
        int(chunk.upper),
        int(chunk.indexed),
        encode_json(chunk.tags),
        encode_json(chunk.metadata),
    )
