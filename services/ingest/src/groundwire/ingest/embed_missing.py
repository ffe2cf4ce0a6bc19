"""Make the vectors that chunks of a collection lack, a batch at a time."""

from collections.abc import Callable
from dataclasses import dataclass

from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.embed_chunks import EmbedChunks
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection

_CHUNKS_PER_BATCH = 256


@dataclass(frozen=True, slots=True)
class EmbedMissing:
    """Keeps every vector as soon as it is made, so an interrupted run goes on where it was."""

    cache: VectorCache
    embed_chunks: EmbedChunks

    def __call__(self, collection: Collection, budget: Budget, report: Callable[[int, int], None]) -> int:
        """Return how many texts were embedded; `report` gets how many chunks have got their vector, and of how many.

        `collection.identity` is the one of the embedder.

        Raises:
            UnavailableError: the model does not answer.
        """
        embedded, done, total = 0, 0, self.cache.count_missing(collection)
        report(0, total)
        while chunks := self.cache.missing(collection, _CHUNKS_PER_BATCH):
            budget.check()
            embedded += self.embed_chunks(chunks, budget, _unheard).embedded
            done += len(chunks)
            report(done, max(done, total))
        return embedded

    def of_document(self, collection: Collection, document_id: str, budget: Budget) -> None:
        """Make the vectors that chunks of one document lack, which is nearly always nothing.

        Raises:
            UnavailableError: the model does not answer.
        """
        while chunks := self.cache.missing(collection, _CHUNKS_PER_BATCH, document_id):
            budget.check()
            self.embed_chunks(chunks, budget, _unheard)


def _unheard(_: int) -> None:
    """Drop the progress within a batch."""
