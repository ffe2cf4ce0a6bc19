"""Stored documents that are built to stop the server: it stays reachable, and answers in time."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self

import pytest

from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.client import GroundwireClient
from groundwire.kernel.chunk import MAX_CHUNK_CHARS
from groundwire.rpc.healthcheck import status_of
from tests.e2e.server import ServerProcess

pytestmark = pytest.mark.limits

SENTENCE = "The grey heron stands in the reeds of the northern lake."
_BLANK_BYTES = 20 << 20


class HealthWatch:
    """Asks for the health of a server all the time and remembers the longest wait for an answer, in seconds."""

    def __init__(self, address: str) -> None:
        self.longest_s = 0.0
        self.checks = 0
        self._address = address
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while True:  # once at least, however soon the block ends
            started = time.monotonic()
            assert status_of(self._address, timeout_s=60) == "SERVING"
            self.longest_s = max(self.longest_s, time.monotonic() - started)
            self.checks += 1
            if self._done.wait(0.1):
                return


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path / "data")
    yield running
    running.stop()


def test_a_document_of_comments_and_white_space_holds_nobody_up(
    server: ServerProcess, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    document = tmp_path / "heron.md"
    document.write_text(
        f"# Title\n\n{SENTENCE}{'.<!--' * 150}{' ' * _BLANK_BYTES}\n{SENTENCE} It waits for fish.\n", encoding="ascii"
    )
    with GroundwireClient(server.address) as client:
        client.create_collection(collection="lake")
        header = pb.UploadHeader(collection="lake", source_uri="heron.md")
        client.upload_document(document, header)
        question = "Where does the grey heron stand?"
        found = client.retrieve(collection="lake", query=question)
        longest = max(len(hit.chunk.content) for hit in found.results)
        seconds = []
        with HealthWatch(server.address) as health:
            for number in range(3):
                started = time.monotonic()
                request = answer_pb.AskRequest(collection="lake", question=f"{question} {number}")
                assert client.ask.send(request).answer.content
                seconds.append(time.monotonic() - started)
    record_property("longest_chunk_chars", longest)
    record_property("slowest_answer_s", max(seconds))
    record_property("longest_wait_for_health_s", health.longest_s)
    assert found.results
    assert longest <= MAX_CHUNK_CHARS
    assert found.ByteSize() < 1 << 20
    assert health.checks > 0
    assert max(seconds) < 20
    assert health.longest_s < 15
