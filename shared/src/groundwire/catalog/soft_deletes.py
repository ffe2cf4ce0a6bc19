"""Documents that are deleted so that they can be restored."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete

from groundwire.catalog.audit import append_audit
from groundwire.catalog.bookkeeping_tables import outbox
from groundwire.catalog.collection_rows import require_collection
from groundwire.catalog.database import Database
from groundwire.catalog.deletions import Deleted, record_deletion
from groundwire.catalog.document_rows import SELECT_VISIBLE_DOCUMENT, to_document
from groundwire.catalog.generations import Receipted
from groundwire.catalog.ledger import settle
from groundwire.catalog.outbox import queue_matched_points
from groundwire.catalog.publish_generation import IndexMovedError
from groundwire.catalog.soft_delete import bring_back_document, hidden_chunks, hidden_numbers, hide_document
from groundwire.catalog.sources_of_documents import drop_source, has_aliases, row_of_source
from groundwire.catalog.visible_rows import hidden_row, refuse_other_etag, visible_row
from groundwire.kernel.clock import Clock, SystemClock, epoch_ms
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document
from groundwire.kernel.errors import DocumentNotFoundError
from groundwire.kernel.hit import StoredChunk


@dataclass(frozen=True, slots=True)
class Return:
    """A restoration under way. The tasks in the outbox take its points away again should it come to nothing."""

    collection: Collection
    document_id: str
    tasks: tuple[int, ...]


class SoftDeletes:
    """Soft deletions and restorations of all tenants; each call sees those of one."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()

    def hide(
        self, tenant: str, collection: str, document_id: str, receipt: Receipted[Deleted] = None, *, etag: str = ""
    ) -> Deleted:
        """Hide a document: no reader finds any part of it until it is brought back.

        Raises:
            DocumentNotFoundError: the collection has none of this id, or it is hidden already.
            DocumentChangedError: its etag is not the given one, if one is given.
            ConflictError: the same request was completed meanwhile; ask the ledger.
            RequestIdReusedError: the request id was used with another body.
        """

        def work(connection: Connection) -> Deleted:
            deleted = hide_document(connection, tenant, collection, document_id, etag, epoch_ms(self._clock.now()))
            record_deletion(connection, deleted, self._database.steady.now_ms())
            request_id = settle(connection, self._database.steady, tenant, receipt, deleted)
            append_audit(
                connection, self._clock, self._database.steady, tenant, "hide_document", document_id, request_id
            )
            return deleted

        return self._database.write(work)

    def drop_source(
        self,
        tenant: str,
        collection: str,
        source_uri: str,
        receipt: Receipted[Deleted] = None,
        *,
        permanent: bool,
        etag: str = "",
    ) -> Deleted | None:
        """Take one of several sources from a live document, which stays; None when it has no other, or is not there.

        Raises:
            DocumentChangedError: its etag is not the given one, if one is given.
            ConflictError: the same request was completed meanwhile; ask the ledger.
            RequestIdReusedError: the request id was used with another body.
        """

        def work(connection: Connection) -> Deleted | None:
            row = row_of_source(connection, tenant, collection, source_uri)
            if row is None or not has_aliases(connection, row):
                return None
            refuse_other_etag(connection, row, etag)
            now = epoch_ms(self._clock.now())
            deleted = drop_source(connection, row, source_uri, now, permanent=permanent)
            record_deletion(connection, deleted, self._database.steady.now_ms())
            request_id = settle(connection, self._database.steady, tenant, receipt, deleted)
            append_audit(
                connection, self._clock, self._database.steady, tenant, "drop_source", row["document_id"], request_id
            )
            return deleted

        return self._database.write(work)

    def begin_return(self, tenant: str, collection: str, document_id: str, etag: str = "") -> Return | None:
        """Announce that the points of a hidden document are about to be written; None when it is visible.

        Nothing of a document changes while it is hidden, so that its etag need not be compared again at the end.

        Raises:
            DocumentNotFoundError: the collection has no such document.
            DocumentChangedError: its etag is not the given one, if one is given.
        """

        def work(connection: Connection) -> Return | None:
            row = hidden_row(connection, tenant, collection, document_id)
            if row is None:
                refuse_other_etag(connection, visible_row(connection, tenant, collection, document_id), etag)
                return None
            refuse_other_etag(connection, row, etag)
            numbers = hidden_numbers(connection, row)
            tasks = queue_matched_points(connection, tenant, row["engine_name"], numbers)
            return Return(require_collection(connection, tenant, collection), document_id, tuple(tasks))

        return self._database.write(work)

    def chunks(self, returning: Return, after_sequence: int, limit: int) -> Sequence[StoredChunk]:
        """Return up to `limit` of the chunks whose points are to be written, those behind a sequence number."""
        tenant, name = returning.collection.tenant, returning.collection.name
        with self._database.read() as connection:
            row = hidden_row(connection, tenant, name, returning.document_id)
            return [] if row is None else hidden_chunks(connection, row, after_sequence, limit)

    def bring_back(self, returning: Return, receipt: Receipted[Document] = None) -> Document:
        """Let readers see the document again, exactly as it was; call it when the engine has all its points.

        Raises:
            DocumentNotFoundError: it was deleted for good, or brought back or replaced meanwhile.
            AlreadyExistsError: another document has its source now.
            IndexMovedError: the points are in an engine collection that does not serve any more.
            ConflictError: the same request was completed meanwhile; ask the ledger.
            RequestIdReusedError: the request id was used with another body.
        """
        tenant, name = returning.collection.tenant, returning.collection.name

        def work(connection: Connection) -> Document:
            row = hidden_row(connection, tenant, name, returning.document_id)
            if row is None:
                raise DocumentNotFoundError(returning.document_id)
            if row["engine_name"] != returning.collection.engine_name:
                raise IndexMovedError(require_collection(connection, tenant, name))
            bring_back_document(connection, row)
            connection.execute(delete(outbox).where(outbox.c.id.in_(returning.tasks)))
            given = {"tenant": tenant, "collection": name, "wanted": returning.document_id}
            document = to_document(connection.execute(SELECT_VISIBLE_DOCUMENT, given).one())
            request_id = settle(connection, self._database.steady, tenant, receipt, document, document.document_id)
            append_audit(
                connection,
                self._clock,
                self._database.steady,
                tenant,
                "restore_document",
                document.document_id,
                request_id,
            )
            return document

        return self._database.write(work)
