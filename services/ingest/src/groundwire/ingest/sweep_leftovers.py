"""Bring the vector store in line with the catalog, and drop what nobody needs any more: the jobs of housekeeping."""

from dataclasses import dataclass

import structlog

from groundwire.catalog.deletions import Deletions
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import ExpiredGenerations, Recovery
from groundwire.catalog.idempotency import Ledger
from groundwire.catalog.index_builds import IndexBuilds
from groundwire.catalog.outbox import Outbox
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.apply_outbox import ApplyOutbox
from groundwire.ingest.housekeeping import Job, Subject
from groundwire.ingest.index_orphans import IndexOrphans
from groundwire.ingest.receive_upload import ReceiveUpload
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import DeadlineError

OUTBOX = "outbox"
REPEATED_CHUNKS = "repeated_chunks"
_TASKS_PER_ROUND = 20
_TIDY_EVERY_S = 60.0
_FORGET_EVERY_S = 3600.0

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
    deletions: Deletions
    receive: ReceiveUpload
    apply: ApplyOutbox
    identity_digest: str
    index_orphans: IndexOrphans
    expired: ExpiredGenerations

    def recover(self) -> int:
        """Take back what a dead process left half written or half built; return how much. Once, before any ingest."""
        leftovers, builds = self.recovery.leftovers(), self.builds.abandon_all()
        for pending in leftovers:
            self.documents.abandon(pending)
        if leftovers or builds:
            _log.info("took back what was unfinished", generations=len(leftovers), index_builds=builds)
        return len(leftovers) + builds

    def engine_jobs(self) -> list[Job]:
        """Return the jobs that wait for the vector engine, each for one collection at a time."""
        return [
            Job(OUTBOX, self._apply_outbox, self._waiting_engines),
            Job(REPEATED_CHUNKS, self.index_orphans, self.index_orphans.subjects),
        ]

    def catalog_jobs(self) -> list[Job]:
        """Return the jobs that need nothing but the catalog and the data folder."""
        return [
            Job("unfinished", self._take_back, every_s=_TIDY_EVERY_S),
            Job("retention", self._expire, self._collections_with_past, every_s=_TIDY_EVERY_S),
            Job("requests", lambda _s, _b: self.ledger.sweep() + self.deletions.sweep(), every_s=_FORGET_EVERY_S),
            Job("uploads", lambda _subject, _budget: self.receive.sweep(), every_s=_FORGET_EVERY_S),
            Job("vectors", lambda _s, _b: self.cache.sweep(self.identity_digest), every_s=_FORGET_EVERY_S),
        ]

    def _waiting_engines(self) -> list[Subject]:
        return [Subject(each.engine_name, each.tenant, each.collection) for each in self.outbox.waiting()]

    def _apply_outbox(self, subject: Subject, budget: Budget) -> int:
        """Do what the outbox lists for one engine collection, in order."""
        done = 0
        while items := self.outbox.pending(_TASKS_PER_ROUND, subject.key):
            for item in items:
                try:
                    self.apply(item, budget)
                except DeadlineError:
                    if not done:
                        raise
                    return done  # it gets on, and goes on at the next turn
                done += 1
        return done

    def _take_back(self, _subject: Subject, budget: Budget) -> int:
        leftovers = self.recovery.leftovers(lambda: self.documents.under_way)
        for pending in leftovers:
            budget.check()
            self.documents.abandon(pending)
        if leftovers:
            _log.warning("took back generations that nobody writes any more", generations=len(leftovers))
        return len(leftovers)

    def _collections_with_past(self) -> list[Subject]:
        return [Subject(each.uid, each.tenant, each.name) for each in self.expired.collections()]

    def _expire(self, subject: Subject, budget: Budget) -> int:
        return self.expired.sweep(subject.key, budget)
