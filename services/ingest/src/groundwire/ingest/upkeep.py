"""The work behind the calls: bring the vector engine in line with the catalog, and drop what is no longer needed."""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event

import structlog

from groundwire.catalog.catalog import Catalog
from groundwire.catalog.deletions import Deleted, Deletion
from groundwire.catalog.outbox import OutboxItem, OutboxKind
from groundwire.ingest.housekeeping import Job, Subject
from groundwire.ingest.index_builds import IndexBuilder
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.store_check import PointCheck
from groundwire.ingest.uploads import UploadReceiver
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
from groundwire.kernel.vector_store import Rebuildable, Recoverable, Scrubbable, VectorStore

# More than in a write of others: the collection is not searched until it is whole, so nothing waits for its turn.
_POINTS_PER_FILL = 1000
# Bounds the vectors in memory, which the engine returns with the numbers.
_POINTS_PER_LOOK = 1000
# A task holds up to thousands of numbers, and all of a round are in memory.
_TASKS_PER_ROUND = 20
OUTBOX = "outbox"
REPEATED_CHUNKS = "repeated_chunks"
_LOOK_EVERY_S = 0.5
_REBUILD_EVERY_S = 1.0
_COMPLETE_EVERY_S = 1.0
_COUNT_EVERY_S = 5.0
_TIDY_EVERY_S = 60.0
_FORGET_EVERY_S = 3600.0
# Bounds the start: a silent engine must not keep it waiting.
_FIND_LOST_S = 30.0
REWRITE_S = 6 * 3600.0
"""Longer than comparing or writing millions of points or chunks, or building their index, takes."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Brings the vector engine up to the catalog, and tidies both. A crash costs nothing: every step may be repeated.

    * Tasks of the outbox: what a change left to do in the engine.
    * Repeated chunks: those left out because of another one are indexed once that one is gone (requirement C06).
    * Stale indexes are rebuilt beside the serving ones (design D9b), for engines that do not keep theirs fresh. After a
      start all large collections are looked at once: the process before may have ended before it rebuilt them. That
      also opens their files, so that the first search does not have to.
    * Collections that a crash, a power cut or damaged files left behind are filled again; searches of one fail with
      StoreUnavailableError until it is whole.
    * Collections that a server lacks, because it is new or was emptied, are built from the catalog.
    * Full-text indexes that an earlier version wrote with other rules for words are rewritten once; an interrupted
      rewrite begins again at the next start. Until it ends, searches use a partly new index and may miss what the new
      rules would find.
    * Receipts of deletions are completed once every store is known to be clean. A call completes its own receipt if
      that takes less than about a second. The others are left to a job, which rewrites the files of an engine
      collection once for all deletions that are waiting: when there has been none for `quiet_s` seconds, or when the
      first of them is `within_s` seconds old.

    `locks` holds one lock for each engine collection: whoever reads points of live chunks from the catalog to write
    them, or puts points back, holds it, so that nobody overwrites newer filter keys with older ones. `maybe_stale`
    are the collections whose index is to be looked at, by engine name, `lacking` the engine names that a server does
    not know. `nudge` lets the jobs run soon.
    """

    catalog: Catalog
    vectors: VectorStore
    points: PointCheck
    locks: KeyedLocks
    uploads: UploadReceiver
    builder: IndexBuilder
    nudge: Callable[[], None]
    quiet_s: float
    within_s: float
    maybe_stale: dict[str, Collection] = field(default_factory=dict, init=False)
    lacking: set[str] = field(default_factory=set, init=False)
    _old_words: dict[str, Subject] = field(default_factory=dict, init=False)
    _has_noted_large: Event = field(default_factory=Event, init=False)

    def recover(self) -> int:
        """Roll back what a crashed process left unfinished and return how much. Call once, before any ingest."""
        leftovers, builds = self.catalog.documents.leftovers(), self.catalog.index_builds.abandon_all()
        for pending in leftovers:
            self.catalog.documents.abandon(pending)
        if leftovers or builds:
            _log.info("rolled back unfinished work", generations=len(leftovers), index_builds=builds)
        return len(leftovers) + builds

    def find_lost_indexes(self) -> None:
        """Find indexes that are lost or of an earlier version, before anybody searches or writes."""
        store = self.vectors
        lacking = set(self.catalog.collections.engine_names()).difference(store.collections(Budget(_FIND_LOST_S)))
        if isinstance(store, Recoverable):
            store.distrust(lacking)
        else:
            self.lacking.update(lacking)
        found = self.catalog.lexical_check.written_by_other_rules()
        self._old_words.update({uid: Subject(uid, tenant, name) for uid, tenant, name in found})
        if not found:
            self.catalog.lexical_check.note_rules()

    def lanes(self) -> list[list[Job]]:
        """Return the jobs that take turns with one another.

        A hung engine must not keep the catalog from being tidied, nor a rebuild of minutes the points from being
        deleted.
        """
        catalog = self.catalog
        # Vectors of the server's own model are kept for every chunk: a collection may be about to move to it.
        own_model = self.builder.embedder.embedder.identity.digest
        of_catalog = [
            Job("unfinished", self._take_back, every_s=_TIDY_EVERY_S),
            Job(
                "retention",
                lambda subject, budget: catalog.documents.sweep_generations(subject.key, budget),
                lambda: [
                    Subject(each.uid, each.tenant, each.name) for each in catalog.documents.collections_with_expiry()
                ],
                every_s=_TIDY_EVERY_S,
            ),
            Job("requests", lambda _s, _b: catalog.ledger.sweep() + catalog.deletions.sweep(), every_s=_FORGET_EVERY_S),
            Job("uploads", lambda _subject, _budget: self.uploads.sweep(), every_s=_FORGET_EVERY_S),
            Job("record_accesses", lambda _s, _b: catalog.accesses.flush(), every_s=_COUNT_EVERY_S),
            Job("vectors", lambda _s, _b: catalog.embeddings.sweep(own_model), every_s=_FORGET_EVERY_S),
        ]
        of_engine = [
            Job(OUTBOX, self._do_waiting, lambda: [Subject(*each) for each in catalog.outbox.waiting()]),
            Job(
                REPEATED_CHUNKS,
                self._index_orphans,
                lambda: [
                    Subject(f"{tenant}/{name}", tenant, name)
                    for tenant, name in catalog.duplicates.collections_with_duplicates()
                ],
            ),
        ]
        # Not after each write: asking the engine would compete with small writes for the processor.
        rebuild = Job("rebuild", self._rebuild, self._maybe_stale, every_s=_REBUILD_EVERY_S, timeout_s=REWRITE_S)
        # While deletions keep coming, one rewrite later serves all of them; but none waits longer than `within_s`.
        deletions = Job(
            "deletions",
            self._complete_waiting,
            lambda: [
                Subject(each.engine_name, each.tenant, each.collection)
                for each in catalog.deletions.ready()
                if each.last_age_ms >= self.quiet_s * 1000 or each.first_age_ms >= self.within_s * 1000
            ],
            every_s=_COMPLETE_EVERY_S,
            timeout_s=REWRITE_S,
        )
        words = Job("words", self._renew_words, lambda: list(self._old_words.values()), timeout_s=REWRITE_S)
        recovery = Job("recovery", self._refill, self._unverified, every_s=_LOOK_EVERY_S, timeout_s=REWRITE_S)
        lanes = [of_catalog, of_engine, [rebuild, deletions, words], [recovery]]
        if not isinstance(self.vectors, Recoverable):
            lanes.append(
                [Job("missing_indexes", self._build, lambda: self._named(sorted(self.lacking)), timeout_s=REWRITE_S)]
            )
        return lanes

    def after_write(self, collection: Collection, leaves_work: bool) -> None:
        """Note that a collection was written to, perhaps in vain, and whether that leaves work to the jobs."""
        self.maybe_stale[collection.engine_name] = collection
        if leaves_work:
            self.nudge()

    def after_loss(self, engine_name: str) -> None:
        """Note that a server has lost an engine collection, to have the index built anew."""
        self.lacking.add(engine_name)
        self.nudge()

    def _take_back(self, _subject: Subject, budget: Budget) -> int:
        # A call whose tidying up failed left them; those that a dead process left are gone since the start.
        leftovers = self.catalog.documents.leftovers()
        for pending in leftovers:
            budget.check()
            self.catalog.documents.abandon(pending)
        if leftovers:
            _log.warning("rolled back generations that no process writes any more", generations=len(leftovers))
        return len(leftovers)

    def _renew_words(self, subject: Subject, budget: Budget) -> int:
        # Half a second for a thousand chunks.
        self.catalog.lexical_check.rebuild(subject.tenant, subject.collection, budget)
        # Only now, so that a rewrite that fails is tried again.
        del self._old_words[subject.key]
        if not self._old_words:
            self.catalog.lexical_check.note_rules()
            _log.info("rebuilt the full-text indexes of an earlier version")
        return 1

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

    def complete(self, deleted: Deleted, budget: Budget) -> Deletion:
        """Return the receipt once the engine has done its tasks, everything was searched and no file holds the texts.

        A failure is not the call's: what was deleted is invisible, and housekeeping completes the receipt.
        """
        tenant, deletion = deleted.traces.tenant, deleted.deletion
        # Until the engine has done its tasks a search for leftovers would find them.
        if not self.finish(deleted.tasks, budget):
            return deletion
        try:
            ready = self.catalog.deletions.ready_now(tenant, deletion.deletion_id)
            if ready is None:
                return deletion
            engine_name, stored = ready
            searched = self._complete(engine_name, [stored], budget, at_any_size=False)
        except GroundwireError as error:
            _log.warning("a deletion is completed later", collection=deleted.traces.collection, error=error.message)
            return deletion
        return searched[0] if searched else deletion

    def _do_waiting(self, subject: Subject, budget: Budget) -> int:
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

    def _complete_waiting(self, subject: Subject, budget: Budget) -> int:
        waiting = self.catalog.deletions.ready_of_engine(subject.key)
        searched = self._complete(subject.key, waiting, budget, at_any_size=True)
        for each in searched:
            if each.complete_time is None and not each.permanent:
                self.catalog.deletions.forget(subject.tenant, each.deletion_id)  # the document was restored
        left = sum(each.complete_time is None and each.permanent for each in searched)
        if left:  # as a failure of the job, so that it is retried and operators notice
            raise DataLossError(f"{left} deletions have left something behind", subject=subject.collection)
        return len(searched)

    def _complete(
        self, engine_name: str, waiting: Sequence[Deleted], budget: Budget, *, at_any_size: bool
    ) -> list[Deletion]:
        """Look for remains, scrub the files once, and store what is left; return nothing if something has to wait."""
        found = []
        for each in waiting:
            remains, points_left, numbers = self.catalog.deletions.left_of(each), 0, each.traces.numbers
            try:
                for start in range(0, len(numbers), _POINTS_PER_LOOK):
                    budget.check()
                    points = self.vectors.fetch(engine_name, numbers[start : start + _POINTS_PER_LOOK], budget)
                    points_left += len(points.numbers)
            except CollectionNotFoundError:
                points_left = 0  # they went with the collection
            found.append(remains | {"vectors": points_left})
        # Deletions that cannot be completed anyway are no reason to rewrite everything.
        if any(each.traces.permanent and not any(left.values()) for each, left in zip(waiting, found, strict=True)):
            if not self.catalog.database.scrub(budget):
                return []  # a reader of an earlier state keeps the deleted text in the log
            store = self.vectors
            if isinstance(store, Scrubbable) and not store.scrub(engine_name, budget, at_any_size=at_any_size):
                return []
        # After the rewrite, because the receipt states when the texts were gone.
        now = self.catalog.database.clock.now()
        searched = [each.deletion.searched(left, now) for each, left in zip(waiting, found, strict=True)]
        if waiting:
            self.catalog.deletions.note(waiting[0].traces.tenant, searched)
        return searched

    def _index_orphans(self, subject: Subject, budget: Budget) -> int:
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

    def _rebuild(self, subject: Subject, budget: Budget) -> int:
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

    def _build(self, subject: Subject, budget: Budget) -> int:
        """Build an index that a server lacks.

        Beside the name that is missing, and not under it: other processes search this server too, and would take a
        part for the whole.
        """
        built = 0
        with suppress(CollectionNotFoundError):  # deleted meanwhile, or another process has built it
            collection = self.catalog.collections.of_engine(subject.key)
            self.builder.build(collection, collection.identity, budget, lambda _: None)
            _log.info("built an index that the vector store lacked", collection=collection.name)
            built = 1
        self.lacking.discard(subject.key)
        return built

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

    def _refill(self, subject: Subject, budget: Budget) -> int:
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
