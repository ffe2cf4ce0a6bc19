"""VectorStore on qdrant-edge: the owner's side, which never loads the library itself.

The library holds the interpreter lock while it writes, flushes, loads and indexes, for seconds at times. So
it runs in an engine process, and a rebuild in another one; this process only waits on pipes.
"""

import contextlib
import importlib.util
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    MissingExtraError,
    StoreMismatchError,
    StoreUnavailableError,
)
from groundwire.kernel.filters import Filter
from groundwire.kernel.vector_store import PointBatch, ScoredPoint
from groundwire.vectorstores.engine_process import HUNG_AFTER_S, EngineProcess
from groundwire.vectorstores.folder_format import claim_folder
from groundwire.vectorstores.owned_engine import OwnedEngine
from groundwire.vectorstores.owner_lock import OwnerLock
from groundwire.vectorstores.point_checks import check_points, check_query, checked_dimensions, checked_name
from groundwire.vectorstores.qdrant_conditions import ConditionCompiler
from groundwire.vectorstores.qdrant_edge.folders import new_copy, publish, remove, sweep, unpublish
from groundwire.vectorstores.qdrant_edge.rebuild import Rebuild
from groundwire.vectorstores.qdrant_edge.served_collection import ServedCollection
from groundwire.vectorstores.slicing import as_ints, batches, slices
from groundwire.vectorstores.stored_fields import restored_payload, stored_fields

_ENGINE = "qdrant-edge"
_ENGINE_MODULE = "groundwire.vectorstores.qdrant_edge.engine"
_COMPILE = ConditionCompiler(_ENGINE, matches_substrings=True)
_BUILDER_NICENESS = 15
"""The builder gives way to everything that serves."""
_BATCH = 250
_CLOSE_S = 60.0
"""Closing a shard flushes it: up to 3 s for a large one on a busy disk."""
_PAGE = 10_000


class QdrantEdgeVectorStore:
    """VectorStore and Rebuildable over one folder, which it owns until `close()`.

    Args:
        folder: made if missing.
        rebuild_after: points outside the index that are scanned without regret (2 to 3 ms for 20,000).
        rebuild_growth: share of the indexed points that must have come or changed since the last build.
        hung_after_s: seconds without a sign of life after which the engine is killed and started again.

    Raises:
        MissingExtraError: qdrant-edge-py is not installed.
        StoreOwnedError: another process has the folder open.
        StoreMismatchError: the folder was written by another engine or in another layout.
    """

    filters_by_index = True

    def __init__(
        self,
        folder: Path,
        *,
        rebuild_after: int = 20_000,
        rebuild_growth: float = 0.5,
        hung_after_s: float = HUNG_AFTER_S,
    ) -> None:
        if importlib.util.find_spec("qdrant_edge") is None:
            raise MissingExtraError("qdrant-edge needs the package qdrant-edge-py: groundwire[edge]", extra="edge")
        self._folder = folder
        self._rebuild_after = rebuild_after
        self._rebuild_growth = rebuild_growth
        self._hung_after_s = hung_after_s
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._owner = OwnerLock(folder)
        try:
            claim_folder(folder, _ENGINE)
            self._collections = {
                path.name: ServedCollection(path, path / current.copy, current.dimensions)
                for path, current in sweep(folder)
            }
            self._engine = OwnedEngine(self._start_engine)
        except BaseException:
            self._owner.release()
            raise

    def create_collection(self, collection: str, dimensions: int, budget: Budget) -> None:
        """Make a collection; see the port."""
        checked_name(collection)
        checked_dimensions(dimensions)
        with self._lock:
            existing = self._collections.get(collection)
            if existing is None:
                self._collections[collection] = self._create(self._folder / collection, dimensions, budget)
            elif existing.dimensions != dimensions:
                raise StoreMismatchError(
                    f"collection {collection} has {existing.dimensions} dimensions, not {dimensions}",
                    setting="dimensions",
                    expected=dimensions,
                    got=existing.dimensions,
                )

    def drop_collection(self, collection: str, budget: Budget) -> None:
        """Remove a collection, stopping a rebuild of it; see the port."""
        budget.check()
        with self._lock:
            served = self._collections.get(collection)
            if served is None:
                return
            copy = served.drop()
            with served.rebuilding:
                unpublish(served.folder)
                del self._collections[collection]
                with contextlib.suppress(StoreUnavailableError):  # an engine that died has closed everything
                    self._engine.live(Budget(_CLOSE_S)).write(Budget(_CLOSE_S), "close", str(copy))
                remove(served.folder)

    def collections(self, budget: Budget) -> list[str]:
        """Return the names of all collections, sorted."""
        budget.check()
        with self._lock:
            return sorted(self._collections)

    def upsert(self, collection: str, points: PointBatch, budget: Budget) -> None:
        """Insert or replace points, in the engine's write-ahead log when it returns; see the port."""
        served = self._served(collection)
        check_points(points, served.dimensions)
        for part in slices(points, _BATCH):
            stored = [stored_fields(payload) for payload in part.payloads]
            with served.writing(part.numbers) as path:
                self._engine.live(budget).write(budget, "upsert", path, as_ints(part.numbers), part.vectors, stored)

    def delete(self, collection: str, numbers: Sequence[int], budget: Budget) -> None:
        """Remove points; see the port."""
        served = self._served(collection)
        for batch in batches(numbers, _BATCH):
            with served.writing(batch) as path:
                self._engine.live(budget).write(budget, "delete", path, as_ints(batch))

    def search(
        self,
        collection: str,
        vector: Vectors,
        limit: int,
        budget: Budget,
        *,
        where: Filter | None = None,
        within: Sequence[int] | None = None,
    ) -> list[ScoredPoint]:
        """Return the most similar points; exact up to `rebuild_after` points, see the port."""
        served = self._served(collection)
        check_query(vector, limit, served.dimensions)
        compiled = True if where is None else _COMPILE(where)
        if compiled is False or (within is not None and len(within) == 0):
            return []
        condition = None if compiled is True else compiled
        numbers = None if within is None else as_ints(within)
        with served.reading() as path:
            found = self._engine.live(budget).read(budget, "search", path, vector, limit, condition, numbers)
        return [ScoredPoint(number, min(1.0, max(0.0, cosine))) for number, cosine in found]

    def fetch(self, collection: str, numbers: Sequence[int], budget: Budget) -> PointBatch:
        """Return those of the points that exist, by number; see the port."""
        served = self._served(collection)
        with served.reading() as path:
            found, vectors, stored = self._engine.live(budget).read(
                budget, "points", path, sorted(set(as_ints(numbers)))
            )
        payloads = [restored_payload(fields) for fields in stored]
        return PointBatch(found, vectors.reshape(-1, served.dimensions), payloads)

    def numbers(self, collection: str, budget: Budget) -> Iterator[int]:
        """Iterate over the numbers of all points, ascending; reads a page at a time."""
        return self._numbers(self._served(collection), budget)

    def count(self, collection: str, budget: Budget) -> int:
        """Return the exact number of points."""
        with self._served(collection).reading() as path:
            return int(self._engine.live(budget).read(budget, "count", path))

    def needs_rebuild(self, collection: str, budget: Budget) -> bool:
        """Tell whether a rebuild pays: many points outside the index, and many compared with those in it."""
        with self._served(collection).reading() as path:
            points, indexed = self._engine.live(budget).read(budget, "sizes", path)
        outside = points - indexed
        return bool(outside > self._rebuild_after and outside >= self._rebuild_growth * indexed)

    def rebuild(self, collection: str, points: Callable[[], Iterable[PointBatch]], budget: Budget) -> None:
        """Build an indexed copy beside the serving one and swap; returns at once if a rebuild already runs."""
        served = self._served(collection)
        if not served.rebuilding.acquire(blocking=False):
            return
        try:
            rebuild = Rebuild(
                self._engine.live(budget),
                self._start_builder,
                served,
                budget,
                self._is_closed,
            )
            rebuild(self._numbers(served, budget), points)
        finally:
            served.rebuilding.release()

    def check_responding(self) -> None:
        """Return if the engine responds; see the port."""
        self._engine.check_responding()

    def close(self) -> None:
        """Stop rebuilds, flush, end the engine and let others own the folder; idempotent."""
        self._is_closed.set()
        with self._lock:
            for served in self._collections.values():
                with served.rebuilding:
                    pass  # a rebuild ends at its next look at `_is_closed`
            self._engine.close()
            self._owner.release()

    def _start_engine(self) -> EngineProcess:
        """Start an engine that keeps the folder locked until it has ended, however this process ends."""
        kept_open = (self._owner.descriptor,)
        return EngineProcess(
            _ENGINE, _ENGINE_MODULE, self._folder, kept_open=kept_open, hung_after_s=self._hung_after_s
        )

    def _start_builder(self) -> EngineProcess:
        return EngineProcess(
            _ENGINE,
            _ENGINE_MODULE,
            self._folder,
            kept_open=(self._owner.descriptor,),
            niceness=_BUILDER_NICENESS,
            is_serving=False,
        )

    def _create(self, folder: Path, dimensions: int, budget: Budget) -> ServedCollection:
        copy = new_copy(folder)
        self._engine.live(budget).write(budget, "create", str(copy), dimensions)
        publish(folder, copy, dimensions)
        return ServedCollection(folder, copy, dimensions)

    def _numbers(self, served: ServedCollection, budget: Budget) -> Iterator[int]:
        page: list[int] = [0]
        while page:
            with served.reading() as path:
                page = self._engine.live(budget).read(budget, "numbers", path, page[-1], _PAGE)
            yield from page

    def _served(self, collection: str) -> ServedCollection:
        served = self._collections.get(collection)
        if served is None:
            raise CollectionNotFoundError(collection)
        return served
