"""Composition root of the retrieve service."""

from dataclasses import dataclass
from datetime import timedelta

from groundwire.catalog.collections import Collections
from groundwire.catalog.database import Database
from groundwire.catalog.passages import Passages
from groundwire.catalog.query_logs import QueryLogs
from groundwire.catalog.search_view import SearchViews
from groundwire.kernel.clock import Clock, SystemClock
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.vector_store import VectorStore
from groundwire.retrieve.companion import Companion
from groundwire.retrieve.domain.pipeline import Pipeline
from groundwire.retrieve.expand_chunks import ExpandChunks
from groundwire.retrieve.filter_gate import FilterSets
from groundwire.retrieve.list_query_logs import ListQueryLogs
from groundwire.retrieve.plan_search import PlanSearch
from groundwire.retrieve.query_recorder import QueryRecorder
from groundwire.retrieve.rank_candidates import RankCandidates
from groundwire.retrieve.record_search import RecordSearch
from groundwire.retrieve.retrieve_chunks import RetrieveChunks
from groundwire.retrieve.search_chunks import SearchChunks
from groundwire.retrieve.search_words import SearchTuning
from groundwire.retrieve.servicer import RetrieveServicer
from groundwire.retrieve.servicer.expand_calls import ExpandCalls
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
    companion: Companion

    def start(self) -> None:
        """Begin to write the query log."""
        self.recorder.start()

    def close(self) -> None:
        """Write the rest of the query log, and stop the threads."""
        self.recorder.close()
        self.companion.close()


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
    time, companion = clock or SystemClock(), Companion()
    search_chunks = _search_chunks(catalog, vectors, embedder, settings, time, companion)
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
    expand_calls = ExpandCalls(
        ExpandChunks(Passages(catalog), settings.approved_source_prefixes), embedder.tokenizer.name
    )
    servicer = RetrieveServicer(search_calls, expand_calls, log_calls, workers)  # type: ignore[abstract]  # other calls answer UNIMPLEMENTED
    return RetrieveService(servicer, search_chunks, recorder, companion)


def _search_chunks(
    catalog: Database,
    vectors: VectorStore,
    embedder: Embedder,
    settings: RetrieveSettings,
    clock: Clock,
    companion: Companion,
) -> SearchChunks:
    tuning = SearchTuning(settings.max_terms, settings.max_term_share, settings.dense_weight)
    return SearchChunks(
        views=SearchViews(catalog, clock),
        vectors=vectors,
        engine=engine_name(vectors),
        embedder=embedder,
        plan_search=PlanSearch(tuning, settings.approved_source_prefixes),
        rank_candidates=RankCandidates(settings.pool_size),
        filter_sets=FilterSets(settings.filter_cache_mib << 20),
        companion=companion,
        clock=clock,
    )
