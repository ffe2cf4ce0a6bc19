"""Brings engine collections up to the catalog that a crash, a power cut or damage to their files left behind."""

import structlog

from groundwire.catalog.collections import Collections
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.check_points import CheckPoints
from groundwire.ingest.housekeeping import Job, Subject
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import CollectionNotFoundError, DataLossError, StoreMismatchError
from groundwire.kernel.store_findings import StoreFinding
from groundwire.kernel.vector_store import Recoverable, VectorStore

_LOOK_EVERY_S = 0.5
_RECOVER_S = 6 * 3600.0
"""Longer than comparing or writing millions of points takes."""
_POINTS_PER_BATCH = 1000

_log = structlog.get_logger(__name__)


class IndexRecovery:
    """Compares or fills the collections that an engine is not sure of.

    Searches of a collection that has to be filled fail with StoreUnavailableError until it is whole. Does nothing for
    engines that take care of themselves.
    """

    def __init__(
        self, collections: Collections, cache: VectorCache, check_points: CheckPoints, vectors: VectorStore
    ) -> None:
        self._collections = collections
        self._cache = cache
        self._check_points = check_points
        self._vectors = vectors

    def find_lost(self, budget: Budget) -> None:
        """Tell the engine what it should have, before anybody searches or writes."""
        store = self._vectors
        if isinstance(store, Recoverable):
            store.distrust(set(self._collections.engine_names()).difference(store.collections(budget)))

    def job(self) -> Job:
        """Return the job, which takes a tenth of a second for a small collection."""
        return Job("recovery", self._recover, self._subjects, every_s=_LOOK_EVERY_S, timeout_s=_RECOVER_S)

    def _subjects(self) -> list[Subject]:
        store = self._vectors
        return [self._subject(name) for name in store.unverified()] if isinstance(store, Recoverable) else []

    def _subject(self, engine_name: str) -> Subject:
        try:
            collection = self._collections.of_engine(engine_name)
        except CollectionNotFoundError:
            return Subject(engine_name)
        return Subject(engine_name, collection.tenant, collection.name)

    def _recover(self, subject: Subject, budget: Budget) -> int:
        """Make the points of a collection those of the catalog; return how many were wrong or missing."""
        store = self._vectors
        if not isinstance(store, Recoverable):
            return 0
        try:
            collection = self._collections.of_engine(subject.key)
            self._make(store, collection, budget)
            filled = 0 if store.count(subject.key, budget) else self._fill(store, collection, budget)
            findings: list[StoreFinding] = []
            checked = max(self._check_points(collection, budget, findings.append, repair=True), default=0)
        except CollectionNotFoundError:
            store.mark_verified(subject.key, budget)  # nobody's any more: deleted, or a build that was abandoned
            return 0
        store.mark_verified(subject.key, budget)
        left = sum(not finding.repaired for finding in findings)
        _log.info(
            "recovered an index",
            collection=collection.name,
            chunks=checked,
            written=filled,
            repaired=len(findings) - left,
            left=left,
        )
        return filled + len(findings)

    def _make(self, store: Recoverable, collection: Collection, budget: Budget) -> None:
        """Make an engine collection that is gone, or that has been garbled into another kind."""
        name, dimensions = collection.engine_name, collection.identity.dimensions
        try:
            store.create_collection(name, dimensions, budget)
        except StoreMismatchError:
            store.drop_collection(name, budget)
            store.distrust([name])
            store.create_collection(name, dimensions, budget)

    def _fill(self, store: Recoverable, collection: Collection, budget: Budget) -> int:
        """Write every point in large batches; what changes meanwhile is put right by the comparison afterwards."""
        filled = 0
        try:
            for points in self._cache.points(collection, _POINTS_PER_BATCH):
                store.upsert(collection.engine_name, points, budget)
                filled += len(points.numbers)
        except DataLossError:
            return filled  # the comparison writes the points whose vectors there are
        return filled
