"""What the engine process of qdrant-edge does: it searches and changes shards, and keeps some of them open."""

import re
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from groundwire.kernel.embedder import Vectors
from groundwire.vectorstores.folder import sync_tree
from groundwire.vectorstores.qdrant_conditions import Condition
from groundwire.vectorstores.qdrant_edge.shard import DamagedShardError, Shard, create_shard
from groundwire.vectorstores.stored_fields import Stored

_LOOK_EVERY_S = 1.0
_FLUSH_IDLE_S = 2.0
_FLUSH_POINTS = 5_000
"""Unflushed points are taken from the write-ahead log again after a kill: 0.15 ms each."""
_CLOSE_IDLE_S = 60.0
_PAGE = 1000
_OUTER_CAUSE = re.compile(r"os error (12|23|24|28|30|122)\b")
"""No memory, too many open files, no space, a read-only disk, a quota: nothing that says anything of a shard."""


@dataclass(slots=True, eq=False)
class _Slot:
    """A shard that is open or about to be. `users` are requests at work; `switching` is held to open and to close."""

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

    def serve(self, most_open: int) -> None:
        """Set how many shards may be open at a time; there are more only while all of them are at work."""
        self._most_open = most_open

    def build(self) -> None:
        """Leave it to the owner to bring writes to disk, all of them at the end."""
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

    def upsert(self, path: str, numbers: Sequence[int], vectors: Vectors, stored: Sequence[Stored]) -> None:
        """Insert or replace points."""
        with self._used(path) as shard:
            shard.upsert(numbers, vectors, stored)

    def delete(self, path: str, numbers: Sequence[int]) -> None:
        """Remove points."""
        with self._used(path) as shard:
            shard.delete(numbers)

    def rewrite(self, path: str, target: str, dimensions: int) -> None:
        """Make a shard with the same points, and with nothing of those that were removed; it is on disk on return."""
        with self._used(path) as shard:
            _, _, has_field_indexes = shard.sizes()
            create_shard(target, dimensions, indexes_fields=has_field_indexes)
            copy = Shard(target, syncs_writes=False)
            after = 0
            while numbers := shard.numbers(after, _PAGE):
                copy.upsert(*shard.points(numbers))
                after = numbers[-1]
            copy.close()
        sync_tree(Path(target))

    def search(
        self, path: str, vector: Vectors, limit: int, where: Condition | None, within: Sequence[int] | None
    ) -> list[tuple[int, float]]:
        """Return (number, cosine), best first."""
        with self._used(path) as shard:
            return shard.search(vector, limit, where, within)

    def numbers(self, path: str, after: int, limit: int) -> list[int]:
        """Return a page of numbers, ascending."""
        with self._used(path) as shard:
            return shard.numbers(after, limit)

    def count(self, path: str) -> int:
        """Return the number of points."""
        with self._used(path) as shard:
            return shard.count()

    def sizes(self, path: str) -> tuple[int, int, bool]:
        """Return the numbers of points and of indexed points, and whether fields have indexes."""
        with self._used(path) as shard:
            return shard.sizes()

    def points(self, path: str, numbers: Sequence[int]) -> tuple[list[int], Vectors, list[Stored]]:
        """Return those of the points that exist: numbers, vectors, stored fields."""
        with self._used(path) as shard:
            return shard.points(numbers)

    def optimize(self, path: str) -> None:
        """Index a shard; only for the engine of a rebuild, which serves nobody."""
        with self._used(path) as shard:
            shard.optimize()

    def close(self, path: str) -> None:
        """Flush and close a shard that nobody uses, if it is open."""
        with self._changed:
            slot = self._slots.get(path)
        if slot is not None:
            self._close(path, slot)

    def close_all(self) -> None:
        """Flush and close every shard."""
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
            self._close_surplus()

    def _close_surplus(self) -> None:
        with self._changed:
            idle = [(path, slot) for path, slot in self._slots.items() if not slot.users]
            surplus = idle[: max(0, len(self._slots) - self._most_open)]
        for path, slot in surplus:
            self._close(path, slot)

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
        """Drop the slot of a shard that is not open and that nobody waits for."""
        if slot.shard is None and not slot.users and self._slots.get(path) is slot:
            del self._slots[path]

    def _look_after_idle(self) -> None:
        """Flush shards that rest, and those that have much to flush; close those that have rested long."""
        while True:
            time.sleep(_LOOK_EVERY_S)
            for path, slot in list(self._slots.items()):
                shard = slot.shard
                if shard is None:
                    continue
                try:
                    shard.flush_if(idle_s=_FLUSH_IDLE_S, unflushed=_FLUSH_POINTS)
                    if time.monotonic() - shard.last_use > _CLOSE_IDLE_S:
                        self._close(path, slot)
                except Exception:  # noqa: BLE001, S112 - the library raises bare Exception
                    # A full disk, which writes report to their callers; everything is in the log and tried again.
                    continue
