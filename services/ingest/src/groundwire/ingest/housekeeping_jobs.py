"""The jobs of housekeeping: bring the vector store in line with the catalog, and drop what nobody needs any more."""

from dataclasses import dataclass, field

import structlog

from groundwire.catalog.deletions import Deletions
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import ExpiredGenerations, Recovery
from groundwire.catalog.idempotency import Ledger
from groundwire.catalog.index_builds import IndexBuilds
from groundwire.catalog.lexical_check import LexicalCheck
from groundwire.catalog.records import RecordAccesses
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.deletions import DeletionCompleter
from groundwire.ingest.engine_upkeep import EngineTasks, IndexRecovery, RepeatedChunks, StaleIndexes
from groundwire.ingest.housekeeping import Job, Subject
from groundwire.ingest.uploads import UploadReceiver
from groundwire.kernel.budget import Budget

OUTBOX = "outbox"
REPEATED_CHUNKS = "repeated_chunks"
_COUNT_EVERY_S = 5.0
_TIDY_EVERY_S = 60.0
_FORGET_EVERY_S = 3600.0
_FIND_LOST_S = 30.0
_LOOK_EVERY_S = 0.5
_REWRITE_S = 6 * 3600.0
"""Longer than comparing or writing millions of points or chunks, or building their index, takes."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class WordRenewal:
    """Writes the full-text indexes anew that an earlier version has written, which cut texts into words by other rules.

    Goes through the collections behind the calls, once; what a stop interrupts begins again at the next start. Searches
    go on meanwhile, in an index of which a part is new. Until its end they may miss what the new rules find.
    """

    full_text: LexicalCheck
    waiting: dict[str, Subject] = field(default_factory=dict)

    def begin(self) -> None:
        """Find out which collections there are to do, before anything is written."""
        found = self.full_text.written_by_other_rules()
        self.waiting.update({uid: Subject(uid, tenant, name) for uid, tenant, name in found})
        if not found:
            self.full_text.note_rules()

    def renew(self, subject: Subject, budget: Budget) -> int:
        """Write the index of a collection anew, which takes half a second for a thousand chunks."""
        self.full_text.rebuild(subject.tenant, subject.collection, budget)
        del self.waiting[subject.key]
        if not self.waiting:
            self.full_text.note_rules()
            _log.info("renewed the full-text indexes of an earlier version")
        return 1


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What goes on behind the calls. Every step may be repeated, so a crash in the middle of it costs nothing.

    Vectors of the server's own model, `identity_digest`, are kept for every chunk: a collection may be about to move
    to it.
    """

    documents: Documents
    recovery: Recovery
    builds: IndexBuilds
    cache: VectorCache
    ledger: Ledger
    deletions: Deletions
    expired: ExpiredGenerations
    uploads: UploadReceiver
    tasks: EngineTasks
    repeated: RepeatedChunks
    stale: StaleIndexes
    completer: DeletionCompleter
    index_recovery: IndexRecovery
    words: WordRenewal
    accesses: RecordAccesses
    identity_digest: str

    def recover(self) -> int:
        """Take back what a dead process left half written or half built; return how much. Once, before any ingest."""
        leftovers, builds = self.recovery.leftovers(), self.builds.abandon_all()
        for pending in leftovers:
            self.documents.abandon(pending)
        if leftovers or builds:
            _log.info("took back what was unfinished", generations=len(leftovers), index_builds=builds)
        return len(leftovers) + builds

    def find_lost_indexes(self) -> None:
        """Find out what is lost or of an earlier version; before anybody searches or writes."""
        self.index_recovery.find_lost(Budget(_FIND_LOST_S))
        self.words.begin()

    def lanes(self) -> list[list[Job]]:
        """Return the jobs that take turns with one another.

        A hung engine must not keep the catalog from being tidied, nor a rebuild of minutes the points from being
        deleted.
        """

        def take_back(_subject: Subject, budget: Budget) -> int:
            # A call whose tidying up failed left them; those that a dead process left are gone since the start.
            leftovers = self.recovery.leftovers(lambda: self.documents.under_way)
            for pending in leftovers:
                budget.check()
                self.documents.abandon(pending)
            if leftovers:
                _log.warning("took back generations that nobody writes any more", generations=len(leftovers))
            return len(leftovers)

        of_catalog = [
            Job("unfinished", take_back, every_s=_TIDY_EVERY_S),
            Job(
                "retention",
                lambda subject, budget: self.expired.sweep(subject.key, budget),
                lambda: [Subject(each.uid, each.tenant, each.name) for each in self.expired.collections()],
                every_s=_TIDY_EVERY_S,
            ),
            Job("requests", lambda _s, _b: self.ledger.sweep() + self.deletions.sweep(), every_s=_FORGET_EVERY_S),
            Job("uploads", lambda _subject, _budget: self.uploads.sweep(), every_s=_FORGET_EVERY_S),
            Job("record_accesses", lambda _s, _b: self.accesses.flush(), every_s=_COUNT_EVERY_S),
            Job("vectors", lambda _s, _b: self.cache.sweep(self.identity_digest), every_s=_FORGET_EVERY_S),
        ]
        of_engine = [
            Job(OUTBOX, self.tasks.do_waiting, self.tasks.subjects),
            Job(REPEATED_CHUNKS, self.repeated.index_orphans, self.repeated.subjects),
        ]
        rewriting = [
            Job("rebuild", self.stale.rebuild, self.stale.subjects, timeout_s=_REWRITE_S),
            self.completer.job(),
            Job("words", self.words.renew, lambda: list(self.words.waiting.values()), timeout_s=_REWRITE_S),
        ]
        recovery = self.index_recovery
        recovering = Job("recovery", recovery.recover, recovery.subjects, every_s=_LOOK_EVERY_S, timeout_s=_REWRITE_S)
        return [of_catalog, of_engine, rewriting, [recovering]]
