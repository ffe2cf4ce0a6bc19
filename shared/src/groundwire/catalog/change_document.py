"""Changes what a caller said about a document or a chunk, without embedding anything again."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, RowMapping, and_, delete, exists, insert, select, update

from groundwire.catalog.chunk_rows import SELECT_LIVE_CHUNKS, to_stored_chunk
from groundwire.catalog.document_rows import field_values, to_fields
from groundwire.catalog.generation_keys import IS_LIVE
from groundwire.catalog.lexical_index import add_chunks, numbered, remove_chunks
from groundwire.catalog.payload_rewrites import rewrite_payloads
from groundwire.catalog.tables import chunks, document_tags, documents, generations
from groundwire.catalog.visible_rows import visible_row
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.document import DocumentFields, file_name
from groundwire.kernel.errors import ChunkNotFoundError, DocumentChangedError
from groundwire.kernel.hit import StoredChunk

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """What a change left, and the tasks in the outbox that bring the engine up to it; none when nothing changed."""

    result: T
    tasks: tuple[int, ...] = ()


def change_fields(
    connection: Connection,
    row: RowMapping,
    change: Callable[[DocumentFields], DocumentFields],
    now: int,
) -> list[int]:
    """Give the document of a visible row the fields that `change` makes of its own; return the outbox tasks."""
    before = to_fields(dict(row))
    after = change(before)
    if after == before:
        return []
    key, values = row["document_key"], field_values(after)
    connection.execute(update(documents).where(documents.c.document_key == key).values(**values, last_modified=now))
    connection.execute(update(generations).where(generations.c.document_key == key, IS_LIVE).values(fields=values))
    connection.execute(delete(document_tags).where(document_tags.c.document_key == key))
    if after.tags:
        connection.execute(insert(document_tags), [{"document_key": key, "tag": tag} for tag in after.tags])
    source = row["source_path"]
    rename_chapter(connection, row, (source, before), (source, after))
    return rewrite_payloads(connection, row, chunks.c.document_key == key)


def change_chunk(
    connection: Connection, tenant: str, collection: str, chunk_id: str, change: Callable[[Chunk], Chunk], etag: str
) -> Changed[StoredChunk]:
    """Give a live chunk the tags and metadata of what `change` makes of it; nothing else of it can change.

    Raises:
        ChunkNotFoundError: the collection has no such live chunk.
        DocumentChangedError: its etag is not the given one, if one is given.
    """
    stored = _live_chunk(connection, tenant, chunk_id)
    if stored is None or stored.document.collection != collection:
        raise ChunkNotFoundError(chunk_id)
    if etag and stored.etag != etag:
        message = "the chunk has another etag by now: read it again"
        raise DocumentChangedError(message, document_id=stored.document.document_id)
    after = change(stored.chunk)
    # Readers see the tags of the document on its chunks: sent back with the others, they are not the chunk's own.
    inherited = set(stored.document.fields.tags) - set(stored.chunk.tags)
    after = replace(after, tags=tuple(tag for tag in after.tags if tag not in inherited))
    own = {"tags": list(after.tags), "metadata": _json(after.metadata)}
    if own == {"tags": list(stored.chunk.tags), "metadata": _json(stored.chunk.metadata)}:
        return Changed(stored)
    this = chunks.c.chunk_number == stored.chunk_number
    connection.execute(update(chunks).where(this).values(own))
    document = visible_row(connection, tenant, collection, stored.document.document_id)
    tasks = rewrite_payloads(connection, document, this)
    changed = _live_chunk(connection, tenant, chunk_id)
    return Changed(changed or stored, tuple(tasks))


def _live_chunk(connection: Connection, tenant: str, chunk_id: str) -> StoredChunk | None:
    statement = SELECT_LIVE_CHUNKS.where(chunks.c.tenant == tenant, chunks.c.chunk_id == chunk_id)
    row = connection.execute(statement).first()
    return None if row is None else to_stored_chunk(row, {})


def _json(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {key: list(value) if isinstance(value, tuple) else value for key, value in metadata.items()}


def rename_chapter(
    connection: Connection, row: RowMapping, before: tuple[str, DocumentFields], after: tuple[str, DocumentFields]
) -> None:
    """Let what stands in for a chapter in documents without any heading follow their title or else their source."""
    old, new = (fields.title or file_name(source) for source, fields in (before, after))
    live = select(generations.c.generation_key).where(generations.c.document_key == row["document_key"], IS_LIVE)
    of_live = chunks.c.generation_key.in_(live)
    has_headings = exists().where(of_live, chunks.c.hierarchy_path != [])
    if old == new or connection.execute(select(has_headings)).scalar_one():
        return
    stands_in = and_(of_live, chunks.c.chapter == old, chunks.c.section_heading == old)
    changing = select(chunks.c.chunk_number).where(stands_in)
    numbers = list(connection.execute(changing).scalars())
    remove_chunks(connection, stands_in)
    connection.execute(update(chunks).where(stands_in).values(chapter=new, section_heading=new))
    add_chunks(connection, numbered(numbers))
