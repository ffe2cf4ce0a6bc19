"""Documents and chunks: changing what callers said about them, without embedding anything again."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, exists, select, update

from groundwire.catalog.audit import Audit
from groundwire.catalog.database import Database, advance_position
from groundwire.catalog.dialects import update_json
from groundwire.catalog.lexical_index import add_chunks, numbered, remove_chunks
from groundwire.catalog.outbox import queue_matched_points
from groundwire.catalog.records import set_records
from groundwire.catalog.rows import (
    IS_LIVE,
    SELECT_LIVE_CHUNKS,
    field_values,
    refuse_other_etag,
    set_tags,
    to_fields,
    to_stored_chunks,
    visible_document,
    visible_row,
)
from groundwire.catalog.schema import chunks, collections, documents, generations
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.clock import Clock, SystemClock, epoch_ms
from groundwire.kernel.document import Document, DocumentFields, file_name
from groundwire.kernel.errors import ChunkNotFoundError, DocumentChangedError
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.stored_chunk import StoredChunk

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Changed(Generic[T]):
    """What a change left, and the tasks in the outbox that bring the engine up to it; none when nothing changed."""

    result: T
    tasks: tuple[int, ...] = ()


class DocumentChanges:
    """Changes of all tenants; each call is one transaction, in which readers see all of it or nothing."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()
        self._audit = Audit(database, self._clock)

    def document(
        self,
        tenant: str,
        collection: str,
        document_id: str,
        change: Callable[[DocumentFields], DocumentFields],
        receipt: Receipt[Document] | None = None,
        *,
        etag: str = "",
    ) -> Changed[Document]:
        """Give a document the fields that `change` makes of its own, and its chunks the filter keys that follow.

        An error of `change` leaves everything as it was.

        Raises:
            DocumentNotFoundError: the collection has none of this id.
            DocumentChangedError: its etag is not the given one, if one is given.
            ConflictError: the same request was completed meanwhile; ask the ledger.
            RequestIdReusedError: the request id was used with another body.
        """

        def work(connection: Connection) -> Changed[Document]:
            row = visible_row(connection, tenant, collection, document_id)
            refuse_other_etag(connection, row, etag)
            tasks = change_fields(connection, row, change, epoch_ms(self._clock.now()))
            document = visible_document(connection, tenant, collection, document_id)
            self._audit.record(connection, tenant, "update_document", document_id, receipt, document)
            return Changed(document, tuple(tasks))

        return self._database.write(work)

    def chunk(
        self,
        tenant: str,
        collection: str,
        chunk_id: str,
        change: Callable[[Chunk], Chunk],
        receipt: Receipt[StoredChunk] | None = None,
        *,
        etag: str = "",
    ) -> Changed[StoredChunk]:
        """Give a live chunk the tags and metadata of what `change` makes of it, and the filter keys that follow.

        Raises:
            ChunkNotFoundError: the collection has no such live chunk.
            DocumentChangedError: its etag is not the given one, if one is given.
            ConflictError: the same request was completed meanwhile; ask the ledger.
            RequestIdReusedError: the request id was used with another body.
        """

        def work(connection: Connection) -> Changed[StoredChunk]:
            changed = change_chunk(connection, tenant, collection, chunk_id, change, etag)
            self._audit.record(connection, tenant, "update_chunk", chunk_id, receipt, changed.result)
            return changed

        return self._database.write(work)


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
    set_tags(connection, {key: after.tags})
    set_records(connection, row["collection_key"], [(key, row["source_path"], after)])
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
    own = {"tags": list(after.tags), "metadata": dict(after.metadata)}
    if own == {"tags": list(stored.chunk.tags), "metadata": dict(stored.chunk.metadata)}:
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
    return None if row is None else next(to_stored_chunks([row]))


def rename_chapter(
    connection: Connection, row: RowMapping, before: tuple[str, DocumentFields], after: tuple[str, DocumentFields]
) -> None:
    """Let what stands in for a chapter in documents without any heading follow their title or else their source."""
    old, new = (fields.title or file_name(source) for source, fields in (before, after))
    live = select(generations.c.generation_key).where(generations.c.document_key == row["document_key"], IS_LIVE)
    of_live = chunks.c.generation_key.in_(live)
    # A heading of its own is a chapter; what stands in for one is the title, else the name of the file.
    has_headings = exists().where(of_live, chunks.c.hierarchy_path != [])
    if old == new or connection.execute(select(has_headings)).scalar_one():
        return
    stands_in = and_(of_live, chunks.c.chapter == old, chunks.c.section_heading == old)
    changing = select(chunks.c.chunk_number).where(stands_in)
    numbers = list(connection.execute(changing).scalars())
    # Headings are in the full-text index: out with the old words, in with the new.
    remove_chunks(connection, stands_in)
    connection.execute(update(chunks).where(stands_in).values(chapter=new, section_heading=new))
    add_chunks(connection, numbered(numbers))


def rewrite_payloads(connection: Connection, document: RowMapping, which: ColumnElement[bool]) -> list[int]:
    """Make the filter keys of live chunks anew of what their rows and their document say now.

    Counts as a change that readers see. Until the engine has the new keys too, a search answers filters from the
    catalog (`SearchView.engine_keeps_up`).

    Args:
        connection: of the transaction that changed them.
        document: what `visible_row` returned.
        which: the condition on the chunks of this document.

    Returns:
        The ids of the tasks in the outbox that bring the engine up to this.
    """
    of_document = SELECT_LIVE_CHUNKS.where(chunks.c.document_key == document["document_key"], which)
    found = list(to_stored_chunks(connection.execute(of_document)))
    new = ((stored.chunk_number, stored.payload) for stored in found)
    update_json(connection, chunks.c.chunk_number, chunks.c.payload, new)
    position = advance_position(connection, document["collection_key"])
    connection.execute(
        update(collections)
        .where(collections.c.collection_key == document["collection_key"])
        .values(rewritten_position=position)
    )
    numbers = sorted(stored.chunk_number for stored in found)
    return queue_matched_points(connection, document["tenant"], document["engine_name"], numbers)
