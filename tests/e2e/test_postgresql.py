"""Servers that keep their catalog in PostgreSQL: two on one catalog, a database that goes away, and its password."""

import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import TypeAlias

import grpc
import psycopg
import pytest
from google.protobuf.duration_pb2 import Duration

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1.ingest_service_pb2_grpc import IngestServiceStub
from groundwire.api.ingest.v1.maintenance_service_pb2 import STORE_FINDING_KIND_GENERATION_UNFINISHED, StoreReport
from groundwire.api.retrieve.v1.library_service_pb2 import ListDocumentsRequest
from groundwire.client import GroundwireClient
from groundwire.client.long_running import wait_for
from groundwire.kernel.errors import (
    CallCancelledError,
    DeadlineError,
    InvalidRequestError,
    NotFoundError,
    StoreUnavailableError,
)
from groundwire.rpc.error_status import from_rpc_error
from tests.e2e.server import ServerProcess, groundwire
from tests.postgresql import Server
from tests.postgresql import server as postgresql
from tests.stubs import Stubs
from tests.tcp_proxy import tcp_proxy

ANSWERS_WITHIN_S = 60.0
"""5 s and a few, and what a busy machine may add."""
Starter: TypeAlias = Callable[..., ServerProcess]


@contextmanager
def servers_stopped() -> Iterator[Starter]:
    """Give what starts a server, and stop all of them in the end that have not stopped."""
    with ExitStack() as running:

        def start(data: Path, catalog: str, **variables: str) -> ServerProcess:
            arguments = ("--embedder", "hashing:64", "--vectors", "memory:", "--catalog", catalog)
            shared = {"GROUNDWIRE_TOKEN_KEY": "ab" * 32, "GROUNDWIRE_INGEST_STAGING": str(data.parent / "staging")}
            server = ServerProcess(data, arguments, **(shared | variables))
            running.callback(server.stop)
            return server

        yield start


@pytest.fixture
def started() -> Iterator[Starter]:
    with servers_stopped() as start:
        yield start


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two servers on one catalog, each with a data folder of its own."""
    folder, catalog = tmp_path_factory.mktemp("pair"), postgresql().new_database()
    with servers_stopped() as start:
        yield start(folder / "one", catalog), start(folder / "other", catalog)


def test_each_server_sees_at_once_what_the_other_was_told(pair: tuple[ServerProcess, ServerProcess]) -> None:
    with GroundwireClient(pair[0].address) as one, GroundwireClient(pair[1].address) as other:
        writing, reading = one.collection("tides"), other.collection("tides")
        writing.create()
        for step in range(4):
            writing.ingest_text(f"Spring tide number {step} of the harbour.", source=f"{step}.txt")
            found = reading.search("spring tide harbour", k=10, mode="lexical")
            assert {hit.source for hit in found} == {f"{each}.txt" for each in range(step + 1)}
            writing, reading = reading, writing
        for source in ("0.txt", "1.txt"):  # receipts of two deletions
            reading.delete_document(source, purge=True)
        assert {hit.source for hit in writing.search("spring tide", k=10, mode="lexical")} == {"2.txt", "3.txt"}
        answer = writing.ask("What is spring tide number 3?")
        assert not answer.text or writing.verify(answer).verified


def test_an_upload_goes_on_at_the_other_server_when_the_first_one_has_lost_its_client(
    pair: tuple[ServerProcess, ServerProcess],
) -> None:
    text = b"The neap tide follows the spring tide.\n" * 2000
    half = len(text) // 2
    header = pb.UploadHeader(collection="neap", source_uri="neap.txt", total_bytes=len(text))
    sent: SimpleQueue[pb.UploadDocumentRequest] = SimpleQueue()
    with (
        grpc.insecure_channel(pair[0].address) as to_one,
        grpc.insecure_channel(pair[1].address) as to_other,
        GroundwireClient(pair[1].address) as client,
    ):
        client.collection("neap").create()
        one, other = IngestServiceStub(to_one), IngestServiceStub(to_other)
        first = one.UploadDocument(iter(sent.get, None), timeout=ANSWERS_WITHIN_S)
        sent.put(pb.UploadDocumentRequest(header=header))
        header.upload_id = next(first).accepted.upload_id
        sent.put(pb.UploadDocumentRequest(part=pb.UploadPart(offset=0, data=text[:half])))
        assert next(first).progress.durable_offset == half
        again = pb.UploadDocumentRequest(header=header)
        with pytest.raises(grpc.RpcError) as refused:
            next(other.UploadDocument(iter([again]), timeout=ANSWERS_WITHIN_S))
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE

        first.cancel()
        rest = pb.UploadDocumentRequest(part=pb.UploadPart(offset=half, data=text[half:]))
        ends_at = time.monotonic() + ANSWERS_WITHIN_S
        events: list[pb.UploadDocumentResponse] = []
        while not events:
            try:
                events = list(other.UploadDocument(iter([again, rest]), timeout=ANSWERS_WITHIN_S))
            except grpc.RpcError as error:
                # The first server has not noticed yet.
                if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() > ends_at:
                    raise
        assert events[0].accepted.durable_offset == half
        assert events[-1].HasField("result")
        assert client.collection("neap").text("neap.txt") == text.decode()


def test_a_refused_search_that_postgresql_cannot_hold_is_logged_like_all_others(
    pair: tuple[ServerProcess, ServerProcess],
) -> None:
    with GroundwireClient(pair[0].address) as client:
        client.create_collection(collection="logged")
        client.retrieve(collection="logged", query="ebb")
        for collection, query in (("logged", "ebb\0flood"), ("log\0ged", "ebb")):
            with pytest.raises(InvalidRequestError):
                client.retrieve(collection=collection, query=query)
        client.retrieve(collection="logged", query="flood")
        logs = client.list_query_logs(page_size=4).logs
    assert [(each.collection, each.query) for each in reversed(logs)] == [
        ("logged", "ebb"),
        ("logged", "ebb\ufffdflood"),
        ("log\ufffdged", ""),
        ("logged", "flood"),
    ]


def test_a_server_that_is_killed_leaves_the_other_at_work(tmp_path: Path, started: Starter) -> None:
    catalog = postgresql().new_database()
    one, other = started(tmp_path / "one", catalog), started(tmp_path / "other", catalog)
    with GroundwireClient(one.address) as client:
        client.collection("tides").create()
        client.collection("tides").ingest_text("The ebb follows the flood.", source="kept.txt")
    one.kill()
    with GroundwireClient(other.address) as client:
        client.collection("tides").ingest_text("The flood follows the ebb.", source="new.txt")
        found = client.collection("tides").search("flood ebb", k=10, mode="lexical")
        assert {hit.source for hit in found} == {"kept.txt", "new.txt"}
    assert other.stop() == 0


def test_a_document_waits_for_the_return_of_the_server_that_has_its_bytes(tmp_path: Path, started: Starter) -> None:
    catalog, text = postgresql().new_database(), tmp_path / "flood.txt"
    text.write_text("".join(f"Flood {number} follows ebb {number}.\n\n" for number in range(60_000)), encoding="utf-8")
    one, other = (
        started(tmp_path / name, catalog, GROUNDWIRE_INGEST_STAGING=str(tmp_path / name / "staging"))
        for name in ("one", "other")
    )
    with GroundwireClient(one.address) as client:
        client.collection("tides").create()
        begun = client.collection("tides").start_ingest(text)
    one.kill()
    with GroundwireClient(other.address) as client:
        # The other server has looked for what is left by then.
        waited = client.wait_operation(name=begun.name, timeout=Duration(seconds=12))
        assert not waited.done, waited
        one = started(tmp_path / "one", catalog, GROUNDWIRE_INGEST_STAGING=str(tmp_path / "one" / "staging"))
        assert client.collection("tides").wait(begun).outcome == "created"
    with GroundwireClient(one.address) as client:
        client.cancel_operation(name=begun.name)  # of one that has ended changes nothing
        assert client.collection("tides").text("flood.txt") == text.read_text(encoding="utf-8")


@pytest.mark.parametrize("ending", ["cancelled", "a day has passed"])
def test_a_document_whose_bytes_do_not_return_does_not_wait_for_ever(
    tmp_path: Path, started: Starter, ending: str
) -> None:
    server = postgresql()
    catalog, text = server.new_database(), tmp_path / "flood.txt"
    text.write_text("".join(f"Flood {number} follows ebb {number}.\n\n" for number in range(60_000)), encoding="utf-8")
    one = started(tmp_path / "one", catalog, GROUNDWIRE_INGEST_STAGING=str(tmp_path / "one" / "staging"))
    with GroundwireClient(one.address) as client:
        client.collection("tides").create()
        begun = client.collection("tides").start_ingest(text)
    one.kill()
    other = started(tmp_path / "other", catalog, GROUNDWIRE_INGEST_STAGING=str(tmp_path / "other" / "staging"))
    with GroundwireClient(other.address) as client:
        if ending == "cancelled":
            client.cancel_operation(name=begun.name)
        else:
            server.execute("UPDATE operations SET create_time = create_time - 86400001", catalog.rpartition("/")[2])
        expected = CallCancelledError if ending == "cancelled" else NotFoundError
        with pytest.raises(expected):
            client.collection("tides").wait(begun)


@pytest.mark.parametrize(
    ("arguments", "variable"),
    [
        (("--catalog",), "GROUNDWIRE_CATALOG_PASSWORD"),
        (("answer", "--retrieve", "127.0.0.1:1", "--sessions"), "GROUNDWIRE_SESSIONS_PASSWORD"),
    ],
    ids=["catalog", "sessions"],
)
def test_a_password_is_not_taken_from_a_url_and_not_told(
    tmp_path: Path, arguments: tuple[str, ...], variable: str
) -> None:
    url = postgresql().new_database().replace("@", ":hunter2@")
    told = groundwire("serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"), *arguments, url)
    assert told.returncode != 0
    assert variable in told.stderr
    assert "hunter2" not in told.stdout + told.stderr


@pytest.mark.parametrize(
    ("arguments", "variable"),
    [
        (("--embedder", "hashing:64", "--vectors", "memory:", "--catalog"), "GROUNDWIRE_CATALOG_PASSWORD"),
        (("answer", "--retrieve", "127.0.0.1:1", "--sessions"), "GROUNDWIRE_SESSIONS_PASSWORD"),
    ],
    ids=["catalog", "sessions"],
)
def test_a_database_gets_the_password_of_its_setting(tmp_path: Path, arguments: tuple[str, ...], variable: str) -> None:
    url = postgresql().guarded_database("hunter2")
    with pytest.raises(AssertionError, match=r"STORE_UNAVAILABLE: .*password authentication failed"):
        ServerProcess(tmp_path / "data", (*arguments, url), **{variable: "hunter3"})
    with ServerProcess(tmp_path / "data", (*arguments, url), **{variable: "hunter2"}):
        pass
    assert "hunter" not in (tmp_path / "data.log").read_text("utf-8")


@pytest.mark.parametrize("count", [40, pytest.param(200, marks=pytest.mark.slow)])
def test_connections_that_break_neither_lose_nor_double_what_is_written(
    tmp_path: Path, count: int, started: Starter
) -> None:
    catalog, rng = postgresql().new_database(), random.Random(5)
    name = catalog.rpartition("/")[2]
    running = started(tmp_path / "data", catalog)
    in_use = "SELECT pid FROM pg_stat_activity WHERE datname = %s AND state LIKE ANY ('{active,idle in tr%%}')"
    acknowledged, written = threading.Semaphore(0), threading.Event()

    def break_connections() -> int:
        """Break one that is in use for every fourth write, as fast as the machine writes."""
        broken = 0
        with psycopg.connect(postgresql().url("postgres"), autocommit=True) as connection:
            while acknowledged.acquire() and not written.is_set():
                time.sleep(rng.random() * 0.05)
                while not written.is_set() and not (pids := connection.execute(in_use, (name,)).fetchall()):
                    written.wait(0.001)
                if pids and rng.random() < 0.25:
                    connection.execute("SELECT pg_terminate_backend(%s)", rng.choice(pids))
                    broken += 1
        return broken

    def write(number: int) -> str:
        """Write until it is acknowledged, as one and the same request."""
        request_id = str(uuid.uuid4())
        while True:
            try:
                stored = client.ingest_document(
                    collection="tides",
                    source_uri=f"{number}.txt",
                    content=f"Tide number {number} of the harbour.".encode(),
                    request_id=request_id,
                )
            except StoreUnavailableError:
                continue
            acknowledged.release()
            return str(stored.result.document.document_id)

    with GroundwireClient(running.address) as client:
        client.collection("tides").create()
        with ThreadPoolExecutor(5) as threads:
            breaking = threads.submit(break_connections)
            try:
                documents = list(threads.map(write, range(count)))
            finally:
                written.set()
                acknowledged.release()
            broken = breaking.result()
        listed = {each.source: each for each in client.collection("tides").documents()}
    assert broken >= count // 10
    assert len(set(documents)) == count
    assert {source: each.document_id for source, each in listed.items()} == {
        f"{number}.txt": document_id for number, document_id in enumerate(documents)
    }
    assert {each.generation for each in listed.values()} == {1}
    with psycopg.connect(catalog) as connection:
        published = connection.execute("SELECT resource FROM audit WHERE action = 'publish_document'").fetchall()
    assert sorted(each for (each,) in published) == sorted(documents)
    # What could not be taken back at once, because the connection was broken, is by the next sweep or by this.
    groundwire("fsck", "--repair", address=running.address)
    checked = groundwire("fsck", address=running.address)
    assert (checked.returncode, "nothing is wrong" in checked.stdout) == (0, True), checked.stdout


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"GROUNDWIRE_CATALOG_WAIT_S": "1"}, "another process keeps the catalog locked"),
        ({"GROUNDWIRE_CATALOG_WAIT_S": "60", "GROUNDWIRE_CATALOG_STATEMENT_S": "1"}, "the catalog did not answer"),
    ],
)
def test_a_read_waits_for_what_another_has_locked_as_long_as_is_configured(
    tmp_path: Path, started: Starter, variables: dict[str, str], message: str
) -> None:
    catalog = postgresql().new_database()
    running = started(tmp_path / "data", catalog, **variables)
    with GroundwireClient(running.address) as client:
        client.create_collection(collection="tides")
    with (
        psycopg.connect(catalog) as other,
        grpc.insecure_channel(running.address, [("grpc.enable_retries", 0)]) as channel,
    ):
        other.execute("LOCK TABLE documents IN ACCESS EXCLUSIVE MODE")
        with pytest.raises(grpc.RpcError) as failed:  # 10 s and 60 s by default
            Stubs(channel).ListDocuments(ListDocumentsRequest(collection="tides"), timeout=9.0)
    error = from_rpc_error(failed.value)
    assert isinstance(error, StoreUnavailableError)
    assert message in error.message


def test_reads_have_as_many_connections_as_are_configured(tmp_path: Path, started: Starter) -> None:
    catalog = postgresql().new_database()
    variables = {"GROUNDWIRE_CATALOG_CONNECTIONS": "2", "GROUNDWIRE_CATALOG_WAIT_S": "120"}
    running = started(tmp_path / "data", catalog, **variables)
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    with (
        GroundwireClient(running.address, timeout_s=ANSWERS_WITHIN_S) as client,
        ThreadPoolExecutor(2) as threads,
        psycopg.connect(catalog) as other,
        psycopg.connect(catalog, autocommit=True) as watching,
    ):
        tides = client.collection("tides")
        tides.create()
        tides.ingest_text("The ebb follows the flood.", source="kept.txt")
        other.execute("LOCK TABLE text_segments IN ACCESS EXCLUSIVE MODE")
        reads = [threads.submit(tides.text, "kept.txt") for _ in range(2)]
        while watching.execute(waiting).fetchone() != (2,):
            assert not any(read.done() for read in reads)
        with GroundwireClient(running.address, timeout_s=1.0) as third, pytest.raises(DeadlineError):
            third.list_collections()
        other.rollback()
        client.list_collections()
        assert [read.result() for read in reads] == ["The ebb follows the flood."] * 2


@pytest.fixture
def own_database() -> Iterator[Server]:
    own = postgresql().another()
    yield own
    own.remove()


def test_readiness_follows_the_database(own_database: Server, tmp_path: Path, started: Starter) -> None:
    running = started(tmp_path / "data", own_database.new_database())

    def wait_for(code: int) -> None:
        ends_at = time.monotonic() + ANSWERS_WITHIN_S
        while groundwire("health", address=running.address).returncode != code:
            assert time.monotonic() < ends_at

    with GroundwireClient(running.address) as client:
        client.collection("tides").create()
        client.collection("tides").ingest_text("The ebb follows the flood.", source="kept.txt")
        wait_for(0)
        own_database.stop()
        wait_for(1)
        own_database.start()
        wait_for(0)
        assert [hit.source for hit in client.collection("tides").search("ebb", mode="lexical")] == ["kept.txt"]
        client.collection("tides").ingest_text("The flood follows the ebb.", source="new.txt")
    assert running.stop() == 0


def test_a_write_whose_commit_is_not_answered_has_one_effect(tmp_path: Path, started: Starter) -> None:
    """At one point after the other the database does what it is asked, and its answer is lost."""
    with tcp_proxy(postgresql().port) as proxy:
        catalog = postgresql().new_database().replace(f":{postgresql().port}/", f":{proxy.port}/")
        running = started(tmp_path / "data", catalog)
        with GroundwireClient(running.address) as client:
            tides = client.collection("tides")
            tides.create()
            lost = 0
            for number in range(1, 13):
                proxy.lose_answer(b"COMMIT", 1 + number % 2)  # that of what is begun, or of what is published
                source, request_id = f"{number}.txt", str(uuid.uuid4())
                while True:
                    try:
                        content = f"Tide {number} of the harbour.".encode()
                        client.ingest_document(
                            collection="tides", content=content, source_uri=source, request_id=request_id
                        )
                        break
                    except StoreUnavailableError:  # clients that fail often do not repeat by themselves
                        assert proxy.has_lost_answer
                lost += proxy.has_lost_answer
            assert lost >= 6
            stored = {document.source: document.generation for document in tides.documents()}
            assert stored == dict.fromkeys([f"{number}.txt" for number in range(1, 13)], 1)
            found = tides.search("tide harbour", k=20, mode="lexical")
            assert sorted(hit.source for hit in found) == sorted(stored)
            checked = wait_for(client, client.check_store(collection="tides"), StoreReport)
            # What was begun without an answer belongs to nobody; it is taken back within a minute.
            assert {each.kind for each in checked.findings} <= {STORE_FINDING_KIND_GENERATION_UNFINISHED}
            assert checked.checked_count == 12
        assert running.stop() == 0
