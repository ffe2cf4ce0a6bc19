"""Make the vectors that live chunks of a collection lack, a batch at a time."""

from collections.abc import Callable
from dataclasses import dataclass

from groundwire.catalog.chunks import Chunks
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.embed_chunks import EmbedChunks
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection

_CHUNKS_PER_BATCH = 256


@dataclass(frozen=True, slots=True)
class EmbedMissing:
    """Keeps every vector as soon as it is made, so an interrupted run goes on where it was."""

    cache: VectorCache
    chunks: Chunks
    embed_chunks: EmbedChunks

    def __call__(self, collection: Collection, budget: Budget, report: Callable[[int], None]) -> int:
        """Return how many texts were embedded; `report` gets the number of chunks done so far.

        `collection.identity` is the one of the embedder.

        Raises:
            UnavailableError: the model does not answer.
        """
        embedded = done = 0
        while numbers := self.cache.missing(collection, _CHUNKS_PER_BATCH):
            budget.check()
            found = self.chunks.live(collection.tenant, collection.name, numbers)
            if found:  # else they were deleted meanwhile
                embedded += self.embed_chunks([stored.chunk for stored in found.values()], budget, _unheard).embedded
            done += len(found)
            report(done)
        return embedded


def _unheard(_: int) -> None:
    """Drop the progress within a batch."""
