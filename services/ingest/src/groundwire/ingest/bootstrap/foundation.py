"""What the use cases of ingest stand on: the engines that were handed in, and the aggregates of the catalog."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from groundwire.catalog.chunks import Chunks
from groundwire.catalog.collections import Collections
from groundwire.catalog.database import Database
from groundwire.catalog.deletions import Deletions, Leftovers
from groundwire.catalog.documents import Documents
from groundwire.catalog.duplicate_chunks import DuplicateChunks
from groundwire.catalog.generations import Recovery
from groundwire.catalog.idempotency import Ledger
from groundwire.catalog.index_builds import IndexBuilds
from groundwire.catalog.inspection import PointInspection
from groundwire.catalog.outbox import Outbox
from groundwire.catalog.texts import Sources, Texts
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.apply_outbox import ApplyOutbox
from groundwire.ingest.check_points import CheckPoints
from groundwire.ingest.complete_deletion import CompleteDeletion
from groundwire.ingest.embed_chunks import EmbedChunks
from groundwire.ingest.embed_missing import EmbedMissing
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.remember_request import RememberRequest
from groundwire.ingest.settings import IngestSettings
from groundwire.kernel.clock import Clock
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.vector_store import VectorStore


@dataclass(frozen=True)
class Foundation:
    """One of each; whatever is made of it is made at its first use."""

    catalog: Database
    vectors: VectorStore
    embedder: Embedder
    settings: IngestSettings
    clock: Clock

    @property
    def folder(self) -> Path:
        """Return the data folder."""
        return self.catalog.path.resolve().parent

    @cached_property
    def collections(self) -> Collections:
        """Return the collections."""
        return Collections(self.catalog, self.clock)

    @cached_property
    def documents(self) -> Documents:
        """Return the documents; one object knows which generations are being written."""
        return Documents(self.catalog, self.clock)

    @cached_property
    def chunks(self) -> Chunks:
        """Return the chunks."""
        return Chunks(self.catalog)

    @cached_property
    def texts(self) -> Texts:
        """Return the texts."""
        return Texts(self.catalog)

    @cached_property
    def sources(self) -> Sources:
        """Return the sources."""
        return Sources(self.catalog)

    @cached_property
    def duplicates(self) -> DuplicateChunks:
        """Return the repeated chunks."""
        return DuplicateChunks(self.catalog)

    @cached_property
    def cache(self) -> VectorCache:
        """Return the stored vectors."""
        return VectorCache(self.catalog, self.clock)

    @cached_property
    def ledger(self) -> Ledger:
        """Return the answers of finished requests."""
        return Ledger(self.catalog)

    @cached_property
    def outbox(self) -> Outbox:
        """Return the tasks of the vector store."""
        return Outbox(self.catalog)

    @cached_property
    def recovery(self) -> Recovery:
        """Return what finds unfinished generations."""
        return Recovery(self.catalog)

    @cached_property
    def builds(self) -> IndexBuilds:
        """Return the builds of indexes."""
        return IndexBuilds(self.catalog, self.clock)

    @cached_property
    def remember(self) -> RememberRequest:
        """Return what gives repeated calls the answer of the first one."""
        return RememberRequest(self.ledger)

    @cached_property
    def embed_chunks(self) -> EmbedChunks:
        """Return what makes vectors of chunks."""
        return EmbedChunks(self.cache, self.embedder, self.settings.embed_batch_tokens)

    @cached_property
    def apply_outbox(self) -> ApplyOutbox:
        """Return what does the tasks of the vector store; its locks are those of all who write filter keys."""
        return ApplyOutbox(self.collections, self.outbox, self.cache, self.vectors, KeyedLocks())

    @cached_property
    def deletions(self) -> Deletions:
        """Return the deletions."""
        return Deletions(self.catalog)

    @cached_property
    def complete_deletion(self) -> CompleteDeletion:
        """Return what completes receipts of deletions."""
        return CompleteDeletion(
            self.apply_outbox,
            self.deletions,
            Leftovers(self.catalog),
            self.vectors,
            self.clock,
            quiet_s=self.settings.scrub_after_quiet_s,
            within_s=self.settings.scrub_within_s,
        )

    @cached_property
    def check_points(self) -> CheckPoints:
        """Return what compares the points of a collection with the catalog."""
        return CheckPoints(
            inspection=PointInspection(self.catalog),
            cache=self.cache,
            vectors=self.vectors,
            embed_missing=EmbedMissing(self.cache, self.embed_chunks),
            identity=self.embedder.identity,
            engines=self.apply_outbox.engines,
        )
