"""A full disk below the vector engine: it is named, reads go on, nothing acknowledged is lost, and all ends with it."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as retrieve_pb
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import ExhaustedError, GroundwireError, UnavailableError
from groundwire.rpc.healthcheck import status_of
from tests.conformance.processes import engine_pids
from tests.e2e.server import ServerProcess, groundwire
from tests.stubs import by_id

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk"),
]

COLLECTION = "harbour"
DISK_BYTES = 512 << 20
RESERVE_BYTES = 64 << 20
DOCUMENTS = 12


class SmallDisk:
    """A file system in memory of a fixed size, which a file can fill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, *, leaving: int) -> None:
        """Use space up until so many bytes are left."""
        with self._filler.open("ab") as file:
            status = os.statvfs(self.folder)
            grow = status.f_bavail * status.f_frsize - leaving
            os.posix_fallocate(file.fileno(), file.tell(), grow)

    def free(self) -> None:
        """Give the space back."""
        self._filler.unlink(missing_ok=True)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)], check=True)
    yield SmallDisk(folder)
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture(params=["qdrant-edge", "chroma"])
def server(request: pytest.FixtureRequest, tmp_path: Path, disk: SmallDisk) -> Iterator[ServerProcess]:
    pytest.importorskip({"qdrant-edge": "qdrant_edge", "chroma": "chromadb"}[request.param])
    url = f"{request.param}:{disk.folder / 'vectors'}"
    running = ServerProcess(tmp_path / "data", ("--embedder", "hashing:256", "--vectors", url))
    with GroundwireClient(running.address) as client:
        client.create_collection(collection=COLLECTION)
        for number in range(DOCUMENTS):
            ingest(client, number)
    yield running
    disk.free()
    assert running.stop() == 0


def ingest(client: GroundwireClient, number: int) -> str:
    request = pb.IngestDocumentRequest(
        collection=COLLECTION,
        source_uri=f"{number}.txt",
        content=f"The lantern{number:03}beacon is lit at night.".encode(),
    )
    return client.ingest_document.send(request, timeout_s=20).result.document.document_id


def finds(client: GroundwireClient, number: int) -> bool:
    """Tell whether a search by vectors, which no cache answers, finds a document first."""
    request = retrieve_pb.RetrieveRequest(
        collection=COLLECTION,
        query=f"lantern{number:03}beacon {time.monotonic_ns()}",
        options=RetrievalOptions(mode=search_mode_pb2.SEARCH_MODE_VECTOR, top_k=3, min_relevance=0.0),
    )
    hits = client.retrieve.send(request, timeout_s=20).results
    return bool(hits) and hits[0].chunk.source_uri == f"{number}.txt"


def eventually(condition: Callable[[], bool], within_s: float) -> None:
    began_at = time.monotonic()
    while not condition():
        assert time.monotonic() - began_at < within_s
        time.sleep(0.1)


def error_of(call: Callable[[], object]) -> GroundwireError:
    with pytest.raises(GroundwireError) as raised:
        call()
    return raised.value


def test_a_disk_that_fills_up_stops_writes_and_nothing_else(server: ServerProcess, disk: SmallDisk) -> None:
    with GroundwireClient(server.address) as client:
        documents = [ingest(client, number) for number in range(DOCUMENTS)]
        disk.fill(leaving=RESERVE_BYTES - (1 << 20))
        for number in range(100, 103):
            refused = error_of(lambda number=number: ingest(client, number))  # type: ignore[misc]
            assert isinstance(refused, ExhaustedError)
            assert "no space left on the disk" in refused.message
            assert refused.metadata["what"] == "disk"
        assert all(finds(client, number) for number in range(DOCUMENTS))
        client.delete_document(collection=COLLECTION, reference=by_id(documents[0]), purge=True)
        assert not finds(client, 0)
        assert status_of(server.address) == "SERVING"
        disk.free()
        ingest(client, 100)
        assert all(finds(client, number) for number in (*range(1, DOCUMENTS), 100))


def test_a_run_over_a_folder_ends_with_the_first_file_that_finds_the_disk_full(
    server: ServerProcess, disk: SmallDisk, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number}.md").write_text(f"# Beacon {number}\n\nIt is lit at night.\n", encoding="utf-8")
    disk.fill(leaving=RESERVE_BYTES - (1 << 20))
    done = groundwire("ingest", str(folder), "-c", COLLECTION, address=server.address)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("error EXHAUSTED: no space left on the disk")
    assert line.endswith(": 0 of 60 done; run again to continue")
    checked = groundwire("fsck", address=server.address)
    assert (checked.returncode, checked.stdout.splitlines()[-1][-16:]) == (0, "nothing is wrong"), checked.stderr
    disk.free()
    done = groundwire("ingest", str(folder), "-c", COLLECTION, address=server.address)
    assert (done.returncode, done.stdout[:21]) == (0, "60 files: 60 created "), done.stderr


def test_the_last_byte_of_the_disk_costs_no_acknowledged_document(server: ServerProcess, disk: SmallDisk) -> None:
    with GroundwireClient(server.address) as client:
        disk.fill(leaving=0)
        assert all(finds(client, number) for number in range(DOCUMENTS))
        refused = error_of(lambda: ingest(client, 100))
        assert isinstance(refused, ExhaustedError)
        # Even an engine that has to open its folder again meanwhile does so as soon as there is space.
        (engine,) = engine_pids(server.process.pid)
        os.kill(engine, signal.SIGKILL)

        def finds_or_names_the_disk() -> bool:
            try:
                return finds(client, 1)
            except (UnavailableError, ExhaustedError) as error:
                return "no space left" in error.message

        eventually(finds_or_names_the_disk, within_s=40)
        disk.free()

        def finds_all() -> bool:
            try:
                return all(finds(client, number) for number in range(DOCUMENTS))
            except (UnavailableError, ExhaustedError):
                return False

        eventually(finds_all, within_s=15)
        ingest(client, 100)
        assert finds(client, 100)
