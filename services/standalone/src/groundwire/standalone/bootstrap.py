"""Composition root of the embedded process: one catalog, vector store and embedder for all three services."""

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from groundwire.answer import bootstrap as answer_bootstrap
from groundwire.answer.bootstrap import ANSWER, AnswerService
from groundwire.answer.settings import parse_generator
from groundwire.catalog.database import Database
from groundwire.ingest import bootstrap as ingest_bootstrap
from groundwire.ingest.bootstrap import COLLECTIONS, INGEST, MAINTENANCE, OPERATIONS, IngestService
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.errors import InvalidRequestError, UnavailableError
from groundwire.kernel.vector_store import VectorStore
from groundwire.retrieve import bootstrap as retrieve_bootstrap
from groundwire.retrieve.bootstrap import LIBRARY, RETRIEVE, RetrieveService
from groundwire.rpc.in_process import InProcessStub
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers
from groundwire.standalone.readiness import Dependency
from groundwire.standalone.server_info import server_service
from groundwire.standalone.settings import ProcessSettings

CATALOG_FILE = "catalog.db"


@dataclass(slots=True)
class Parts:
    """What a process consists of, as far as its services need it: what it offers, needs, and is measured by."""

    services: list[Service]
    dependencies: list[Dependency]
    workers: dict[str, Workers] = field(default_factory=dict)
    catalog: Database | None = None
    embedder: Embedder | None = None
    ingest: IngestService | None = None
    retrieve: RetrieveService | None = None
    answer: AnswerService | None = None


def build_services(
    settings: ProcessSettings,
    vectors_opening: Future[VectorStore],
    embedder_opening: Future[Embedder],
    stack: ExitStack,
    announce: Callable[[str], None],
) -> Parts:
    """Open the catalog, wait for the engines, and return the three services, started, and what they need.

    `stack` closes in reverse order what is opened here; whoever began to open the engines closes them. `announce` is
    called with what is waited for, such as `opening the catalog`.

    Raises:
        GroundwireError: something cannot be opened; what was opened before is on `stack`.
    """
    announce("opening the catalog")
    data, password = settings.server.data, settings.server.catalog_password
    catalog = Database.open(
        catalog_url(settings.server.catalog, data),
        folder=data,
        password=password.get_secret_value() if password is not None else None,
    )
    stack.callback(catalog.close)
    if not vectors_opening.done():
        announce("opening the vector store")
    vectors = vectors_opening.result()
    if not embedder_opening.done():
        announce("loading the model")
    embedder = embedder_opening.result()

    announce("starting the services")

    pools: dict[str, Workers] = {}

    def workers(name: str) -> Workers:
        # Each service has threads of its own: ingests do not delay searches, nor searches sessions.
        made = pools[name] = Workers(settings.server.workers, name)
        stack.callback(made.close)
        return made

    ingest = ingest_bootstrap.build(
        catalog=catalog, vectors=vectors, embedder=embedder, settings=settings.ingest, workers=workers("ingest")
    )
    retrieve = retrieve_bootstrap.build(
        catalog=catalog, vectors=vectors, embedder=embedder, settings=settings.retrieve, workers=workers("query")
    )
    answer = answer_bootstrap.build(
        retrieve=InProcessStub(retrieve.servicer),
        library=InProcessStub(retrieve.library_servicer),
        records=InProcessStub(ingest.records),
        sessions=catalog,
        settings=settings.answer,
        workers=workers("answer"),
        chat_model=parse_generator(settings.server.generator),
    )
    for part in (ingest, retrieve, answer):
        part.start()
        stack.callback(part.close)
    services = [*ingest.services(), *retrieve.services(), *answer.services()]
    services.append(server_service(settings, vectors, embedder, services))
    return Parts(
        services=services,
        dependencies=dependencies_of(catalog, vectors, embedder, stack),
        workers=pools,
        catalog=catalog,
        embedder=embedder,
        ingest=ingest,
        retrieve=retrieve,
        answer=answer,
    )


def dependencies_of(catalog: Database, vectors: VectorStore, embedder: Embedder, stack: ExitStack) -> list[Dependency]:
    """Return what the services need, each with a check; `stack` closes what the checks use."""
    # Answer needs the engine and the model because it searches.
    searching, writing = frozenset({INGEST, RETRIEVE, ANSWER}), frozenset({INGEST, COLLECTIONS, ANSWER})
    every = frozenset({INGEST, COLLECTIONS, MAINTENANCE, OPERATIONS, RETRIEVE, LIBRARY, ANSWER})
    reads, writes = catalog.probe(), catalog.probe(of_writes=True)
    stack.callback(reads.close)
    stack.callback(writes.close)

    def check_model() -> None:
        if not embedder.is_responsive:
            raise UnavailableError("the embedding model does not answer")

    return [
        Dependency("catalog", reads.check_readable, every),
        Dependency("catalog writes", writes.check_writable, writing),
        Dependency("vector engine", vectors.check_responding, searching),
        Dependency("model", check_model, searching),
    ]


def catalog_url(url: str, data: Path) -> str:
    """Return the catalog's URL with its file: a relative or missing one is below the data folder.

    Raises:
        InvalidRequestError: it is of another form.
    """
    if url.startswith(("postgresql:", "postgres:")):
        return url
    if not url.startswith("sqlite:"):
        raise InvalidRequestError.of("catalog", f"{url!r} is of neither form: sqlite:FILE, postgresql://…")
    return f"sqlite:{data / (url.removeprefix('sqlite:') or CATALOG_FILE)}"
