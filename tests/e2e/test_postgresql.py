"""Servers that keep their catalog in PostgreSQL: two on one catalog, a database that goes away, and its password."""

import time
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue

import grpc
import pytest

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1.ingest_service_pb2_grpc import IngestServiceStub
from groundwire.client import GroundwireClient
from tests.e2e.server import ServerProcess, groundwire
from tests.postgresql import Server
from tests.postgresql import server as postgresql

ANSWERS_WITHIN_S = 60.0
"""5 s and a few, and what a busy machine may add."""


def started(data: Path, catalog: str) -> ServerProcess:
    arguments = ("--embedder", "hashing:64", "--vectors", "memory:", "--catalog", catalog)
    variables = {"GROUNDWIRE_TOKEN_KEY": "ab" * 32, "GROUNDWIRE_INGEST_STAGING": str(data.parent / "staging")}
    return ServerProcess(data, arguments, **variables)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two servers on one catalog, each with a data folder of its own."""
    folder, catalog = tmp_path_factory.mktemp("pair"), postgresql().new_database()
    servers = started(folder / "one", catalog), started(folder / "other", catalog)
    yield servers
    for server in servers:
        server.stop()


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


def test_a_server_that_is_killed_leaves_the_other_at_work(tmp_path: Path) -> None:
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


def test_a_password_is_not_taken_from_a_url_and_not_told(tmp_path: Path) -> None:
    url = postgresql().new_database().replace("@", ":hunter2@")
    told = groundwire("serve", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"), "--catalog", url)
    assert told.returncode != 0
    assert "GROUNDWIRE_CATALOG_PASSWORD" in told.stderr
    assert "hunter2" not in told.stdout + told.stderr


@pytest.fixture
def own_database() -> Iterator[Server]:
    own = postgresql().another()
    yield own
    own.remove()


def test_readiness_follows_the_database(own_database: Server, tmp_path: Path) -> None:
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
