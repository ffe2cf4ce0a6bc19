"""What a small collection on qdrant-edge costs: memory of the engine, files, and time at the end."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwire.kernel.budget import Budget
from groundwire.vectorstores.qdrant_edge.store import QdrantEdgeVectorStore
from tests.conformance.memory_folder import memory_folder
from tests.conformance.processes import engine_pids
from tests.conformance.vector_store import batch, unit_vectors

pytest.importorskip("qdrant_edge")

COLLECTIONS = 60
MOST_OPEN = 8
POINTS = 30
DIMENSIONS = 384
VECTORS = unit_vectors(POINTS, dimensions=DIMENSIONS)
MEMORY_OF_ALL_MB = 60
"""Beyond that of an engine without collections; one that is open takes 1 to 3 MB."""
DISK_OF_ONE_MB = 0.5
FILES_OF_ONE = 24
OPEN_FILES = 40


@pytest.fixture
def store() -> Iterator[QdrantEdgeVectorStore]:
    with memory_folder() as folder:
        store = QdrantEdgeVectorStore(folder / "vectors", most_open=MOST_OPEN)
        yield store
        store.close()


def engine_facts(folder: Path) -> tuple[float, int]:
    """Return the memory, in MB, and the number of open files of the engine in a folder."""
    (pid,) = engine_pids(os.getpid(), folder)
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir()))


def test_small_collections_cost_little_however_many_there_are(store: QdrantEdgeVectorStore) -> None:
    names = [f"gw-{number:03d}" for number in range(COLLECTIONS)]
    store.create_collection("gw-first", DIMENSIONS, Budget())
    assert store.search("gw-first", VECTORS[0], 1, Budget()) == []
    before_mb, _ = engine_facts(store._folder)
    for name in names:
        store.create_collection(name, DIMENSIONS, Budget())
        store.upsert(name, batch(range(1, POINTS + 1), VECTORS), Budget())
    for number, name in enumerate(names):
        row = number % POINTS
        assert store.search(name, VECTORS[row], 1, Budget())[0].number == row + 1
    after_mb, open_files = engine_facts(store._folder)
    assert after_mb - before_mb < MEMORY_OF_ALL_MB
    assert open_files < OPEN_FILES + 4 * MOST_OPEN
    files = [path for path in (store._folder / names[0]).rglob("*") if path.is_file()]
    assert len(files) <= FILES_OF_ONE
    assert sum(path.stat().st_blocks * 512 for path in files) < DISK_OF_ONE_MB * 1e6
    started = time.monotonic()
    store.close()
    assert time.monotonic() - started < 10  # 0.2 s on a machine that has nothing else to do
    reopened = QdrantEdgeVectorStore(store._folder, most_open=MOST_OPEN)
    assert reopened.unverified() == []
    assert sum(reopened.count(name, Budget()) for name in names) == COLLECTIONS * POINTS
    reopened.close()
