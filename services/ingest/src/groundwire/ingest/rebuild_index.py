"""Rebuild the index of a collection beside the serving one when it has gone stale (design D9b)."""

from contextlib import suppress

import structlog

from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.housekeeping import Job, Subject
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.kernel.vector_store import Rebuildable, VectorStore

_POINTS_PER_BATCH = 1000
_REBUILD_S = 6 * 3600.0
"""Longer than an index of millions of points takes."""

_log = structlog.get_logger(__name__)


class RebuildIndex:
    """Looks after the collections that were written to; does nothing for stores that keep their index fresh."""

    def __init__(self, vectors: VectorStore, cache: VectorCache) -> None:
        self._vectors = vectors
        self._cache = cache
        self._written: dict[str, Collection] = {}

    def wrote(self, collection: Collection) -> None:
        """Take note that a collection was written to; returns at once."""
        self._written[collection.engine_name] = collection

    def job(self) -> Job:
        """Return the job, which takes minutes for a large collection; searches go on."""
        return Job("rebuild", self._rebuild, self._subjects, timeout_s=_REBUILD_S)

    def _subjects(self) -> list[Subject]:
        return [Subject(name, each.tenant, each.name) for name, each in list(self._written.items())]

    def _rebuild(self, subject: Subject, budget: Budget) -> int:
        collection = self._written.get(subject.key)
        done = 0
        with suppress(CollectionNotFoundError):  # dropped, or another engine collection serves now
            done = 0 if collection is None else self._rebuild_stale(collection, budget)
        if self._written.get(subject.key) is collection:  # else it was written to again meanwhile
            self._written.pop(subject.key, None)
        return done

    def _rebuild_stale(self, collection: Collection, budget: Budget) -> int:
        store = self._vectors
        if not isinstance(store, Rebuildable) or not store.needs_rebuild(collection.engine_name, budget):
            return 0
        _log.info("rebuilding an index", collection=collection.name)
        store.rebuild(collection.engine_name, lambda: self._cache.points(collection, _POINTS_PER_BATCH), budget)
        return 1
