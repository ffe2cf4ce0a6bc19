"""Three services on PostgreSQL and a Chroma server: links that are cut or frozen, and processes that stand still."""

import signal
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread, get_ident

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from groundwire.client import GroundwireClient
from groundwire.kernel.errors import DeadlineError, ExhaustedError, UnavailableError
from tests.e2e.split import Deployment
from tests.tcp_proxy import TcpProxy, tcp_proxy

pytestmark = [pytest.mark.slow, pytest.mark.faults]

LOST_S = 30.0
LIMIT_S = 15.0
GRACE_S = 10.0
"""What a busy machine may add to a deadline."""
SILENT_S = 1.0
"""Who does not say for so long that it serves does not."""
NOTICED_S = 5.0
"""The runbook promises it."""
SEARCHES = 64
"""Four times as many at a time as a process has connections to read with."""
WRITES = 16
_SERVING = health_pb2.HealthCheckResponse.SERVING


@dataclass
class Links:
    """A proxy before everything that the services reach one another and their stores by."""

    split: Deployment = field(init=False)
    proxies: dict[str, TcpProxy] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def through(self, name: str, port: int) -> int:
        self.proxies[name] = self.stack.enter_context(tcp_proxy(port))
        return self.proxies[name].port

    @contextmanager
    def lost(self, names: tuple[str, ...], how: str) -> Iterator[None]:
        with ExitStack() as broken:
            for name in names:
                if how == "stopped":
                    (process,) = (replica.process for replica in self.split.replicas[name])
                    process.send_signal(signal.SIGSTOP)
                    broken.callback(process.send_signal, signal.SIGCONT)
                    continue
                state: Callable[[], AbstractContextManager[None]] = getattr(self.proxies[name], how)
                broken.enter_context(state())
            yield


@pytest.fixture(scope="module")
def links() -> Iterator[Links]:
    opened = Links()
    with opened.stack:
        yield opened


@pytest.fixture(scope="module")
def split(links: Links, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    links.split = running = Deployment(tmp_path_factory.mktemp("split"), 1, through=links.through)
    yield running
    running.stop()


@dataclass
class Readiness:
    """When each service began and ceased to serve, asked four times a second."""

    split: Deployment
    now: dict[str, bool] = field(default_factory=dict)
    changes: list[tuple[float, str, bool]] = field(default_factory=list)

    def watch(self, service: str, ended: Event) -> None:
        (replica,) = self.split.replicas[service]
        with grpc.insecure_channel(replica.address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            while not ended.wait(0.25):
                try:
                    serves = stub.Check(health_pb2.HealthCheckRequest(), timeout=SILENT_S).status == _SERVING
                except grpc.RpcError:  # it stands still
                    serves = False
                if self.now.get(service) != serves:
                    self.now[service] = serves
                    self.changes.append((time.monotonic(), service, serves))

    def wait_for(self, services: tuple[str, ...]) -> None:
        """Wait until all of them serve at the same time."""
        gives_up_at = time.monotonic() + LOST_S
        while not all(self.now.get(each) for each in services):
            assert time.monotonic() < gives_up_at, f"{services} do not serve under load"
            time.sleep(0.05)

    def seconds_until(self, service: str, since: float, *, serves: bool) -> float:
        """Wait for a change that came since then and return how long it took."""
        gives_up_at = time.monotonic() + LOST_S
        while True:
            for at, of_service, state in list(self.changes):
                if of_service == service and state is serves and at > since:
                    return at - since
            assert time.monotonic() < gives_up_at, f"{service} does not become {'ready' if serves else 'unready'}"
            time.sleep(0.05)


@dataclass
class Calls:
    """Calls that go on all the time; `pending` are the request ids of writes that were not acknowledged, by thread."""

    client: GroundwireClient
    collection: str
    codes: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    pending: dict[int, str] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    good_at: dict[str, float] = field(default_factory=dict)

    def search(self, number: int) -> None:
        assert self.client.retrieve(collection=self.collection, query=f"tides {number} of the sea").results

    def ask(self, _: int) -> None:
        assert self.client.ask(collection=self.collection, question="What causes the tides?").answer.citations

    def write(self, _: int) -> None:
        # What was not acknowledged is repeated before anything else is written.
        self.put(self.pending.setdefault(get_ident(), str(uuid.uuid4())))
        del self.pending[get_ident()]

    def put(self, request_id: str) -> None:
        name = f"{request_id}.md"
        content = f"# Tide\n\nThe tide {name} of the sea.\n".encode()
        self.client.ingest_document(collection=self.collection, source_uri=name, content=content, request_id=request_id)
        self.acknowledged.add(name)

    def repeat(self, kind: str, ended: Event) -> None:
        number = 0
        while not ended.wait(1.0):
            number += 1
            began_at = time.monotonic()
            try:
                getattr(self, kind)(number)
            except (UnavailableError, DeadlineError, ExhaustedError) as error:
                self.codes[f"{kind} {error.reason}"] += 1
            else:
                self.codes[f"{kind} OK"] += 1
                self.good_at[kind] = time.monotonic()
            self.slowest_s = max(self.slowest_s, time.monotonic() - began_at)


@pytest.mark.parametrize(
    ("names", "unready", "how"),
    [
        *(
            pytest.param(names, unready, how, id=f"{what}-{how}")
            for how in ("cut", "frozen")
            for what, names, unready in (
                ("postgresql", ("catalog", "sessions"), ("ingest", "retrieve", "answer")),
                ("vectors", ("vectors",), ("ingest", "retrieve", "answer")),
                ("services", ("retrieve", "ingest"), ("answer",)),
            )
        ),
        pytest.param(("retrieve",), ("retrieve", "answer"), "stopped", id="retrieve-stopped"),
    ],
)
def test_a_link_that_is_lost_costs_typed_errors_and_nothing_else(
    split: Deployment, links: Links, names: tuple[str, ...], unready: tuple[str, ...], how: str
) -> None:
    collection = f"c{uuid.uuid4().hex[:12]}"
    ended, readiness = Event(), Readiness(split)
    watching = [Thread(target=readiness.watch, args=(service, ended)) for service in split.replicas]
    for each in watching:
        each.start()
    with GroundwireClient(split.address, timeout_s=LIMIT_S) as client:
        patient = GroundwireClient(split.address)
        patient.create_collection(collection=collection)
        text = b"# Tides\n\nThe moon causes the tides of the sea.\n"
        patient.ingest_document(collection=collection, source_uri="tides.md", content=text)
        calls = Calls(client, collection)
        kinds = ["search"] * SEARCHES + ["write"] * WRITES + ["ask"] * WRITES
        try:
            for service in unready:
                readiness.seconds_until(service, 0.0, serves=True)
            with ThreadPoolExecutor(len(kinds)) as threads:
                callers = [threads.submit(calls.repeat, kind, ended) for kind in kinds]
                try:
                    for kind in set(kinds):
                        _first_good(calls, kind, 0.0)
                    # All callers begin at once, and may keep a health check waiting: that is not the loss.
                    readiness.wait_for(unready)
                    with links.lost(names, how):
                        lost_at = time.monotonic()
                        unready_s = {each: readiness.seconds_until(each, lost_at, serves=False) for each in unready}
                        time.sleep(max(0.0, lost_at + LOST_S - time.monotonic()))
                    back_at = time.monotonic()
                    ready_s = {each: readiness.seconds_until(each, back_at, serves=True) for each in unready}
                    works_s = {kind: _first_good(calls, kind, back_at) for kind in ("search", "write", "ask")}
                finally:
                    ended.set()
                for caller in callers:
                    caller.result()
            for request_id in calls.pending.values():
                calls.put(request_id)
            stored = {each.source: each.generation for each in patient.collection(collection).documents()}
            assert stored == dict.fromkeys(calls.acknowledged | {"tides.md"}, 1)
        finally:
            ended.set()
            for each in watching:
                each.join()
            patient.close()
    figures = {"unready": unready_s, "ready": ready_s, "works": works_s, "slowest call": {"": calls.slowest_s}}
    told = {what: {name: round(seconds, 1) for name, seconds in each.items()} for what, each in figures.items()}
    print(f"\n{names} {how}: {told}, {len(stored)} documents, {dict(calls.codes)}")  # noqa: T201 - the figures
    assert calls.slowest_s < LIMIT_S + GRACE_S
    assert max(*unready_s.values(), *ready_s.values(), *works_s.values()) <= NOTICED_S


def _first_good(calls: Calls, kind: str, since: float) -> float:
    gives_up_at = time.monotonic() + 2 * LOST_S
    while calls.good_at.get(kind, 0.0) <= since:
        assert time.monotonic() < gives_up_at, f"no {kind} works: {calls.codes}"
        time.sleep(0.05)
    return calls.good_at[kind] - since
