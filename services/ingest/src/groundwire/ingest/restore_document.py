"""Bring back a document that was deleted softly."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from groundwire.catalog.collections import Collections
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import IndexMovedError
from groundwire.catalog.idempotency import Receipt
from groundwire.catalog.soft_deletes import Return, SoftDeletes
from groundwire.ingest.admit_document import refuse_other_model
from groundwire.ingest.embed_missing import EmbedMissing
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.write_generation import MAX_INDEX_MOVES
from groundwire.kernel.budget import Budget
from groundwire.kernel.document import Document, DocumentReference
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.errors import DataLossError
from groundwire.kernel.vector_store import PointBatch, VectorStore

_POINTS_PER_STEP = 250


@dataclass(frozen=True, slots=True)
class RestoreDocument:
    """Writes the points first and lets readers see the document when the engine has all of them.

    `identity` is that of the server's model. `engines` are the locks of `ApplyOutbox`: while one is held, nobody takes
    away the points that are written here.
    """

    collections: Collections
    documents: Documents
    soft_deletes: SoftDeletes
    embed_missing: EmbedMissing
    identity: EmbeddingIdentity
    vectors: VectorStore
    engines: KeyedLocks
    after_write: Callable[[], None]

    def __call__(
        self,
        tenant: str,
        collection: str,
        reference: DocumentReference,
        budget: Budget,
        remember: Callable[[Document], Receipt] | None = None,
        *,
        etag: str = "",
    ) -> Document:
        """Return the document as it is now; one that is live is returned as it is.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: the collection has no such document, or it was deleted for good.
            DocumentChangedError: its etag is not the given one, if one is given.
            InvalidRequestError: several deleted documents have the source, and none is live.
            AlreadyExistsError: another document has its source now.
            EmbeddingMismatchError: the collection belongs to another model than the server's.
            ConflictError: the index of the collection was rebuilt again and again meanwhile.
            UnavailableError: the vector store does not answer.
        """
        for _ in range(MAX_INDEX_MOVES):
            found = self.collections.get(tenant, collection)
            document_id = self.documents.id_with_deleted(tenant, collection, reference)
            # Before the lock, which must not be held across a wait for the model.
            if found.identity == self.identity:
                self.embed_missing.of_document(found, document_id, budget)
            try:
                with self.engines.hold((found.engine_name,), budget):
                    returning = self.soft_deletes.begin_return(tenant, collection, document_id, etag)
                    if returning is None:
                        return self.documents.get(tenant, collection, document_id)
                    refuse_other_model(returning.collection, self.identity)
                    if returning.collection.engine_name == found.engine_name:
                        self._write_points(returning, budget)
                        return self.soft_deletes.bring_back(returning, remember)
            except IndexMovedError:
                continue  # the index was rebuilt meanwhile; write the points to the one that serves now
            finally:
                self.after_write()
        raise IndexMovedError(found)

    def _write_points(self, returning: Return, budget: Budget) -> None:
        name, digest = returning.collection.engine_name, returning.collection.identity.digest
        after = -1
        while page := self.soft_deletes.chunks(returning, after, _POINTS_PER_STEP):
            budget.check()
            hashes = [stored.chunk.embedding_hash for stored in page]
            known = self.embed_missing.cache.get(digest, hashes)
            if not known.keys() >= set(hashes):
                raise DataLossError("a chunk has no stored vector; embed it again", what="vector")
            vectors = np.stack([known[each] for each in hashes])
            numbers, payloads = [stored.chunk_number for stored in page], [stored.payload for stored in page]
            self.vectors.upsert(name, PointBatch(numbers, vectors, payloads), budget)
            after = page[-1].chunk.sequence_num
