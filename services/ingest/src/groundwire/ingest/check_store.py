"""Compare the stores with the catalog, both ways, and repair them if told to."""

from dataclasses import dataclass

from groundwire.catalog.collections import Collections
from groundwire.ingest.check_catalog import CheckCatalog
from groundwire.ingest.check_collection import CheckCollection
from groundwire.ingest.domain.ingesting import Progress, Stage
from groundwire.ingest.domain.operating import CheckReport, StoreReport
from groundwire.ingest.shared_runs import SharedRuns
from groundwire.kernel.budget import Budget
from groundwire.kernel.store_findings import StoreFinding

_NAMES_PER_PAGE = 500


@dataclass(frozen=True, slots=True)
class CheckStore:
    """Works while everything else goes on, in batches."""

    collections: Collections
    check_catalog: CheckCatalog
    check_collection: CheckCollection
    runs: SharedRuns

    def __call__(self, tenant: str, name: str, budget: Budget, report: CheckReport, *, repair: bool) -> StoreReport:
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
        for finding in self.check_catalog.tables(tenant, names, budget, repair=repair):
            tell(finding)
        for finding in self.check_catalog.unfinished(tenant, names, repair=repair):
            tell(finding)
        checked = 0
        for each in names:
            done = 0
            for done in self.check_collection(tenant, each, budget, tell, repair=repair):
                report(Progress(Stage.CHECKING, checked + done, max(total, checked + done)))
            checked += done
        if not name:
            for finding in self.check_catalog.whole(tenant, budget, repair=repair):
                tell(finding)
            for finding in self.check_collection.strays(budget, repair=repair):
                tell(finding)
        return StoreReport(checked, len(findings), sum(findings))

    def _names(self, tenant: str) -> list[str]:
        names: list[str] = []
        while page := self.collections.page(tenant, names[-1] if names else "", _NAMES_PER_PAGE):
            names += [collection.name for collection in page]
        return names
