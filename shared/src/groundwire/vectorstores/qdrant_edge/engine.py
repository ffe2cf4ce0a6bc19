"""What the engine process of qdrant-edge does: it holds open shards and searches and changes them."""

import threading
import time
from collections.abc import Sequence

from groundwire.kernel.embedder import Vectors
from groundwire.vectorstores.qdrant_conditions import Condition
from groundwire.vectorstores.qdrant_edge.shard import Shard, create_shard
from groundwire.vectorstores.stored_fields import Stored

_FLUSH_CHECK_S = 1.0
_FLUSH_IDLE_S = 2.0
_FLUSH_POINTS = 20_000
"""Unflushed points are replayed from the write-ahead log after a kill: about 1 s for this many."""


class Engine:
    """The requests of a store or a rebuild; a shard is named by its folder and opened at its first use."""

    def __init__(self) -> None:
        self._shards: dict[str, Shard] = {}
        self._opening = threading.Lock()
        threading.Thread(target=self._flush_forever, daemon=True).start()

    def create(self, path: str, dimensions: int) -> None:
        """Make an empty shard."""
        create_shard(path, dimensions)

    def upsert(self, path: str, numbers: Sequence[int], vectors: Vectors, stored: Sequence[Stored]) -> None:
        """Insert or replace points."""
        self._shard(path).upsert(numbers, vectors, stored)

    def delete(self, path: str, numbers: Sequence[int]) -> None:
        """Remove points."""
        self._shard(path).delete(numbers)

    def search(
        self, path: str, vector: Vectors, limit: int, where: Condition | None, within: Sequence[int] | None
    ) -> list[tuple[int, float]]:
        """Return (number, cosine), best first."""
        return self._shard(path).search(vector, limit, where, within)

    def numbers(self, path: str, after: int, limit: int) -> list[int]:
        """Return a page of numbers, ascending."""
        return self._shard(path).numbers(after, limit)

    def count(self, path: str) -> int:
        """Return the number of points."""
        return self._shard(path).count()

    def sizes(self, path: str) -> tuple[int, int]:
        """Return the numbers of points and of indexed points."""
        return self._shard(path).sizes()

    def points(self, path: str, numbers: Sequence[int]) -> tuple[list[int], Vectors, list[Stored]]:
        """Return those of the points that exist: numbers, vectors, stored fields."""
        return self._shard(path).points(numbers)

    def optimize(self, path: str) -> None:
        """Index a shard; only for the engine of a rebuild, which serves nobody."""
        self._shard(path).optimize()

    def close(self, path: str) -> None:
        """Flush and close a shard if it is open."""
        with self._opening:
            shard = self._shards.pop(path, None)
        if shard is not None:
            shard.close()

    def close_all(self) -> None:
        """Flush and close every shard."""
        for path in list(self._shards):
            self.close(path)

    def _shard(self, path: str) -> Shard:
        shard = self._shards.get(path)
        if shard is None:
            with self._opening:
                shard = self._shards.get(path) or Shard(path)
                self._shards[path] = shard
        return shard

    def _flush_forever(self) -> None:
        """Flush shards that rest, and those that have much to flush."""
        while True:
            time.sleep(_FLUSH_CHECK_S)
            for shard in list(self._shards.values()):
                shard.flush_if(idle_s=_FLUSH_IDLE_S, unflushed=_FLUSH_POINTS)
