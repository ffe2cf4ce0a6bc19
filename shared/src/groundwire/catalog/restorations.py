"""Restorations of documents that were deleted softly."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, delete, select, update

from groundwire.catalog.aggregate import Aggregate
from groundwire.catalog.database import advance_position
from groundwire.catalog.dialects import among
from groundwire.catalog.generations import IndexMovedError
from groundwire.catalog.lexical_index import add_chunks
from groundwire.catalog.outbox import OutboxKind, queue_points
from groundwire.catalog.rows import (
    IS_HIDDEN,
    IS_INDEXED,
    IS_LIVE,
    IS_VISIBLE,
    SELECT_CHUNKS,
    SELECT_DOCUMENTS_OF_COLLECTION,
    GenerationState,
    document_rows,
    numbers_of,
    refuse_other_etag,
    require_collection,
    to_document,
    to_stored_chunks,
)
from groundwire.catalog.schema import chunks, documents, generations, outbox
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document
from groundwire.kernel.errors import AlreadyExistsError, DocumentNotFoundError
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.stored_chunk import StoredChunk


@dataclass(frozen=True, slots=True)
class Restoration:
    """A restoration under way. If it fails, the tasks in the outbox remove its points again."""

    collection: Collection
    document_ids: tuple[str, ...]
    tasks: tuple[int, ...]


class Restorations(Aggregate):
    """Restorations of all tenants; each call sees those of one."""

    def begin(self, tenant: str, collection: str, document_ids: Sequence[str], etag: str = "") -> Restoration | None:
        """Announce that the points of those that are hidden are about to be written; None when all are visible.

        Nothing of a document changes while it is hidden, so that its etag need not be compared again at the end.

        Raises:
            DocumentNotFoundError: the collection has no such document.
            DocumentChangedError: the etag of one is not the given one, if one is given.
        """

        def work(connection: Connection) -> Restoration | None:
            hidden = document_rows(connection, tenant, collection, document_ids, IS_HIDDEN)
            stored = {
                row["document_id"]: row
                for row in document_rows(connection, tenant, collection, document_ids, IS_VISIBLE)
            }
            stored |= {row["document_id"]: row for row in hidden}
            for document_id in document_ids:
                if document_id not in stored:
                    raise DocumentNotFoundError(document_id)
                refuse_other_etag(connection, stored[document_id], etag)
            if not hidden:
                return None
            numbers = numbers_of(connection, select(generations.c.generation_key).where(_of_hidden(hidden)))
            # If the restoration fails, these tasks make the engine equal to the catalog again: without points.
            tasks = queue_points(connection, OutboxKind.MATCH_POINTS, tenant, hidden[0]["engine_name"], numbers)
            ids = tuple(row["document_id"] for row in hidden)
            return Restoration(require_collection(connection, tenant, collection), ids, tuple(tasks))

        return self._database.write(work)

    def chunks(self, restoration: Restoration, after: int, limit: int) -> Sequence[StoredChunk]:
        """Return up to `limit` of the chunks whose points are to be written, by number, those behind `after`."""
        tenant, name = restoration.collection.tenant, restoration.collection.name
        with self._database.read() as connection:
            rows = document_rows(connection, tenant, name, restoration.document_ids, IS_HIDDEN)
            statement = SELECT_CHUNKS.where(_of_hidden(rows), IS_INDEXED, chunks.c.chunk_number > after)
            return list(to_stored_chunks(connection.execute(statement.order_by(chunks.c.chunk_number).limit(limit))))

    def finish(self, restoration: Restoration, receipt: Receipt[Document] | None = None) -> list[Document]:
        """Let readers see the documents again, exactly as they were; call it when the engine has all their points.

        `receipt` is of a call that restores one document.

        Raises:
            DocumentNotFoundError: one was deleted for good, or restored or replaced meanwhile.
            AlreadyExistsError: another document has the source of one now.
            IndexMovedError: the points are in an engine collection that does not serve any more.
        """
        tenant, name = restoration.collection.tenant, restoration.collection.name

        def work(connection: Connection) -> list[Document]:
            rows = document_rows(connection, tenant, name, restoration.document_ids, IS_HIDDEN)
            for document_id in set(restoration.document_ids).difference(row["document_id"] for row in rows):
                raise DocumentNotFoundError(document_id)
            if rows[0]["engine_name"] != restoration.collection.engine_name:
                raise IndexMovedError(require_collection(connection, tenant, name))
            collection = rows[0]["collection_key"]
            keys, sources = ([row[column] for row in rows] for column in ("document_key", "source_path"))
            taken = select(documents.c.document_id, documents.c.source_path).where(
                documents.c.collection_key == collection, among(documents.c.source_path, sources), IS_VISIBLE
            )
            if (other := connection.execute(taken).first()) is not None:
                said = f"document {other.document_id!r} has the source {other.source_path!r} now"
                raise AlreadyExistsError(said, resource=other.document_id)
            position = advance_position(connection, collection, keeps_history=True)
            live = {"state": GenerationState.LIVE.value, "live_from": position, "live_to": None}
            connection.execute(update(generations).where(_of_hidden(rows)).values(live))
            add_chunks(connection, among(generations.c.document_key, keys) & IS_LIVE)
            values = {"live_generation": documents.c.deleted_generation, "deleted_generation": 0, "delete_time": None}
            connection.execute(update(documents).where(among(documents.c.document_key, keys)).values(values))
            # The tasks of `begin` would remove the points, which stay now.
            connection.execute(delete(outbox).where(among(outbox.c.id, restoration.tasks)))
            restored = SELECT_DOCUMENTS_OF_COLLECTION.where(among(documents.c.document_key, keys))
            given = {"tenant": tenant, "collection": name}
            returned = [to_document(row) for row in connection.execute(restored, given)]
            request_id = self._audit.settle(connection, tenant, receipt, returned[0])
            self._audit.record_all(connection, tenant, "restore_document", restoration.document_ids, request_id)
            return returned

        return self._database.write(work)


def _of_hidden(rows: Sequence[RowMapping]) -> ColumnElement[bool]:
    """Return the condition for the generations that come back with documents."""
    of_documents = among(generations.c.document_key, [row["document_key"] for row in rows])
    return and_(of_documents, generations.c.state == GenerationState.DELETED.value)
