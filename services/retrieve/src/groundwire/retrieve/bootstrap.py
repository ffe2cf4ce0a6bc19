"""Composition root of the retrieve service."""

from dataclasses import dataclass

from groundwire.catalog.chunks import Chunks
from groundwire.catalog.collections import Collections
from groundwire.catalog.database import Database
from groundwire.catalog.full_text import FullText
from groundwire.kernel.clock import Clock, SystemClock
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.vector_store import VectorStore
from groundwire.retrieve.find_candidates import FindCandidates
from groundwire.retrieve.rank_candidates import RankCandidates
from groundwire.retrieve.search_chunks import SearchChunks, SearchTuning
from groundwire.retrieve.servicer import RetrieveServicer
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.retrieve.wire.requests import RequestLimits
from groundwire.rpc.workers import Workers


@dataclass(frozen=True, slots=True)
class RetrieveService:
    """The running service. It owns nothing: whoever built it closes catalog, engine, embedder and workers."""

    servicer: RetrieveServicer
    search_chunks: SearchChunks

    def start(self) -> None:
        """Begin to work; there is nothing to begin."""

    def close(self) -> None:
        """Stop working; there is nothing to stop."""


def build(
    *,
    catalog: Database,
    vectors: VectorStore,
    embedder: Embedder,
    settings: RetrieveSettings,
    workers: Workers,
    clock: Clock | None = None,
) -> RetrieveService:
    """Wire the service; `vectors` and `embedder` are shared with whoever else uses them."""
    chunks, full_text, time = Chunks(catalog), FullText(catalog), clock or SystemClock()
    search_chunks = SearchChunks(
        collections=Collections(catalog),
        chunks=chunks,
        full_text=full_text,
        rank_candidates=RankCandidates(FindCandidates(chunks, full_text, vectors), settings.pool_size),
        embedder=embedder,
        clock=time,
        tuning=SearchTuning(settings.max_terms, settings.max_term_share, settings.dense_weight),
    )
    limits = RequestLimits(settings.max_query_chars, settings.max_top_k)
    servicer = RetrieveServicer(  # type: ignore[abstract]  # calls it does not define answer UNIMPLEMENTED
        search_chunks, limits, workers, time
    )
    return RetrieveService(servicer, search_chunks)
