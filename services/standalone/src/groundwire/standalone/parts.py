"""What a process consists of, which of its services need what, and how its databases are opened."""

from collections.abc import Container, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc
from pydantic import SecretStr

from groundwire.kernel.catalog_urls import below, file_of, is_on_server
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers
from groundwire.standalone.readiness import Dependency
from groundwire.standalone.settings import ServerSettings
from groundwire.standalone.start_checks import plain_disk_failures

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
        PreconditionError: the folder of the file cannot be used, or its disk is full.
        GroundwireError: as `Database.open` does.
    """
    from groundwire.catalog.database import Database, Limits  # noqa: PLC0415 - answers need no database

    place = below(server.data, url, file, field)
    is_file = not is_on_server(place)
    # The file may be on another disk than the data folder.
    with plain_disk_failures(file_of(place).parent, f"folder of the {field}") if is_file else nullcontext():
        return Database.open(
            place,
            folder=server.data,
            password=None if password is None else password.get_secret_value(),
            limits=Limits(server.catalog_connections, server.catalog_wait_s, server.catalog_statement_s),
        )
