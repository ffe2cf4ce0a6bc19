"""Composition root of the embedded process: opens the engines once and hands them to all three services."""

import shutil
from contextlib import ExitStack
from pathlib import Path

from groundwire.answer import bootstrap as answer_bootstrap
from groundwire.api.answer.v1 import answer_service_pb2_grpc
from groundwire.api.ingest.v1 import ingest_service_pb2_grpc
from groundwire.api.retrieve.v1 import retrieve_service_pb2_grpc
from groundwire.catalog.database import Database
from groundwire.embedders.factory import open_embedder
from groundwire.ingest import bootstrap as ingest_bootstrap
from groundwire.kernel.errors import InvalidRequestError, NotAvailableError
from groundwire.retrieve import bootstrap as retrieve_bootstrap
from groundwire.rpc.in_process import InProcessStub
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers
from groundwire.standalone.settings import ProcessSettings
from groundwire.vectorstores.factory import open_vector_store

CATALOG_FILE = "catalog.db"
STAGING = "staging"


def build_services(settings: ProcessSettings, stack: ExitStack) -> list[Service]:
    """Open everything and return the three services, started; `stack` closes it in reverse order.

    Raises:
        GroundwireError: something cannot be opened; what was opened before is on `stack`.
    """
    server = settings.server
    _check_generator(server.generator)
    server.data.mkdir(mode=0o700, parents=True, exist_ok=True)
    catalog = Database.open(catalog_url(server.catalog, server.data))
    stack.callback(catalog.close)
    # Uploads that a dead process left half received; the catalog's lock makes this folder ours alone.
    shutil.rmtree(server.data / STAGING, ignore_errors=True)
    vectors = open_vector_store(server.vectors, data_dir=server.data)
    stack.callback(vectors.close)
    embedder = open_embedder(server.embedder, cache_dir=server.cache)
    stack.callback(embedder.close)
    workers = Workers(server.workers)
    stack.callback(workers.close)
    ingest = ingest_bootstrap.build(
        catalog=catalog, vectors=vectors, embedder=embedder, settings=settings.ingest, workers=workers
    )
    retrieve = retrieve_bootstrap.build(
        catalog=catalog, vectors=vectors, embedder=embedder, settings=settings.retrieve, workers=workers
    )
    answer = answer_bootstrap.build(
        catalog=catalog,
        embedder=embedder,
        retriever_stub=InProcessStub(retrieve.servicer),
        settings=settings.answer,
        workers=workers,
    )
    for part in (ingest, retrieve, answer):
        part.start()
        stack.callback(part.close)
    return [
        Service(
            "groundwire.api.ingest.v1.IngestService",
            ingest.servicer,
            ingest_service_pb2_grpc.add_IngestServiceServicer_to_server,
        ),
        Service(
            "groundwire.api.retrieve.v1.RetrieveService",
            retrieve.servicer,
            retrieve_service_pb2_grpc.add_RetrieveServiceServicer_to_server,
        ),
        Service(
            "groundwire.api.answer.v1.AnswerService",
            answer.servicer,
            answer_service_pb2_grpc.add_AnswerServiceServicer_to_server,
        ),
    ]


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


def _check_generator(url: str) -> None:
    if url.startswith("openai+"):
        raise NotAvailableError("generators behind an endpoint are not offered yet", feature="openai generator")
    if url != "extractive:":
        raise InvalidRequestError.of("generator", f"{url!r} is not 'extractive:'")
