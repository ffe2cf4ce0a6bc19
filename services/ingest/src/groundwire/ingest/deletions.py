"""Delete what a filter matches, clean up the stores after deletions, and complete the receipts."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog

from groundwire.catalog.catalog import Catalog
from groundwire.catalog.deletions import Deleted, Deletion
from groundwire.catalog.operations import Operation
from groundwire.ingest.engine_upkeep import EngineUpkeep
from groundwire.ingest.housekeeping import Job, Subject
from groundwire.ingest.ingesting import Progress, Report, Stage
from groundwire.kernel.budget import Budget
from groundwire.kernel.document import Document
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    DataLossError,
    DocumentChangedError,
    DocumentNotFoundError,
    GroundwireError,
)
from groundwire.kernel.filter_parsing import resolve_filter
from groundwire.kernel.filters import FieldKind, Filter, leaves
from groundwire.kernel.vector_store import Scrubbable, VectorStore

# Bounds the vectors in memory, which the engine returns with the numbers.
_POINTS_PER_LOOK = 1000
_LOOK_EVERY_S = 1.0
# Longer than it takes to rewrite millions of points.
_SCRUB_S = 6 * 3600.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DeletionCompleter:
    """Receipts of deletions are hidden at first, and complete once every store is known to be clean.

    A call completes its own receipt if that takes less than about a second. The others are left to a job, which
    rewrites the files of an engine collection once for all deletions that are waiting: when there has been none for
    `quiet_s` seconds, or when the first of them is `within_s` seconds old.
    """

    catalog: Catalog
    engine: EngineUpkeep
    vectors: VectorStore
    quiet_s: float
    within_s: float

    def complete(self, deleted: Deleted, budget: Budget) -> Deletion:
        """Return the receipt once the engine has done its tasks, everything was searched and no file holds the texts.

        A failure is not the call's: what was deleted is invisible, and housekeeping completes the receipt.
        """
        tenant, deletion = deleted.traces.tenant, deleted.deletion
        # Until the engine has done its tasks a search for leftovers would find them.
        if not self.engine.finish(deleted.tasks, budget):
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

    def job(self) -> Job:
        """Return the job that completes unfinished deletions; searches and writes continue meanwhile."""
        return Job(
            "deletions",
            self._complete_waiting,
            # While deletions keep coming, one rewrite later serves all of them; but none waits longer than `within_s`.
            lambda: [
                Subject(each.engine_name, each.tenant, each.collection)
                for each in self.catalog.deletions.ready()
                if each.last_age_ms >= self.quiet_s * 1000 or each.first_age_ms >= self.within_s * 1000
            ],
            every_s=_LOOK_EVERY_S,
            timeout_s=_SCRUB_S,
        )

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


SAMPLE = 100
"""Documents that a count names."""
# Others change documents meanwhile, so few are read ahead of their deletion.
_DOCUMENTS_PER_READ = 100


@dataclass(frozen=True, slots=True)
class DocumentPurge:
    """Deletes one document after the other, each in a transaction that also counts it, so that it can stop any time.

    A filter of None is for all documents. Those that came after the operation began stay.

    What the engine has of them is removed as after every deletion, by housekeeping.
    """

    catalog: Catalog
    after_delete: Callable[[], None]

    def check(self, tenant: str, collection: str, where: Filter | None) -> None:
        """Return if a purge like this can begin.

        Raises:
            InvalidFilterError: the filter does not fit the fields of the collection.
        """
        self.catalog.collections.get(tenant, collection)
        if where is not None:
            resolve_filter(where, self.catalog.chunks.fields(tenant, collection))

    def count(self, operation: Operation, where: Filter | None) -> tuple[int, list[str]]:
        """Return how many documents match, and the sources of the first `SAMPLE`, without deleting anything."""
        where = self._resolved(operation, where)
        page = self._page(operation, where, None, SAMPLE)
        return self._count(operation, where), [document.source_uri for document in page]

    def delete(self, operation: Operation, where: Filter | None, budget: Budget, report: Report) -> int:
        """Delete what matches and was there when the operation began.

        Return how much that was, with the records that quoted it and what an earlier process has done of it.

        Raises:
            CallCancelledError: the rest is left.
        """
        where, done = self._resolved(operation, where), operation.done_count
        total = done + self._count(operation, where)
        report(Progress(Stage.DELETING, done, total))
        found_changed = True
        while found_changed:
            found_changed, after = False, None
            while page := self._page(operation, where, after, _DOCUMENTS_PER_READ):
                after = page[-1].source_uri, page[-1].document_id
                for document in page:
                    budget.check()
                    try:
                        deleted = self.catalog.documents.delete(
                            operation.tenant,
                            operation.collection,
                            document.document_id,
                            etag=document.etag,
                            where=where,
                            operation_id=operation.operation_id,
                        )
                        self.after_delete()
                    except DocumentNotFoundError:
                        continue  # somebody else has deleted it
                    except DocumentChangedError:
                        found_changed = True  # it may not match any more: look again
                        continue
                    done += deleted.deletion.documents
                    report(Progress(Stage.DELETING, done, max(done, total)))
        return done

    def _count(self, operation: Operation, where: Filter | None) -> int:
        return self.catalog.documents.count(operation.tenant, operation.collection, where, operation.create_time)

    def _page(
        self, operation: Operation, where: Filter | None, after: tuple[str, str] | None, limit: int
    ) -> list[Document]:
        return self.catalog.documents.page(
            operation.tenant,
            operation.collection,
            after,
            limit,
            where=where,
            include_hidden=True,
            ingested_by=operation.create_time,
        )

    def _resolved(self, operation: Operation, where: Filter | None) -> Filter | None:
        """Return the filter for the fields of the collection as they are now.

        A metadata key may have gone with the documents that are deleted already; nothing has it then, of whatever kind.
        """
        if where is None:
            return None
        gone = {
            leaf.field: FieldKind.TEXT if isinstance(getattr(leaf, "value", None), str) else FieldKind.NUMBER
            for leaf in leaves(where)
        }
        return resolve_filter(where, gone | self.catalog.chunks.fields(operation.tenant, operation.collection))
