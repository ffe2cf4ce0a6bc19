"""A split deployment on loopback: PostgreSQL, a Chroma server, and replicas of ingest, retrieve and answer.

With `GROUNDWIRE_TEST_DEPLOYMENT=split` tests that take what `start_services` starts run on one (`make test-split`).
"""

import atexit
import os
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path

from tests.conformance.chroma_server import ChromaServer
from tests.conformance.processes import remove_at_the_end
from tests.e2e.server import HASHING, ServerProcess
from tests.fork_server import started_server
from tests.postgresql import server

_MIN_READY_S = 3.0
"""What Kubernetes calls `minReadySeconds`."""
VARIABLES = {"GROUNDWIRE_TOKEN_KEY": "shared"}


class Deployment:
    """Replicas that share a catalog, a vector store and sessions; `address` is what clients of all services need."""

    def __init__(
        self,
        folder: Path,
        replicas: int = 2,
        arguments: Sequence[str] = HASHING,
        variables: Mapping[str, str] | None = None,
        through: Callable[[str, int], int] = lambda _name, port: port,
    ) -> None:
        """Start the replicas; `through` gives the port by which they reach what listens on one.

        It gets `catalog`, `sessions`, `vectors` or a service as well, and is asked once for each.
        """
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._through = through
        self._model = arguments
        self.variables = {**VARIABLES, **(variables or {})}
        # Servers of a test run are shared: each deployment has names of its own in them.
        prefix = f"prefix=d{uuid.uuid4().hex[:8]}-"
        self.vectors_port = through("vectors", _chroma().port)
        vectors = f"chroma+http://127.0.0.1:{self.vectors_port}?{prefix}"
        databases = {
            name: server().new_database().replace(f":{server().port}/", f":{through(name, server().port)}/")
            for name in ("catalog", "sessions")
        }
        self._stores = ("--catalog", databases["catalog"], "--vectors", vectors)
        self._sessions = ("--sessions", databases["sessions"])
        self._peers: tuple[str, ...] = ()
        self.replicas: dict[str, list[ServerProcess]] = {}
        started_server("tests.e2e.command_runner", "server")  # before threads want it
        with ExitStack() as started, ThreadPoolExecutor(2 * replicas) as starting:
            for services in (("ingest", "retrieve"), ("answer",)):
                begun = {
                    service: [starting.submit(self.start, service, number) for number in range(replicas)]
                    for service in services
                }
                started.callback(_stop_all, [each for starts in begun.values() for each in starts])
                self.replicas |= {service: [each.result() for each in starts] for service, starts in begun.items()}
                if not self._peers:
                    self._peers = ("--retrieve", self._seen("retrieve"), "--ingest", self._seen("ingest"))
            started.pop_all()

    def start(self, service: str, number: int, listen: str = "127.0.0.1:0") -> ServerProcess:
        """Start a replica; one that takes the place of another has its address."""
        data, arguments = self._folder / f"{service}-{number}", (*self.arguments(service), "--listen", listen)
        return ServerProcess(data, arguments, **self.variables)

    def arguments(self, service: str) -> Sequence[str]:
        """Return what a replica of a service is started with, without its address and its folder."""
        if service == "answer":
            return (service, *self._peers, *self._sessions)
        return (service, *self._stores, *self._model)

    def address_of(self, service: str) -> str:
        """Return the address of all replicas of a service."""
        return f"ipv4:{','.join(replica.address for replica in self.replicas[service])}"

    @property
    def address(self) -> str:
        """Return the address of all services."""
        return ",".join(f"{service}={self.address_of(service)}" for service in self.replicas)

    def replace_all(self, times: int = 1) -> None:
        """Replace one replica of each service after the other as orchestrators do; clients have time to find each."""

        def replace(service: str) -> None:
            for _ in range(times):
                for number, old in enumerate(self.replicas[service]):
                    assert old.stop() == 0
                    self.replicas[service][number] = self.start(service, number, old.address)
                    time.sleep(_MIN_READY_S)

        with ThreadPoolExecutor(len(self.replicas)) as services:
            list(services.map(replace, self.replicas))

    def _seen(self, service: str) -> str:
        """Return the address of a service as the others see it."""
        ports = [int(replica.address.rpartition(":")[2]) for replica in self.replicas[service]]
        return f"ipv4:{','.join(f'127.0.0.1:{self._through(service, port)}' for port in ports)}"

    def stop(self) -> int:
        """Stop all replicas; return 0, or the exit code of one that failed."""
        replicas = [replica for running in reversed(self.replicas.values()) for replica in running]
        for replica in replicas:
            replica.process.terminate()
        return max((replica.close() for replica in replicas), key=abs)


def _stop_all(starts: Sequence[Future[ServerProcess]]) -> None:
    """Stop those that started where another one did not."""
    for start in starts:
        if start.exception() is None:
            start.result().stop()


@contextmanager
def deployment(folder: Path, replicas: int = 2, arguments: Sequence[str] = HASHING) -> Iterator[Deployment]:
    """Start everything; PostgreSQL and the Chroma server of the test run are used by others, too."""
    running = Deployment(folder, replicas, arguments)
    try:
        yield running
    finally:
        running.stop()


def start_services(folder: Path, **variables: str) -> ServerProcess | Deployment:
    """Start all services, in one process unless the environment says otherwise; to be stopped."""
    return Deployment(folder, variables=variables) if is_split() else ServerProcess(folder / "data", **variables)


def is_split() -> bool:
    """Return whether tests run on a split deployment."""
    return os.environ.get("GROUNDWIRE_TEST_DEPLOYMENT") == "split"


@cache
def _chroma() -> ChromaServer:
    folder = Path(tempfile.mkdtemp(prefix="groundwire-chroma-"))
    remove_at_the_end(folder)
    started = ChromaServer(folder)
    started.start()
    atexit.register(started.stop)
    return started
