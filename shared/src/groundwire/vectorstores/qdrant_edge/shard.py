"""One open shard of qdrant-edge; runs in the engine process, because the library holds the interpreter lock.

Measured on two cores with 22 field indexes: loading 20,000 points 0.7 s, flushing 0.2 to 3 s, writing 250 points
25 to 80 ms, `optimize()` 12 to 40 s, all of it without releasing the lock.
"""

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filter_fields import BUILT_IN_FIELDS, FieldKind
from groundwire.vectorstores.clean_cut import best
from groundwire.vectorstores.qdrant_conditions import Condition
from groundwire.vectorstores.qdrant_edge.sparse_copy import copy_sparse
from groundwire.vectorstores.qdrant_edge.vendor_filters import vendor_filter
from groundwire.vectorstores.stored_fields import TERMS_FIELD, Stored

_MIN_EF = 384
"""Candidates an index search keeps. Graphs differ from build to build: with 128 the recall@10 of 60,000 to 100,000
points was 0.954 to 0.994, with 256 it was 0.986 to 0.999; a search takes 1 to 3 ms."""
_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory; the folder in it is made by mkdtemp


class Shard:
    """A shard that counts what it has not flushed; searches may run in parallel, the caller queues writes."""

    def __init__(self, path: str) -> None:
        import qdrant_edge as edge  # noqa: PLC0415 - only the engine process has it

        self._edge = edge
        self._shard = edge.EdgeShard.load(path)
        self._flushing = threading.Lock()
        self._unflushed = 0
        self._last_use = time.monotonic()

    def upsert(self, numbers: Sequence[int], vectors: Vectors, stored: Sequence[Stored]) -> None:
        """Write points; they are in the write-ahead log when this returns."""
        rows = vectors.tolist()
        points = [self._edge.Point(n, row, dict(p)) for n, row, p in zip(numbers, rows, stored, strict=True)]
        self._shard.update(self._edge.UpdateOperation.upsert_points(points))
        self._wrote(len(points))

    def delete(self, numbers: Sequence[int]) -> None:
        """Remove points; unknown ones are ignored."""
        self._shard.update(self._edge.UpdateOperation.delete_points(list(numbers)))
        self._wrote(len(numbers))

    def search(
        self, vector: Vectors, limit: int, where: Condition | None, within: Sequence[int] | None
    ) -> list[tuple[int, float]]:
        """Return (number, cosine) of the best points, best first, ties by number; exact with `within`."""
        self._last_use = time.monotonic()
        parts = [*([] if where is None else [where]), *([] if within is None else [{"has_id": within}])]
        condition = vendor_filter({"must": parts}) if parts else None
        params = self._edge.SearchParams(hnsw_ef=max(_MIN_EF, limit), exact=within is not None)
        nearest = self._edge.Query.Nearest(vector.tolist())

        def query(count: int) -> list[tuple[int, float]]:
            request = self._edge.QueryRequest(limit=count, query=nearest, filter=condition, params=params)
            found: list[Any] = self._shard.query(request)
            return [(point.id, point.score) for point in found]

        return best(query, limit)

    def numbers(self, after: int, limit: int) -> list[int]:
        """Return up to `limit` numbers above `after`, ascending."""
        request = self._edge.ScrollRequest(offset=after + 1, limit=limit, with_payload=False, with_vector=False)
        records: list[Any] = self._shard.scroll(request)[0]
        return [record.id for record in records]

    def points(self, numbers: Sequence[int]) -> tuple[list[int], Vectors, list[Stored]]:
        """Return those of the points that exist: numbers, float32 of shape (found, dimensions), stored fields."""
        records: list[Any] = self._shard.retrieve(list(numbers), with_payload=True, with_vector=True)
        records.sort(key=lambda record: record.id)
        vectors = np.array([record.vector for record in records], dtype=np.float32)
        return [record.id for record in records], vectors, [record.payload or {} for record in records]

    def count(self) -> int:
        """Return the exact number of points."""
        return self._shard.count(self._edge.CountRequest(exact=True))

    def sizes(self) -> tuple[int, int]:
        """Return how many points there are, and how many of them an index covers."""
        info = self._shard.info()
        return info.points_count, info.indexed_vectors_count

    def optimize(self) -> None:
        """Index everything; takes seconds to minutes."""
        self._shard.optimize()

    def flush_if(self, *, idle_s: float, unflushed: int) -> None:
        """Flush when nobody searched or wrote for `idle_s`, or when `unflushed` points have been written since."""
        with self._flushing:
            idle = time.monotonic() - self._last_use >= idle_s
            if self._unflushed and (idle or self._unflushed >= unflushed):
                self._unflushed = 0
                self._shard.flush()

    def close(self) -> None:
        """Flush and release the files."""
        with self._flushing:
            self._unflushed = 0
            self._shard.close()

    def _wrote(self, count: int) -> None:
        self._unflushed += count
        self._last_use = time.monotonic()


def create_shard(path: str, dimensions: int) -> None:
    """Make an empty shard with all its field indexes at a path that does not exist.

    The engine syncs every file of every index (22 indexes: 2 to 5 s on a busy disk), so the empty shard is
    made in memory where the system offers that, and copied.
    """
    parent = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="groundwire-", dir=parent) as scratch:
        try:
            _build_empty(scratch, dimensions)
        except Exception:  # noqa: BLE001 - the library raises bare Exception, for a full memory disk too
            _build_empty(path, dimensions)
            return
        # Without the write-ahead log, which is 64 MB of zeros; loading makes a new one.
        shutil.copytree(scratch, path, ignore=shutil.ignore_patterns("wal"), copy_function=copy_sparse)


def _build_empty(path: str, dimensions: int) -> None:
    import qdrant_edge as edge  # noqa: PLC0415 - only the engine process has it

    vectors = edge.EdgeVectorParams(size=dimensions, distance=edge.Distance.Cosine)
    # Indexing starts at one kilobyte: `optimize` is called only when an index is wanted.
    optimizers = edge.EdgeOptimizersConfig(indexing_threshold=1)
    # The defaults of Qdrant, but half of the cores are left to those who serve.
    threads = max(1, (os.cpu_count() or 1) // 2)
    hnsw = edge.HnswIndexConfig(m=16, ef_construct=100, full_scan_threshold=10_000, max_indexing_threads=threads)
    config = edge.EdgeConfig(vectors=vectors, optimizers=optimizers, hnsw_config=hnsw)
    shard = edge.EdgeShard.create(path, config)
    for field, kind in BUILT_IN_FIELDS.items() | {(TERMS_FIELD, FieldKind.TEXT_LIST)}:
        is_text = kind in {FieldKind.TEXT, FieldKind.TEXT_LIST}
        schema = edge.PayloadSchemaType.Keyword if is_text else edge.PayloadSchemaType.Integer
        shard.update(edge.UpdateOperation.create_field_index(field, schema))
    shard.close()
