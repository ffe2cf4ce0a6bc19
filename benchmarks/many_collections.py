"""What collections cost on qdrant-edge when there are many of them: memory, disk, and the times to open and to stop.

    python -m benchmarks.many_collections [--collections 1000] [--points 30] [--dimensions 384] [--folder DIR]

Each collection gets its points in ten writes, as ten documents would bring them. Memory is what the engine process has
beyond that of an engine without collections. Idle collections are searched in random order, so that nearly each
search opens one; then one of them is searched again.
"""

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from benchmarks.served import memory_mib, with_children
from groundwire.kernel.budget import Budget
from groundwire.kernel.vector_store import PointBatch
from groundwire.vectorstores.qdrant_edge.store import QdrantEdgeVectorStore

WRITES = 10
SEARCHES = 200


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--collections", type=int, default=1000)
    parser.add_argument("--points", type=int, default=30)
    parser.add_argument("--dimensions", type=int, default=384)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for name, value in measure(Path(folder), given.collections, given.points, given.dimensions):
            print(f"{name:44} {value}")


def measure(folder: Path, collections: int, points: int, dimensions: int) -> Iterable[tuple[str, str]]:
    """Yield what was measured, with its unit."""
    vectors = np.random.default_rng(0).normal(size=(points, dimensions)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    store = QdrantEdgeVectorStore(folder)
    store.create_collection("gw-first", dimensions, Budget())
    store.search("gw-first", vectors[0], 1, Budget())
    empty_mb = _engine_mb()
    names = [f"gw-{number:05d}" for number in range(collections)]
    started = time.perf_counter()
    for name in names:
        store.create_collection(name, dimensions, Budget())
        for part in np.array_split(np.arange(points), WRITES):
            batch = PointBatch((part + 1).tolist(), vectors[part], [{"document_id": f"d{part[0]}"} for _ in part])
            store.upsert(name, batch, Budget())
    yield "make and fill one", f"{(time.perf_counter() - started) / collections * 1000:.0f} ms"
    chance = random.Random(0)
    idle = [_searched(store, chance.choice(names), vectors[0]) for _ in range(SEARCHES)]
    open_again = [_searched(store, names[0], vectors[0]) for _ in range(SEARCHES)][1:]
    yield "search an idle one", f"{statistics.median(idle) * 1000:.1f} ms, p95 {_p95(idle) * 1000:.1f} ms"
    yield "search an open one", f"{statistics.median(open_again) * 1000:.1f} ms, p95 {_p95(open_again) * 1000:.1f} ms"
    yield f"memory of the engine, {collections} collections", f"{_engine_mb():.0f} MB, without any {empty_mb:.0f} MB"
    started = time.perf_counter()
    store.close()
    yield "stop", f"{time.perf_counter() - started:.2f} s"
    files = [path.stat() for path in folder.rglob("*") if path.is_file()]
    disk, length = sum(file.st_blocks * 512 for file in files), sum(file.st_size for file in files)
    yield (
        "disk",
        f"{disk / 1e6:.0f} MB, {disk / collections / 1e6:.2f} MB and {len(files) / collections:.0f} files each",
    )
    yield "length of the files, with their holes", f"{length / collections / 1e6:.0f} MB each"
    started = time.perf_counter()
    QdrantEdgeVectorStore(folder).close()
    yield "start and stop again", f"{time.perf_counter() - started:.2f} s"


def _searched(store: QdrantEdgeVectorStore, name: str, vector: np.ndarray) -> float:
    started = time.perf_counter()
    store.search(name, vector, 10, Budget())
    return time.perf_counter() - started


def _p95(times: list[float]) -> float:
    return sorted(times)[int(len(times) * 0.95)]


def _engine_mb() -> float:
    """Return the memory of the processes below this one."""
    return sum(memory_mib(process, "VmRSS") for process in with_children(os.getpid())[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
