"""Change, delete and restore stored documents and chunks, without embedding anything again; purge what matches."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from groundwire.catalog.catalog import Catalog
from groundwire.catalog.deletions import Deletion
from groundwire.catalog.generations import IndexMovedError
from groundwire.catalog.operations import Operation
from groundwire.ingest.embedding import ChunkEmbedder
from groundwire.ingest.ingesting import Progress, Report, Stage
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.upkeep import Upkeep
from groundwire.ingest.writing import MAX_INDEX_MOVES, POINTS_PER_WRITE
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import Chunk, StoredChunk
from groundwire.kernel.document import MAX_METADATA_BYTES, Document, DocumentFields, DocumentReference
from groundwire.kernel.errors import DocumentChangedError, DocumentNotFoundError, InvalidRequestError
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.filter_parsing import resolve_filter
from groundwire.kernel.filters import FieldKind, Filter, Value, leaves
from groundwire.kernel.vector_store import PointBatch, VectorStore

MAX_KEYS = 64
"""Keys of its own that a document or a chunk may have."""


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """New values of keys, keys to remove, and whether to remove all keys first."""

    values: Mapping[str, Value] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    clears: bool = False

    def apply(self, before: Mapping[str, Value]) -> dict[str, Value]:
        """Return the keys as they are afterwards.

        Raises:
            InvalidRequestError: there would be too many, or too much in them.
        """
        staying = {} if self.clears else {key: value for key, value in before.items() if key not in self.removed}
        after = {**staying, **self.values}
        if len(after) > MAX_KEYS:
            raise InvalidRequestError.of(
                "set_metadata", f"would make {len(after)} keys, at most {MAX_KEYS} are allowed"
            )
        # Each request is small enough; many of them together must be, too, so that a document fits into a page.
        size = sum(len(key) + len(str(value).encode()) for key, value in after.items())
        if size > MAX_METADATA_BYTES:
            raise InvalidRequestError.of(
                "set_metadata", f"would make {size} bytes, at most {MAX_METADATA_BYTES} are allowed"
            )
        return after


@dataclass(frozen=True, slots=True)
class DocumentUpkeep:
    """Each change is one transaction in the catalog and tasks for the engine, done at once if it answers.

    `sources` are the locks of ingests, which read fields and write them later.
    """

    catalog: Catalog
    upkeep: Upkeep
    embedder: ChunkEmbedder
    vectors: VectorStore
    sources: KeyedLocks

    def update_document(
        self,
        tenant: str,
        collection: str,
        reference: DocumentReference,
        change: Callable[[DocumentFields], DocumentFields],
        etag: str,
        budget: Budget,
        receipt: Receipt[Document] | None = None,
    ) -> Document:
        """Change what was said about a document, on all its chunks; every search sees it whole, before or after.

        The engine gets the new filter keys before this returns, if it can; until then searches ask the catalog.

        Raises:
            DocumentNotFoundError: the collection has no such document.
            InvalidRequestError: the document would have too many metadata keys.
        """
        uid = self.catalog.collections.get(tenant, collection).uid
        found = self.catalog.documents.find(tenant, collection, reference)
        # An ingest of the source in progress would write back the fields that it read earlier.
        with self.sources.hold(("source", uid, found.source_uri), budget):
            changed, tasks = self.catalog.documents.change(
                tenant, collection, found.document_id, change, receipt, etag=etag
            )
        # After the lock, which must not be held while the engine is waited for.
        self.upkeep.finish(tasks, budget)
        return changed

    def update_chunk(
        self,
        tenant: str,
        collection: str,
        chunk_id: str,
        change: Callable[[Chunk], Chunk],
        etag: str,
        budget: Budget,
        receipt: Receipt[StoredChunk] | None = None,
    ) -> StoredChunk:
        """Change tags and metadata of a chunk, which last as long as the generation of the chunk.

        Raises:
            ChunkNotFoundError: the collection has no such live chunk.
            InvalidRequestError: the chunk would have too many metadata keys.
        """
        self.catalog.collections.get(tenant, collection)
        changed, tasks = self.catalog.documents.change_chunk(tenant, collection, chunk_id, change, receipt, etag=etag)
        self.upkeep.finish(tasks, budget)
        return changed

    def delete(
        self,
        tenant: str,
        collection: str,
        reference: DocumentReference,
        budget: Budget,
        receipt: Receipt[Deletion] | None = None,
        *,
        purge: bool = False,
        etag: str = "",
    ) -> Deletion:
        """Delete a document with all its generations; no reader finds any part of it afterwards.

        With `purge` it goes for good, also if it was deleted softly before. By one of several sources only that source
        goes, and the document stays with the others.

        Raises:
            DocumentNotFoundError: the collection has no such document.
            InvalidRequestError: several deleted documents have the source, and none is live.
        """
        self.catalog.collections.get(tenant, collection)
        deleted = None
        # The source first: a document with other sources keeps them and loses only this one.
        if reference.source_uri:
            deleted = self.catalog.documents.drop_source(
                tenant, collection, reference.source_uri, receipt, permanent=purge, etag=etag
            )
        if deleted is None:
            document_id = (
                self.catalog.documents.id_with_deleted(tenant, collection, reference)
                if purge
                else self.catalog.documents.find(tenant, collection, reference).document_id
            )
            deleted = self.catalog.documents.delete(
                tenant, collection, document_id, receipt, permanent=purge, etag=etag
            )
        # Before the attempt to complete it, whose failure leaves the rest to housekeeping.
        self.upkeep.nudge()
        return self.upkeep.complete(deleted, budget)

    def restore(
        self,
        tenant: str,
        collection: str,
        reference: DocumentReference,
        budget: Budget,
        receipt: Receipt[Document] | None = None,
        *,
        etag: str = "",
    ) -> Document:
        """Restore a deleted document; a live one is returned as it is.

        Raises:
            InvalidRequestError: several deleted documents have the source, and none is live.
            GroundwireError: as `restore_all`.
        """
        self.catalog.collections.get(tenant, collection)
        document_id = self.catalog.documents.id_with_deleted(tenant, collection, reference)
        restored = self.restore_all(tenant, collection, [document_id], budget, receipt, etag=etag)
        return restored[0] if restored else self.catalog.documents.get(tenant, collection, document_id)

    def restore_all(
        self,
        tenant: str,
        collection: str,
        document_ids: Sequence[str],
        budget: Budget,
        receipt: Receipt[Document] | None = None,
        *,
        etag: str = "",
    ) -> list[Document]:
        """Bring back those of the documents that were deleted softly, all at once, and return them.

        The points are written first, and readers see the documents when the engine has all of them. `receipt` and
        `etag` are those of a call that restores one document.

        Raises:
            DocumentNotFoundError: the collection has no such document, or it was deleted for good.
            AlreadyExistsError: another document has the source of one now.
            EmbeddingMismatchError: the collection belongs to another model than the server's.
            ConflictError: the index of the collection was rebuilt again and again meanwhile.
            UnavailableError: the vector store does not answer.
        """
        identity = self.embedder.embedder.identity
        for _ in range(MAX_INDEX_MOVES):
            found = self.catalog.collections.get(tenant, collection)
            # Before the lock, which must not be held across a wait for the model.
            if found.identity == identity:
                self.embedder.embed_missing(found, budget, document_ids=document_ids)
            try:
                # While the lock is held, no outbox task removes the points that are written here.
                with self.upkeep.locks.hold((found.engine_name,), budget):
                    restoration = self.catalog.restorations.begin(tenant, collection, document_ids, etag)
                    if restoration is None:
                        return []
                    self.embedder.refuse_other_model(restoration.collection)
                    if restoration.collection.engine_name != found.engine_name:
                        continue  # the lock is that of an index which no longer serves
                    after = 0
                    while page := self.catalog.restorations.chunks(restoration, after, POINTS_PER_WRITE):
                        budget.check()
                        # From the catalog, which keeps the vectors of deleted chunks until they are gone for good.
                        hashes = [stored.chunk.embedding_hash for stored in page]
                        vectors = self.embedder.cache.rows(restoration.collection.identity.digest, hashes)
                        numbers, payloads = [each.chunk_number for each in page], [each.payload for each in page]
                        self.vectors.upsert(found.engine_name, PointBatch(numbers, vectors, payloads), budget)
                        after = page[-1].chunk_number
                    return self.catalog.restorations.finish(restoration, receipt)
            except IndexMovedError:
                continue  # the index was rebuilt meanwhile: write the points to the one that serves now
            finally:
                self.upkeep.nudge()
        raise IndexMovedError(found)


SAMPLE = 100
"""Documents that a count names."""
# Others change documents meanwhile, so few are read ahead of their deletion.
_DOCUMENTS_PER_READ = 100


@dataclass(frozen=True, slots=True)
class DocumentPurge:
    """Deletes one document after the other, each in a transaction that also counts it, so that it can stop any time.

    A filter of None is for all documents. Those that came after the operation began stay.

    What the engine has of them is removed as after every deletion, by housekeeping.
    """

    catalog: Catalog
    upkeep: Upkeep

    def check(self, tenant: str, collection: str, where: Filter | None) -> None:
        """Return if a purge like this can begin.

        Raises:
            InvalidFilterError: the filter does not fit the fields of the collection.
        """
        self.catalog.collections.get(tenant, collection)
        if where is not None:
            resolve_filter(where, self.catalog.chunks.fields(tenant, collection))

    def count(self, operation: Operation, where: Filter | None) -> tuple[int, list[str]]:
        """Return how many documents match, and the sources of the first `SAMPLE`, without deleting anything."""
        where = self._resolved(operation, where)
        page = self._page(operation, where, None, SAMPLE)
        return self._count(operation, where), [document.source_uri for document in page]

    def delete(self, operation: Operation, where: Filter | None, budget: Budget, report: Report) -> int:
        """Delete what matches and was there when the operation began.

        Return how much that was, with the records that quoted it and what an earlier process has done of it.

        Raises:
            CallCancelledError: the rest is left.
        """
        where, done = self._resolved(operation, where), operation.done_count
        total = done + self._count(operation, where)
        report(Progress(Stage.DELETING, done, total))
        found_changed = True
        while found_changed:
            found_changed, after = False, None
            while page := self._page(operation, where, after, _DOCUMENTS_PER_READ):
                after = page[-1].source_uri, page[-1].document_id
                for document in page:
                    budget.check()
                    try:
                        deleted = self.catalog.documents.delete(
                            operation.tenant,
                            operation.collection,
                            document.document_id,
                            etag=document.etag,
                            where=where,
                            operation_id=operation.operation_id,
                        )
                        self.upkeep.nudge()
                    except DocumentNotFoundError:
                        continue  # somebody else has deleted it
                    except DocumentChangedError:
                        found_changed = True  # it may not match any more: look again
                        continue
                    done += deleted.deletion.documents
                    report(Progress(Stage.DELETING, done, max(done, total)))
        return done

    def _count(self, operation: Operation, where: Filter | None) -> int:
        return self.catalog.documents.count(operation.tenant, operation.collection, where, operation.create_time)

    def _page(
        self, operation: Operation, where: Filter | None, after: tuple[str, str] | None, limit: int
    ) -> list[Document]:
        return self.catalog.documents.page(
            operation.tenant,
            operation.collection,
            after,
            limit,
            where=where,
            include_hidden=True,
            ingested_by=operation.create_time,
        )

    def _resolved(self, operation: Operation, where: Filter | None) -> Filter | None:
        """Return the filter for the fields of the collection as they are now.

        A metadata key may have gone with the documents that are deleted already; nothing has it then, of whatever kind.
        """
        if where is None:
            return None
        gone = {
            leaf.field: FieldKind.TEXT if isinstance(getattr(leaf, "value", None), str) else FieldKind.NUMBER
            for leaf in leaves(where)
        }
        return resolve_filter(where, gone | self.catalog.chunks.fields(operation.tenant, operation.collection))
