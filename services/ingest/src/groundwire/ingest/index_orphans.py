"""Index chunks that were left out because of another one, once that one is gone (requirement C06)."""

from dataclasses import dataclass

from groundwire.catalog.collections import Collections
from groundwire.catalog.duplicate_chunks import DuplicateChunks
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.housekeeping import Subject
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

    def subjects(self) -> list[Subject]:
        """Return the collections that have chunks which are not indexed because of another one."""
        return [
            Subject(f"{tenant}/{name}", tenant, name) for tenant, name in self.duplicates.collections_with_duplicates()
        ]

    def __call__(self, subject: Subject, budget: Budget) -> int:
        """Return how many chunks were indexed.

        Raises:
            StoreUnavailableError: the vector store failed.
            DataLossError: a chunk has no vector.
        """
        done = 0
        try:
            collection = self.collections.get(subject.tenant, subject.collection)
            while numbers := self.duplicates.orphaned(collection, _CHUNKS_PER_ROUND):
                budget.check()
                points = self.cache.points_of(collection, numbers, also_unindexed=True)
                self.vectors.upsert(collection.engine_name, points, budget)
                if not self.duplicates.index(collection, points.numbers):
                    return done  # the index moved to another engine collection meanwhile; the next turn tries again
                done += len(points.numbers)
        except CollectionNotFoundError:
            return done  # dropped meanwhile
        return done
