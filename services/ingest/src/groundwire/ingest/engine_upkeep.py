"""Keep the vector engine in line with the catalog: tasks of the outbox, repeated chunks, stale and lost indexes."""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event

import structlog

from groundwire.catalog.catalog import Catalog
from groundwire.catalog.outbox import OutboxItem, OutboxKind
from groundwire.ingest.housekeeping import Job, Subject
from groundwire.ingest.index_builds import IndexBuilder
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.store_check import PointCheck
from groundwire.ingest.writing import POINTS_PER_WRITE
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

# More than in a write of others: the collection is not searched until it is whole, so nothing waits for its turn.
_POINTS_PER_FILL = 1000
# A task holds up to thousands of numbers, and all of a round are in memory.
_TASKS_PER_ROUND = 20
OUTBOX = "outbox"
REPEATED_CHUNKS = "repeated_chunks"
_LOOK_EVERY_S = 0.5
_REBUILD_EVERY_S = 1.0
REWRITE_S = 6 * 3600.0
"""Longer than comparing or writing millions of points or chunks, or building their index, takes."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class EngineUpkeep:
    """Brings the vector engine up to the catalog. Every step may be repeated, so a crash in one costs nothing.

    * Tasks of the outbox: what a change left to do in the engine.
    * Repeated chunks: those left out because of another one are indexed once that one is gone (requirement C06).
    * Stale indexes are rebuilt beside the serving ones (design D9b), for engines that do not keep theirs fresh. After a
      start all large collections are looked at once: the process before may have ended before it rebuilt them. That
      also opens their files, so that the first search does not have to.
    * Collections that a crash, a power cut or damaged files left behind are filled again; searches of one fail with
      StoreUnavailableError until it is whole.
    * Collections that a server lacks, because it is new or was emptied, are built from the catalog.

    `locks` holds one lock for each engine collection: whoever reads points of live chunks from the catalog to write
    them, or puts points back, holds it, so that nobody overwrites newer filter keys with older ones. `maybe_stale`
    are the collections whose index is to be looked at, by engine name; whoever writes adds them. `lacking` are the
    engine names that a server does not know; whoever finds one missing adds it.
    """

    catalog: Catalog
    vectors: VectorStore
    points: PointCheck
    locks: KeyedLocks
    maybe_stale: dict[str, Collection] = field(default_factory=dict)
    lacking: set[str] = field(default_factory=set, init=False)
    _has_noted_large: Event = field(default_factory=Event, init=False)

    def jobs(self) -> tuple[list[Job], Job, Job]:
        """Return the short jobs, the job that rebuilds stale indexes, and the job that refills lost ones."""
        outbox = Job(OUTBOX, self.do_waiting, lambda: [Subject(*each) for each in self.catalog.outbox.waiting()])
        repeated_chunks = Job(
            REPEATED_CHUNKS,
            self.index_orphans,
            lambda: [
                Subject(f"{tenant}/{name}", tenant, name)
                for tenant, name in self.catalog.duplicates.collections_with_duplicates()
            ],
        )
        rebuild = Job(
            "rebuild",
            self.rebuild,
            self._maybe_stale,
            # Not after each write: asking the engine would compete with small writes for the processor.
            every_s=_REBUILD_EVERY_S,
            timeout_s=REWRITE_S,
        )
        recovery = Job("recovery", self.recover, self._unverified, every_s=_LOOK_EVERY_S, timeout_s=REWRITE_S)
        return [outbox, repeated_chunks], rebuild, recovery

    def finish(self, ids: Sequence[int], budget: Budget) -> bool:
        """Do these tasks for a call that has made its change; return whether all are done.

        A failure is not the call's: the change is durable and visible, and housekeeping goes on with the tasks.
        """
        try:
            for item in self.catalog.outbox.of_ids(ids):
                budget.check()
                self._do(item, budget)
        except GroundwireError as error:
            _log.warning("the engine will catch up later", tasks=len(ids), error=error.message)
            return False
        return True

    def do_waiting(self, subject: Subject, budget: Budget) -> int:
        """Do the outbox tasks of an engine collection in order."""
        done = 0
        while items := self.catalog.outbox.pending(_TASKS_PER_ROUND, subject.key):
            for item in items:
                try:
                    self._do(item, budget)
                except DeadlineError:
                    if not done:
                        raise
                    return done  # it makes progress, and continues at the next turn
                done += 1
        return done

    def _do(self, item: OutboxItem, budget: Budget) -> None:
        """Do one task and remove it from the outbox; after a failure it stays there."""
        name = item.engine_name
        with suppress(CollectionNotFoundError):  # dropped meanwhile, and the points with it
            if item.kind is OutboxKind.DROP_COLLECTION:
                self.vectors.drop_collection(name, budget)
            for start in range(0, len(item.numbers), POINTS_PER_WRITE):
                budget.check()
                numbers = item.numbers[start : start + POINTS_PER_WRITE]
                if item.kind is OutboxKind.DELETE_POINTS:
                    self.vectors.delete(name, numbers, budget)
                    continue
                # Write points again with their current filter keys; those of chunks that are no longer live go.
                with self.locks.hold((name,), budget):
                    try:
                        points = self.catalog.embeddings.points_of(self.catalog.collections.of_engine(name), numbers)
                    except DataLossError as error:
                        # Searches check what the engine finds with the catalog; `CheckStore` repairs the damage.
                        _log.error("points cannot be written again", engine_collection=name, error=error.message)
                        continue
                    if points.numbers:
                        self.vectors.upsert(name, points, budget)
                    if gone := sorted(set(numbers) - set(points.numbers)):
                        self.vectors.delete(name, gone, budget)
        # Last, so that a crash before it repeats the task instead of losing it.
        self.catalog.outbox.done([item.id])

    def index_orphans(self, subject: Subject, budget: Budget) -> int:
        """Write their vectors to the engine, then make them visible; every step can be repeated."""
        done = 0
        with suppress(CollectionNotFoundError):  # dropped meanwhile
            collection = self.catalog.collections.get(subject.tenant, subject.collection)
            while numbers := self.catalog.duplicates.orphaned(collection, POINTS_PER_WRITE):
                budget.check()
                points = self.catalog.embeddings.points_of(collection, numbers, also_unindexed=True)
                self.vectors.upsert(collection.engine_name, points, budget)
                if not self.catalog.duplicates.index(collection, points.numbers):
                    return done  # the index moved to another engine collection meanwhile; the next turn tries again
                done += len(points.numbers)
        return done

    def _maybe_stale(self) -> list[Subject]:
        # Here and not at the start, which does not have to wait for the query.
        if isinstance(self.vectors, Rebuildable) and not self._has_noted_large.is_set():
            for large in self.catalog.collections.larger_than(self.vectors.rebuilt_above):
                self.maybe_stale.setdefault(large.engine_name, large)
            self._has_noted_large.set()
        # A copy, because calls write to collections meanwhile.
        return [Subject(name, each.tenant, each.name) for name, each in list(self.maybe_stale.items())]

    def rebuild(self, subject: Subject, budget: Budget) -> int:
        """Rebuild a stale index, which takes minutes for a large collection; searches continue."""
        # Read first: a write that comes during the rebuild replaces it, and the index counts as stale again.
        collection, store, done = self.maybe_stale.get(subject.key), self.vectors, 0
        with suppress(CollectionNotFoundError):  # dropped, or another engine collection serves now
            if (
                collection is not None
                and isinstance(store, Rebuildable)
                and store.needs_rebuild(collection.engine_name, budget)
            ):
                _log.info("rebuilding an index", collection=collection.name)
                store.rebuild(
                    collection.engine_name, lambda: self.catalog.embeddings.points(collection, _POINTS_PER_FILL), budget
                )
                done = 1
        if self.maybe_stale.get(subject.key) is collection:  # else it was written to again meanwhile
            self.maybe_stale.pop(subject.key, None)
        return done

    def find_lost(self, budget: Budget) -> None:
        """Mark the collections that the engine has lost, before anybody searches or writes."""
        store = self.vectors
        lacking = set(self.catalog.collections.engine_names()).difference(store.collections(budget))
        if isinstance(store, Recoverable):
            store.distrust(lacking)
        else:
            self.lacking.update(lacking)

    def building_job(self, builder: IndexBuilder) -> Job:
        """Return the job that builds the indexes which a server lacks.

        Beside the name that is missing, and not under it: other processes search this server too, and would take a
        part for the whole.
        """

        def build(subject: Subject, budget: Budget) -> int:
            built = 0
            with suppress(CollectionNotFoundError):  # deleted meanwhile, or another process has built it
                collection = self.catalog.collections.of_engine(subject.key)
                builder.build(collection, collection.identity, budget, lambda _: None)
                _log.info("built an index that the vector store lacked", collection=collection.name)
                built = 1
            self.lacking.discard(subject.key)
            return built

        return Job("missing_indexes", build, lambda: self._named(sorted(self.lacking)), timeout_s=REWRITE_S)

    def _unverified(self) -> list[Subject]:
        return self._named(self.vectors.unverified()) if isinstance(self.vectors, Recoverable) else []

    def _named(self, engine_names: Iterable[str]) -> list[Subject]:
        subjects = []
        for engine_name in engine_names:
            try:
                collection = self.catalog.collections.of_engine(engine_name)
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
            collection = self.catalog.collections.of_engine(subject.key)
            dimensions = collection.identity.dimensions
            try:
                store.create_collection(subject.key, dimensions, budget)
            except StoreMismatchError:  # damage has garbled it into another kind
                store.drop_collection(subject.key, budget)
                store.distrust([subject.key])
                store.create_collection(subject.key, dimensions, budget)
            filled = 0
            if store.count(subject.key, budget) == 0:
                # In large batches: the comparison below takes care of later changes and of lost vectors.
                with suppress(DataLossError):
                    for points in self.catalog.embeddings.points(collection, _POINTS_PER_FILL):
                        store.upsert(subject.key, points, budget)
                        filled += len(points.numbers)
            findings: list[StoreFinding] = []
            checked = max(self.points.check(collection, budget, findings.append, repair=True), default=0)
        except CollectionNotFoundError:
            store.mark_verified(subject.key, budget)  # it has no owner any more: deleted, or an abandoned build
            return 0
        store.mark_verified(subject.key, budget)
        # An index that was filled again is rebuilt like any other that many points were written to.
        self.maybe_stale[subject.key] = collection
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
