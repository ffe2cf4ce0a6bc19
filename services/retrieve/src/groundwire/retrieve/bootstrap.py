"""Composition root of the retrieve service."""

from dataclasses import dataclass
from datetime import timedelta

from groundwire.catalog.chunks import Chunks
from groundwire.catalog.collections import Collections
from groundwire.catalog.database import Database
from groundwire.catalog.full_text import FullText
from groundwire.catalog.query_logs import QueryLogs
from groundwire.kernel.clock import Clock, SystemClock
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.vector_store import VectorStore
from groundwire.retrieve.domain.pipeline import Pipeline
from groundwire.retrieve.find_candidates import FindCandidates
from groundwire.retrieve.list_query_logs import ListQueryLogs
from groundwire.retrieve.query_recorder import QueryRecorder
from groundwire.retrieve.rank_candidates import RankCandidates
from groundwire.retrieve.record_search import RecordSearch
from groundwire.retrieve.retrieve_chunks import RetrieveChunks
from groundwire.retrieve.search_chunks import SearchChunks, SearchTuning
from groundwire.retrieve.servicer import RetrieveServicer
from groundwire.retrieve.servicer.log_calls import LogCalls
from groundwire.retrieve.servicer.search_calls import SearchCalls
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.retrieve.wire.requests import RequestLimits
from groundwire.rpc.pagination import PageTokens, load_key
from groundwire.rpc.workers import Workers
from groundwire.vectorstores.engine_names import engine_name

PAGE_TOKEN_KEY_FILE = "page-token.key"  # noqa: S105 - the name of a file


@dataclass(frozen=True, slots=True)
class RetrieveService:
    """The running service. Whoever built it closes catalog, engine, embedder and workers."""

    servicer: RetrieveServicer
    search_chunks: SearchChunks
    recorder: QueryRecorder

    def start(self) -> None:
        """Begin to write the query log."""
        self.recorder.start()

    def close(self) -> None:
        """Write the rest of the query log."""
        self.recorder.close()


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
    time = clock or SystemClock()
    search_chunks = _search_chunks(catalog, vectors, embedder, settings, time)
    collections, logs, pipeline = Collections(catalog), QueryLogs(catalog), Pipeline()
    recorder = QueryRecorder(logs, time, timedelta(days=settings.query_log_days))
    search_calls = SearchCalls(
        RetrieveChunks(search_chunks),
        RecordSearch(collections, recorder, pipeline, settings.query_log),
        embedder,
        RequestLimits(settings.max_query_chars, settings.max_top_k),
        time,
    )
    log_calls = LogCalls(
        ListQueryLogs(logs, recorder),
        pipeline,
        collections,
        PageTokens(load_key(catalog.path.resolve().parent / PAGE_TOKEN_KEY_FILE)),
        engine_name(vectors),
        time.now(),
        time,
    )
    servicer = RetrieveServicer(search_calls, log_calls, workers)  # type: ignore[abstract]  # other calls answer UNIMPLEMENTED
    return RetrieveService(servicer, search_chunks, recorder)


def _search_chunks(
    catalog: Database, vectors: VectorStore, embedder: Embedder, settings: RetrieveSettings, clock: Clock
) -> SearchChunks:
    chunks, full_text = Chunks(catalog), FullText(catalog)
    return SearchChunks(
        collections=Collections(catalog),
        chunks=chunks,
        full_text=full_text,
        rank_candidates=RankCandidates(FindCandidates(chunks, full_text, vectors), settings.pool_size),
        embedder=embedder,
        clock=clock,
        tuning=SearchTuning(settings.max_terms, settings.max_term_share, settings.dense_weight),
        approved_prefixes=settings.approved_source_prefixes,
    )
