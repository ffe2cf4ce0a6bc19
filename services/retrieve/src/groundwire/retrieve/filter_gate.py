"""Which chunks a search may return: its filter, answered once for all chunks or only for those that turn up."""

from collections.abc import Sequence

import numpy as np

from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filters import Filter
from groundwire.retrieve.ports import Numbers, SearchView

_BYTES_PER_NUMBER = 8
_ESTIMATES = 10_000
_SHIFT = 1.2
"""An estimate holds while the collection has not grown or shrunk by more than this factor."""


class FilterSets:
    """What is remembered of filters: matching numbers and their vectors until the collection changes, shares longer.

    Args:
        max_bytes: of numbers and vectors.
    """

    def __init__(self, max_bytes: int) -> None:
        self.numbers: BoundedCache[tuple[str, int, str], Numbers] = BoundedCache(max_bytes // 2)
        self.vectors: BoundedCache[tuple[str, int, str], tuple[Numbers, Vectors]] = BoundedCache(max_bytes // 2)
        self.shares: BoundedCache[tuple[str, str], tuple[int, float]] = BoundedCache(_ESTIMATES)


class FilterGate:
    """The filter of one search on its view; None lets every visible chunk pass."""

    def __init__(self, view: SearchView, where: Filter | None, sets: FilterSets) -> None:
        self.where = where
        self._view = view
        self._sets = sets
        # Not the filter itself: True == 1 == 1.0 in Python, and not in filters.
        self._key = (view.collection.uid, view.changed_position, repr(where))
        self._keeps = view.snapshot is None

    def share(self) -> float:
        """Return the share of chunks that pass: exact when they are known, else judged by a sample.

        The sample is remembered while the collection keeps its size roughly: it only decides how to search.
        """
        if self.where is None:
            return 1.0
        total, known = self._view.chunk_count(), self._known()
        if known is not None:
            return len(known) / max(1, total)
        key = (self._key[0], self._key[2])
        judged = self._sets.shares.get(key)
        if judged is None or not judged[0] / _SHIFT <= total <= judged[0] * _SHIFT:
            judged = (total, self._view.estimated_share(self.where))
            self._sets.shares.put(key, judged)
        return judged[1]

    def numbers(self) -> Numbers:
        """Return the numbers of all chunks that pass, ascending."""
        known = self._known()
        if known is None:
            known = self._view.matching(self.where)
            if self._keeps:
                self._sets.numbers.put(self._key, known, _BYTES_PER_NUMBER * len(known) + 1)
        return known

    def vectors(self) -> tuple[Numbers, Vectors]:
        """Return the stored vectors of all chunks that pass and have one: numbers, float32 rows."""
        known = self._sets.vectors.get(self._key) if self._keeps else None
        if known is None:
            known = self._view.vectors(self.numbers())
            if self._keeps:
                self._sets.vectors.put(self._key, known, known[0].nbytes + known[1].nbytes + 1)
        return known

    def passing(self, numbers: Sequence[int]) -> set[int]:
        """Return those of the chunks that pass."""
        known = self._known()
        if known is None:
            return self._view.among(self.where, numbers)
        given = np.asarray(numbers, dtype=np.int64)
        return set(given[np.isin(given, known, assume_unique=True)].tolist())

    def _known(self) -> Numbers | None:
        return self._sets.numbers.get(self._key) if self._keeps else None
