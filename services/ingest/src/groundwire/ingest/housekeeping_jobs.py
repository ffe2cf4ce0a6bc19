"""The jobs of housekeeping: bring the vector store in line with the catalog, and drop what is no longer needed."""

from dataclasses import dataclass, field

import structlog

from groundwire.catalog.catalog import Catalog
from groundwire.ingest.deletions import DeletionCompleter
from groundwire.ingest.engine_upkeep import (
    REWRITE_S,
    EngineUpkeep,
)
from groundwire.ingest.housekeeping import Job, Subject
from groundwire.ingest.uploads import UploadReceiver
from groundwire.kernel.budget import Budget

_COUNT_EVERY_S = 5.0
_TIDY_EVERY_S = 60.0
_FORGET_EVERY_S = 3600.0
# Bounds the start: a silent engine must not keep it waiting.
_FIND_LOST_S = 30.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """The background jobs. Every step can be repeated, so a crash in the middle of one costs nothing.

    Vectors of the server's own model, `identity_digest`, are kept for every chunk: a collection may be about to move to
    it. `old_words` are the collections whose full-text indexes were written by an earlier version with other rules for
    words. They are rewritten once, in the background; an interrupted rewrite begins again at the next start. Until it
    ends, searches use a partly new index and may miss what the new rules would find.
    """

    catalog: Catalog
    uploads: UploadReceiver
    engine: EngineUpkeep
    completer: DeletionCompleter
    identity_digest: str
    old_words: dict[str, Subject] = field(default_factory=dict)

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
        self.engine.find_lost(Budget(_FIND_LOST_S))
        found = self.catalog.lexical_check.written_by_other_rules()
        self.old_words.update({uid: Subject(uid, tenant, name) for uid, tenant, name in found})
        if not found:
            self.catalog.lexical_check.note_rules()

    def lanes(self) -> list[list[Job]]:
        """Return the jobs that take turns with one another.

        A hung engine must not keep the catalog from being tidied, nor a rebuild of minutes the points from being
        deleted.
        """

        def take_back(_subject: Subject, budget: Budget) -> int:
            # A call whose tidying up failed left them; those that a dead process left are gone since the start.
            leftovers = self.catalog.documents.leftovers()
            for pending in leftovers:
                budget.check()
                self.catalog.documents.abandon(pending)
            if leftovers:
                _log.warning("rolled back generations that no process writes any more", generations=len(leftovers))
            return len(leftovers)

        def renew(subject: Subject, budget: Budget) -> int:
            # Half a second for a thousand chunks.
            self.catalog.lexical_check.rebuild(subject.tenant, subject.collection, budget)
            # Only now, so that a rewrite that fails is tried again.
            del self.old_words[subject.key]
            if not self.old_words:
                self.catalog.lexical_check.note_rules()
                _log.info("rebuilt the full-text indexes of an earlier version")
            return 1

        catalog = self.catalog
        of_catalog = [
            Job("unfinished", take_back, every_s=_TIDY_EVERY_S),
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
            Job("vectors", lambda _s, _b: catalog.embeddings.sweep(self.identity_digest), every_s=_FORGET_EVERY_S),
        ]
        of_engine, rebuild, recovery = self.engine.jobs()
        words = Job("words", renew, lambda: list(self.old_words.values()), timeout_s=REWRITE_S)
        return [of_catalog, of_engine, [rebuild, self.completer.job(), words], [recovery]]
