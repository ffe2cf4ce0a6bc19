"""Bring back a document that was deleted softly."""

from collections.abc import Callable
from dataclasses import dataclass

from groundwire.catalog.collections import Collections
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import Receipt
from groundwire.catalog.publish_generation import IndexMovedError
from groundwire.catalog.soft_deletes import Return, SoftDeletes
from groundwire.ingest.admit_document import refuse_other_model
from groundwire.ingest.embed_chunks import EmbedChunks
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.kernel.budget import Budget
from groundwire.kernel.document import Document
from groundwire.kernel.vector_store import PointBatch, VectorStore

_POINTS_PER_STEP = 250


@dataclass(frozen=True, slots=True)
class RestoreDocument:
    """Writes the points first and lets readers see the document when the engine has all of them.

    `engines` are the locks of `ApplyOutbox`: while one is held, nobody takes away the points that are written here.
    """

    collections: Collections
    documents: Documents
    soft_deletes: SoftDeletes
    embed_chunks: EmbedChunks
    vectors: VectorStore
    engines: KeyedLocks
    after_write: Callable[[], None]

    def __call__(
        self,
        tenant: str,
        collection: str,
        document_id: str,
        budget: Budget,
        remember: Callable[[Document], Receipt] | None = None,
    ) -> Document:
        """Return the document as it is now; one that is live is returned as it is.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: the collection has no such document, or it was deleted for good.
            AlreadyExistsError: another document has its source now.
            EmbeddingMismatchError: the collection belongs to another model than the server's.
            UnavailableError: the vector store does not answer.
        """
        while True:
            engine_name = self.collections.get(tenant, collection).engine_name
            try:
                with self.engines.hold((engine_name,), budget):
                    returning = self.soft_deletes.begin_return(tenant, collection, document_id)
                    if returning is None:
                        return self.documents.get(tenant, collection, document_id)
                    refuse_other_model(returning.collection, self.embed_chunks.embedder.identity)
                    if returning.collection.engine_name == engine_name:
                        self._write_points(returning, budget)
                        return self.soft_deletes.bring_back(returning, remember)
            except IndexMovedError:
                continue  # the index was rebuilt meanwhile; write the points to the one that serves now
            finally:
                self.after_write()

    def _write_points(self, returning: Return, budget: Budget) -> None:
        name = returning.collection.engine_name
        after = -1
        while page := self.soft_deletes.chunks(returning, after, _POINTS_PER_STEP):
            # The model may be another one than when the document was deleted; nearly always all vectors are known.
            embedded = self.embed_chunks([stored.chunk for stored in page], budget, _unheard)
            numbers = [stored.chunk_number for stored in page]
            self.vectors.upsert(name, PointBatch(numbers, embedded.vectors, [stored.payload for stored in page]))
            after = page[-1].chunk.sequence_num


def _unheard(_: int) -> None:
    """Drop the progress of what takes little time."""
