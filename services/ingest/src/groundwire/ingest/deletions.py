"""Clean the stores up after deletions, look whether anything is left, and complete the receipts."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from groundwire.catalog.deletions import Deleted, Deletion, Deletions
from groundwire.ingest.engine_upkeep import EngineTasks
from groundwire.ingest.housekeeping import Job, Subject
from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import Clock
from groundwire.kernel.errors import CollectionNotFoundError, DataLossError, GroundwireError
from groundwire.kernel.vector_store import Scrubbable, VectorStore

_POINTS_PER_LOOK = 1000
_LOOK_EVERY_S = 1.0
_SCRUB_S = 6 * 3600.0
"""Longer than writing millions of points anew takes."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DeletionCompleter:
    """Receipts of deletions are hidden at first, and complete once every store is known to be clean.

    A call completes its own where that takes less than a second or so. The others are left to a job, which writes the
    files of an engine collection anew once for all deletions that wait for it: when there was none for `quiet_s`
    seconds, or when the first of them is `within_s` seconds old.
    """

    tasks: EngineTasks
    deletions: Deletions
    vectors: VectorStore
    clock: Clock
    quiet_s: float
    within_s: float

    def complete(self, deleted: Deleted, budget: Budget) -> Deletion:
        """Return the receipt after the engine has been told, everything has been searched and no file holds the texts.

        A failure is not the call's: what was deleted is invisible, and housekeeping completes the receipt.
        """
        tenant, deletion = deleted.traces.tenant, deleted.deletion
        if not self.tasks.finish(deleted.tasks, budget):
            return deletion
        try:
            engine_name = self.deletions.engine_of(tenant, deletion.deletion_id)
            if engine_name is None:
                return deletion
            searched = self._complete(engine_name, [deleted], budget, at_any_size=False)
        except GroundwireError as error:
            _log.warning("a deletion is completed later", collection=deleted.traces.collection, error=error.message)
            return deletion
        return searched[0] if searched else deletion

    def job(self) -> Job:
        """Return the job that completes what calls left; searches and writes go on meanwhile."""
        return Job("deletions", self._complete_waiting, self._subjects, every_s=_LOOK_EVERY_S, timeout_s=_SCRUB_S)

    def _subjects(self) -> list[Subject]:
        quiet_ms, within_ms = self.quiet_s * 1000, self.within_s * 1000
        return [
            Subject(each.engine_name, each.tenant, each.collection)
            for each in self.deletions.ready()
            if each.last_age_ms >= quiet_ms or each.first_age_ms >= within_ms
        ]

    def _complete_waiting(self, subject: Subject, budget: Budget) -> int:
        waiting = self.deletions.ready_of_engine(subject.key)
        searched = self._complete(subject.key, waiting, budget, at_any_size=True)
        for each in searched:
            if each.complete_time is None and not each.permanent:
                self.deletions.forget(subject.tenant, each.deletion_id)  # the document was restored
        left = sum(each.complete_time is None and each.permanent for each in searched)
        if left:  # as a failure of the job, so that it is tried again and operators hear of it
            raise DataLossError(f"{left} deletions have left something behind", subject=subject.collection)
        return len(searched)

    def _complete(
        self, engine_name: str, waiting: Sequence[Deleted], budget: Budget, *, at_any_size: bool
    ) -> list[Deletion]:
        """Search for what was deleted, scrub the files once, and note what was found; none if something has to wait."""
        found = [
            self.deletions.left_of(each) | {"vectors": self._points_left(engine_name, each.traces.numbers, budget)}
            for each in waiting
        ]
        # What cannot be completed anyway is no reason to write everything anew.
        if any(each.traces.permanent and not any(left.values()) for each, left in zip(waiting, found, strict=True)):
            if not self.deletions.scrub(budget):
                return []  # a reader of an earlier state keeps the deleted text in the log
            store = self.vectors
            if isinstance(store, Scrubbable) and not store.scrub(engine_name, budget, at_any_size=at_any_size):
                return []
        now = self.clock.now()
        searched = [each.deletion.searched(left, now) for each, left in zip(waiting, found, strict=True)]
        if waiting:
            self.deletions.note(waiting[0].traces.tenant, searched)
        return searched

    def _points_left(self, engine_name: str, numbers: Sequence[int], budget: Budget) -> int:
        left = 0
        for start in range(0, len(numbers), _POINTS_PER_LOOK):
            budget.check()
            try:
                found = self.vectors.fetch(engine_name, numbers[start : start + _POINTS_PER_LOOK], budget)
            except CollectionNotFoundError:
                return 0
            left += len(found.numbers)
        return left
