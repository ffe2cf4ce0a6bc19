"""Compare the stores with the catalog, both ways, and repair them if told to."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeAlias

from groundwire.catalog.collections import Collections
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import Recovery
from groundwire.catalog.inspection import BookkeepingInspection, Integrity, TextInspection
from groundwire.catalog.lexical_check import LexicalCheck
from groundwire.ingest.index_builds import IndexBuilder
from groundwire.ingest.ingesting import Progress, Stage
from groundwire.ingest.point_check import AnswerCheck, PointCheck, Tell
from groundwire.ingest.shared_runs import SharedRuns
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    ConflictError,
    DataLossError,
    StoreMismatchError,
    StoreUnavailableError,
    UnavailableError,
)
from groundwire.kernel.store_findings import FindingKind, StoreFinding
from groundwire.kernel.vector_store import Recoverable, VectorStore

_NAMES_PER_PAGE = 500
_ATTEMPTS = 5
_LOOK_EVERY_S = 0.1
_OUR_NAME = re.compile(r"gw-[0-9a-f]{32}")


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What a check found in all; `checked` chunks were compared."""

    checked: int
    findings: int
    repaired: int


CheckEvent: TypeAlias = Progress | StoreFinding
CheckReport: TypeAlias = Callable[[CheckEvent], None]
"""Hears how far a check is, and what it finds."""


@dataclass(frozen=True, slots=True)
class CatalogCheck:
    """Checks the file, its tables, the full-text index, what was left unfinished, and the bookkeeping.

    Each check yields what it found; what can be repaired from the catalog itself is, if told to.
    """

    integrity: Integrity
    full_text: LexicalCheck
    bookkeeping: BookkeepingInspection
    recovery: Recovery
    documents: Documents
    sweep: Callable[[Budget], int]

    def tables(self, tenant: str, names: Sequence[str], budget: Budget, *, repair: bool) -> Iterator[StoreFinding]:
        """Yield contradictions between tables that concern these collections, and what differs in their indexes."""
        yield from (finding for finding in self.integrity.tables(budget) if finding.collection in {*names, ""})
        for name in names:
            damaged = list(self.full_text.problems(budget, tenant, [name]))
            if damaged and repair:
                self.full_text.rebuild(tenant, name, budget)
                is_left = any(self.full_text.problems(budget, tenant, [name]))
                damaged = [replace(finding, repaired=not is_left) for finding in damaged]
            yield from damaged

    def unfinished(self, tenant: str, names: Sequence[str], *, repair: bool) -> Iterator[StoreFinding]:
        """Yield generations that nobody is writing any more."""
        for pending in self.recovery.leftovers(lambda: self.documents.under_way):
            if pending.collection.tenant != tenant or pending.collection.name not in names:
                continue
            if repair:
                self.documents.abandon(pending)
            message = f"generation {pending.generation} was left unfinished"
            yield StoreFinding(
                FindingKind.GENERATION_UNFINISHED,
                pending.collection.name,
                pending.document_id,
                message,
                repaired=repair,
            )

    def whole(self, tenant: str, budget: Budget, *, repair: bool) -> Iterator[StoreFinding]:
        """Yield what concerns no single collection: the file, overdue tasks, requests, sessions, the audit record."""
        yield from self.integrity.file(budget)
        overdue = list(self.bookkeeping.overdue(tenant))
        if repair and overdue:
            with suppress(UnavailableError, DataLossError):  # the tasks stay, and are told as not repaired
                self.sweep(budget)
            left = {finding.message for finding in self.bookkeeping.overdue(tenant)}
            overdue = [replace(finding, repaired=finding.message not in left) for finding in overdue]
        yield from overdue
        yield from self.bookkeeping.repeated_requests(tenant)
        yield from self.bookkeeping.incomplete_sessions(tenant)
        yield from self.bookkeeping.broken_audit(tenant, budget)


@dataclass(frozen=True, slots=True)
class EngineCheck:
    """Checks one collection: its texts, its points in the engine, and what the engine answers.

    Begins anew when another index takes over meanwhile.
    """

    collections: Collections
    texts: TextInspection
    points: PointCheck
    answers: AnswerCheck
    builder: IndexBuilder
    vectors: VectorStore

    def check(self, tenant: str, name: str, budget: Budget, tell: Tell, *, repair: bool) -> Iterator[int]:
        """Yield the number of chunks compared so far; ends early when the collection is deleted meanwhile."""
        key = 0
        while (found := self.texts.next_generation(tenant, name, key)) is not None:
            budget.check()
            key = found
            for finding in self.texts.problems(name, key):
                tell(finding)
        for attempt in range(_ATTEMPTS):
            collection = self._find(tenant, name)
            if collection is None:
                return
            try:
                yield from self._check_index(collection, budget, tell, repair=repair)
            except CollectionNotFoundError:
                if attempt + 1 == _ATTEMPTS:
                    raise
            except StoreUnavailableError:
                if attempt + 1 == _ATTEMPTS or not self._is_damaged(collection):
                    raise
                tell(self._recovered(collection, budget))
            else:
                return

    def _check_index(self, collection: Collection, budget: Budget, tell: Tell, *, repair: bool) -> Iterator[int]:
        lost = self._lost(collection, budget)
        if lost is not None:
            if repair:
                self._rebuild(collection, budget)
            tell(replace(lost, repaired=repair))
            if not repair:
                return
            collection = self.collections.get(collection.tenant, collection.name)
        unrepaired = 0

        def tell_and_count(finding: StoreFinding) -> None:
            nonlocal unrepaired
            unrepaired += not finding.repaired
            tell(finding)

        yield from self.points.check(collection, budget, tell_and_count, repair=repair)
        if unrepaired:
            return  # wrong points explain wrong answers
        wrong = self.answers.check(collection, budget)
        if wrong and repair:
            self._rebuild(collection, budget)
        for finding in wrong:
            tell(replace(finding, repaired=repair))

    def _is_damaged(self, collection: Collection) -> bool:
        return isinstance(self.vectors, Recoverable) and collection.engine_name in self.vectors.unverified()

    def _recovered(self, collection: Collection, budget: Budget) -> StoreFinding:
        """Wait until a collection with damaged files has been filled again, which the server does by itself.

        Raises:
            DeadlineError: that takes longer than the check may.
        """
        while self._is_damaged(collection):
            budget.check()
            time.sleep(_LOOK_EVERY_S)
        name = collection.engine_name
        message = "files of the index were damaged; it was filled again from the catalog"
        return StoreFinding(FindingKind.VECTOR_MISSING, collection.name, name, message, repaired=True)

    def _lost(self, collection: Collection, budget: Budget) -> StoreFinding | None:
        """Return that the engine has no collection for the chunks, or one of another kind; make it when it is empty."""
        name = collection.engine_name
        chunks = self.collections.counts(collection.tenant, collection.name).chunks
        is_missing = name not in self.vectors.collections(budget)
        if is_missing and chunks and self._find(collection.tenant, collection.name) == collection:
            message = f"the engine has no collection {name}: the vectors of {chunks} chunks are missing"
            return StoreFinding(FindingKind.VECTOR_MISSING, collection.name, name, message)
        try:
            self.vectors.create_collection(name, collection.identity.dimensions, budget)
        except StoreMismatchError as error:
            return StoreFinding(FindingKind.VECTOR_DIFFERS, collection.name, name, error.message)
        return None

    def _rebuild(self, collection: Collection, budget: Budget) -> None:
        with suppress(ConflictError):  # another build was faster
            self.builder.build(collection, collection.identity, budget, lambda _: None)

    def _find(self, tenant: str, name: str) -> Collection | None:
        try:
            return self.collections.get(tenant, name)
        except CollectionNotFoundError:
            return None

    def strays(self, budget: Budget, *, repair: bool) -> Iterator[StoreFinding]:
        """Yield the engine collections that nothing in the catalog knows, of any tenant; remove them if told to.

        Those on a server are never removed: another installation may use them.
        """
        strays = [name for name in self.vectors.collections(budget) if _OUR_NAME.fullmatch(name)]
        # The engine first: what is made or moved meanwhile is in the catalog before it is in the engine.
        known = self.points.inspection.engine_collections()
        is_ours = isinstance(self.vectors, Recoverable)
        for name in sorted(set(strays).difference(known)):
            if repair and is_ours:
                self.vectors.drop_collection(name, budget)
            message = "the engine has a collection that belongs to nothing in the catalog"
            yield StoreFinding(FindingKind.VECTOR_ORPHANED, "", name, message, repaired=repair and is_ours)


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """Works while everything else goes on, in batches."""

    collections: Collections
    catalog: CatalogCheck
    engine: EngineCheck
    runs: SharedRuns

    def check(self, tenant: str, name: str, budget: Budget, report: CheckReport, *, repair: bool) -> StoreReport:
        """Check one collection, or with an empty name all of the tenant and what they share.

        A check of the same kind that is going on is joined. Repairs only ever make derived data equal to the catalog.

        Raises:
            CollectionNotFoundError: no such collection.
            StoreUnavailableError: the vector store does not answer.
        """
        if name:
            self.collections.get(tenant, name)

        def work(own: Budget, tell: CheckReport) -> StoreReport:
            return self._check(tenant, name, own, tell, repair=repair)

        return self.runs(("check", tenant, name, repair), "check", work, budget, report)

    def _check(self, tenant: str, name: str, budget: Budget, report: CheckReport, *, repair: bool) -> StoreReport:
        findings: list[bool] = []

        def tell(finding: StoreFinding) -> None:
            findings.append(finding.repaired)
            report(finding)

        names = [name] if name else self._names(tenant)
        total = sum(self.collections.counts(tenant, each).chunks for each in names)
        report(Progress(Stage.CHECKING, 0, total))
        for finding in self.catalog.tables(tenant, names, budget, repair=repair):
            tell(finding)
        for finding in self.catalog.unfinished(tenant, names, repair=repair):
            tell(finding)
        checked = 0
        for each in names:
            done = 0
            for done in self.engine.check(tenant, each, budget, tell, repair=repair):
                report(Progress(Stage.CHECKING, checked + done, max(total, checked + done)))
            checked += done
        if not name:
            for finding in self.catalog.whole(tenant, budget, repair=repair):
                tell(finding)
            for finding in self.engine.strays(budget, repair=repair):
                tell(finding)
        return StoreReport(checked, len(findings), sum(findings))

    def _names(self, tenant: str) -> list[str]:
        names: list[str] = []
        while page := self.collections.page(tenant, names[-1] if names else "", _NAMES_PER_PAGE):
            names += [collection.name for collection in page]
        return names
