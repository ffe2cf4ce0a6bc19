"""What is deleted for good is not in any file of the engine once the receipt says that the deletion is complete."""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from groundwire.api.common.v1 import document_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import deletion_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.kernel.budget import Budget
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.vector_store import PointBatch
from groundwire.vectorstores.chroma.store import ChromaVectorStore
from groundwire.vectorstores.engine_process import EngineProcess
from groundwire.vectorstores.factory import open_vector_store
from groundwire.vectorstores.qdrant_edge.store import QdrantEdgeVectorStore
from tests.conformance.memory_folder import memory_folder
from tests.integration.ingest.harness import Harness
from tests.stubs import by_id

RARE = "zebraquartz"


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as folder:
        yield folder


def traces(folder: Path, vector: bytes) -> list[str]:
    """Return the files below a folder that hold the secret or the vector."""
    found = []
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            content = path.read_bytes()
            found += [path.name] * (RARE.encode() in content or vector in content)
    return found


@pytest.mark.parametrize("scheme", ["qdrant-edge:", "chroma:"])
def test_nothing_of_a_deleted_document_is_in_the_files_of_the_engine(folder: Path, scheme: str) -> None:
    vectors = open_vector_store(scheme, data_dir=folder)
    harness = Harness(folder, vectors).start_without_parser_process()
    harness.create("tides")
    harness.ingest("tides", "kept.txt", "The moon moves the sea.")
    fields = document_pb2.DocumentFields(title=RARE, tags=[RARE])
    gone = harness.ingest("tides", "gone.txt", f"The {RARE} moves the moon.", fields=fields).document
    engine = harness.collection("tides").engine_name
    [number] = [each for each in vectors.numbers(engine, Budget()) if each != min(vectors.numbers(engine, Budget()))]
    vector = np.asarray(vectors.fetch(engine, [number], Budget()).vectors[0], dtype="<f4")
    needle = vector.tobytes()
    assert traces(folder / "vectors", needle)
    request = pb.DeleteDocumentRequest(collection="tides", reference=by_id(gone.document_id), purge=True)
    receipt = harness.calls.delete_document(request).receipt
    assert receipt.state == deletion_pb2.DELETION_STATE_COMPLETE
    assert traces(folder / "vectors", needle) == []
    assert harness.sources("tides") == ["kept.txt"]
    assert len(vectors.search(engine, vector, 5, Budget())) == 1
    harness.close()
    vectors.close()
    assert traces(folder / "vectors", needle) == []
    reopened = open_vector_store(scheme, data_dir=folder)
    assert len(list(reopened.numbers(engine, Budget()))) == 1
    reopened.close()


@pytest.mark.parametrize("scheme", ["qdrant-edge:", "chroma:"])
def test_nothing_of_a_deleted_collection_is_in_the_files_of_the_engine(folder: Path, scheme: str) -> None:
    vectors = open_vector_store(scheme, data_dir=folder)
    harness = Harness(folder, vectors).start_without_parser_process()
    for name in ("tides", "moons"):
        harness.create(name)
        fields = document_pb2.DocumentFields(title=f"{RARE} {name}")
        harness.ingest(name, "a.txt", f"The {name} of the sea.", fields=fields)
    assert traces(folder / "vectors", f"{RARE} tides".encode())
    request = collections_pb.DeleteCollectionRequest(collection="tides", force=True)
    receipt = harness.calls.delete_collection(request).receipt
    assert receipt.state == deletion_pb2.DELETION_STATE_COMPLETE
    assert not any(
        f"{RARE} tides".encode() in path.read_bytes() for path in (folder / "vectors").rglob("*") if path.is_file()
    )
    assert len(harness.points("moons")) == 1
    harness.close()
    vectors.close()


STORES = {"qdrant-edge": QdrantEdgeVectorStore, "chroma": ChromaVectorStore}


class Library:
    """A collection that is too large to be written anew within a call, though it is small."""

    def __init__(self, folder: Path, engine: str, **settings: Any) -> None:
        self.vectors = STORES[engine](folder / "vectors", scrub_at_once=0)
        self.harness = Harness(folder, self.vectors, **settings).start_without_parser_process()
        self.folder = folder

    def ingest(self, name: str, text: str) -> str:
        fields = document_pb2.DocumentFields(title=f"{RARE} {name}")
        return self.harness.ingest("tides", name, text, fields=fields).document.document_id

    def delete(self, document_id: str, request_id: str) -> deletion_pb2.DeletionReceipt:
        request = pb.DeleteDocumentRequest(
            collection="tides", reference=by_id(document_id), purge=True, request_id=request_id
        )
        return self.harness.calls.delete_document(request).receipt

    def incomplete(self) -> list[str]:
        return [receipt.receipt_id for receipt in self.harness.housekeeping_state().incomplete_deletions]

    def holds(self, name: str) -> bool:
        """Tell whether a file of the engine holds the title of a document."""
        files = [path for path in (self.folder / "vectors").rglob("*") if path.is_file()]
        assert files
        return any(f"{RARE} {name}".encode() in path.read_bytes() for path in files)

    def close(self) -> None:
        self.harness.close()
        self.vectors.close()


@pytest.mark.parametrize("engine", STORES)
def test_receipts_of_a_large_collection_are_completed_by_one_rewriting_when_it_is_quiet(
    folder: Path, engine: str
) -> None:
    library = Library(folder, engine, scrub_after_quiet_s=1.5)
    library.harness.create("tides")
    gone = [library.ingest(name, f"The {name} moves the sea.") for name in ("moon.txt", "wind.txt", "ship.txt")]
    library.ingest("kept.txt", "The sea is moved by the moon.")
    scrubs = count_calls(library.vectors, "scrub", at_any_size=True)
    ids = [str(uuid.uuid4()) for _ in gone]
    hidden = [library.delete(each, request_id) for each, request_id in zip(gone, ids, strict=True)]
    assert [receipt.state for receipt in hidden] == [deletion_pb2.DELETION_STATE_HIDDEN] * 3
    assert library.incomplete() == [receipt.receipt_id for receipt in hidden]
    assert library.holds("wind.txt")
    wait_until(lambda: library.incomplete() == [], within_s=30)
    assert len(scrubs) == 1
    assert not any(library.holds(name) for name in ("moon.txt", "wind.txt", "ship.txt"))
    assert library.holds("kept.txt")
    for document_id, request_id, before in zip(gone, ids, hidden, strict=True):
        now = library.delete(document_id, request_id)
        assert (now.receipt_id, now.state) == (before.receipt_id, deletion_pb2.DELETION_STATE_COMPLETE)
        assert now.complete_time.ToNanoseconds() > now.hide_time.ToNanoseconds()
        by_store = {each.store: (each.removed_count, each.leftover_count, each.complete) for each in now.stores}
        assert by_store["vectors"] == (1, 0, True)
    assert library.harness.sources("tides") == ["kept.txt"]
    assert len(library.harness.points("tides")) == 1
    library.close()


@pytest.mark.parametrize("engine", STORES)
def test_deletions_without_a_pause_are_completed_after_a_bounded_time(folder: Path, engine: str) -> None:
    library = Library(folder, engine, scrub_after_quiet_s=3600, scrub_within_s=1)
    library.harness.create("tides")
    library.ingest("kept.txt", "The sea is moved by the moon.")
    library.delete(library.ingest("gone.txt", "The moon moves the sea."), str(uuid.uuid4()))
    wait_until(lambda: library.incomplete() == [], within_s=30)
    assert not library.holds("gone.txt")
    library.close()


@pytest.mark.parametrize("engine", STORES)
def test_a_process_completes_the_receipts_that_the_one_before_it_left(folder: Path, engine: str) -> None:
    library = Library(folder, engine, scrub_after_quiet_s=3600)
    library.harness.create("tides")
    library.ingest("kept.txt", "The sea is moved by the moon.")
    request_id = str(uuid.uuid4())
    document_id = library.ingest("gone.txt", "The moon moves the sea.")
    hidden = library.delete(document_id, request_id)
    # This one ends behind its transaction, as if the process had been killed there.
    killed = library.ingest("killed.txt", "The killed moon moves the sea.")
    library.harness.service.housekeeping.close()
    library.harness.service.upkeep.catalog.documents.delete(DEFAULT_TENANT, "tides", killed)
    assert len(library.incomplete()) == 2
    library.close()
    assert library.holds("killed.txt")
    library = Library(folder, engine, scrub_after_quiet_s=0.5)
    wait_until(lambda: library.incomplete() == [], within_s=30)
    now = library.delete(document_id, request_id)
    assert (now.receipt_id, now.state) == (hidden.receipt_id, deletion_pb2.DELETION_STATE_COMPLETE)
    assert not any(library.holds(name) for name in ("gone.txt", "killed.txt"))
    assert library.harness.sources("tides") == ["kept.txt"]
    library.close()


@pytest.mark.parametrize("engine", STORES)
def test_what_is_written_while_a_collection_is_written_anew_is_in_it_afterwards(folder: Path, engine: str) -> None:
    store = STORES[engine](folder, scrub_at_once=0)
    vectors = np.eye(8, dtype=np.float32)

    def write_meanwhile(name: str) -> tuple[list[int], list[int]]:
        def put(numbers: Sequence[int], word: str) -> None:
            each = [vectors[number % 8] for number in numbers]
            store.upsert(name, PointBatch(numbers, np.stack(each), [{"title": word}] * len(each)), Budget())

        store.create_collection(name, 8, Budget())
        put(range(1, 1501), "first")
        store.delete(name, range(1, 101), Budget())
        assert not store.scrub(name, Budget())
        with ThreadPoolExecutor(1) as pool:
            scrub = pool.submit(store.scrub, name, Budget(), at_any_size=True)
            written, deleted = list[int](), list[int]()
            # From both ends, so that parts are written that have been copied and that have not.
            while not scrub.done() and len(written) < 400:
                start = 101 + len(written)
                put([start, 3000 - start], "second")
                written += [start, 3000 - start]
                deleted.append(1500 - len(deleted))
                store.delete(name, deleted[-1:], Budget())
            assert scrub.result()
        return written, deleted

    # On a busy machine one may be over before enough is written.
    for name in ("gw-a", "gw-b", "gw-c", "gw-d", "gw-e"):
        written, deleted = write_meanwhile(name)
        if len(written) >= 6:
            break
    assert len(written) >= 6
    expected = (set(range(101, 1501)) | set(written)) - set(deleted)
    assert set(store.numbers(name, Budget())) == expected
    some = store.fetch(name, written, Budget())
    assert [payload["title"] for payload in some.payloads] == ["second"] * len(written)
    store.close()


@pytest.mark.parametrize("at_any_size", [False, True], ids=["within a call", "behind calls"])
def test_writers_wait_for_a_collection_to_be_rewritten_only_where_a_call_waits_too(
    folder: Path, monkeypatch: pytest.MonkeyPatch, *, at_any_size: bool
) -> None:
    store = QdrantEdgeVectorStore(folder)
    store.create_collection("gw-a", 8, Budget())
    vectors = np.tile(np.eye(8, dtype=np.float32), (75, 1))
    store.upsert("gw-a", PointBatch(range(1, 601), vectors, [{"title": "tides"}] * 600), Budget())
    store.delete("gw-a", [1], Budget())
    write, commands = EngineProcess.write, list[str]()

    def note_and_write(engine: EngineProcess, budget: Budget, command: str, *given: Any, **named: Any) -> Any:
        commands.append(command)
        return write(engine, budget, command, *given, **named)

    monkeypatch.setattr(EngineProcess, "write", note_and_write)
    assert store.scrub("gw-a", Budget(), at_any_size=at_any_size)
    # The command that reads all points while writers wait.
    assert ("rewrite" in commands) == (not at_any_size)
    assert set(store.numbers("gw-a", Budget())) == set(range(2, 601))
    store.close()


def count_calls(store: Any, method: str, **given: Any) -> list[Any]:
    """Return a list that gets an entry for every later call of a method with these arguments."""
    calls: list[Any] = []
    original = getattr(store, method)

    def counted(*arguments: Any, **named: Any) -> Any:
        if named == given:
            calls.append(arguments)
        return original(*arguments, **named)

    setattr(store, method, counted)
    return calls


def wait_until(condition: Callable[[], bool], within_s: float) -> None:
    ends_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.05)
