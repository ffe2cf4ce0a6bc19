"""Composition root of the retrieve service."""

from dataclasses import dataclass
from datetime import timedelta

from groundwire.api.retrieve.v1 import library_service_pb2_grpc, retrieve_service_pb2_grpc
from groundwire.catalog.catalog import Catalog
from groundwire.catalog.consistency_tokens import ConsistencyTokens
from groundwire.catalog.database import Database
from groundwire.catalog.query_log import QueryLogs
from groundwire.catalog.search_view import SearchViews
from groundwire.catalog.vocabularies import Outlines, Vocabularies
from groundwire.embedders.token_vectors import TokenVectors
from groundwire.kernel.clock import Clock, SystemClock
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.vector_store import VectorStore
from groundwire.retrieve.candidates import SpareThreads
from groundwire.retrieve.consistency import WaitForPosition
from groundwire.retrieve.expansion import ExpandChunks
from groundwire.retrieve.filters import FilterCache
from groundwire.retrieve.library import LibraryServicer
from groundwire.retrieve.query_log import Pipeline, QueryRecorder, RecordSearch
from groundwire.retrieve.reranker import open_reranker
from groundwire.retrieve.search import QueryVectors, Search
from groundwire.retrieve.self_query.extractors import EndpointExtractor, RuleExtractor, open_extractor
from groundwire.retrieve.self_query.questions import ParseQuestion
from groundwire.retrieve.servicers import RetrieveServicer
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.retrieve.wire.result_cache import ResultCache
from groundwire.rpc.pagination import KEY_FILE, PageTokens, load_key
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers
from groundwire.vectorstores.factory import engine_name

RETRIEVE = "groundwire.api.retrieve.v1.RetrieveService"
LIBRARY = "groundwire.api.retrieve.v1.LibraryService"


@dataclass(frozen=True, slots=True)
class RetrieveService:
    """The running service; its builder closes catalog, engine, embedder and workers."""

    servicer: RetrieveServicer
    library_servicer: LibraryServicer
    search: Search
    recorder: QueryRecorder
    extractor: RuleExtractor | EndpointExtractor

    def services(self) -> list[Service]:
        return [
            Service(RETRIEVE, self.servicer, retrieve_service_pb2_grpc.add_RetrieveServiceServicer_to_server),
            Service(LIBRARY, self.library_servicer, library_service_pb2_grpc.add_LibraryServiceServicer_to_server),
        ]

    def start(self) -> None:
        self.recorder.start()

    def close(self) -> None:
        """Write the rest of the query log, and stop the threads."""
        self.recorder.close()
        self.search.spare_threads.close()


def build(
    *,
    database: Database,
    vectors: VectorStore,
    embedder: Embedder,
    settings: RetrieveSettings,
    workers: Workers,
    lookups: Workers,
    clock: Clock | None = None,
    signing_key: bytes | None = None,
) -> RetrieveService:
    """Wire the service; `vectors` and `embedder` are shared with whoever else uses them.

    Searches run in `workers`, reads of what is stored and the embedding of texts in `lookups`. `signing_key` is that of
    the tokens, None for one in the data folder.
    """
    # Page tokens and consistency tokens are signed by one key, which a restart must not change.
    key = signing_key or load_key(database.folder / KEY_FILE)
    time, model_key = clock or SystemClock(), settings.self_query_api_key
    extractor = open_extractor(
        settings.self_query, model_key.get_secret_value() if model_key else None, settings.self_query_timeout_s
    )
    catalog, tokens = Catalog(database), ConsistencyTokens(key)
    search = Search(
        views=SearchViews(database, settings.chunk_cache_mib << 20),
        vectors=vectors,
        engine=engine_name(vectors),
        query_vectors=QueryVectors(embedder, settings.query_cache_entries),
        outlines=Outlines(database),
        parse_question=ParseQuestion(Vocabularies(database), extractor),
        filter_cache=FilterCache(settings.filter_cache_mib << 20),
        spare_threads=SpareThreads(),
        wait_for_position=WaitForPosition(catalog.collections, tokens),
        clock=time,
        settings=settings,
        reranker=open_reranker(settings.reranker, TokenVectors),
    )
    logs, pipeline, accesses = QueryLogs(database), Pipeline(), catalog.accesses
    recorder = QueryRecorder(logs, timedelta(days=settings.query_log_days), accesses)
    servicer = RetrieveServicer(
        search=search,
        record=RecordSearch(catalog.collections, recorder, pipeline, settings.query_log, accesses),
        embedder=embedder,
        settings=settings,
        results=ResultCache(settings.result_cache_mib << 20, database, search.views, tokens),
        expand_chunks=ExpandChunks(catalog.chunks, settings.approved_source_prefixes),
        workers=workers,
        lookups=lookups,
    )
    library_servicer = LibraryServicer(
        catalog=catalog,
        vectors=vectors,
        tokens=PageTokens(key),
        logs=logs,
        recorder=recorder,
        pipeline=pipeline,
        counting_since=time.now(),
        clock=time,
        workers=lookups,
    )
    return RetrieveService(servicer, library_servicer, search, recorder, extractor)
