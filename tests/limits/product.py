"""The whole product in one process on a clock that tests move: real stores, real gRPC over loopback, restarts.

Housekeeping does not run behind the calls but in `sweep()`, so that what it has not done yet stays to be met, and a
sequence of calls meets the same again when it is repeated.
"""

import asyncio
import threading
from contextlib import ExitStack
from pathlib import Path

from groundwire.answer import bootstrap as answer_bootstrap
from groundwire.answer.settings import AnswerSettings
from groundwire.client import GroundwireClient
from groundwire.embedders.hashing import HashingEmbedder
from groundwire.ingest import bootstrap as ingest_bootstrap
from groundwire.ingest.settings import IngestSettings
from groundwire.kernel.budget import Budget
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.vector_store import VectorStore
from groundwire.retrieve import bootstrap as retrieve_bootstrap
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.in_process import InProcessStub
from groundwire.rpc.server import GrpcServer, ServerOptions, Service
from groundwire.rpc.workers import Workers
from groundwire.vectorstores.factory import open_vector_store
from tests.catalogs import open_database
from tests.manual_clock import ManualClock

MODELS = (128, 96)
"""Dimensions of the two models that the product can be started with; those of the first are its own."""
_JOBS = (
    "unfinished",
    "outbox",
    "repeated_chunks",
    "retention",
    "requests",
    "uploads",
    "record_accesses",
    "vectors",
    "rebuild",
    "recovery",
)
_MIN_SUPPORT = 0.05
"""Support asked of an answer: the hashing embedder knows words only, and answers are wanted here, not judgement."""


class Product:
    """Servers on one data folder; `restart()` ends them in an orderly way and starts others.

    The memory store survives a restart here, as an engine of its own process would.
    """

    def __init__(self, folder: Path, vectors_url: str, clock: ManualClock) -> None:
        self._folder = folder
        self._vectors_url = vectors_url
        self.clock = clock
        self.dimensions = MODELS[0]
        self._vectors = self._open_vectors()
        self._open()

    def restart(self) -> None:
        self._close()
        if self._vectors_url != "memory:":
            self._vectors.close()
            self._vectors = self._open_vectors()
        self._open()

    def use_model(self, dimensions: int) -> None:
        """Start other servers with a model of so many dimensions; collections keep the model that they have."""
        self._close()
        self.dimensions = dimensions
        self._open()

    def close(self) -> None:
        self._close()
        self._vectors.close()

    def sweep(self) -> None:
        """Do all that housekeeping would do now, whether it is due or not; a failure of it is raised."""
        self._ingest.housekeeping.run_now(_JOBS, Budget(60.0))
        self._ingest.housekeeping.run_now(("deletions",), Budget(60.0))  # what the engine has to do comes first
        assert self._ingest.housekeeping.failures(DEFAULT_TENANT) == []

    def _open_vectors(self) -> VectorStore:
        return open_vector_store(self._vectors_url, data_dir=self._folder)

    def _open(self) -> None:
        self._stack = ExitStack()
        services = self._build()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="server", daemon=True)
        self._thread.start()
        address = asyncio.run_coroutine_threadsafe(self._serve(services), self._loop).result(30)
        self.client = GroundwireClient(address)

    def _close(self) -> None:
        self.client.close()
        asyncio.run_coroutine_threadsafe(self._server.stop(5.0), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()
        self._stack.close()

    async def _serve(self, services: list[Service]) -> str:
        self._server = GrpcServer(ServerOptions(listen="127.0.0.1:0"), services)
        return f"127.0.0.1:{await self._server.start()}"

    def _build(self) -> list[Service]:
        catalog = open_database(self._folder / "catalog.db", self.clock)
        self._stack.callback(catalog.close)
        embedder = HashingEmbedder(self.dimensions)
        workers = [Workers(4, name) for name in ("ingest", "query", "lookup")]
        for pool in workers:
            self._stack.callback(pool.close)
        self._ingest = ingest_bootstrap.build(
            database=catalog,
            vectors=self._vectors,
            embedder=embedder,
            settings=IngestSettings(scrub_after_quiet_s=0),
            workers=workers[0],
        )
        retrieve = retrieve_bootstrap.build(
            database=catalog,
            vectors=self._vectors,
            embedder=embedder,
            settings=RetrieveSettings(),
            workers=workers[1],
            lookups=workers[2],
            clock=self.clock,
        )
        answer = answer_bootstrap.build(
            retrieve=InProcessStub(retrieve.servicer),
            library=InProcessStub(retrieve.library_servicer),
            sessions=catalog,
            settings=AnswerSettings(min_support=_MIN_SUPPORT),
            workers=workers[1],
            clock=self.clock,
        )
        for part in (self._ingest, retrieve, answer):
            self._stack.callback(part.close)
        self._ingest.recover()
        retrieve.start()
        answer.start()
        return [*self._ingest.services(), *retrieve.services(), *answer.services()]
