"""Change tags and metadata of one chunk without embedding it again."""

from collections.abc import Callable
from dataclasses import dataclass

from groundwire.catalog.changes import DocumentChanges
from groundwire.catalog.collections import Collections
from groundwire.catalog.idempotency import Receipt
from groundwire.ingest.apply_outbox import ApplyOutbox
from groundwire.ingest.domain.field_changes import ChunkChange
from groundwire.kernel.budget import Budget
from groundwire.kernel.stored_chunk import StoredChunk


@dataclass(frozen=True, slots=True)
class UpdateChunk:
    """Changes what belongs to a chunk itself: it lasts as long as the generation of the chunk."""

    collections: Collections
    changes: DocumentChanges
    apply: ApplyOutbox

    def __call__(
        self,
        tenant: str,
        collection: str,
        chunk_id: str,
        change: ChunkChange,
        etag: str,
        budget: Budget,
        remember: Callable[[StoredChunk], Receipt] | None = None,
    ) -> StoredChunk:
        """Return the chunk as it is now.

        Raises:
            CollectionNotFoundError: no such collection.
            ChunkNotFoundError: the collection has no such live chunk.
            DocumentChangedError: its etag is not the given one, if one is given.
            InvalidRequestError: the chunk would have too many metadata keys.
        """
        self.collections.get(tenant, collection)
        changed = self.changes.chunk(tenant, collection, chunk_id, change, remember, etag=etag)
        self.apply.finish(changed.tasks, budget)
        return changed.result
