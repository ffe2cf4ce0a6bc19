"""The store on a real Chroma server against the specifications."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import DeadlineError, StoreMismatchError, StoreUnavailableError
from groundwire.kernel.filters import Comparator, Comparison, Filter
from groundwire.kernel.vector_store import VectorStore
from groundwire.vectorstores.chroma.server_store import ChromaAddress, close_server, open_server
from groundwire.vectorstores.factory import open_vector_store
from tests.conformance.chroma_server import ChromaServer, chroma_server
from tests.conformance.engine_limits import is_unsupported_by_chroma, orders_under_negation
from tests.conformance.server_vector_store import ServerVectorStoreContract
from tests.conformance.vector_store import DIMENSIONS, NAME, VectorStoreContract, batch, found, unit_vectors
from tests.packages import requires
from tests.tcp_proxy import tcp_proxy

pytestmark = requires("chromadb")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaServer]:
    with chroma_server(tmp_path_factory.mktemp("chroma-server")) as server:
        yield server


@pytest.fixture(scope="module")
def engine(server: ChromaServer) -> Iterator[VectorStore]:
    store = open_vector_store(server.url, data_dir=Path())
    yield store
    store.close()


@pytest.fixture
def open_again(server: ChromaServer) -> Iterator[Callable[[], VectorStore]]:
    opened: list[VectorStore] = []

    def open_one() -> VectorStore:
        opened.append(open_vector_store(server.url, data_dir=Path()))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


class TestChromaServerStore(VectorStoreContract, ServerVectorStoreContract):
    def is_unsupported(self, clause: Filter) -> bool:
        return is_unsupported_by_chroma(clause)

    def is_unsupported_filter(self, condition: Filter) -> bool:
        return super().is_unsupported_filter(condition) or orders_under_negation(condition)


def test_a_server_that_hangs_costs_a_call_no_more_than_its_time(tmp_path: Path) -> None:
    vectors = unit_vectors(20)
    with chroma_server(tmp_path) as server:
        store = open_vector_store(server.url, data_dir=Path())
        store.create_collection(NAME, DIMENSIONS, Budget())
        store.upsert(NAME, batch(range(1, 21), vectors), Budget())
        store.check_responding()
        calls: list[Callable[[], object]] = [
            lambda: store.count(NAME, Budget(1.0)),
            lambda: store.search(NAME, vectors[9], 1, Budget(1.0)),
            lambda: store.upsert(NAME, batch([1], vectors[:1]), Budget(1.0)),
            lambda: store.create_collection("gw-other", 4, Budget(1.0)),
            store.check_responding,
        ]
        with ThreadPoolExecutor(1) as beside, server.stopped():
            # Nobody waits for those who have more time.
            beside.submit(store.create_collection, "gw-slow", 4, Budget(60.0))
            for call in calls:
                began_at = time.monotonic()
                with pytest.raises((DeadlineError, StoreUnavailableError)):
                    call()
                assert time.monotonic() - began_at < 15.0
        store.check_responding()
        assert store.count(NAME, Budget()) == 20
        store.close()


def test_the_system_probes_connections_whose_other_end_may_be_gone(server: ChromaServer, engine: VectorStore) -> None:
    engine.collections(Budget())
    lost_after_s = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(OSError), socket.socket(fileno=os.dup(int(entry.name))) as connection:
            if connection.getpeername() == ("127.0.0.1", server.port):
                options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT, socket.TCP_USER_TIMEOUT)
                idle_s, every_s, count, limit_ms = (connection.getsockopt(socket.IPPROTO_TCP, each) for each in options)
                assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                lost_after_s.append(max(idle_s + every_s * count, limit_ms / 1000))
    assert lost_after_s
    assert 0 < max(lost_after_s) <= 4


def test_an_outage_is_unavailable_and_everything_is_there_afterwards(tmp_path: Path) -> None:
    vectors = unit_vectors(300)
    with chroma_server(tmp_path) as server:
        store = open_vector_store(server.url, data_dir=Path())
        store.create_collection(NAME, DIMENSIONS, Budget())
        store.upsert(NAME, batch(range(1, 301), vectors), Budget())
        store.delete(NAME, [5, 6], Budget())
        where = Comparison("level", Comparator.LTE, 200)
        before = store.search(NAME, vectors[9], 20, Budget(), where=where)
        server.stop()
        for call in (
            lambda: store.count(NAME, Budget()),
            lambda: store.search(NAME, vectors[9], 1, Budget()),
            lambda: store.upsert(NAME, batch([1], vectors[:1]), Budget()),
            lambda: store.create_collection("gw-other", 4, Budget()),
            lambda: store.collections(Budget()),
        ):
            with pytest.raises(StoreUnavailableError, match="chroma failed") as failed:
                call()
            assert failed.value.metadata == {"engine": "chroma"}
        server.start()
        assert store.search(NAME, vectors[9], 20, Budget(), where=where) == before
        assert list(store.numbers(NAME, Budget())) == [n for n in range(1, 301) if n not in {5, 6}]
        store.close()


@pytest.mark.requirement("S1-27")
@pytest.mark.requirement("T08")
def test_a_server_that_swallows_connections_is_unavailable_long_before_the_time_limit_of_a_request(
    server: ChromaServer,
) -> None:
    with tcp_proxy(server.port) as link:
        store = open_vector_store(f"chroma+http://127.0.0.1:{link.port}", data_dir=Path())
    # Nobody accepts what waits here, and once the queue is full the kernel answers no one.
    with socket.socket() as listening, ExitStack() as waiting:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", link.port))
        listening.listen(0)
        for _ in range(8):
            filling = waiting.enter_context(socket.socket())
            filling.settimeout(0)
            filling.connect_ex(listening.getsockname())
        began = time.monotonic()
        with pytest.raises(StoreUnavailableError):
            store.collections(Budget())
        assert time.monotonic() - began < 10
    store.close()


@contextmanager
def proxy(server: ChromaServer, searches: list[tuple[int, bytes]]) -> Iterator[str]:
    """Pass requests on to the server, except the first searches, each of which gets one of these answers."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.path.endswith("/query") and searches:
                status, body = searches.pop(0)
            else:
                url = f"http://127.0.0.1:{server.port}{self.path}"
                reply = httpx.request(
                    self.command, url, content=sent, headers={"content-type": "application/json"}, timeout=30
                )
                status, body = reply.status_code, reply.content
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_DELETE = do_POST  # noqa: N815 - the names that the base class looks for

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=listening.serve_forever)
    thread.start()
    try:
        yield f"chroma+http://127.0.0.1:{listening.server_port}"
    finally:
        listening.shutdown()
        thread.join()
        listening.server_close()


def said_by_chroma(error: str, message: str) -> bytes:
    return json.dumps({"error": error, "message": message}).encode()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, said_by_chroma("InternalError", "Error executing plan: Internal error: Error finding id")),
        (500, said_by_chroma("InternalError", "Error executing plan: Internal error: Error getting embedding")),
        (429, said_by_chroma("RateLimitError", "too many requests")),
        (502, b"<html>Bad Gateway</html>"),
        (429, b"slow down"),
    ],
)
def test_a_call_that_the_server_fails_is_made_again_up_to_twice(server: ChromaServer, status: int, body: bytes) -> None:
    vectors = unit_vectors(20)
    answers = [(status, body)] * 2
    with proxy(server, answers) as url:
        store = open_vector_store(url, data_dir=Path())
        store.create_collection(NAME, DIMENSIONS, Budget())
        store.upsert(NAME, batch(range(1, 21), vectors), Budget())
        assert found(store, vectors[6], 1) == [7]
        assert answers == []
        answers += [(status, body)] * 3
        with pytest.raises(StoreUnavailableError):
            store.search(NAME, vectors[6], 1, Budget())
        assert answers == []
        store.drop_collection(NAME, Budget())
        store.close()


@pytest.mark.parametrize("body", [said_by_chroma("InvalidArgumentError", "no such field"), b"<html>Bad Request</html>"])
def test_a_call_that_the_server_refuses_is_not_made_again(server: ChromaServer, body: bytes) -> None:
    vectors = unit_vectors(2)
    answers = [(400, body)] * 2
    with proxy(server, answers) as url:
        store = open_vector_store(url, data_dir=Path())
        store.create_collection(NAME, DIMENSIONS, Budget())
        store.upsert(NAME, batch([1, 2], vectors), Budget())
        with pytest.raises(StoreUnavailableError):
            store.search(NAME, vectors[1], 1, Budget())
        assert len(answers) == 1
        store.drop_collection(NAME, Budget())
        store.close()


def test_a_collection_with_another_metric_is_refused(server: ChromaServer) -> None:
    options = ChromaAddress.parse(server.url, None)
    client = open_server(options)
    client.create_collection(NAME, embedding_function=None)
    store = open_vector_store(server.url, data_dir=Path())
    with pytest.raises(StoreMismatchError) as refused:
        store.create_collection(NAME, DIMENSIONS, Budget())
    assert refused.value.metadata == {"setting": "metric", "expected": "cosine", "got": "l2"}
    client.delete_collection(NAME)
    close_server(client)
    store.close()


def test_a_plain_connection_reads_no_certificates(server: ChromaServer, certificates_read: list[str]) -> None:
    with closing(open_vector_store(server.url, data_dir=Path())) as store:
        assert store.collections(Budget()) == []
    assert certificates_read == []


def test_a_prefix_keeps_installations_apart(server: ChromaServer) -> None:
    one = open_vector_store(f"{server.url}?prefix=one-", data_dir=Path())
    two = open_vector_store(f"{server.url}?prefix=two-", data_dir=Path())
    one.create_collection(NAME, DIMENSIONS, Budget())
    two.create_collection(NAME, 4, Budget())
    one.upsert(NAME, batch([1], unit_vectors(1)), Budget())
    assert (one.collections(Budget()), two.collections(Budget()), two.count(NAME, Budget())) == ([NAME], [NAME], 0)
    two.drop_collection(NAME, Budget())
    assert found(one, unit_vectors(1)[0]) == [1]
    one.drop_collection(NAME, Budget())
    for store in (one, two):
        assert store.collections(Budget()) == []
        store.close()
