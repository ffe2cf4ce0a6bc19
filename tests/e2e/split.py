"""A split deployment on loopback: PostgreSQL, a Chroma server, and replicas of ingest, retrieve and answer."""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.conformance.chroma_server import chroma_server
from tests.e2e.server import ServerProcess
from tests.postgresql import Server, server

_MIN_READY_S = 3.0
"""What Kubernetes calls `minReadySeconds`."""
VARIABLES = {"GROUNDWIRE_TOKEN_KEY": "shared", "GROUNDWIRE_ANSWER_MIN_SUPPORT": "0.05"}
HASHING = ("--embedder", "hashing:256")


class Deployment:
    """Replicas that share a catalog, a vector store and sessions; `addresses` are what clients need."""

    def __init__(self, folder: Path, postgresql: Server, vectors: str, replicas: int, model: Sequence[str]) -> None:
        self._folder = folder
        self._model = model
        self._stores = ("--catalog", postgresql.new_database(), "--vectors", vectors)
        self._sessions = ("--sessions", postgresql.new_database())
        self.replicas: dict[str, list[ServerProcess]] = {"ingest": [], "retrieve": [], "answer": []}
        for service in self.replicas:
            self.replicas[service] = [self.start(service, number) for number in range(replicas)]

    def start(self, service: str, number: int, listen: str = "127.0.0.1:0") -> ServerProcess:
        """Start a replica; one that takes the place of another has its address."""
        data, arguments = self._folder / f"{service}-{number}", (*self.arguments(service), "--listen", listen)
        return ServerProcess(data, arguments, **VARIABLES)

    def arguments(self, service: str) -> Sequence[str]:
        """Return what a replica of a service is started with, without its address and its folder."""
        if service == "answer":
            peers = ("--retrieve", self.address("retrieve"), "--ingest", self.address("ingest"))
            return (service, *peers, *self._sessions)
        return (service, *self._stores, *self._model)

    def address(self, service: str) -> str:
        """Return the address of all replicas of a service."""
        return f"ipv4:{','.join(replica.address for replica in self.replicas[service])}"

    def replace_all(self) -> None:
        """Replace one replica after the other as an orchestrator does; clients have time to find each."""
        for service, running in self.replicas.items():
            for number, old in enumerate(running):
                assert old.stop() == 0
                running[number] = self.start(service, number, old.address)
                time.sleep(_MIN_READY_S)

    def stop(self) -> None:
        """Stop all replicas."""
        for running in reversed(self.replicas.values()):
            for replica in running:
                replica.stop()


@contextmanager
def deployment(folder: Path, replicas: int = 2, model: Sequence[str] = HASHING) -> Iterator[Deployment]:
    """Start everything; a PostgreSQL of the test run is used by others, too."""
    with ExitStack() as stack:
        vectors = stack.enter_context(chroma_server(folder / "chroma"))
        running = Deployment(folder, server(), vectors.url, replicas, model)
        stack.callback(running.stop)
        yield running
