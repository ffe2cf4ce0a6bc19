"""What a process consists of, and which of its services cannot do without what."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import grpc

from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers
from groundwire.standalone.readiness import Dependency

if TYPE_CHECKING:
    from groundwire.answer.bootstrap import AnswerService
    from groundwire.catalog.database import Database
    from groundwire.ingest.bootstrap import IngestService
    from groundwire.kernel.embedder import Embedder
    from groundwire.retrieve.bootstrap import RetrieveService

# Answer needs engine and model in its own process because it searches, and the catalog because of its sessions.
_SEARCHING = frozenset({"IngestService", "RetrieveService", "AnswerService"})
_WRITING = frozenset({"IngestService", "CollectionService", "AnswerService"})


@dataclass(slots=True)
class Parts:
    """What a process consists of, as far as its services need it: what it offers, needs, and is measured by."""

    services: list[Service]
    dependencies: list[Dependency]
    channels: list[grpc.aio.Channel] = field(default_factory=list)
    workers: dict[str, Workers] = field(default_factory=dict)
    catalog: "Database | None" = None
    embedder: "Embedder | None" = None
    ingest: "IngestService | None" = None
    retrieve: "RetrieveService | None" = None
    answer: "AnswerService | None" = None


def searching(offered: Iterable[Service]) -> frozenset[str]:
    """Return the names of those services that search or store vectors."""
    return _named(offered, _SEARCHING)


def writing(offered: Iterable[Service]) -> frozenset[str]:
    """Return the names of those services that cannot serve without writing to a database."""
    return _named(offered, _WRITING)


def _named(offered: Iterable[Service], names: frozenset[str]) -> frozenset[str]:
    return frozenset(service.name for service in offered if service.name.rpartition(".")[2] in names)
