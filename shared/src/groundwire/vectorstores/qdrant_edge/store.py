"""VectorStore on qdrant-edge: the owner's side, which never loads the library itself.

The library holds the interpreter lock while it writes, flushes, loads and indexes, for seconds at times. So
it runs in an engine process, and a rebuild in another one; this process only waits on pipes.
"""

import contextlib
import importlib.util
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    GroundwireError,
    MissingExtraError,
    StoreUnavailableError,
)
from groundwire.kernel.vector_store import PointBatch
from groundwire.vectorstores.engine_process import HUNG_AFTER_S, EngineProcess
from groundwire.vectorstores.engine_store import EngineStore, OwnedEngine
from groundwire.vectorstores.file_seal import Seal, seal_of
from groundwire.vectorstores.points import as_ints, batches
from groundwire.vectorstores.qdrant_conditions import ConditionCompiler
from groundwire.vectorstores.qdrant_edge.collection import (
    Rebuild,
    ServedCollection,
    new_copy,
    publish,
    remove,
    remove_copy,
    sweep,
    unpublish,
)
from groundwire.vectorstores.stored_fields import Stored

_ENGINE = "qdrant-edge"
_ENGINE_MODULE = "groundwire.vectorstores.qdrant_edge.engine"
_BUILDER_NICENESS = 15
# Closing a shard flushes it: up to 3 s for a large one on a busy disk.
_CLOSE_S = 60.0
# Points that are rewritten in a tenth of a second at most.
_REWRITTEN_IN_PLACE = 500
_PAGE = 10_000
# Limit for starting an engine, or opening one collection.
_START_S = 30.0

_log = structlog.get_logger(__name__)


class QdrantEdgeVectorStore(EngineStore):
    """VectorStore, Rebuildable, Recoverable and Scrubbable over one folder, which it owns until `close()`.

    Args:
        folder: made if missing.
        most_open: collections whose files are open at a time.
        index_fields_after: points from which on filters pay for indexes of fields (25 files and 100 kB each).
        rebuild_after: points outside the index that may be scanned (2 to 3 ms for 20,000).
        rebuild_growth: share of the indexed points that must have come or changed since the last build.
        scrub_at_once: largest collection, in points, that is rewritten within a call: 10,000 take a second.
        hung_after_s: seconds without a sign of life after which the engine is killed and started again.

    Raises:
        MissingExtraError: qdrant-edge-py is not installed.
        StoreOwnedError: another process has the folder open.
        StoreMismatchError: the folder was written by another engine or in another layout.
    """

    _batch = 250
    _compiled = ConditionCompiler(_ENGINE, matches_substrings=True)

    def __init__(
        self,
        folder: Path,
        *,
        most_open: int = 32,
        index_fields_after: int = 4_000,
        rebuild_after: int = 20_000,
        rebuild_growth: float = 0.5,
        scrub_at_once: int = 5_000,
        hung_after_s: float = HUNG_AFTER_S,
    ) -> None:
        if importlib.util.find_spec("qdrant_edge") is None:
            raise MissingExtraError("qdrant-edge needs the package qdrant-edge-py: groundwire[edge]", extra="edge")
        super().__init__(folder, _ENGINE)
        self._index_fields_after = index_fields_after
        self._rebuild_after = rebuild_after
        self._rebuild_growth = rebuild_growth
        self.rebuilt_above = min(index_fields_after, rebuild_after)
        self._scrub_at_once = scrub_at_once
        self._is_closed = threading.Event()
        try:
            self._collections: dict[str, ServedCollection] = {}
            for path, current in sweep(folder):
                copy = path / current.copy
                self._collections[path.name] = ServedCollection(
                    path, copy, current.dimensions, is_complete=current.is_complete
                )
                # Without a seal its files were in use when an engine was killed, and may lack what was acknowledged.
                if not current.is_complete or Seal.read(seal_of(copy)) is None:
                    self._unverified.add(path.name)
            self._engine = OwnedEngine(partial(self._start, "serve", most_open, hung_after_s=hung_after_s))
        except BaseException:
            self._owner.release()
            raise

    def drop_collection(self, collection: str, budget: Budget) -> None:
        """Remove a collection, stopping a rebuild of it; see the port."""
        budget.check()
        with budget.holding(self._lock):
            served = self._collections.get(collection)
            if served is None:
                return
            copy = served.drop()
            with served.rebuilding:
                # First, so that a kill from here on leaves no half-removed collection.
                unpublish(served.folder)
                del self._collections[collection]
                self._unverified.discard(collection)
                with contextlib.suppress(StoreUnavailableError):  # an engine that died has closed everything
                    self._engine.live(Budget(_CLOSE_S)).write(Budget(_CLOSE_S), "close", str(copy))
                remove(served.folder)

    def collections(self, budget: Budget) -> list[str]:
        budget.check()
        with budget.holding(self._lock):
            return sorted(self._collections)

    def delete(self, collection: str, numbers: Sequence[int], budget: Budget) -> None:
        served = self._served(collection)
        for batch in batches(numbers, self._batch):
            self._write(served, budget, "delete", as_ints(batch))
        # Counted after the write, so that a scrub that begins in between does not count this one as done.
        served.removals += 1

    def scrub(self, collection: str, budget: Budget, *, at_any_size: bool = False) -> bool:
        """Rewrite the files of a collection, a large one beside the serving copy; see the port."""
        try:
            served = self._served(collection)
        except CollectionNotFoundError:
            return True
        removals = served.removals
        with self._patience(budget, at_any_size=at_any_size).holding(served.rebuilding):
            if served.scrubbed >= removals and removals:
                return True  # another call has done it meanwhile, for both
            if not served.is_complete:
                return False
            # In place is fastest for the call that waits for it; behind the calls it must not keep writers waiting.
            in_place = min(_REWRITTEN_IN_PLACE, self._scrub_at_once) if at_any_size else self._scrub_at_once
            if self.count(collection, budget) <= in_place:
                target = new_copy(served.folder)
                try:
                    with served.writing(budget) as path:
                        removed = served.removals
                        self._engine.live(budget).write(budget, "rewrite", path, str(target), served.dimensions)
                        publish(target, served.dimensions)
                        old = served.switch(target)
                        served.scrubbed = removed
                except BaseException:
                    remove_copy(target)
                    raise
                self._retire(served, old)
            elif at_any_size:
                self._rebuild(served, tuple, budget)
            else:
                return False
        return True

    def numbers(self, collection: str, budget: Budget) -> Iterator[int]:
        """Iterate over the numbers of all points, ascending; reads a page at a time."""
        return self._numbers(self._served(collection), budget)

    def count(self, collection: str, budget: Budget) -> int:
        return int(self._read(self._served(collection), budget, "count"))

    def filters_by_index(self, collection: str) -> bool:
        served = self._collections.get(collection)
        return served is None or not served.lacks_field_indexes

    def needs_rebuild(self, collection: str, budget: Budget) -> bool:
        """Tell whether a rebuild pays: many points without field indexes, or many outside the vector index."""
        served = self._served(collection)
        if not served.is_complete:
            return False
        points, indexed, has_field_indexes = self._read(served, budget, "sizes")
        served.lacks_field_indexes = points > self._index_fields_after and not has_field_indexes
        if served.lacks_field_indexes:
            return True
        outside = points - indexed
        return bool(outside > self._rebuild_after and outside >= self._rebuild_growth * indexed)

    def rebuild(self, collection: str, points: Callable[[], Iterable[PointBatch]], budget: Budget) -> None:
        """Build an indexed copy beside the serving one and swap; returns at once if a rebuild already runs."""
        served = self._served(collection)
        if not served.rebuilding.acquire(blocking=False):
            return
        try:
            self._rebuild(served, points, budget)
        finally:
            served.rebuilding.release()

    def close(self) -> None:
        """Stop rebuilds, flush, end the engine and let others own the folder; idempotent."""
        self._is_closed.set()
        with self._lock:
            for served in self._collections.values():
                with served.rebuilding:
                    pass  # a rebuild ends at its next look at `_is_closed`
            self._engine.close()
            self._owner.release()

    def mark_verified(self, collection: str, budget: Budget) -> None:
        budget.check()
        with budget.holding(self._lock):
            served = self._collections.get(collection)
            if served is not None and not served.is_complete:
                with served.writing(budget) as copy:
                    publish(Path(copy), served.dimensions)
                    served.is_complete = True
            self._unverified.discard(collection)

    def _ensure(self, collection: str, dimensions: int, budget: Budget) -> int:
        with budget.holding(self._lock):
            if collection not in self._collections:
                # A collection whose files are gone has to be filled before it can be searched.
                is_complete = collection not in self._unverified
                folder = self._folder / collection
                self._collections[collection] = self._create(folder, dimensions, budget, is_complete=is_complete)
            return self._collections[collection].dimensions

    def _dimensions_of(self, collection: str, _budget: Budget) -> int:
        return self._served(collection).dimensions

    def _put(
        self, collection: str, numbers: list[int], vectors: Vectors, stored: Sequence[Stored], budget: Budget
    ) -> None:
        # On disk, in the engine's write-ahead log, when it returns.
        self._write(self._served(collection), budget, "upsert", numbers, vectors, stored)

    def _nearest(
        self, collection: str, vector: Vectors, limit: int, condition: Any, within: list[int] | None, budget: Budget
    ) -> Any:
        """Return the most similar points, exactly up to `rebuild_after` points."""
        served = self._served(collection)
        if not served.is_complete:
            raise self._being_filled()
        return self._read(served, budget, "search", vector, limit, condition, within)

    def _points(self, collection: str, numbers: list[int], budget: Budget) -> Any:
        return self._read(self._served(collection), budget, "points", numbers)

    def _start(self, purpose: str, *arguments: Any, **options: Any) -> EngineProcess:
        """Start an engine and configure it; it keeps the folder locked until it has ended."""
        # It inherits the lock: a new owner must not open files that the engine of a dead owner still writes.
        inherited = (self._owner.descriptor,)
        engine = EngineProcess(_ENGINE, _ENGINE_MODULE, self._folder, inherited=inherited, **options)
        try:
            engine.write(Budget(_START_S), purpose, *arguments)
        except BaseException:
            engine.close()
            raise
        return engine

    def _create(self, folder: Path, dimensions: int, budget: Budget, *, is_complete: bool = True) -> ServedCollection:
        method = "create" if self._index_fields_after > 0 else "create_indexed"
        try:
            copy = new_copy(folder)
            self._engine.live(budget).write(budget, method, str(copy), dimensions)
            publish(copy, dimensions, is_complete=is_complete)
        except OSError as error:
            raise StoreUnavailableError(f"an index cannot be made: {error}", engine=_ENGINE) from error
        return ServedCollection(folder, copy, dimensions, is_complete=is_complete)

    def _read(self, served: ServedCollection, budget: Budget, method: str, *arguments: Any) -> Any:
        with served.reading() as path:
            engine = self._engine.live(budget)
            try:
                return engine.read(budget, method, path, *arguments)
            except StoreUnavailableError as error:
                failure = error
        # After the copy has been released: replacing a damaged one waits for its readers.
        raise self._explained(served, Path(path), failure, engine, budget)

    def _write(self, served: ServedCollection, budget: Budget, method: str, numbers: list[int], *rest: Any) -> None:
        with served.writing(budget, numbers) as path:
            engine = self._engine.live(budget)
            try:
                engine.write(budget, method, path, numbers, *rest)
            except StoreUnavailableError as error:
                failure = error
            else:
                return
        # After the turn to write has ended: replacing a damaged copy takes one as well.
        raise self._explained(served, Path(path), failure, engine, budget)

    def _explained(
        self,
        served: ServedCollection,
        copy: Path,
        failure: StoreUnavailableError,
        failed: EngineProcess,
        budget: Budget,
    ) -> StoreUnavailableError:
        """Return a failure of a request as its caller should see it; a damaged copy gives way to an empty one."""
        # An engine that still runs reported the failure itself: the copy may be open, with something in it damaged.
        method, name = "damage" if failed.is_broken else "unreadable", served.folder.name
        with self._examining(name, budget) as is_first:
            damage = self._damage(method, str(copy), budget) if is_first else ""
            if not damage:
                return failure
            # Not with the budget of the call, which may be nearly used up: every other call waits for the empty copy.
            own = Budget(_START_S)
            with own.holding(self._lock):
                if served.serves(copy) and not served.is_dropped.is_set():
                    _log.error("the files of a collection are damaged", collection=name, damage=damage)
                    made = self._create(served.folder, served.dimensions, own, is_complete=False)
                    with made.reading() as empty, served.writing(own):
                        served.is_complete = False
                        old = served.switch(Path(empty))
                    self._retire(served, old)
                    self._unverified.add(name)
        return self._being_filled()

    def _retire(self, served: ServedCollection, old: Path) -> None:
        """Remove a copy that no longer serves, once nobody reads it."""
        served.wait_unread(old)
        with contextlib.suppress(GroundwireError):  # an engine that died has closed everything
            self._engine.live(Budget(_CLOSE_S)).write(Budget(_CLOSE_S), "close", str(old))
        remove_copy(old)

    def _rebuild(self, served: ServedCollection, points: Callable[[], Iterable[PointBatch]], budget: Budget) -> None:
        """Rebuild with `rebuilding` held; points that are not given come from the serving copy."""
        removals = served.removals
        engine = self._engine.live(budget)
        # It has one shard, syncs it as a whole, and gives way to everything that serves.
        start_builder = partial(self._start, "build", niceness=_BUILDER_NICENESS, is_serving=False)
        rebuild = Rebuild(engine, start_builder, served, self._rebuild_after, budget, self._is_closed)
        rebuild.run(self._numbers(served, budget), points)
        served.lacks_field_indexes = False
        served.scrubbed = removals

    def _numbers(self, served: ServedCollection, budget: Budget) -> Iterator[int]:
        page: list[int] = [0]
        while page:
            page = self._read(served, budget, "numbers", page[-1], _PAGE)
            yield from page

    def _served(self, collection: str) -> ServedCollection:
        served = self._collections.get(collection)
        if served is None:
            raise CollectionNotFoundError(collection)
        return served
