"""Work ends with its call: 100 ms after a cancellation, or a deadline, the server's processes are as quiet as before.

Measured by the processor time that all of them use, native code as well, so that it needs a machine of its own.
"""

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from groundwire.api.answer.v1 import answer_service_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2
from groundwire.client import GroundwireClient
from tests.e2e.server import ServerProcess
from tests.stubs import Stubs

_WORDS = ("tide", "moon", "harbour", "yeast", "granite", "signal", "river", "copper", "lamp", "voltage", "season")
_STOPS_WITHIN_S = 0.1
_SPAN_S = 0.3
_TICKS_PER_S = 100


def _prose(sentences: int, chance: random.Random) -> str:
    return " ".join(" ".join(chance.choices(_WORDS, k=9)).capitalize() + "." for _ in range(sentences))


def _calls(chance: random.Random) -> dict[str, Any]:
    """Return requests that take seconds, by the names of their calls."""
    search = retrieve_service_pb2.RetrieveRequest
    return {
        "IngestDocument": ingest_service_pb2.IngestDocumentRequest(
            collection="docs", source_uri="big.md", text=_prose(40_000, chance)
        ),
        "BatchRetrieve": retrieve_service_pb2.BatchRetrieveRequest(
            requests=[search(collection="docs", query=_prose(15, chance)) for _ in range(100)]
        ),
        "EmbedTexts": retrieve_service_pb2.EmbedTextsRequest(texts=[_prose(100, chance) for _ in range(64)]),
        "GroundText": answer_service_pb2.GroundTextRequest(collection="docs", text=_prose(150, chance)),
    }


class Processes:
    """The processes of a server, and how long processors worked for them."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._ticks: dict[int, int] = {}

    def used_s(self) -> float:
        """Return the time of all that have been seen, those that have ended since included."""
        waiting = [self._pid]
        while waiting:
            folder = Path(f"/proc/{waiting.pop()}")
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                children = [(task / "children").read_text() for task in (folder / "task").iterdir()]
            except OSError:
                continue  # it has ended
            self._ticks[int(folder.name)] = int(fields[11]) + int(fields[12])
            waiting += [int(child) for each in children for child in each.split()]
        return sum(self._ticks.values()) / _TICKS_PER_S

    def used_within_s(self, span_s: float) -> float:
        before = self.used_s()
        time.sleep(span_s)
        return self.used_s() - before


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    running = ServerProcess(tmp_path_factory.mktemp("cancelling") / "data", ())
    with GroundwireClient(running.address) as client:
        collection = client.collection("docs")
        collection.create()
        collection.ingest_text(_prose(9_000, random.Random(1)), source="small.md")
    yield running
    running.stop()


@pytest.mark.slow
@pytest.mark.limits
@pytest.mark.alone
@pytest.mark.requirement("R11")
@pytest.mark.parametrize("ends_by", ["cancellation", "deadline"])
@pytest.mark.parametrize("name", ["IngestDocument", "BatchRetrieve", "EmbedTexts", "GroundText"])
def test_work_stops_with_its_call(server: ServerProcess, name: str, ends_by: str) -> None:
    processes, request = Processes(server.process.pid), _calls(random.Random(name + ends_by))[name]
    idle_s = processes.used_within_s(_SPAN_S)
    with grpc.insecure_channel(server.address) as channel:
        call = getattr(Stubs(channel), name).future(request, timeout=120 if ends_by == "cancellation" else 2 * _SPAN_S)
        time.sleep(_SPAN_S / 2)
        working_s = processes.used_within_s(_SPAN_S)
        assert not call.done(), call
        if ends_by == "cancellation":
            call.cancel()
        assert call.code().name == ("CANCELLED" if ends_by == "cancellation" else "DEADLINE_EXCEEDED")
        time.sleep(_STOPS_WITHIN_S)
        after_s = processes.used_within_s(_SPAN_S)
    figures = f"{idle_s:.2f} s idle, {working_s:.2f} s working, {after_s:.2f} s after the call"
    assert working_s > 3 * idle_s, figures
    assert after_s - idle_s < max(0.1 * working_s, 5 / _TICKS_PER_S), figures
