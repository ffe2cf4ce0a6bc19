"""What a process consists of, which of its services need what, and how its databases are opened."""

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc
from pydantic import SecretStr

from groundwire.kernel.catalog_urls import below
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers
from groundwire.standalone.readiness import Dependency
from groundwire.standalone.settings import ServerSettings

if TYPE_CHECKING:
    from groundwire.answer.bootstrap import AnswerService
    from groundwire.catalog.database import Database
    from groundwire.ingest.bootstrap import IngestService
    from groundwire.kernel.embedder import Embedder
    from groundwire.retrieve.bootstrap import RetrieveService

# Answer needs engine and model in its own process because it searches, and the catalog because of its sessions.
SEARCHING = frozenset({"IngestService", "RetrieveService", "AnswerService"})
"""Services that search or store vectors."""
WRITING = frozenset({"IngestService", "CollectionService", "AnswerService"})
"""Services that cannot serve without writing to a database."""


@dataclass(slots=True)
class Parts:
    """The parts of a process that its services need, and those that metrics are read from."""

    services: list[Service]
    dependencies: list[Dependency]
    channels: list[grpc.aio.Channel] = field(default_factory=list)
    workers: dict[str, Workers] = field(default_factory=dict)
    database: "Database | None" = None
    embedder: "Embedder | None" = None
    ingest: "IngestService | None" = None
    retrieve: "RetrieveService | None" = None
    answer: "AnswerService | None" = None


def named(offered: Iterable[Service], names: Container[str]) -> frozenset[str]:
    """Return the full names of those services that have one of the short names."""
    return frozenset(service.name for service in offered if service.name.rpartition(".")[2] in names)


def open_database(server: ServerSettings, url: str, file: str, field: str, password: SecretStr | None) -> "Database":
    """Open a catalog, or a database of sessions; `file` below the data folder is that of `sqlite:` without one.

    Raises:
        InvalidRequestError: the URL is of another form; names the field.
        GroundwireError: as `Database.open` does.
    """
    from groundwire.catalog.database import Database, Limits  # noqa: PLC0415 - answers need no database

    return Database.open(
        below(server.data, url, file, field),
        folder=server.data,
        password=None if password is None else password.get_secret_value(),
        limits=Limits(server.catalog_connections, server.catalog_wait_s, server.catalog_statement_s),
    )
