"""What is deleted for good is not in any file of the engine once the receipt says that the deletion is complete."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from groundwire.api.ingest.v1 import deletion_pb2, document_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.kernel.budget import Budget
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.vectorstores.factory import open_vector_store
from tests.conformance.memory_folder import memory_folder
from tests.integration.ingest.harness import Harness

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
    engine = harness.collection_calls.use.get(DEFAULT_TENANT, "tides").collection.engine_name
    [number] = [each for each in vectors.numbers(engine, Budget()) if each != min(vectors.numbers(engine, Budget()))]
    vector = np.asarray(vectors.fetch(engine, [number], Budget()).vectors[0], dtype="<f4")
    needle = vector.tobytes()
    assert traces(folder / "vectors", needle)
    request = pb.DeleteDocumentRequest(collection="tides", document_id=gone.document_id, permanent=True)
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
    request = pb.DeleteCollectionRequest(collection="tides")
    receipt = harness.collection_calls.delete(request).receipt
    assert receipt.state == deletion_pb2.DELETION_STATE_COMPLETE
    assert not any(
        f"{RARE} tides".encode() in path.read_bytes() for path in (folder / "vectors").rglob("*") if path.is_file()
    )
    assert len(harness.points("moons")) == 1
    harness.close()
    vectors.close()


@pytest.mark.parametrize(
    ("scheme", "limit"),
    [
        ("qdrant-edge:", "groundwire.vectorstores.qdrant_edge.store._SCRUB_POINTS"),
        ("chroma:", "groundwire.vectorstores.chroma.store._SCRUB_POINTS"),
    ],
)
def test_a_deletion_from_a_collection_that_is_too_large_is_not_said_to_be_complete(
    folder: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, limit: str
) -> None:
    vectors = open_vector_store(scheme, data_dir=folder)
    harness = Harness(folder, vectors).start_without_parser_process()
    harness.create("tides")
    gone = harness.ingest("tides", "gone.txt", "The moon moves the sea.").document
    harness.ingest("tides", "kept.txt", "The sea is moved by the moon.")
    monkeypatch.setattr(limit, 0)
    request = pb.DeleteDocumentRequest(collection="tides", document_id=gone.document_id, permanent=True)
    assert harness.calls.delete_document(request).receipt.state == deletion_pb2.DELETION_STATE_HIDDEN
    assert harness.sources("tides") == ["kept.txt"]
    harness.close()
    vectors.close()
