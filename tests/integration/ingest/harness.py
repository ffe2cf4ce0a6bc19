"""A real ingest service on a real catalog, the memory store and the hashing embedder, called without a network."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from groundwire.api.ingest.v1 import collection_pb2, ingest_result_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1 import maintenance_service_pb2 as maintenance_pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import library_service_pb2_grpc
from groundwire.catalog.catalog import Catalog
from groundwire.catalog.query_log import QueryLogs
from groundwire.embedders.hashing import HashingEmbedder
from groundwire.ingest.bootstrap import IngestService, build
from groundwire.ingest.parsing.parsed_document import Original, ParsedDocument, ParseRules
from groundwire.ingest.parsing.parser_worker import parse_document
from groundwire.ingest.parsing.source_text import ReadingLimits
from groundwire.ingest.settings import IngestSettings
from groundwire.ingest.upkeep import OUTBOX, REPEATED_CHUNKS
from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import Clock, SystemClock
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Tokenizer, Vectors
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.vector_store import VectorStore
from groundwire.retrieve.bootstrap import LIBRARY
from groundwire.retrieve.library import LibraryServicer
from groundwire.retrieve.query_log import Pipeline
from groundwire.rpc.pagination import PageTokens
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers
from groundwire.vectorstores.memory import MemoryVectorStore
from tests.catalogs import open_database
from tests.stubs import by_id, by_source

T = TypeVar("T")
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

DIMENSIONS = 32


class CountingEmbedder(HashingEmbedder):
    """Remembers every text it embedded."""

    def __init__(self, dimensions: int = DIMENSIONS) -> None:
        self.texts: list[str] = []
        self.before_embedding: Callable[[], None] = lambda: None
        super().__init__(dimensions)
        self.texts.clear()

    def embed_documents(self, texts: Sequence[str], budget: Budget, *, urgent: bool = False) -> Vectors:
        self.before_embedding()
        made = super().embed_documents(texts, budget, urgent=urgent)
        self.texts += texts
        return made


class InProcessParser:
    """Takes documents apart in the calling thread, without the time it takes to start a process."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def parse(self, original: Original, rules: ParseRules, budget: Budget) -> ParsedDocument:
        budget.check()
        return parse_document(original.read(), rules, ReadingLimits(), self._tokenizer)


@cache
def _settings(**fields: Any) -> IngestSettings:
    """Return settings made once: to look for each in the environment takes as long as to open a catalog."""
    return IngestSettings(sweep_every_s=0.05, **fields)


def now(answer: Coroutine[Any, Any, T]) -> T:
    """Return what a call answers, also where an event loop runs, which stands still meanwhile."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(answer)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(contextvars.copy_context().run, asyncio.run, answer).result()


def blocking(
    method: Callable[[RequestT, Any], Coroutine[Any, Any, ResponseT]],
) -> Callable[[RequestT], ResponseT]:
    """Return a call of a servicer for a thread that waits for the response."""
    return lambda request: now(method(request, None))


class Calls:
    """The calls of the servicers, each for a thread that waits."""

    def __init__(self, service: IngestService) -> None:
        ingest, collections, maintenance = service.ingest, service.collections, service.maintenance
        self.ingest_document = blocking(ingest.IngestDocument)
        self.plan_ingest = blocking(ingest.PlanIngest)
        self.purge_documents = blocking(ingest.PurgeDocuments)
        self.delete_document = blocking(ingest.DeleteDocument)
        self.update_document = blocking(ingest.UpdateDocument)
        self.restore_document = blocking(ingest.RestoreDocument)
        self.update_chunk = blocking(ingest.UpdateChunk)
        self.create_collection = blocking(collections.CreateCollection)
        self.get_collection = blocking(collections.GetCollection)
        self.list_collections = blocking(collections.ListCollections)
        self.update_collection = blocking(collections.UpdateCollection)
        self.delete_collection = blocking(collections.DeleteCollection)
        self.reindex = blocking(maintenance.Reindex)
        self.reembed = blocking(maintenance.Reembed)
        self.check_store = blocking(maintenance.CheckStore)
        self.get_housekeeping = blocking(maintenance.GetHousekeeping)


class LibraryCalls:
    """The calls that read what was stored, each for a thread that waits."""

    def __init__(self, servicer: LibraryServicer) -> None:
        self.get_document = blocking(servicer.GetDocument)
        self.list_documents = blocking(servicer.ListDocuments)
        self.get_chunk = blocking(servicer.GetChunk)
        self.list_chunks = blocking(servicer.ListChunks)
        self.batch_get_chunks = blocking(servicer.BatchGetChunks)
        self.read_spans = blocking(servicer.ReadSpans)
        self.get_schema = blocking(servicer.GetSchema)
        self.validate_metadata = blocking(servicer.ValidateMetadata)
        self.list_stats = blocking(servicer.ListStats)

        self._read = servicer.GetDocumentText

    def document_text(self, request: library_pb.GetDocumentTextRequest) -> list[library_pb.GetDocumentTextResponse]:
        async def parts() -> list[library_pb.GetDocumentTextResponse]:
            return [part async for part in self._read(request, None)]

        return now(parts())


class Harness:
    """One process: `close()` ends it, another harness on the same folder and store is the next one."""

    def __init__(
        self,
        folder: Path,
        vectors: VectorStore | None = None,
        embedder: CountingEmbedder | None = None,
        clock: Clock | None = None,
        **settings: Any,
    ) -> None:
        self.folder = folder
        self.clock = clock or SystemClock()
        self.vectors = vectors or MemoryVectorStore()
        self.embedder = embedder or CountingEmbedder()
        self.catalog = open_database(folder / "catalog.db", clock)
        self.workers = Workers(4)
        self.service: IngestService = build(
            database=self.catalog,
            vectors=self.vectors,
            embedder=self.embedder,
            settings=_settings(**settings),
            workers=self.workers,
        )
        self.calls = Calls(self.service)

    def collection(self, name: str) -> Collection:
        return self.service.collections.collections.get(DEFAULT_TENANT, name).collection

    @property
    def library(self) -> LibraryCalls:
        """The calls that read what was stored."""
        return LibraryCalls(self.library_servicer)

    @property
    def library_servicer(self) -> LibraryServicer:
        """The service that reads, on the same catalog and engine."""
        return LibraryServicer(
            catalog=Catalog(self.catalog),
            vectors=self.vectors,
            tokens=PageTokens(b"k" * 32),
            logs=QueryLogs(self.catalog),
            recorder=None,  # type: ignore[arg-type]  # nothing is logged here
            pipeline=Pipeline(),
            counting_since=self.clock.now(),
            clock=self.clock,
            workers=self.workers,
        )

    def services(self) -> list[Service]:
        """Return the services of ingest, and the one that reads, as one process offers them."""
        add = library_service_pb2_grpc.add_LibraryServiceServicer_to_server
        return [*self.service.services(), Service(LIBRARY, self.library_servicer, add)]

    def housekeeping_state(self) -> maintenance_pb.GetHousekeepingResponse:
        """Return what runs behind the calls, and what of it fails."""
        return self.calls.get_housekeeping(maintenance_pb.GetHousekeepingRequest())

    def start(self) -> "Harness":
        self.service.start()
        return self

    def without_housekeeping(self) -> "Harness":
        """Take documents apart in the calling thread, and run nothing behind the calls."""
        object.__setattr__(self.service.long_work.documents, "parser", InProcessParser(self.embedder.tokenizer))
        return self

    def start_without_parser_process(self) -> "Harness":
        self.without_housekeeping()
        self.service.recover()
        self.service.housekeeping.start()
        return self

    def close(self) -> None:
        self.service.close()
        self.workers.close()
        self.catalog.close()

    def create(
        self, collection: str, profile: collection_pb2.Profile.ValueType = collection_pb2.PROFILE_DOCUMENTS
    ) -> None:
        self.calls.create_collection(collections_pb.CreateCollectionRequest(collection=collection, profile=profile))

    def ingest(
        self, collection: str, source_uri: str, content: str | bytes, **fields: Any
    ) -> ingest_result_pb2.IngestResult:
        data = content.encode() if isinstance(content, str) else content
        request = pb.IngestDocumentRequest(collection=collection, source_uri=source_uri, content=data, **fields)
        return self.calls.ingest_document(request).result

    def put_chunks(
        self, collection: str, source_uri: str, *chunks: pb.ReadyChunk, text: str = "", **fields: Any
    ) -> ingest_result_pb2.IngestResult:
        """Store a document with its chunks, which come in one part."""
        header = pb.PutChunksHeader(collection=collection, source_uri=source_uri, **fields)

        async def messages() -> AsyncIterator[pb.PutChunksRequest]:
            yield pb.PutChunksRequest(header=header)
            yield pb.PutChunksRequest(part=pb.PutChunksPart(text=text, chunks=chunks))

        return now(self.service.ingest.PutChunks(messages(), None)).result

    def delete(self, collection: str, document_id: str) -> None:
        request = pb.DeleteDocumentRequest(collection=collection, reference=by_id(document_id), purge=True)
        self.calls.delete_document(request)

    def text(self, collection: str, source_uri: str) -> str:
        request = library_pb.GetDocumentRequest(
            collection=collection, reference=by_source(source_uri), include_text=True
        )
        return self.library.get_document(request).text

    def sources(self, collection: str) -> list[str]:
        page = self.library.list_documents(library_pb.ListDocumentsRequest(collection=collection, page_size=1000))
        return [document.source_uri for document in page.documents]

    def live_numbers(self, collection: str) -> list[int]:
        page = self.library.list_chunks(library_pb.ListChunksRequest(collection=collection, page_size=1000))
        assert not page.next_page_token
        return [chunk.chunk_number for chunk in page.chunks]

    def points(self, collection: str) -> list[int]:
        engine_name = self.collection(collection).engine_name
        try:
            return list(self.vectors.numbers(engine_name, Budget()))
        except CollectionNotFoundError:
            return []

    def sweep(self) -> None:
        self.service.housekeeping.run_now(("unfinished", OUTBOX, REPEATED_CHUNKS), Budget(60))

    def forget(self) -> None:
        """Drop what housekeeping drops every hour."""
        self.service.housekeeping.run_now(("requests", "uploads", "vectors"), Budget(60))


def in_threads(*functions: Callable[[], Any]) -> list[Any]:
    """Return what the functions return or raise, run at the same time."""
    results: list[Any] = [None] * len(functions)
    barrier = threading.Barrier(len(functions))

    def run(index: int) -> None:
        barrier.wait()
        try:
            results[index] = functions[index]()
        except Exception as error:  # noqa: BLE001 - tests look at it
            results[index] = error

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
