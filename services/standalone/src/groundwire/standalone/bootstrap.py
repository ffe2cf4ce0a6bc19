"""Composition root of processes that open the stores: all three services, or ingest or retrieve alone."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack

import structlog

from groundwire.answer.settings import parse_generator
from groundwire.catalog.catalog import Catalog
from groundwire.catalog.database import Database
from groundwire.kernel.budget import Budget
from groundwire.kernel.catalog_urls import below
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.errors import UnavailableError
from groundwire.kernel.vector_store import Recoverable, VectorStore
from groundwire.rpc.in_process import InProcessStub
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers
from groundwire.standalone.parts import SEARCHING, WRITING, Parts, named, open_database
from groundwire.standalone.readiness import Dependency
from groundwire.standalone.server_info import server_service
from groundwire.standalone.settings import ProcessSettings, ServerSettings, ServiceName

CATALOG_FILE = "catalog.db"
# As long as the engine may take to load its libraries on a busy machine.
_LOOK_S = 60.0

_log = structlog.get_logger(__name__)


def build_services(
    service: ServiceName,
    settings: ProcessSettings,
    vectors_opening: Future[VectorStore],
    embedder_opening: Future[Embedder],
    stack: ExitStack,
    announce: Callable[[str], None],
) -> Parts:
    """Open the catalog, wait for the engines, and return the services, started, and what they need.

    `stack` closes what is opened here in reverse order; the caller closes the engines. `announce` is called with what
    the start waits for, such as `opening the catalog`.

    Raises:
        GroundwireError: something cannot be opened; what was opened before is on `stack`.
    """
    announce("opening the catalog")
    server = settings.server
    database = open_database(server, server.catalog, CATALOG_FILE, "catalog", server.catalog_password)
    stack.callback(database.close)
    if not vectors_opening.done():
        announce("opening the vector store")
    vectors = vectors_opening.result()
    if not embedder_opening.done():
        announce("loading the model")
    embedder = embedder_opening.result()

    announce("starting the services")
    parts = Parts([], [], database=database, embedder=embedder)

    def workers(name: str) -> Workers:
        # Each has threads of its own: ingests do not delay searches, nor searches what an answer reads afterwards.
        made = parts.workers[name] = Workers(settings.server.workers, name)
        stack.callback(made.close)
        return made

    # Each service is imported where it runs: others need packages that are not installed beside it.
    key = settings.server.signing_key
    if service in {ServiceName.ALL, ServiceName.INGEST}:
        from groundwire.ingest.bootstrap import build as build_ingest  # noqa: PLC0415

        _warn_of_lost_catalog(server, database, vectors)
        parts.ingest = build_ingest(
            database=database,
            vectors=vectors,
            embedder=embedder,
            settings=settings.ingest,
            workers=workers("ingest"),
            signing_key=key,
        )
    if service in {ServiceName.ALL, ServiceName.RETRIEVE}:
        from groundwire.retrieve.bootstrap import build as build_retrieve  # noqa: PLC0415

        parts.retrieve = build_retrieve(
            database=database,
            vectors=vectors,
            embedder=embedder,
            settings=settings.retrieve,
            workers=workers("query"),
            lookups=workers("lookup"),
            signing_key=key,
        )
    if parts.ingest is not None and parts.retrieve is not None:
        from groundwire.answer.bootstrap import build as build_answer  # noqa: PLC0415

        parts.answer = build_answer(
            retrieve=InProcessStub(parts.retrieve.servicer),
            library=InProcessStub(parts.retrieve.library_servicer),
            records=InProcessStub(parts.ingest.records),
            sessions=database,
            settings=settings.answer,
            workers=workers("answer"),
            chat_model=parse_generator(settings.server.generator),
            signing_key=key,
        )
    for part in (parts.ingest, parts.retrieve, parts.answer):
        if part is not None:
            part.start()
            stack.callback(part.close)
            parts.services += part.services()
    parts.dependencies = dependencies_of(parts.services, database, vectors, embedder, stack)
    parts.services.append(server_service(settings, parts.services, vectors, embedder))
    return parts


def _warn_of_lost_catalog(server: ServerSettings, database: Database, vectors: VectorStore) -> None:
    """Log that an empty catalog stands beside vectors, which without theirs are of no use to anybody.

    A server of vectors is not asked: what it has may be another installation's.
    """
    # The engine last: it may still be loading, and a start that has a catalog need not wait for it.
    if not isinstance(vectors, Recoverable) or Catalog(database).inspection.engine_collections():
        return
    if held := vectors.collections(Budget(_LOOK_S)):
        _log.warning(
            "the catalog is empty, but the vector store is not: is the catalog another one, or lost?",
            catalog=below(server.data, server.catalog, CATALOG_FILE, "catalog"),
            vectors=str(server.data / (server.vectors.partition(":")[2] or "vectors")),
            collections=len(held),
        )


def dependencies_of(
    services: list[Service], database: Database, vectors: VectorStore, embedder: Embedder, stack: ExitStack
) -> list[Dependency]:
    """Return what the services need, each with a check; `stack` closes what the checks use."""
    reads, writes = database.probe(), database.probe()
    stack.callback(reads.close)
    stack.callback(writes.close)

    def check_model() -> None:
        if not embedder.is_responsive:
            raise UnavailableError("the embedding model does not answer")

    return [
        Dependency("catalog", reads.check_readable, frozenset(service.name for service in services)),
        Dependency("catalog writes", writes.check_writable, named(services, WRITING)),
        Dependency("vector engine", vectors.check_responding, named(services, SEARCHING)),
        Dependency("model", check_model, named(services, SEARCHING)),
    ]
