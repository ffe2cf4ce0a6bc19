"""What the engine process of qdrant-edge does: it searches and changes shards, and keeps some of them open.

Measured on two cores with 25 field indexes: loading 20,000 points 0.7 s, flushing 0.2 to 3 s, writing 250 points
25 to 80 ms, `optimize()` 12 to 40 s, all of it without releasing the interpreter lock. Without the field indexes a
shard opens in 15 ms, is flushed in 10 to 60 ms, and is 16 files instead of 290; a filter takes 3 us a point then.
"""

import os
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from groundwire.kernel.embedder import Vectors
from groundwire.kernel.files import sync
from groundwire.kernel.filters import BUILT_IN_FIELDS, FieldKind
from groundwire.vectorstores.file_seal import Seal, seal_of, sync_tree
from groundwire.vectorstores.points import best
from groundwire.vectorstores.qdrant_conditions import MIN_EF, Condition
from groundwire.vectorstores.stored_fields import TERMS_FIELD, TEXTS, Stored

_CLAUSES = ("must", "should", "must_not")


def vendor_filter(condition: Condition) -> Any:
    """Return the `qdrant_edge.Filter` of a condition tree made by `ConditionCompiler`."""
    import qdrant_edge as edge  # noqa: PLC0415 - only the engine process has it

    if not any(clause in condition for clause in _CLAUSES):
        return edge.Filter(must=[_vendor_condition(condition)])
    clauses: dict[str, Any] = {
        clause: [_vendor_condition(part) for part in condition[clause]] for clause in _CLAUSES if clause in condition
    }
    return edge.Filter(**clauses)


def _vendor_condition(condition: Condition) -> Any:
    import qdrant_edge as edge  # noqa: PLC0415 - only the engine process has it

    match condition:
        case {"is_empty": {"key": field}}:
            return edge.IsEmptyCondition(field)
        case {"has_id": numbers}:
            return edge.HasIdCondition(set(numbers))
        case {"key": field, "match": {"any": values}}:
            return edge.FieldCondition(field, match=edge.MatchAny(values))
        case {"key": field, "match": {"substring": value}}:
            return edge.FieldCondition(field, match=edge.MatchSubstring(value))
        case {"key": field, "range": bounds}:
            return edge.FieldCondition(field, range=edge.RangeFloat(**bounds))
        case _:
            return vendor_filter(condition)


# The files of the write-ahead log that are written to; the engine closes and renames full ones.
_OPEN_LOGS = "open-*"


class DamagedShardError(Exception):
    """The files of a shard have changed since it was closed, or cannot be opened."""


class Shard:
    """An open shard; searches may run in parallel, the caller queues writes.

    What was written is on disk when a write returns: in the write-ahead log, from which the engine takes it again when
    it opens a shard that was not closed. Without `syncs_writes` that is so after `close` and a sync of all files.

    Raises:
        DamagedShardError: the shard has to be made again.
    """

    def __init__(self, path: str, *, syncs_writes: bool = True) -> None:
        import qdrant_edge as edge  # noqa: PLC0415 - only the engine process has it

        self._edge = edge
        self._folder = Path(path)
        self._seal = Seal.read(seal_of(self._folder))
        if self._seal is not None and (names := self._seal.broken(self._folder)):
            raise DamagedShardError(f"{', '.join(names)}: missing, or other than it was written")
        # From here on the files change: without a seal the next start knows that the shard was not closed.
        seal_of(self._folder).unlink(missing_ok=True)
        try:
            self._shard = edge.EdgeShard.load(path)
        except BaseException as error:  # on some damage the library panics, which is no Exception
            raise DamagedShardError(f"it cannot be opened: {error}") from error
        self._syncs_writes = syncs_writes
        self._flushing = threading.Lock()
        self._synced_logs: set[str] = set()
        self._unflushed = 0
        self.last_use = time.monotonic()

    def upsert(self, numbers: Sequence[int], vectors: Vectors, stored: Sequence[Stored]) -> None:
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
        self.last_use = time.monotonic()
        parts = [*([] if where is None else [where]), *([] if within is None else [{"has_id": within}])]
        condition = vendor_filter({"must": parts}) if parts else None
        # With few points left by `within`, a walk through the index would miss some: they are compared one by one.
        params = self._edge.SearchParams(hnsw_ef=max(MIN_EF, limit), exact=within is not None)
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

    def sizes(self) -> tuple[int, int, bool]:
        """Return how many points there are, how many of them an index covers, and whether fields have indexes."""
        info = self._shard.info()
        return info.points_count, info.indexed_vectors_count, bool(info.payload_schema)

    def optimize(self) -> None:
        """Index everything; takes seconds to minutes."""
        self._shard.optimize()

    def flush_if_due(self) -> None:
        """Flush when nobody has searched or written for a while, or when many points have been written since."""
        with self._flushing:
            idle = time.monotonic() - self.last_use >= _FLUSH_IDLE_S
            if self._unflushed and (idle or self._unflushed >= _FLUSH_POINTS):
                written = self._unflushed
                self._shard.flush()
                self._unflushed -= written

    def close(self) -> None:
        """Flush, release the files and seal them."""
        with self._flushing:
            self._shard.close()
            self._unflushed = 0
            Seal.of(self._folder, self._seal).write(seal_of(self._folder))

    def _wrote(self, count: int) -> None:
        """Sync the engine's write-ahead log to disk, which the engine leaves to the system."""
        self.last_use = time.monotonic()
        self._unflushed += count
        if not self._syncs_writes:
            return
        logs = self._folder / "wal"
        names = {path.name for path in logs.glob(_OPEN_LOGS)}
        for name in names:
            sync(logs / name)
        if names != self._synced_logs:
            sync(logs)
            self._synced_logs = names


def create_shard(path: str, dimensions: int, *, indexes_fields: bool) -> None:
    """Make an empty shard at a path that does not exist; it is on disk and closed when this returns.

    With `indexes_fields` filters use indexes; making them takes the engine 2 to 5 s on a busy disk.
    """
    import qdrant_edge as edge  # noqa: PLC0415 - only the engine process has it

    # What is "cached" is read when a shard is opened: 32 MB of memory, most of it zeros, for a small one.
    memory = edge.Memory.Cached if indexes_fields else edge.Memory.Cold
    vectors = edge.EdgeVectorParams(size=dimensions, distance=edge.Distance.Cosine, memory=memory)
    # Indexing starts at one kilobyte: `optimize` is called only when an index is wanted.
    optimizers = edge.EdgeOptimizersConfig(indexing_threshold=1)
    # The defaults of Qdrant, but half of the cores are left to the serving processes.
    threads = max(1, (os.cpu_count() or 1) // 2)
    hnsw = edge.HnswIndexConfig(m=16, ef_construct=100, full_scan_threshold=10_000, max_indexing_threads=threads)
    # A shard has its own threads; a small one has a single segment, which one thread searches.
    searching = None if indexes_fields else 1
    config = edge.EdgeConfig(vectors=vectors, optimizers=optimizers, hnsw_config=hnsw, max_search_threads=searching)
    shard = edge.EdgeShard.create(path, config)
    if indexes_fields:
        for field, kind in BUILT_IN_FIELDS.items() | {(TERMS_FIELD, FieldKind.TEXT_LIST)}:
            schema = edge.PayloadSchemaType.Keyword if kind in TEXTS else edge.PayloadSchemaType.Integer
            shard.update(edge.UpdateOperation.create_field_index(field, schema))
    shard.close()
    folder = Path(path)
    sync_tree(folder)
    Seal.of(folder).write(seal_of(folder))


_LOOK_EVERY_S = 1.0
_FLUSH_IDLE_S = 2.0
# Unflushed points are taken from the write-ahead log again after a kill: 0.15 ms each.
_FLUSH_POINTS = 5_000
_CLOSE_IDLE_S = 60.0
_PAGE = 1000
_OF_SHARD = frozenset({"upsert", "delete", "search", "numbers", "points", "count", "sizes", "optimize"})
# No memory, too many open files, no space, a read-only disk, a quota: nothing that says anything about a shard.
_OUTER_CAUSE = re.compile(r"os error (12|23|24|28|30|122)\b")


@dataclass(slots=True, eq=False)
class _Slot:
    """A shard that is open or about to be. `users` are running requests; hold `switching` to open and to close it."""

    users: int = 0
    shard: Shard | None = None
    switching: threading.Lock = field(default_factory=threading.Lock)


class Engine:
    """The requests of a store or a rebuild; a shard is named by its folder and opened when it is used.

    An open shard costs 2 to 3 MB and some descriptors even when it is empty, so those used longest ago are closed
    beyond a number, and those that nobody used for a minute.
    """

    def __init__(self) -> None:
        self._slots: OrderedDict[str, _Slot] = OrderedDict()
        self._changed = threading.Lock()
        self._most_open = 1
        self._syncs_writes = True
        threading.Thread(target=self._look_after_idle, daemon=True).start()

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """Expose the methods of a shard as requests whose first argument is its folder."""
        if method not in _OF_SHARD:
            raise AttributeError(method)

        def on_shard(path: str, *arguments: Any) -> Any:
            with self._used(path) as shard:
                return getattr(shard, method)(*arguments)

        return on_shard

    def serve(self, most_open: int) -> None:
        """Set how many shards may be open at a time; there are more only while all of them are in use."""
        self._most_open = most_open

    def build(self) -> None:
        """Leave syncing to the owner, who syncs all writes at the end."""
        self._syncs_writes = False

    def create(self, path: str, dimensions: int) -> None:
        """Make an empty shard for few points."""
        create_shard(path, dimensions, indexes_fields=False)

    def create_indexed(self, path: str, dimensions: int) -> None:
        """Make an empty shard whose filters use indexes."""
        create_shard(path, dimensions, indexes_fields=True)

    def damage(self, path: str) -> str:
        """Open a shard if it is not open; return what is wrong with its files, or an empty text."""
        try:
            with self._used(path):
                return ""
        except DamagedShardError as error:
            if _OUTER_CAUSE.search(str(error)):
                raise
            return str(error)

    def unreadable(self, path: str) -> str:
        """Read every point of a shard and search it; return what fails, or an empty text."""
        after = 0
        try:
            while numbers := self.numbers(path, after, _PAGE):
                _, vectors, _ = self.points(path, numbers)
                if not after:
                    self.search(path, vectors[0], 1, None, None)
                after = numbers[-1]
        except Exception as error:
            if _OUTER_CAUSE.search(str(error)):
                raise
            return str(error)
        return ""

    def rewrite(self, path: str, target: str, dimensions: int) -> None:
        """Make a shard with the same points and no trace of removed ones; durable on return."""
        with self._used(path) as shard:
            _, _, has_field_indexes = shard.sizes()
            create_shard(target, dimensions, indexes_fields=has_field_indexes)
            # Synced as a whole, below.
            copy = Shard(target, syncs_writes=False)
            after = 0
            while numbers := shard.numbers(after, _PAGE):
                copy.upsert(*shard.points(numbers))
                after = numbers[-1]
            copy.close()
        sync_tree(Path(target))

    def close(self, path: str) -> None:
        """Flush and close a shard that nobody uses, if it is open."""
        with self._changed:
            slot = self._slots.get(path)
        if slot is not None:
            self._close(path, slot)

    def close_all(self) -> None:
        for path in list(self._slots):
            self.close(path)

    @contextmanager
    def _used(self, path: str) -> Iterator[Shard]:
        """Open a shard if it is not open, and keep it open for a request."""
        with self._changed:
            slot = self._slots.setdefault(path, _Slot())
            self._slots.move_to_end(path)
            slot.users += 1
        try:
            with slot.switching:
                slot.shard = shard = slot.shard or Shard(path, syncs_writes=self._syncs_writes)
            yield shard
        finally:
            with self._changed:
                slot.users -= 1
                self._forget_closed(path, slot)
                idle = [(each, other) for each, other in self._slots.items() if not other.users]
                surplus = idle[: max(0, len(self._slots) - self._most_open)]
            # Outside the lock: closing flushes, which may take seconds, and other shards must go on.
            for each, other in surplus:
                self._close(each, other)

    def _close(self, path: str, slot: _Slot) -> None:
        """Close a shard unless a request has begun to use it; that request waits for the end and opens it again."""
        with self._changed:
            if slot.users or not slot.switching.acquire(blocking=False):
                return
        try:
            shard, slot.shard = slot.shard, None
            if shard is not None:
                shard.close()
        finally:
            slot.switching.release()
        with self._changed:
            self._forget_closed(path, slot)

    def _forget_closed(self, path: str, slot: _Slot) -> None:
        """Drop the slot of a shard that is neither open nor waited for."""
        if slot.shard is None and not slot.users and self._slots.get(path) is slot:
            del self._slots[path]

    def _look_after_idle(self) -> None:
        """Flush idle shards, and those with much to flush; close those that have been idle for long."""
        while True:
            time.sleep(_LOOK_EVERY_S)
            for path, slot in list(self._slots.items()):
                shard = slot.shard
                if shard is None:
                    continue
                try:
                    shard.flush_if_due()
                    if time.monotonic() - shard.last_use > _CLOSE_IDLE_S:
                        self._close(path, slot)
                except Exception:  # noqa: BLE001, S112 - the library raises bare Exception
                    # A full disk, which writes report to their callers; everything is in the log and tried again.
                    continue
