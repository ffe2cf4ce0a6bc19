"""Return the figures of collections."""

from collections.abc import Sequence
from dataclasses import dataclass

from groundwire.catalog.statistics import CollectionStatistics, Statistics
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.kernel.vector_store import VectorStore


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures of a collection; `vectors` is what the engine has, which may lag behind the catalog for a moment."""

    counted: CollectionStatistics
    vectors: int


@dataclass(frozen=True, slots=True)
class GetStats:
    """Counts in the catalog, and asks the engine for the number of its vectors."""

    statistics: Statistics
    vectors: VectorStore

    def __call__(self, tenant: str, collection: str, budget: Budget) -> Sequence[Stats]:
        """Return the figures of one collection, or of all by name when the name is empty.

        Raises:
            CollectionNotFoundError: no such collection.
            StoreUnavailableError: the engine does not answer.
        """
        found = [self.statistics.of(tenant, collection)] if collection else self.statistics.of_all(tenant)
        return [Stats(counted, self._count(counted.collection.engine_name, budget)) for counted in found]

    def _count(self, engine_name: str, budget: Budget) -> int:
        try:
            return self.vectors.count(engine_name, budget)
        except CollectionNotFoundError:
            return 0
