"""Composition root of the retrieve service."""

from dataclasses import dataclass
from datetime import timedelta

from groundwire.api.retrieve.v1 import library_service_pb2_grpc, retrieve_service_pb2_grpc
from groundwire.catalog.chunks import Chunks
from groundwire.catalog.collection_positions import CollectionPositions
from groundwire.catalog.collections import Collections
from groundwire.catalog.database import Database
from groundwire.catalog.documents import Documents
from groundwire.catalog.outlines import Outlines
from groundwire.catalog.passages import Passages
from groundwire.catalog.query_logs import QueryLogs
from groundwire.catalog.search_view import SearchViews
from groundwire.catalog.statistics import Statistics
from groundwire.catalog.texts import Texts
from groundwire.catalog.vectors import VectorCache
from groundwire.catalog.vocabularies import Vocabularies
from groundwire.kernel.clock import Clock, SystemClock
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.vector_store import VectorStore
from groundwire.retrieve.adapters.cross_encoder_reranker import open_reranker
from groundwire.retrieve.adapters.endpoint_extractor import EndpointExtractor
from groundwire.retrieve.adapters.extractor_choice import open_extractor
from groundwire.retrieve.adapters.rule_extractor import RuleExtractor
from groundwire.retrieve.companion import Companion
from groundwire.retrieve.domain.pipeline import Pipeline
from groundwire.retrieve.expand_chunks import ExpandChunks
from groundwire.retrieve.filter_gate import FilterSets
from groundwire.retrieve.library import Library
from groundwire.retrieve.list_query_logs import ListQueryLogs
from groundwire.retrieve.parse_question import ParseQuestion
from groundwire.retrieve.plan_search import PlanSearch
from groundwire.retrieve.query_recorder import QueryRecorder
from groundwire.retrieve.query_vectors import QueryVectors
from groundwire.retrieve.rank_candidates import RankCandidates
from groundwire.retrieve.record_search import RecordSearch
from groundwire.retrieve.rerank_candidates import RerankCandidates
from groundwire.retrieve.retrieve_chunks import RetrieveChunks
from groundwire.retrieve.search_chunks import SearchChunks
from groundwire.retrieve.search_words import SearchTuning
from groundwire.retrieve.servicer import LibraryServicer, RetrieveServicer
from groundwire.retrieve.servicer.expand_calls import ExpandCalls
from groundwire.retrieve.servicer.library_calls import LibraryCalls
from groundwire.retrieve.servicer.log_calls import LogCalls
from groundwire.retrieve.servicer.question_calls import QuestionCalls
from groundwire.retrieve.servicer.result_cache import ResultCache
from groundwire.retrieve.servicer.search_calls import SearchCalls
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.retrieve.wait_for_position import WaitForPosition
from groundwire.retrieve.wire.requests import RequestLimits
from groundwire.rpc.consistency_tokens import ConsistencyTokens
from groundwire.rpc.pagination import PageTokens, load_key
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers
from groundwire.vectorstores.engine_names import engine_name

RETRIEVE = "groundwire.api.retrieve.v1.RetrieveService"
LIBRARY = "groundwire.api.retrieve.v1.LibraryService"
PAGE_TOKEN_KEY_FILE = "page-token.key"  # noqa: S105 - the name of a file


@dataclass(frozen=True, slots=True)
class RetrieveService:
    """The running service. Whoever built it closes catalog, engine, embedder and workers."""

    servicer: RetrieveServicer
    library_servicer: LibraryServicer
    search_chunks: SearchChunks
    recorder: QueryRecorder
    extractor: RuleExtractor | EndpointExtractor
    companion: Companion

    def services(self) -> list[Service]:
        """Return what a server of this process offers."""
        return [
            Service(RETRIEVE, self.servicer, retrieve_service_pb2_grpc.add_RetrieveServiceServicer_to_server),
            Service(LIBRARY, self.library_servicer, library_service_pb2_grpc.add_LibraryServiceServicer_to_server),
        ]

    def start(self) -> None:
        """Begin to write the query log."""
        self.recorder.start()

    def close(self) -> None:
        """Write the rest of the query log, and stop the threads."""
        self.recorder.close()
        self.extractor.close()
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
    recorder = QueryRecorder(logs, timedelta(days=settings.query_log_days))
    extractor = _extractor(settings)
    parse_question = ParseQuestion(Vocabularies(catalog), extractor)
    search_calls = SearchCalls(
        RetrieveChunks(search_chunks, parse_question, Outlines(catalog), embedder),
        RecordSearch(collections, recorder, pipeline, settings.query_log),
        embedder,
        RequestLimits(settings.max_query_chars, settings.max_top_k),
        time,
        ResultCache(settings.result_cache_mib << 20, catalog, search_chunks.views, search_chunks.wait_for_position),
    )
    tokens = PageTokens(_token_key(catalog))
    list_logs = ListQueryLogs(logs, recorder)
    servicer = RetrieveServicer(
        search_calls,
        ExpandCalls(ExpandChunks(Passages(catalog), settings.approved_source_prefixes)),
        QuestionCalls(parse_question, settings.max_query_chars, time),
        workers,
    )
    library_servicer = LibraryServicer(
        LibraryCalls(library(catalog, vectors, time), tokens),
        LogCalls(list_logs, pipeline, collections, tokens, engine_name(vectors), time.now(), time),
        workers,
    )
    return RetrieveService(servicer, library_servicer, search_chunks, recorder, extractor, companion)


def library(catalog: Database, vectors: VectorStore, clock: Clock) -> Library:
    """Return what reads the catalog."""
    return Library(
        Collections(catalog),
        Documents(catalog),
        Chunks(catalog),
        Texts(catalog),
        VectorCache(catalog, clock),
        Statistics(catalog),
        vectors,
    )


def _extractor(settings: RetrieveSettings) -> RuleExtractor | EndpointExtractor:
    key = settings.self_query_api_key
    return open_extractor(settings.self_query, key.get_secret_value() if key else None, settings.self_query_timeout_s)


def _token_key(catalog: Database) -> bytes:
    return load_key(catalog.path.resolve().parent / PAGE_TOKEN_KEY_FILE)


def _search_chunks(
    catalog: Database,
    vectors: VectorStore,
    embedder: Embedder,
    settings: RetrieveSettings,
    clock: Clock,
    companion: Companion,
) -> SearchChunks:
    tuning = SearchTuning(settings.max_terms, settings.max_term_share, settings.dense_weight)
    reranker = open_reranker(settings.reranker)
    rerank = RerankCandidates(reranker, settings.rerank_depth, settings.rerank_weight) if reranker else None
    return SearchChunks(
        views=SearchViews(catalog, clock),
        vectors=vectors,
        engine=engine_name(vectors),
        query_vectors=QueryVectors(embedder, settings.query_cache_entries),
        plan_search=PlanSearch(tuning, settings.approved_source_prefixes, reranks=True if reranker else None),
        rank_candidates=RankCandidates(settings.pool_size, rerank),
        filter_sets=FilterSets(settings.filter_cache_mib << 20),
        companion=companion,
        wait_for_position=WaitForPosition(CollectionPositions(catalog), ConsistencyTokens(_token_key(catalog))),
        clock=clock,
        exact_chunks=settings.exact_chunks,
    )
