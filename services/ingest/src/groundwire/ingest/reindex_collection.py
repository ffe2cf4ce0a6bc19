"""Build the indexes of a collection anew from the catalog, embedding nothing."""

from dataclasses import dataclass

from groundwire.catalog.collections import Collections
from groundwire.ingest.build_index import BuildIndex
from groundwire.ingest.domain.ingesting import Report
from groundwire.ingest.domain.operating import IndexBuilt
from groundwire.ingest.shared_runs import SharedRuns
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.vector_store import VectorStore


@dataclass(frozen=True, slots=True)
class ReindexCollection:
    """Rebuilds; the old indexes serve until the new ones are complete."""

    collections: Collections
    vectors: VectorStore
    build_index: BuildIndex
    runs: SharedRuns

    def __call__(self, tenant: str, name: str, budget: Budget, report: Report) -> IndexBuilt:
        """Return what the new index holds; a run for the same collection that is going on is joined.

        Raises:
            CollectionNotFoundError: no such collection.
            ConflictError: the collection is being embedded anew.
            DataLossError: a chunk has no vector in the catalog; embed the collection anew.
            CallCancelledError: nothing has changed.
        """
        collection = self.collections.get(tenant, name)

        def work(own: Budget, tell: Report) -> IndexBuilt:
            return self._rebuild(collection, own, tell)

        return self.runs(collection.uid, "reindex", work, budget, report)

    def _rebuild(self, collection: Collection, budget: Budget, report: Report) -> IndexBuilt:
        built = self.build_index(collection, collection.identity, budget, report)
        return IndexBuilt(self.vectors.count(built.engine_name, budget), 0, built.identity)
