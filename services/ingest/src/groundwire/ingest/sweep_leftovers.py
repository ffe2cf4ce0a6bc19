"""Bring the vector store in line with the catalog: what the catalog dropped, the store forgets."""

from dataclasses import dataclass

import structlog

from groundwire.catalog.documents import Documents
from groundwire.catalog.ledger import Ledger
from groundwire.catalog.outbox import Outbox, OutboxItem, OutboxKind
from groundwire.catalog.recovery import Recovery
from groundwire.catalog.vectors import VectorCache
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.kernel.vector_store import VectorStore

_ITEMS_PER_ROUND = 20
_POINTS_PER_DELETE = 250

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SweepLeftovers:
    """Every step may be repeated, so a crash in the middle of it costs nothing."""

    documents: Documents
    recovery: Recovery
    outbox: Outbox
    cache: VectorCache
    ledger: Ledger
    vectors: VectorStore

    def recover(self) -> int:
        """Take back the generations that a dead process left half written; return how many. Once, before any ingest."""
        leftovers = self.recovery.leftovers()
        for pending in leftovers:
            self.documents.abandon(pending)
        if leftovers:
            _log.info("took back unfinished generations", count=len(leftovers))
        return len(leftovers)

    def __call__(self) -> int:
        """Do what the outbox lists; return how many tasks were done.

        Raises:
            StoreUnavailableError: the vector store failed; the task stays in the outbox.
        """
        done = 0
        while items := self.outbox.pending(_ITEMS_PER_ROUND):
            for item in items:
                self._do(item)
                self.outbox.done([item.id])
                done += 1
        return done

    def forget(self) -> None:
        """Drop what is too old to be needed: answers of finished requests and vectors without a chunk."""
        self.ledger.sweep()
        self.cache.sweep()

    def _do(self, item: OutboxItem) -> None:
        if item.kind is OutboxKind.DROP_COLLECTION:
            self.vectors.drop_collection(item.engine_name)
            return
        try:
            for start in range(0, len(item.numbers), _POINTS_PER_DELETE):
                self.vectors.delete(item.engine_name, item.numbers[start : start + _POINTS_PER_DELETE])
        except CollectionNotFoundError:
            return  # dropped meanwhile, and the points with it
