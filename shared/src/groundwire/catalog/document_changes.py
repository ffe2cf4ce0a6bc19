"""Documents and chunks: changing what callers said about them."""

from collections.abc import Callable

from sqlalchemy import Connection

from groundwire.catalog.audit import append_audit
from groundwire.catalog.change_document import Changed, change_chunk, change_fields
from groundwire.catalog.database import Database
from groundwire.catalog.document_rows import SELECT_VISIBLE_DOCUMENT, to_document
from groundwire.catalog.generations import Receipted
from groundwire.catalog.ledger import settle
from groundwire.catalog.visible_rows import refuse_other_etag, visible_row
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.clock import Clock, SystemClock, epoch_ms
from groundwire.kernel.document import Document, DocumentFields
from groundwire.kernel.hit import StoredChunk


class DocumentChanges:
    """Changes of all tenants; each call is one transaction, in which readers see all of it or nothing."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()

    def document(
        self,
        tenant: str,
        collection: str,
        document_id: str,
        change: Callable[[DocumentFields], DocumentFields],
        receipt: Receipted[Document] = None,
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
            given = {"tenant": tenant, "collection": collection, "wanted": document_id}
            document = to_document(connection.execute(SELECT_VISIBLE_DOCUMENT, given).one())
            request_id = settle(connection, self._database.steady, tenant, receipt, document, document_id)
            append_audit(
                connection, self._clock, self._database.steady, tenant, "update_document", document_id, request_id
            )
            return Changed(document, tuple(tasks))

        return self._database.write(work)

    def chunk(
        self,
        tenant: str,
        collection: str,
        chunk_id: str,
        change: Callable[[Chunk], Chunk],
        receipt: Receipted[StoredChunk] = None,
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
            document_id = changed.result.document.document_id
            request_id = settle(connection, self._database.steady, tenant, receipt, changed.result, document_id)
            append_audit(connection, self._clock, self._database.steady, tenant, "update_chunk", chunk_id, request_id)
            return changed

        return self._database.write(work)
