"""Documents that are deleted so that they can be restored, and sources that a document loses."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, delete, false, or_, select, update

from groundwire.catalog.aggregate import Aggregate
from groundwire.catalog.changes import rename_chapter, rewrite_payloads
from groundwire.catalog.database import advance_position
from groundwire.catalog.deletions import Deleted, Deletion, insert_deletion, trace_documents
from groundwire.catalog.dialects import among
from groundwire.catalog.generations import IndexMovedError
from groundwire.catalog.lexical_index import add_chunks, remove_chunks
from groundwire.catalog.outbox import OutboxKind, queue_points
from groundwire.catalog.rows import (
    IS_HIDDEN,
    IS_INDEXED,
    IS_LIVE,
    IS_VISIBLE,
    SELECT_CHUNKS,
    SELECT_DOCUMENTS_OF_COLLECTION,
    GenerationState,
    collection_key,
    count_aliases,
    document_rows,
    numbers_of,
    refuse_other_etag,
    require_collection,
    to_document,
    to_fields,
    to_stored_chunks,
    visible_row,
)
from groundwire.catalog.schema import chunks, document_aliases, documents, generations, outbox
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document
from groundwire.kernel.errors import AlreadyExistsError, DocumentNotFoundError
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.stored_chunk import StoredChunk

_a = document_aliases.c


@dataclass(frozen=True, slots=True)
class Return:
    """A restoration under way. The tasks in the outbox take its points away again should it come to nothing."""

    collection: Collection
    document_ids: tuple[str, ...]
    tasks: tuple[int, ...]


class SoftDeletes(Aggregate):
    """Soft deletions and restorations of all tenants; each call sees those of one."""

    def hide(
        self,
        tenant: str,
        collection: str,
        document_id: str,
        receipt: Receipt[Deletion] | None = None,
        *,
        etag: str = "",
    ) -> Deleted:
        """Take a document from readers, the full-text index and, through the outbox, the engine; keep its rows.

        Superseded generations keep their texts and lose their chunks: readers of the past do not see what is deleted.

        Raises:
            DocumentNotFoundError: the collection has none of this id, or it is hidden already.
        """

        def work(connection: Connection) -> Deleted:
            row = visible_row(connection, tenant, collection, document_id)
            refuse_other_etag(connection, row, etag)
            now, of_document = self._now(), require_collection(connection, tenant, collection)
            deleted = _hide(connection, of_document, [row], now)
            insert_deletion(connection, deleted, self._database.steady.now_ms())
            self._audit.record(connection, tenant, "hide_document", document_id, receipt, deleted.deletion)
            return deleted

        return self._database.write(work)

    def hide_all(
        self, collection: Collection, document_ids: Sequence[str], receipt: Receipt[Deletion] | None = None
    ) -> Deleted:
        """Do the same with several documents in one transaction; those that are not visible any more are left out.

        Raises:
            CollectionNotFoundError: the collection was deleted.
        """
        tenant, name = collection.tenant, collection.name

        def work(connection: Connection) -> Deleted:
            rows = document_rows(connection, tenant, name, document_ids, IS_VISIBLE)
            serving = require_collection(connection, tenant, name)
            deleted = _hide(connection, serving, rows, self._now())
            insert_deletion(connection, deleted, self._database.steady.now_ms())
            self._audit.record_all(connection, tenant, "hide_document", deleted.traces.document_ids)
            self._audit.settle(connection, tenant, receipt, deleted.deletion)
            return deleted

        return self._database.write(work)

    def drop_source(
        self,
        tenant: str,
        collection: str,
        source_uri: str,
        receipt: Receipt[Deletion] | None = None,
        *,
        permanent: bool,
        etag: str = "",
    ) -> Deleted | None:
        """Take one of several sources from a live document, which stays; None when it has no other, or is not there.

        When it is the first one, the next in order takes its place.
        """

        def work(connection: Connection) -> Deleted | None:
            of_collection = collection_key(connection, tenant, collection)
            of_alias = select(_a.document_key).where(_a.collection_key == of_collection, _a.source_path == source_uri)
            has_source = or_(documents.c.source_path == source_uri, documents.c.document_key.in_(of_alias))
            found = select(documents.c.document_id).where(
                documents.c.collection_key == of_collection, IS_VISIBLE, has_source
            )
            document_id = connection.execute(found.order_by(documents.c.source_path != source_uri).limit(1)).scalar()
            if document_id is None:
                return None
            row, now = visible_row(connection, tenant, collection, document_id), self._now()
            key = row["document_key"]
            aliases = select(_a.source_path).where(_a.document_key == key).order_by(_a.source_path).limit(1)
            next_source = connection.execute(aliases).scalar()
            if next_source is None:
                return None
            refuse_other_etag(connection, row, etag)
            # The names of a document are its first source and its aliases: an alias takes the place of the first.
            is_first = source_uri == row["source_path"]
            alias = next_source if is_first else source_uri
            connection.execute(
                delete(document_aliases).where(_a.collection_key == row["collection_key"], _a.source_path == alias)
            )
            count_aliases(connection, [key], -1)
            tasks: list[int] = []
            if is_first:
                renamed = {"source_path": next_source}
                of_document = documents.c.document_key == key
                connection.execute(update(documents).where(of_document).values(**renamed, last_modified=now))
                connection.execute(
                    update(generations).where(generations.c.document_key == key, IS_LIVE).values(renamed)
                )
                fields = to_fields(dict(row))
                rename_chapter(connection, row, (source_uri, fields), (next_source, fields))
                tasks = rewrite_payloads(connection, row, chunks.c.document_key == key)
            else:
                # Searches remember documents, with their sources, until the position of the collection moves.
                advance_position(connection, row["collection_key"], keeps_history=True)
            # The document stays: a final search has nothing to look for.
            nothing = select(generations.c.generation_key).where(false())
            of_source = require_collection(connection, tenant, collection)
            traces = trace_documents(connection, of_source, [], nothing, permanent=permanent)
            deleted = Deleted.now(traces, tasks, now)
            insert_deletion(connection, deleted, self._database.steady.now_ms())
            self._audit.record(connection, tenant, "drop_source", row["document_id"], receipt, deleted.deletion)
            return deleted

        return self._database.write(work)

    def begin_return(self, tenant: str, collection: str, document_ids: Sequence[str], etag: str = "") -> Return | None:
        """Announce that the points of those that are hidden are about to be written; None when all are visible.

        Nothing of a document changes while it is hidden, so that its etag need not be compared again at the end.

        Raises:
            DocumentNotFoundError: the collection has no such document.
            DocumentChangedError: the etag of one is not the given one, if one is given.
        """

        def work(connection: Connection) -> Return | None:
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
            # If the restoration comes to nothing these make the engine equal to the catalog again: without points.
            tasks = queue_points(connection, OutboxKind.MATCH_POINTS, tenant, hidden[0]["engine_name"], numbers)
            ids = tuple(row["document_id"] for row in hidden)
            return Return(require_collection(connection, tenant, collection), ids, tuple(tasks))

        return self._database.write(work)

    def chunks(self, returning: Return, after: int, limit: int) -> Sequence[StoredChunk]:
        """Return up to `limit` of the chunks whose points are to be written, by number, those behind `after`."""
        tenant, name = returning.collection.tenant, returning.collection.name
        with self._database.read() as connection:
            rows = document_rows(connection, tenant, name, returning.document_ids, IS_HIDDEN)
            statement = SELECT_CHUNKS.where(_of_hidden(rows), IS_INDEXED, chunks.c.chunk_number > after)
            return list(to_stored_chunks(connection.execute(statement.order_by(chunks.c.chunk_number).limit(limit))))

    def bring_back(self, returning: Return, receipt: Receipt[Document] | None = None) -> list[Document]:
        """Let readers see the documents again, exactly as they were; call it when the engine has all their points.

        `receipt` is of a call that restores one document.

        Raises:
            DocumentNotFoundError: one was deleted for good, or brought back or replaced meanwhile.
            AlreadyExistsError: another document has the source of one now.
            IndexMovedError: the points are in an engine collection that does not serve any more.
        """
        tenant, name = returning.collection.tenant, returning.collection.name

        def work(connection: Connection) -> list[Document]:
            rows = document_rows(connection, tenant, name, returning.document_ids, IS_HIDDEN)
            for document_id in set(returning.document_ids).difference(row["document_id"] for row in rows):
                raise DocumentNotFoundError(document_id)
            if rows[0]["engine_name"] != returning.collection.engine_name:
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
            # They were to take the points away again, which are now to stay.
            connection.execute(delete(outbox).where(among(outbox.c.id, returning.tasks)))
            restored = SELECT_DOCUMENTS_OF_COLLECTION.where(among(documents.c.document_key, keys))
            given = {"tenant": tenant, "collection": name}
            returned = [to_document(row) for row in connection.execute(restored, given)]
            request_id = self._audit.settle(connection, tenant, receipt, returned[0])
            self._audit.record_all(connection, tenant, "restore_document", returning.document_ids, request_id)
            return returned

        return self._database.write(work)


def _hide(connection: Connection, collection: Collection, rows: Sequence[RowMapping], now: int) -> Deleted:
    """Take the documents of visible rows from readers, the full-text index and, through the outbox, the engine."""
    keys = [row["document_key"] for row in rows]
    of_documents = among(generations.c.document_key, keys)
    leaving = select(generations.c.generation_key).where(of_documents, IS_LIVE)
    traces = trace_documents(connection, collection, rows, leaving, permanent=False)
    if not rows:
        return Deleted.now(traces, [], now)
    position = advance_position(connection, traces.collection_key)
    # While the generations are still live and superseded: the index looks for chunks by these states.
    remove_chunks(connection, of_documents)
    past = select(generations.c.generation_key).where(
        of_documents, generations.c.state == GenerationState.SUPERSEDED.value
    )
    connection.execute(delete(chunks).where(chunks.c.generation_key.in_(past)))
    hidden = {"state": GenerationState.DELETED.value, "live_to": position}
    connection.execute(update(generations).where(of_documents, IS_LIVE).values(hidden))
    values = {"live_generation": 0, "deleted_generation": documents.c.live_generation, "delete_time": now}
    connection.execute(update(documents).where(among(documents.c.document_key, keys)).values(values))
    tasks = queue_points(connection, OutboxKind.MATCH_POINTS, collection.tenant, collection.engine_name, traces.numbers)
    return Deleted.now(traces, tasks, now)


def _of_hidden(rows: Sequence[RowMapping]) -> ColumnElement[bool]:
    """Return the condition for the generations that come back with documents."""
    of_documents = among(generations.c.document_key, [row["document_key"] for row in rows])
    return and_(of_documents, generations.c.state == GenerationState.DELETED.value)
