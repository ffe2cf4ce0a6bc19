"""Build the index of a collection beside the serving one and move to it: Reindex and Reembed.

Such long work runs once, however many calls wait for it (`SharedRuns`).
"""

import contextvars
import threading
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import structlog

from groundwire.catalog.catalog import Catalog
from groundwire.catalog.index_builds import LivePoints
from groundwire.ingest.embedding import ChunkEmbedder
from groundwire.ingest.ingesting import Progress, Report, Stage
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.errors import CallCancelledError, ConflictError, GroundwireError
from groundwire.kernel.vector_store import Rebuildable, VectorStore

ResultT = TypeVar("ResultT")
EventT = TypeVar("EventT")

# Nothing wakes a waiting caller when its own budget is cancelled, so it checks that often.
_POLL_S = 0.05
# A run that hangs in the engine must not keep the server from stopping.
_STOP_LIMIT_S = 10.0
# One write to the engine, which syncs the disk once (ADR 0011).
_POINTS_PER_BATCH = 250
# The most that writers have to wait for when readers are moved: a fraction of a second.
_POINTS_WHILE_WRITERS_WAIT = 500
# How often the whole collection is compared again while writers continue, before they have to wait for it.
_ATTEMPTS_BESIDE_WRITERS = 10
_NOTHING = LivePoints.of([])
_log = structlog.get_logger(__name__)


@dataclass(slots=True)
class _Run:
    """One run: its events so far, how many callers wait for it, and how it ended."""

    kind: Hashable
    budget: Budget = field(default_factory=Budget)
    events: list[Any] = field(default_factory=list)
    waiting: int = 0
    is_over: bool = False
    result: Any = None
    error: BaseException | None = None
    thread: threading.Thread | None = None


class SharedRuns:
    """Runs work at most once for each key. Callers asking for the same work join in; the last one to leave stops it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._runs: dict[Hashable, _Run] = {}
        self._closing = False

    def __call__(
        self,
        key: Hashable,
        kind: Hashable,
        work: Callable[[Budget, Callable[[EventT], None]], ResultT],
        budget: Budget,
        report: Callable[[EventT], None],
    ) -> ResultT:
        """Return what `work(budget, report)` returns, run in a thread of its own.

        `kind` says what is done to `key`: the same kind is joined, and gets all events from the beginning. `work` ends
        soon after its own budget was cancelled; when `budget` ends, only this caller leaves.

        Raises:
            ConflictError: work of another kind is being done to `key`.
            CallCancelledError: `budget` was cancelled, or the service is closing.
            DeadlineError: `budget` is used up.
        """
        with self._changed:
            if self._closing:
                raise CallCancelledError("the service is closing")
            found = self._runs.get(key)
            if found is None or found.waiting == 0:  # all callers have left the old run, so it is ending
                run = self._runs[key] = _Run(kind)
                # In the context of the first caller, so that the log names that request; the budget is the run's own.
                context = contextvars.copy_context()
                args = (self._do, key, run, work)
                run.thread = threading.Thread(target=context.run, args=args, name="operation", daemon=True)
                run.thread.start()
            elif found.kind != kind:
                raise ConflictError("something else is being done to the same collection; wait for its end")
            else:
                run = found
            run.waiting += 1
        try:
            reported = 0
            while True:
                with self._changed:
                    if not run.is_over and reported == len(run.events):
                        self._changed.wait(_POLL_S)
                    news, is_over = run.events[reported:], run.is_over
                # Outside the lock: a report may wait for a slow client, which must not hold up the other listeners.
                for event in news:
                    report(event)
                reported += len(news)
                if is_over and reported == len(run.events):
                    break
                budget.check()
            if run.error is not None:
                raise run.error
            result: ResultT = run.result
            return result
        finally:
            with self._changed:
                run.waiting -= 1
                if run.waiting == 0:
                    run.budget.cancel()

    def close(self) -> None:
        """Stop all runs and wait for their ends."""
        with self._changed:
            self._closing = True
            runs = list(self._runs.values())
        for run in runs:
            run.budget.cancel()
        for run in runs:
            if run.thread is not None:
                run.thread.join(_STOP_LIMIT_S)

    def _do(self, key: Hashable, run: _Run, work: Callable[..., Any]) -> None:
        def publish(event: Any) -> None:
            # Work that reports is told here that all callers have left.
            run.budget.check()
            with self._changed:
                run.events.append(event)
                self._changed.notify_all()

        try:
            run.result = work(run.budget, publish)
        except BaseException as error:  # noqa: BLE001 - raised again in the threads that wait for the result
            run.error = error
        with self._changed:
            run.is_over = True
            if self._runs.get(key) is run:  # otherwise another run began while this abandoned one was ending
                del self._runs[key]
            self._changed.notify_all()


@dataclass(frozen=True, slots=True)
class IndexBuilt:
    """A new index: `vectors` of `identity`, of which `embedded` were computed for it."""

    vectors: int
    embedded: int
    identity: EmbeddingIdentity


@dataclass(frozen=True, slots=True)
class IndexBuilder:
    """Fills a new engine collection from the catalog, catches up with what is written meanwhile, and moves to it.

    Until the move, which is one transaction, readers and writers use the old index. A build that does not get so far,
    because it was cancelled or the process died, leaves nothing but an engine collection, which the sweeper drops.
    """

    catalog: Catalog
    vectors: VectorStore
    embedder: ChunkEmbedder
    runs: SharedRuns
    after: Callable[[], None]

    def rebuild(self, tenant: str, name: str, budget: Budget, report: Report, *, reembeds: bool = False) -> IndexBuilt:
        """Rebuild the indexes of a collection, with `reembeds` after embedding all of it with the server's model.

        A run of the same kind that is going on is joined. A run that was interrupted goes on with the vectors it had
        made.

        Raises:
            ConflictError: a rebuild of the other kind goes on.
            DataLossError: a chunk has no vector in the catalog; re-embed the collection.
            UnavailableError: the model does not answer; the vectors made so far are stored.
            CallCancelledError: the collection is as it was; the vectors made so far are stored.
        """
        collection = self.catalog.collections.get(tenant, name)
        identity = self.embedder.embedder.identity if reembeds else collection.identity

        def work(own: Budget, shared_report: Report) -> IndexBuilt:
            embedded = 0
            if reembeds:
                embedded = self.embedder.embed_missing(
                    replace(collection, identity=identity),
                    own,
                    lambda done, total: shared_report(Progress(Stage.EMBEDDING, done, total)),
                )
            built = self.build(collection, identity, own, shared_report)
            return IndexBuilt(self.vectors.count(built.engine_name, own), embedded, built.identity)

        return self.runs(collection.uid, "reembed" if reembeds else "reindex", work, budget, report)

    def build(self, collection: Collection, identity: EmbeddingIdentity, budget: Budget, report: Report) -> Collection:
        """Return the collection as it serves now; every live chunk has its vector of `identity` in the catalog.

        Raises:
            ConflictError: another build was faster.
            DataLossError: a chunk has no vector.
            StoreUnavailableError: the engine failed; the old index goes on serving.
        """
        built = self.catalog.index_builds.begin(collection, identity)
        try:
            self.vectors.create_collection(built.engine_name, identity.dimensions, budget)
            # Nearly everything is written before the first attempt to move, which may make writers wait.
            held = self._catch_up(built, _NOTHING, self.catalog.index_builds.live_points(collection), budget, report)
            store = self.vectors
            if isinstance(store, Rebuildable) and store.needs_rebuild(built.engine_name, budget):
                # Of a large collection, before anybody searches it.
                report(Progress(Stage.INDEXING, 0, 1))
                store.rebuild(
                    built.engine_name, lambda: self.catalog.embeddings.points(built, _POINTS_PER_BATCH), budget
                )
                report(Progress(Stage.INDEXING, 1, 1))
            self.catalog.lexical_check.rebuild(collection.tenant, collection.name, budget)

            def catch_up_at_once(missing: Sequence[int], gone: Sequence[int]) -> bool:
                budget.check()
                if len(missing) + len(gone) > _POINTS_WHILE_WRITERS_WAIT:
                    return False
                self._write(built, missing, gone, budget, lambda _: None)  # instantaneous, so nothing is reported
                return True

            attempt = 1
            while not self.catalog.index_builds.move(
                collection, built, held, catch_up_at_once, compares_all=attempt > _ATTEMPTS_BESIDE_WRITERS
            ):
                held = self._catch_up(built, held, self.catalog.index_builds.live_points(collection), budget, report)
                attempt += 1
        except BaseException:
            try:
                self.catalog.index_builds.abandon(built)
            except GroundwireError as error:
                # The failure that led here counts; the next start drops what was built.
                _log.warning(
                    "an unused index could not be removed", engine_collection=built.engine_name, error=error.message
                )
            raise
        finally:
            # Also after a failure: dropping the engine collection that is not used is a task for housekeeping.
            self.after()
        return built

    def _catch_up(
        self, built: Collection, held: LivePoints, live: LivePoints, budget: Budget, report: Report
    ) -> LivePoints:
        """Bring the new engine collection from `held` to `live`; return what it is known to hold."""
        deleted = self._write(built, live.beyond(held), held.absent_from(live), budget, report)
        return live.without(deleted)

    def _write(
        self, built: Collection, missing: Sequence[int], gone: Sequence[int], budget: Budget, report: Report
    ) -> set[int]:
        """Write points and remove others, in batches; return those that could not be written: deleted meanwhile."""
        deleted: set[int] = set(missing)
        for start in range(0, len(missing), _POINTS_PER_BATCH):
            budget.check()
            points = self.catalog.embeddings.points_of(built, missing[start : start + _POINTS_PER_BATCH])
            self.vectors.upsert(built.engine_name, points, budget)
            deleted.difference_update(points.numbers)
            report(Progress(Stage.WRITING, min(start + _POINTS_PER_BATCH, len(missing)), len(missing)))
        for start in range(0, len(gone), _POINTS_PER_BATCH):
            budget.check()
            self.vectors.delete(built.engine_name, gone[start : start + _POINTS_PER_BATCH], budget)
        return deleted
