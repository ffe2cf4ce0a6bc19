"""Composition root of the embedded process: opens the engines once and hands them to all three services."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from groundwire.answer import bootstrap as answer_bootstrap
from groundwire.answer.bootstrap import ANSWER, AnswerService
from groundwire.catalog.database import Database
from groundwire.catalog.sqlite import CatalogProbe
from groundwire.ingest import bootstrap as ingest_bootstrap
from groundwire.ingest.bootstrap import COLLECTIONS, INGEST, MAINTENANCE, OPERATIONS
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.errors import InvalidRequestError, NotAvailableError, UnavailableError
from groundwire.kernel.vector_store import VectorStore
from groundwire.retrieve import bootstrap as retrieve_bootstrap
from groundwire.retrieve.bootstrap import LIBRARY, RETRIEVE, RetrieveService
from groundwire.rpc.in_process import InProcessStub
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers
from groundwire.standalone.readiness import Dependency
from groundwire.standalone.server_info import server_service
from groundwire.standalone.settings import ProcessSettings, ServerSettings

CATALOG_FILE = "catalog.db"


@dataclass(frozen=True, slots=True)
class Engines:
    """What the three services share, and threads of each: ingests do not delay searches, nor searches sessions."""

    catalog: Database
    vectors: VectorStore
    embedder: Embedder
    ingest_workers: Workers
    query_workers: Workers
    answer_workers: Workers


@dataclass(frozen=True, slots=True)
class Openings:
    """What is being opened beside the imports of the services; whoever began it closes it."""

    vectors: Future[VectorStore]
    embedder: Future[Embedder]


def open_engines(
    settings: ServerSettings, openings: Openings, stack: ExitStack, announce: Callable[[str], None]
) -> Engines:
    """Open the catalog, wait for the rest, and return them; `stack` closes what is opened here in reverse order.

    Raises:
        GroundwireError: one cannot be opened.
    """
    announce("opening the catalog")
    catalog = Database.open(catalog_url(settings.catalog, settings.data))
    stack.callback(catalog.close)
    if not openings.vectors.done():
        announce("opening the vector store")
    vectors = openings.vectors.result()
    if not openings.embedder.done():
        announce("loading the model")
    embedder = openings.embedder.result()
    ingest_workers = Workers(settings.workers, "ingest")
    stack.callback(ingest_workers.close)
    query_workers = Workers(settings.workers, "query")
    stack.callback(query_workers.close)
    answer_workers = Workers(settings.workers, "answer")
    stack.callback(answer_workers.close)
    return Engines(catalog, vectors, embedder, ingest_workers, query_workers, answer_workers)


def build_services(
    settings: ProcessSettings, openings: Openings, stack: ExitStack, announce: Callable[[str], None]
) -> tuple[list[Service], list[Dependency]]:
    """Open the rest and return the three services, started, and what they need.

    `stack` closes it in reverse order. `announce` is called with what is waited for, such as `opening the catalog`.

    Raises:
        GroundwireError: something cannot be opened; what was opened before is on `stack`.
    """
    engines = open_engines(settings.server, openings, stack, announce)
    announce("starting the services")
    ingest = ingest_bootstrap.build(
        catalog=engines.catalog,
        vectors=engines.vectors,
        embedder=engines.embedder,
        settings=settings.ingest,
        workers=engines.ingest_workers,
    )
    retrieve, answer = _build_query_services(settings, engines)
    for part in (ingest, retrieve, answer):
        part.start()
        stack.callback(part.close)
    services = [*ingest.services(), *retrieve.services(), *answer.services()]
    services.append(server_service(settings, engines.vectors, engines.embedder, services))
    return services, dependencies_of(engines, stack)


def dependencies_of(engines: Engines, stack: ExitStack) -> list[Dependency]:
    """Return what the services need, each with a check; `stack` closes what the checks use.

    Answer needs the engine and the model because it searches.
    """
    searching, writing = frozenset({INGEST, RETRIEVE, ANSWER}), frozenset({INGEST, COLLECTIONS, ANSWER})
    every = frozenset({INGEST, COLLECTIONS, MAINTENANCE, OPERATIONS, RETRIEVE, LIBRARY, ANSWER})
    reads = CatalogProbe(engines.catalog.path)
    writes = CatalogProbe(engines.catalog.path, engines.catalog.writer_busy_s)
    stack.callback(reads.close)
    stack.callback(writes.close)

    def check_model() -> None:
        if not engines.embedder.is_responsive:
            raise UnavailableError("the embedding model does not answer")

    return [
        Dependency("catalog", reads.check_readable, every),
        Dependency("catalog writes", writes.check_writable, writing),
        Dependency("vector engine", engines.vectors.check_responding, searching),
        Dependency("model", check_model, searching),
    ]


def _build_query_services(settings: ProcessSettings, engines: Engines) -> tuple[RetrieveService, AnswerService]:
    retrieve = retrieve_bootstrap.build(
        catalog=engines.catalog,
        vectors=engines.vectors,
        embedder=engines.embedder,
        settings=settings.retrieve,
        workers=engines.query_workers,
    )
    answer = answer_bootstrap.build(
        catalog=engines.catalog,
        embedder=engines.embedder,
        retriever_stub=InProcessStub(retrieve.servicer),
        settings=settings.answer,
        workers=engines.answer_workers,
    )
    return retrieve, answer


def catalog_url(url: str, data: Path) -> str:
    """Return the catalog's URL with its file: a relative or missing one is below the data folder.

    Raises:
        NotAvailableError: it names a database server.
        InvalidRequestError: it is of another form.
    """
    if url.startswith(("postgresql:", "postgres:")):
        raise NotAvailableError("a PostgreSQL catalog is not offered yet", feature="postgresql")
    if not url.startswith("sqlite:"):
        raise InvalidRequestError.of("catalog", f"{url!r} is not of the form sqlite:FILE")
    return f"sqlite:{data / (url.removeprefix('sqlite:') or CATALOG_FILE)}"
