"""Bring the vector store in line with the catalog: what the catalog changed or dropped, the store follows."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from groundwire.catalog.documents import Documents
from groundwire.catalog.expired_generations import ExpiredGenerations
from groundwire.catalog.generations import PendingGeneration
from groundwire.catalog.index_builds import IndexBuilds
from groundwire.catalog.ledger import Ledger
from groundwire.catalog.outbox import Outbox
from groundwire.catalog.recovery import Recovery
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.apply_outbox import ApplyOutbox
from groundwire.ingest.index_orphans import IndexOrphans
from groundwire.ingest.receive_upload import ReceiveUpload
from groundwire.kernel.budget import Budget

_ITEMS_PER_ROUND = 20
_STEP_S = 600.0
"""What one task may take; the engine has shorter limits for each of its calls."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class SweepLeftovers:
    """Every step may be repeated, so a crash in the middle of it costs nothing.

    Vectors of the server's own model, `identity_digest`, are kept for every chunk: a collection may be about to move
    to it.
    """

    documents: Documents
    recovery: Recovery
    builds: IndexBuilds
    outbox: Outbox
    cache: VectorCache
    ledger: Ledger
    receive: ReceiveUpload
    apply: ApplyOutbox
    identity_digest: str
    index_orphans: IndexOrphans
    expired: ExpiredGenerations

    def recover(self) -> int:
        """Take back what a dead process left half written or half built; return how much. Once, before any ingest."""
        generations, builds = self._take_back(self.recovery.leftovers()), self.builds.abandon_all()
        if generations or builds:
            _log.info("took back what was unfinished", generations=generations, index_builds=builds)
        return generations + builds

    def __call__(self) -> int:
        """Do what the outbox lists and index what has lost its double; return how many tasks were done.

        Raises:
            StoreUnavailableError: the vector store failed; the task stays in the outbox.
        """
        done = 0
        while items := self.outbox.pending(_ITEMS_PER_ROUND):
            for item in items:
                self.apply(item, Budget(_STEP_S))
                done += 1
        return done + self.index_orphans(Budget(_STEP_S))

    def tidy(self) -> None:
        """Take back generations that nobody writes any more, and drop those that were kept long enough."""
        generations = self._take_back(self.recovery.leftovers(self.documents.under_way))
        if generations:
            _log.warning("took back generations that nobody writes any more", generations=generations)
        self.expired.sweep()

    def forget(self) -> None:
        """Drop what nobody needs any more: old answers, uploads that were given up, and vectors without a chunk."""
        self.ledger.sweep()
        self.receive.sweep()
        self.cache.sweep(self.identity_digest)

    def _take_back(self, leftovers: Sequence[PendingGeneration]) -> int:
        for pending in leftovers:
            self.documents.abandon(pending)
        return len(leftovers)
