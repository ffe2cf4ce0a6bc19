"""The long work, put together from its parts."""

from collections.abc import Callable
from dataclasses import dataclass

from groundwire.catalog.chunks import Chunks
from groundwire.catalog.collections import Collections
from groundwire.catalog.database import Database
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import Recovery
from groundwire.catalog.index_builds import IndexBuilds
from groundwire.catalog.inspection import BookkeepingInspection, Integrity, TextInspection
from groundwire.catalog.lexical_check import LexicalCheck
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.build_index import BuildIndex
from groundwire.ingest.check_catalog import CheckCatalog
from groundwire.ingest.check_collection import CheckCollection
from groundwire.ingest.check_points import CheckPoints
from groundwire.ingest.check_search import CheckSearch
from groundwire.ingest.check_store import CheckStore
from groundwire.ingest.embed_chunks import EmbedChunks
from groundwire.ingest.embed_missing import EmbedMissing
from groundwire.ingest.purge_documents import PurgeDocuments
from groundwire.ingest.reembed_collection import ReembedCollection
from groundwire.ingest.reindex_collection import ReindexCollection
from groundwire.ingest.shared_runs import SharedRuns
from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import Clock
from groundwire.kernel.vector_store import VectorStore


@dataclass(frozen=True, slots=True)
class Operations:
    """Long work; `runs` are those on stores that are going on."""

    reindex: ReindexCollection
    reembed: ReembedCollection
    check: CheckStore
    purge: PurgeDocuments
    runs: SharedRuns


@dataclass(frozen=True, slots=True)
class OperationParts:
    """What long work is made of; `sweep` does what the outbox lists, `nudge` lets it be done soon."""

    catalog: Database
    documents: Documents
    vectors: VectorStore
    embed_chunks: EmbedChunks
    check_points: CheckPoints
    sweep: Callable[[Budget], int]
    nudge: Callable[[], None]
    clock: Clock

    def assemble(self) -> Operations:
        """Return the use cases."""
        collections, runs = Collections(self.catalog, self.clock), SharedRuns()
        cache = VectorCache(self.catalog, self.clock)
        identity = self.embed_chunks.embedder.identity
        embed_missing = EmbedMissing(cache, self.embed_chunks)
        builds = IndexBuilds(self.catalog, self.clock)
        build = BuildIndex(builds, cache, LexicalCheck(self.catalog), self.vectors, self.nudge)
        return Operations(
            reindex=ReindexCollection(collections, self.vectors, build, runs),
            reembed=ReembedCollection(collections, self.vectors, embed_missing, build, runs, identity),
            check=CheckStore(collections, self._check_catalog(), self._check_collection(collections, build), runs),
            purge=PurgeDocuments(collections, self.documents, Chunks(self.catalog), self.nudge),
            runs=runs,
        )

    def _check_catalog(self) -> CheckCatalog:
        return CheckCatalog(
            integrity=Integrity(self.catalog),
            full_text=LexicalCheck(self.catalog),
            bookkeeping=BookkeepingInspection(self.catalog),
            recovery=Recovery(self.catalog),
            documents=self.documents,
            sweep=self.sweep,
        )

    def _check_collection(self, collections: Collections, build_index: BuildIndex) -> CheckCollection:
        search = CheckSearch(self.check_points.inspection, self.vectors)
        return CheckCollection(
            collections, TextInspection(self.catalog), self.check_points, search, build_index, self.vectors
        )
