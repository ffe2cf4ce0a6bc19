"""Composition of what changes, deletes and restores documents and chunks."""

from collections.abc import Callable
from dataclasses import dataclass

from groundwire.catalog.changes import DocumentChanges
from groundwire.catalog.database import Database
from groundwire.catalog.documents import Documents
from groundwire.catalog.soft_deletes import SoftDeletes
from groundwire.ingest.apply_outbox import ApplyOutbox
from groundwire.ingest.complete_deletion import CompleteDeletion
from groundwire.ingest.delete_collection import DeleteCollection
from groundwire.ingest.delete_document import DeleteDocument
from groundwire.ingest.embed_chunks import EmbedChunks
from groundwire.ingest.embed_missing import EmbedMissing
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.restore_document import RestoreDocument
from groundwire.ingest.update_chunk import UpdateChunk
from groundwire.ingest.update_document import UpdateDocument
from groundwire.kernel.clock import Clock
from groundwire.kernel.vector_store import VectorStore


@dataclass(frozen=True, slots=True)
class Changes:
    """What changes, deletes and restores."""

    update_document: UpdateDocument
    update_chunk: UpdateChunk
    delete_document: DeleteDocument
    delete_collection: DeleteCollection
    restore_document: RestoreDocument


@dataclass(frozen=True, slots=True)
class ChangeParts:
    """What changes are made of; `sources` are the locks of the ingests, `nudge` wakes the sweeper."""

    catalog: Database
    documents: Documents
    apply: ApplyOutbox
    complete: CompleteDeletion
    embed_chunks: EmbedChunks
    vectors: VectorStore
    sources: KeyedLocks
    nudge: Callable[[], None]
    clock: Clock

    def assemble(self) -> Changes:
        """Return the use cases."""
        collections, documents = self.apply.collections, self.documents
        changes, soft_deletes = DocumentChanges(self.catalog, self.clock), SoftDeletes(self.catalog, self.clock)
        return Changes(
            update_document=UpdateDocument(collections, documents, changes, self.apply, self.sources),
            update_chunk=UpdateChunk(collections, changes, self.apply),
            delete_document=DeleteDocument(collections, documents, soft_deletes, self.complete, self.nudge),
            delete_collection=DeleteCollection(collections, self.complete, self.nudge),
            restore_document=RestoreDocument(
                collections,
                documents,
                soft_deletes,
                EmbedMissing(self.apply.cache, self.embed_chunks),
                self.embed_chunks.embedder.identity,
                self.vectors,
                self.apply.engines,
                self.nudge,
            ),
        )
