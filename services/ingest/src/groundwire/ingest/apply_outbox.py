"""Do in the vector engine what the outbox lists."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from groundwire.catalog.collections import Collections
from groundwire.catalog.outbox import Outbox, OutboxItem, OutboxKind
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CollectionNotFoundError, DataLossError, GroundwireError
from groundwire.kernel.vector_store import VectorStore

_POINTS_PER_STEP = 250

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ApplyOutbox:
    """Every task may be done twice, so a crash in the middle of one costs nothing.

    `engines` holds one lock for each engine collection: whoever reads points of live chunks from the catalog to write
    them, or puts points back, holds it, so that nobody overwrites newer filter keys with older ones.
    """

    collections: Collections
    outbox: Outbox
    cache: VectorCache
    vectors: VectorStore
    engines: KeyedLocks

    def __call__(self, item: OutboxItem, budget: Budget) -> None:
        """Do one task and take it off the list.

        Raises:
            StoreUnavailableError: the vector store failed; the task stays.
            CallCancelledError: `budget` was cancelled; the task stays.
            DeadlineError: `budget` is used up; the task stays.
        """
        with suppress(CollectionNotFoundError):  # dropped meanwhile, and the points with it
            self._do(item, budget)
        self.outbox.done([item.id])

    def finish(self, ids: Sequence[int], budget: Budget) -> bool:
        """Do these tasks for a call that has made its change; tell whether all are done.

        A failure is not the call's: the change is durable and visible, and the sweeper goes on with the tasks.
        """
        try:
            for item in self.outbox.of_ids(ids):
                budget.check()
                self(item, budget)
        except GroundwireError as error:
            _log.warning("the engine has to catch up later", tasks=len(ids), error=error.message)
            return False
        return True

    def _do(self, item: OutboxItem, budget: Budget) -> None:
        if item.kind is OutboxKind.DROP_COLLECTION:
            self.vectors.drop_collection(item.engine_name, budget)
            return
        for start in range(0, len(item.numbers), _POINTS_PER_STEP):
            budget.check()
            numbers = item.numbers[start : start + _POINTS_PER_STEP]
            if item.kind is OutboxKind.DELETE_POINTS:
                self.vectors.delete(item.engine_name, numbers, budget)
            else:
                with self.engines.hold((item.engine_name,), budget):
                    self._match(item.engine_name, numbers, budget)

    def _match(self, engine_name: str, numbers: Sequence[int], budget: Budget) -> None:
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
