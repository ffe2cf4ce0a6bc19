"""Keep the vector engine in line with the catalog: tasks of the outbox, repeated chunks, stale and lost indexes."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import structlog

from groundwire.catalog.collections import Collections
from groundwire.catalog.duplicate_chunks import DuplicateChunks
from groundwire.catalog.outbox import Outbox, OutboxItem, OutboxKind
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.housekeeping import Subject
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.store_check import PointCheck
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    DataLossError,
    DeadlineError,
    GroundwireError,
    StoreMismatchError,
)
from groundwire.kernel.store_findings import StoreFinding
from groundwire.kernel.vector_store import Rebuildable, Recoverable, VectorStore

_POINTS_PER_STEP = 250
_POINTS_PER_FILL = 1000
_TASKS_PER_ROUND = 20

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EngineTasks:
    """Does in the vector engine what the outbox lists. Every task may be done twice, so a crash in one costs nothing.

    `engines` holds one lock for each engine collection: whoever reads points of live chunks from the catalog to write
    them, or puts points back, holds it, so that nobody overwrites newer filter keys with older ones.
    """

    collections: Collections
    outbox: Outbox
    cache: VectorCache
    vectors: VectorStore
    engines: KeyedLocks

    def finish(self, ids: Sequence[int], budget: Budget) -> bool:
        """Do these tasks for a call that has made its change; tell whether all are done.

        A failure is not the call's: the change is durable and visible, and housekeeping goes on with the tasks.
        """
        try:
            for item in self.outbox.of_ids(ids):
                budget.check()
                self._do(item, budget)
        except GroundwireError as error:
            _log.warning("the engine has to catch up later", tasks=len(ids), error=error.message)
            return False
        return True

    def subjects(self) -> list[Subject]:
        return [Subject(each.engine_name, each.tenant, each.collection) for each in self.outbox.waiting()]

    def do_waiting(self, subject: Subject, budget: Budget) -> int:
        """Do the tasks of an engine collection which calls left, in order."""
        done = 0
        while items := self.outbox.pending(_TASKS_PER_ROUND, subject.key):
            for item in items:
                try:
                    self._do(item, budget)
                except DeadlineError:
                    if not done:
                        raise
                    return done  # it gets on, and goes on at the next turn
                done += 1
        return done

    def _do(self, item: OutboxItem, budget: Budget) -> None:
        """Do one task and take it off the list; after a failure it stays there."""
        with suppress(CollectionNotFoundError):  # dropped meanwhile, and the points with it
            if item.kind is OutboxKind.DROP_COLLECTION:
                self.vectors.drop_collection(item.engine_name, budget)
            else:
                for start in range(0, len(item.numbers), _POINTS_PER_STEP):
                    budget.check()
                    numbers = item.numbers[start : start + _POINTS_PER_STEP]
                    if item.kind is OutboxKind.DELETE_POINTS:
                        self.vectors.delete(item.engine_name, numbers, budget)
                    else:
                        with self.engines.hold((item.engine_name,), budget):
                            self._write_anew(item.engine_name, numbers, budget)
        # Last, so that a crash before it repeats the task instead of losing it.
        self.outbox.done([item.id])

    def _write_anew(self, engine_name: str, numbers: Sequence[int], budget: Budget) -> None:
        """Give points the filter keys that the catalog has now; remove those of chunks that are live no more."""
        try:
            points = self.cache.points_of(self.collections.of_engine(engine_name), numbers)
        except DataLossError as error:
            # Searches check what the engine finds with the catalog; `CheckStore` reports and repairs the damage.
            _log.error("points cannot be written anew", engine_collection=engine_name, error=error.message)
            return
        if points.numbers:
            self.vectors.upsert(engine_name, points, budget)
        if gone := sorted(set(numbers) - set(points.numbers)):
            self.vectors.delete(engine_name, gone, budget)


@dataclass(frozen=True, slots=True)
class RepeatedChunks:
    """Indexes chunks that were left out because of another one, once that one is gone (requirement C06)."""

    collections: Collections
    duplicates: DuplicateChunks
    cache: VectorCache
    vectors: VectorStore

    def subjects(self) -> list[Subject]:
        """Return the collections with chunks that are not indexed because of another one."""
        return [
            Subject(f"{tenant}/{name}", tenant, name) for tenant, name in self.duplicates.collections_with_duplicates()
        ]

    def index_orphans(self, subject: Subject, budget: Budget) -> int:
        """Give the engine their vectors, then make them visible; every step may be repeated."""
        done = 0
        with suppress(CollectionNotFoundError):  # dropped meanwhile
            collection = self.collections.get(subject.tenant, subject.collection)
            while numbers := self.duplicates.orphaned(collection, _POINTS_PER_STEP):
                budget.check()
                points = self.cache.points_of(collection, numbers, also_unindexed=True)
                self.vectors.upsert(collection.engine_name, points, budget)
                if not self.duplicates.index(collection, points.numbers):
                    return done  # the index moved to another engine collection meanwhile; the next turn tries again
                done += len(points.numbers)
        return done


@dataclass(frozen=True, slots=True)
class StaleIndexes:
    """Rebuilds the index of a collection beside the serving one when writes have made it stale (design D9b).

    Does nothing for stores that keep their index fresh.
    """

    vectors: VectorStore
    cache: VectorCache
    written: dict[str, Collection] = field(default_factory=dict)

    def wrote(self, collection: Collection) -> None:
        """Take note that a collection was written to; returns at once."""
        self.written[collection.engine_name] = collection

    def subjects(self) -> list[Subject]:
        return [Subject(name, each.tenant, each.name) for name, each in list(self.written.items())]

    def rebuild(self, subject: Subject, budget: Budget) -> int:
        """Rebuild an index that is stale, which takes minutes for a large collection; searches go on."""
        collection, store, done = self.written.get(subject.key), self.vectors, 0
        with suppress(CollectionNotFoundError):  # dropped, or another engine collection serves now
            if (
                collection is not None
                and isinstance(store, Rebuildable)
                and store.needs_rebuild(collection.engine_name, budget)
            ):
                _log.info("rebuilding an index", collection=collection.name)
                store.rebuild(collection.engine_name, lambda: self.cache.points(collection, _POINTS_PER_FILL), budget)
                done = 1
        if self.written.get(subject.key) is collection:  # else it was written to again meanwhile
            self.written.pop(subject.key, None)
        return done


@dataclass(frozen=True, slots=True)
class IndexRecovery:
    """Brings engine collections up to the catalog that a crash, a power cut or damage to their files left behind.

    Searches of a collection that has to be filled fail with StoreUnavailableError until it is whole. Does nothing for
    engines that take care of themselves.
    """

    collections: Collections
    cache: VectorCache
    points: PointCheck
    vectors: VectorStore

    def find_lost(self, budget: Budget) -> None:
        """Tell the engine what it should have, before anybody searches or writes."""
        store = self.vectors
        if isinstance(store, Recoverable):
            store.distrust(set(self.collections.engine_names()).difference(store.collections(budget)))

    def subjects(self) -> list[Subject]:
        subjects = []
        for engine_name in self.vectors.unverified() if isinstance(self.vectors, Recoverable) else ():
            try:
                collection = self.collections.of_engine(engine_name)
                subjects.append(Subject(engine_name, collection.tenant, collection.name))
            except CollectionNotFoundError:
                subjects.append(Subject(engine_name))
        return subjects

    def recover(self, subject: Subject, budget: Budget) -> int:
        """Make the points of a collection those of the catalog; return how many were wrong or missing.

        Takes a tenth of a second for a small collection.
        """
        store = self.vectors
        if not isinstance(store, Recoverable):
            return 0
        try:
            collection = self.collections.of_engine(subject.key)
            dimensions = collection.identity.dimensions
            try:
                store.create_collection(subject.key, dimensions, budget)
            except StoreMismatchError:  # damage has garbled it into another kind
                store.drop_collection(subject.key, budget)
                store.distrust([subject.key])
                store.create_collection(subject.key, dimensions, budget)
            filled = 0
            if store.count(subject.key, budget) == 0:
                # In large batches: what changes meanwhile, or has lost its vector, is left to the comparison below.
                with suppress(DataLossError):
                    for points in self.cache.points(collection, _POINTS_PER_FILL):
                        store.upsert(subject.key, points, budget)
                        filled += len(points.numbers)
            findings: list[StoreFinding] = []
            checked = max(self.points.check(collection, budget, findings.append, repair=True), default=0)
        except CollectionNotFoundError:
            store.mark_verified(subject.key, budget)  # nobody's any more: deleted, or a build that was abandoned
            return 0
        store.mark_verified(subject.key, budget)
        unrepaired = sum(not finding.repaired for finding in findings)
        _log.info(
            "recovered an index",
            collection=collection.name,
            chunks=checked,
            written=filled,
            repaired=len(findings) - unrepaired,
            left=unrepaired,
        )
        return filled + len(findings)
