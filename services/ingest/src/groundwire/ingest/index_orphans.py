"""Index chunks that were left out because of another one, once that one is gone (requirement C06)."""

from dataclasses import dataclass

from groundwire.catalog.collections import Collections
from groundwire.catalog.duplicate_chunks import DuplicateChunks
from groundwire.catalog.vectors import VectorCache
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.kernel.vector_store import VectorStore

_CHUNKS_PER_ROUND = 250


@dataclass(frozen=True, slots=True)
class IndexOrphans:
    """Gives the engine their vectors, then makes them visible; every step may be repeated."""

    collections: Collections
    duplicates: DuplicateChunks
    cache: VectorCache
    vectors: VectorStore

    def __call__(self, budget: Budget) -> int:
        """Return how many chunks were indexed.

        Raises:
            StoreUnavailableError: the vector store failed.
            DataLossError: a chunk has no vector.
        """
        return sum(self._of_collection(*each, budget) for each in self.duplicates.collections_with_duplicates())

    def _of_collection(self, tenant: str, name: str, budget: Budget) -> int:
        done = 0
        try:
            collection = self.collections.get(tenant, name)
            while numbers := self.duplicates.orphaned(collection, _CHUNKS_PER_ROUND):
                points = self.cache.points_of(collection, numbers, also_unindexed=True)
                self.vectors.upsert(collection.engine_name, points, budget)
                if not self.duplicates.index(collection, points.numbers):
                    return done  # the index moved to another engine collection meanwhile; the next sweep tries again
                done += len(points.numbers)
        except CollectionNotFoundError:
            return done  # dropped meanwhile
        return done
