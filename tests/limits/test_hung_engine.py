"""A vector engine that is stopped or killed under four times the calls it has connections for, and a locked catalog.

Every call ends within its deadline in a result or a typed error, the health tells the truth within 5 s, and all is
well again within 5 s after the engine is.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pysqlite3
import pytest

from groundwire.api.common.v1 import document_pb2, search_mode_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as retrieve_pb
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import (
    DeadlineError,
    ExhaustedError,
    GroundwireError,
    InternalError,
    UnavailableError,
)
from groundwire.rpc.healthcheck import status_of
from tests.conformance.processes import engine_pids, freeze
from tests.e2e.server import ASKS_ENGINE, ServerProcess
from tests.stubs import by_id

pytestmark = [pytest.mark.limits, pytest.mark.timeout(500)]

INGEST, RETRIEVE, ANSWER = (
    f"groundwire.api.{name.lower()}.v1.{name}Service" for name in ("Ingest", "Retrieve", "Answer")
)
COLLECTION = "harbour"
DOCUMENTS = 24
CALLERS = 24
"""Four times the connections to an engine."""
DEADLINE_S = 12.0
TELLING_S = 5.0
NOISE_S = 8.0
"""What a busy machine may add to a limit."""
VECTOR, LEXICAL = search_mode_pb2.SEARCH_MODE_VECTOR, search_mode_pb2.SEARCH_MODE_LEXICAL


def word(number: int) -> str:
    """Return a word that stands in one document only."""
    return f"lantern{number:03}beacon"


def engine_pid(server: ServerProcess) -> int:
    """Return the process that runs the engine."""
    (pid,) = engine_pids(server.process.pid)
    return pid


def search(client: GroundwireClient, number: int, mode: search_mode_pb2.SearchMode.ValueType) -> Sequence[str]:
    """Search for what one document says, never through a cache; return the sources found, best first.

    What makes each query another one are punctuation marks: a further word could share dimensions with a document's.
    """
    marks = "".join("?!"[int(bit)] for bit in f"{time.monotonic_ns():b}")
    request = retrieve_pb.RetrieveRequest(
        collection=COLLECTION,
        query=f"{word(number)} {marks}",
        options=RetrievalOptions(mode=mode, top_k=3, min_relevance=0.0),
    )
    return [hit.chunk.source_uri for hit in client.retrieve.send(request, timeout_s=DEADLINE_S).results]


def ingest(client: GroundwireClient, number: int) -> document_pb2.Document:
    request = pb.IngestDocumentRequest(
        collection=COLLECTION, source_uri=f"{number}.txt", content=f"The {word(number)} is lit at night.".encode()
    )
    return client.ingest_document.send(request, timeout_s=DEADLINE_S).result.document


def outcome_of(call: Callable[[], object]) -> tuple[float, object]:
    """Return how long a call took and its result, or its error if that is one of ours."""
    began_at = time.monotonic()
    try:
        result = call()
    except GroundwireError as error:
        result = error
    return time.monotonic() - began_at, result


def seconds_until(condition: Callable[[], bool], limit_s: float = 60.0) -> float:
    began_at = time.monotonic()
    while not condition():
        assert time.monotonic() - began_at < limit_s
        time.sleep(0.05)
    return time.monotonic() - began_at


def is_serving(server: ServerProcess, service: str = "") -> bool:
    return status_of(server.address, service) == "SERVING"


def searches_by_vector(client: GroundwireClient) -> bool:
    """Tell whether the engine answers; every document is found by its own words then: no answer is another caller's."""
    try:
        first = [search(client, number, VECTOR)[:1] for number in range(DOCUMENTS)]
    except UnavailableError:
        return False
    assert first == [[f"{number}.txt"] for number in range(DOCUMENTS)]
    return True


@pytest.fixture(params=["qdrant-edge", pytest.param("chroma", marks=pytest.mark.slow)])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    pytest.importorskip({"qdrant-edge": "qdrant_edge", "chroma": "chromadb"}[request.param])
    arguments = ("--embedder", "hashing:256", "--vectors", f"{request.param}:")
    running = ServerProcess(tmp_path / "data", arguments, **ASKS_ENGINE)
    try:
        with GroundwireClient(running.address) as client:
            client.create_collection(collection=COLLECTION)
            for number in range(DOCUMENTS):
                ingest(client, number)
            seconds_until(lambda: searches_by_vector(client))
        yield running
    finally:
        if running.process.poll() is None:
            running.stop()


@pytest.fixture
def client(server: ServerProcess) -> Iterator[GroundwireClient]:
    with GroundwireClient(server.address) as client:
        yield client


def test_calls_end_in_time_while_the_engine_is_stopped(
    server: ServerProcess, client: GroundwireClient, record_property: Callable[[str, object], None]
) -> None:
    document = ingest(client, 0)
    session = client.create_session(collection=COLLECTION).session
    engine = engine_pid(server)
    freeze(engine)
    try:
        with ThreadPoolExecutor(CALLERS + 1) as pool:
            noticed = pool.submit(seconds_until, lambda: not is_serving(server))
            calls = [pool.submit(outcome_of, partial(search, client, n, VECTOR)) for n in range(CALLERS // 2)]
            calls += [pool.submit(outcome_of, partial(ingest, client, 1000 + n)) for n in range(CALLERS // 2)]
            ended = [call.result() for call in calls]
            record_property("noticed_s", noticed.result())
            assert noticed.result() < TELLING_S + NOISE_S
        assert [status_of(server.address, name) for name in (INGEST, RETRIEVE, ANSWER)] == ["NOT_SERVING"] * 3
        assert is_serving(server, "liveness")
        record_property("slowest_call_s", max(elapsed for elapsed, _ in ended))
        assert len(ended) == CALLERS
        for elapsed_s, outcome in ended:
            assert elapsed_s < DEADLINE_S + NOISE_S
            assert isinstance(outcome, (UnavailableError, DeadlineError)), outcome
        # What needs no engine goes on.
        assert search(client, 7, LEXICAL)[:1] == ["7.txt"]
        assert client.get_document(collection=COLLECTION, reference=by_id(document.document_id)).document == document
        assert client.get_session(session_id=session.session_id).session.session_id == session.session_id
        elapsed_s, refused = outcome_of(lambda: search(client, 1, VECTOR))
        assert isinstance(refused, UnavailableError)
        assert refused.reason == "STORE_UNAVAILABLE"
        assert "has not responded" in refused.message
        assert elapsed_s < TELLING_S
    finally:
        os.kill(engine, signal.SIGCONT)
    back_s = seconds_until(lambda: is_serving(server) and searches_by_vector(client))
    record_property("back_s", back_s)
    assert back_s < TELLING_S + NOISE_S
    assert engine_pid(server) == engine


def test_a_killed_engine_is_replaced_and_has_lost_nothing(
    server: ServerProcess, client: GroundwireClient, record_property: Callable[[str, object], None]
) -> None:
    killed = engine_pid(server)
    with ThreadPoolExecutor(CALLERS) as pool:
        calls = [
            pool.submit(outcome_of, partial(search, client, number % DOCUMENTS, VECTOR))
            for number in range(4 * CALLERS)
        ]
        os.kill(killed, signal.SIGKILL)
        ended = [call.result() for call in calls]
    for number, (elapsed_s, outcome) in enumerate(ended):
        assert elapsed_s < DEADLINE_S + NOISE_S
        if isinstance(outcome, GroundwireError):
            assert isinstance(outcome, UnavailableError), outcome
        else:
            assert outcome[:1] == [f"{number % DOCUMENTS}.txt"]  # type: ignore[index]  # a list of sources
    back_s = seconds_until(lambda: is_serving(server) and searches_by_vector(client))
    record_property("back_s", back_s)
    assert engine_pid(server) != killed


def test_an_engine_that_stays_stopped_is_replaced(tmp_path: Path) -> None:
    pytest.importorskip("qdrant_edge")
    server = ServerProcess(tmp_path / "data", GROUNDWIRE_ENGINE_HUNG_AFTER_S="6", **ASKS_ENGINE)
    with GroundwireClient(server.address) as client:
        client.create_collection(collection=COLLECTION)
        for number in range(DOCUMENTS):
            ingest(client, number)
        stopped = engine_pid(server)
        freeze(stopped)
        assert seconds_until(lambda: not is_serving(server)) < TELLING_S + NOISE_S
        assert seconds_until(lambda: is_serving(server) and searches_by_vector(client)) < 30.0
        assert engine_pid(server) != stopped
    assert server.stop() == 0


def test_a_stopped_engine_does_not_hold_up_the_end_of_the_server(tmp_path: Path) -> None:
    pytest.importorskip("qdrant_edge")
    drain_s = 3.0
    server = ServerProcess(tmp_path / "data", GROUNDWIRE_DRAIN_S=str(drain_s), **ASKS_ENGINE)
    with GroundwireClient(server.address) as client, ThreadPoolExecutor(CALLERS) as pool:
        client.create_collection(collection=COLLECTION)
        ingest(client, 1)
        freeze(engine_pid(server))
        calls = [pool.submit(outcome_of, lambda: search(client, 1, VECTOR)) for _ in range(CALLERS)]
        time.sleep(0.5)
        began_at = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began_at < drain_s + 12.0
        assert all(isinstance(call.result()[1], (UnavailableError, DeadlineError)) for call in calls)


def test_a_locked_catalog_takes_ingest_out_and_leaves_search_in(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    server = ServerProcess(tmp_path / "data", ("--embedder", "hashing:256", "--vectors", "memory:"))
    with GroundwireClient(server.address) as client:
        client.create_collection(collection=COLLECTION)
        for number in range(DOCUMENTS):
            ingest(client, number)
        stranger = pysqlite3.connect(str(tmp_path / "data" / "catalog.db"), isolation_level=None)
        stranger.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(CALLERS) as pool:
            calls = [pool.submit(outcome_of, partial(ingest, client, 1000 + n)) for n in range(CALLERS)]
            noticed_s = seconds_until(lambda: not is_serving(server, INGEST))
            record_property("noticed_s", noticed_s)
            assert noticed_s < TELLING_S + NOISE_S
            assert is_serving(server, RETRIEVE)
            assert is_serving(server, "liveness")
            assert searches_by_vector(client)
            ended = [call.result() for call in calls]
        assert len(ended) == CALLERS
        for elapsed_s, outcome in ended:
            assert elapsed_s < DEADLINE_S + NOISE_S
            assert isinstance(outcome, (UnavailableError, DeadlineError, ExhaustedError)), outcome
            assert not isinstance(outcome, InternalError)
        stranger.execute("ROLLBACK")
        back_s = seconds_until(lambda: is_serving(server))
        record_property("back_s", back_s)
        assert back_s < TELLING_S + NOISE_S
        assert ingest(client, 1).document_id
        stranger.close()
    assert server.stop() == 0
