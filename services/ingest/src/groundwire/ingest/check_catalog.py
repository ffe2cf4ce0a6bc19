"""Check the catalog: the file, its tables, the full-text index, what was left unfinished, and the bookkeeping."""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import Recovery
from groundwire.catalog.inspection import BookkeepingInspection, Integrity
from groundwire.catalog.lexical_check import LexicalCheck
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import DataLossError, UnavailableError
from groundwire.kernel.store_findings import FindingKind, StoreFinding


@dataclass(frozen=True, slots=True)
class CheckCatalog:
    """Each check returns what it found; what can be repaired from the catalog itself is, if told to."""

    integrity: Integrity
    full_text: LexicalCheck
    bookkeeping: BookkeepingInspection
    recovery: Recovery
    documents: Documents
    sweep: Callable[[Budget], int]

    def tables(self, tenant: str, names: Collection[str], budget: Budget, *, repair: bool) -> Iterator[StoreFinding]:
        """Yield contradictions between tables that concern these collections, and what differs in their indexes."""
        yield from (finding for finding in self.integrity.tables(budget) if finding.collection in {*names, ""})
        for name in names:
            damaged = list(self.full_text.problems(budget, tenant, [name]))
            if damaged and repair:
                self.full_text.rebuild(tenant, name, budget)
                is_left = any(self.full_text.problems(budget, tenant, [name]))
                damaged = [replace(finding, repaired=not is_left) for finding in damaged]
            yield from damaged

    def unfinished(self, tenant: str, names: Collection[str], *, repair: bool) -> Iterator[StoreFinding]:
        """Yield generations that nobody is writing any more."""
        for pending in self.recovery.leftovers(lambda: self.documents.under_way):
            if pending.tenant != tenant or pending.collection.name not in names:
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
        overdue = self.bookkeeping.overdue(tenant)
        yield from self._swept(tenant, overdue, budget) if repair and overdue else overdue
        yield from self.bookkeeping.repeated_requests(tenant)
        yield from self.bookkeeping.incomplete_sessions(tenant)
        yield from self.bookkeeping.broken_audit(tenant, budget)

    def _swept(self, tenant: str, overdue: Iterable[StoreFinding], budget: Budget) -> Iterator[StoreFinding]:
        with suppress(UnavailableError, DataLossError):  # the tasks stay, and are told as not repaired
            self.sweep(budget)
        left = {finding.message for finding in self.bookkeeping.overdue(tenant)}
        yield from (replace(finding, repaired=finding.message not in left) for finding in overdue)
