"""A whole server, real but for parts that are slow, or hang until they are let go."""

import threading
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from numpy.typing import NDArray

from groundwire.answer import bootstrap as answer_bootstrap
from groundwire.answer.settings import AnswerSettings, ChatModel
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.catalog.database import Database
from groundwire.embedders.batching import BatchingEmbedder
from groundwire.ingest import bootstrap as ingest_bootstrap
from groundwire.ingest.settings import IngestSettings
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.retrieve import bootstrap as retrieve_bootstrap
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.in_process import InProcessStub
from groundwire.rpc.server import GrpcServer, ServerOptions
from groundwire.rpc.workers import Workers
from groundwire.vectorstores.factory import open_vector_store
from tests.catalogs import open_database
from tests.stubs import Stubs
from tests.unit.embedders.word_engine import WORDS, WordEngine, word_model

COLLECTION = "tides"
WORKERS = 16
"""As many as the process has by default."""


class Brake:
    """Makes calls of a part take `seconds` longer, or wait until they are let go."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.calls = 0
        self._free = threading.Event()
        self._free.set()

    def hang(self) -> None:
        self._free.clear()

    def let_go(self) -> None:
        self._free.set()

    def pass_through(self, budget: Budget) -> None:
        """Go on when the part would; a port that obeys its budget ends with it."""
        self.calls += 1
        time.sleep(self.seconds)
        while not self._free.wait(0.02):
            budget.check()


class BrakedModel(WordEngine):
    """The engine below the real batching embedder."""

    def __init__(self, brake: Brake, parallelism: int = 2) -> None:
        super().__init__(parallelism)
        self._brake = brake

    def infer(self, input_ids: NDArray[np.int64], attention_mask: NDArray[np.int64]) -> Vectors:
        self._brake.pass_through(Budget())  # a model knows nothing of budgets
        self.batches.clear()
        return super().infer(input_ids, attention_mask)


class BrakedStore:
    """A real vector store whose searches go through the brake."""

    def __init__(self, inner: Any, brake: Brake, catalog: Database) -> None:
        self._inner = inner
        self._brake = brake
        self._catalog = catalog

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def search(self, collection: str, vector: Vectors, limit: int, budget: Budget, **narrowed: Any) -> Any:
        with self._catalog.read():
            pass  # raises where the caller holds a connection while it waits for the engine
        self._brake.pass_through(budget)
        return self._inner.search(collection, vector, limit, budget, **narrowed)


@dataclass
class Limits:
    """A running server with stubs of its services."""

    catalog_file: Path
    model: Brake
    engine: Brake
    ingest: Any
    retrieve: Any
    answer: Any
    embedder: BatchingEmbedder
    address: str
    document_ids: list[str] = field(default_factory=list)

    async def fill(self, documents: int = 6) -> None:
        """Make the collection and store some documents in it."""
        await self.ingest.CreateCollection(collections_pb.CreateCollectionRequest(collection=COLLECTION), timeout=30)
        for number in range(documents):
            request = ingest_pb.IngestDocumentRequest(
                collection=COLLECTION, source_uri=f"{number}.md", text=text_of(number)
            )
            stored = await self.ingest.IngestDocument(request, timeout=60)
            self.document_ids.append(stored.result.document.document_id)


def text_of(number: int) -> str:
    words = WORDS[number * 7 % 40 :][:8]
    return f"# Part {number}\n\n" + "\n\n".join(f"The {word} rises and falls twice a day." for word in words)


@asynccontextmanager
async def running(
    folder: Path,
    *,
    vectors: str = "memory:",
    retrieve: RetrieveSettings | None = None,
    answer: AnswerSettings | None = None,
    chat_model: ChatModel | None = None,
) -> AsyncIterator[Limits]:
    """Give a server with all three services on loopback, wired as the embedded process is, default sizes."""
    model, engine = Brake(), Brake()
    with ExitStack() as stack:
        catalog = open_database(folder / "catalog.db")
        stack.callback(catalog.close)
        store = open_vector_store(vectors, data_dir=folder)
        stack.callback(store.close)
        braked: Any = BrakedStore(store, engine, catalog)
        embedder = BatchingEmbedder(BrakedModel(model), word_model(max_tokens=64))
        stack.callback(embedder.close)
        parts: dict[str, Any] = {"database": catalog, "embedder": embedder}
        pools = {name: Workers(WORKERS, name) for name in ("ingest", "query", "lookup", "answer")}
        for pool in pools.values():
            stack.callback(pool.close)
        ingest = ingest_bootstrap.build(**parts, vectors=braked, settings=IngestSettings(), workers=pools["ingest"])
        searching = retrieve_bootstrap.build(
            **parts,
            vectors=braked,
            settings=retrieve or RetrieveSettings(exact_chunks=0),
            workers=pools["query"],
            lookups=pools["lookup"],
        )
        answering = answer_bootstrap.build(
            retrieve=InProcessStub(searching.servicer),
            library=InProcessStub(searching.library_servicer),
            sessions=catalog,
            settings=answer or AnswerSettings(),
            workers=pools["answer"],
            chat_model=chat_model,
        )
        for part in (ingest, searching, answering):
            part.start()
            stack.callback(part.close)
        server = GrpcServer(
            ServerOptions(listen="127.0.0.1:0", drain_notice_s=0),
            [*ingest.services(), *searching.services(), *answering.services()],
        )
        port = await server.start()
        try:
            async with _channel(port) as to_ingest, _channel(port) as to_retrieve, _channel(port) as to_answer:
                yield Limits(
                    catalog_file=folder / "catalog.db",
                    model=model,
                    engine=engine,
                    ingest=Stubs(to_ingest),
                    retrieve=Stubs(to_retrieve),
                    answer=Stubs(to_answer),
                    embedder=embedder,
                    address=f"127.0.0.1:{port}",
                )
        finally:
            model.let_go()
            engine.let_go()
            await server.stop(0)


def _channel(port: int) -> grpc.aio.Channel:
    """Return a channel with a connection of its own: the server takes 100 calls on each."""
    return grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)])
