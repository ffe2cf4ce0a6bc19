"""Embed a collection with this server's model and move over to the new vectors."""

from dataclasses import dataclass, replace

from groundwire.catalog.collections import Collections
from groundwire.ingest.build_index import BuildIndex
from groundwire.ingest.domain.ingesting import Progress, Report, Stage
from groundwire.ingest.domain.operating import IndexBuilt
from groundwire.ingest.embed_missing import EmbedMissing
from groundwire.ingest.shared_runs import SharedRuns
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.vector_store import VectorStore


@dataclass(frozen=True, slots=True)
class ReembedCollection:
    """Embeds all that has or may come to need a vector, then builds an index beside the serving one.

    `identity` is that of the server's embedder. A run that was interrupted goes on with the
    vectors it had made.
    """

    collections: Collections
    vectors: VectorStore
    embed_missing: EmbedMissing
    build_index: BuildIndex
    runs: SharedRuns
    identity: EmbeddingIdentity

    def __call__(self, tenant: str, name: str, budget: Budget, report: Report) -> IndexBuilt:
        """Return what the new index holds; a run for the same collection that is going on is joined.

        Raises:
            CollectionNotFoundError: no such collection.
            ConflictError: the collection is being reindexed.
            UnavailableError: the model does not answer; what it has made is kept.
            CallCancelledError: the collection is as it was; the vectors made so far are kept.
        """
        collection = self.collections.get(tenant, name)

        def work(own: Budget, tell: Report) -> IndexBuilt:
            return self._embed(collection, own, tell)

        return self.runs(collection.uid, "reembed", work, budget, report)

    def _embed(self, collection: Collection, budget: Budget, report: Report) -> IndexBuilt:
        target = replace(collection, identity=self.identity)
        embedded = self.embed_missing(
            target, budget, lambda done, total: report(Progress(Stage.EMBEDDING, done, total))
        )
        built = self.build_index(collection, self.identity, budget, report)
        return IndexBuilt(self.vectors.count(built.engine_name, budget), embedded, built.identity)
