"""Rebuild the index of a collection beside the serving one when it has gone stale (design D9b)."""

from dataclasses import dataclass

import structlog

from groundwire.catalog.vectors import VectorCache
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.vector_store import Rebuildable, VectorStore

_POINTS_PER_BATCH = 1000

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class RebuildIndex:
    """Does nothing for stores that keep their index fresh themselves."""

    vectors: VectorStore
    cache: VectorCache

    def __call__(self, collection: Collection, budget: Budget) -> bool:
        """Rebuild if it pays; tell whether it was done. Takes minutes for large collections; searches go on."""
        store = self.vectors
        if not isinstance(store, Rebuildable) or not store.needs_rebuild(collection.engine_name, budget):
            return False
        _log.info("rebuilding an index", collection=collection.name)
        store.rebuild(collection.engine_name, lambda: self.cache.points(collection, _POINTS_PER_BATCH), budget)
        return True
