"""Which chunks a filter lets through, answered once for all chunks or only for those that turn up."""

import hashlib
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from groundwire.catalog.filters import scope_filter
from groundwire.catalog.search_view import SearchView
from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filters import And, Filter
from groundwire.retrieve.ranking import Numbers

_LOOKED_UP = 400
"""Chunks that are looked up at a time: about a millisecond."""
_SMALL_COLLECTION = 1500
"""A collection of up to this many chunks has its vectors in memory once, not once for each filter: it is compared chunk
by chunk without a filter as well (docs/adr/0013), so they are there."""
_ESTIMATES = 10_000
_ENTRY_BYTES = 300
"""What an entry weighs beside its arrays: its key and its place in the cache."""
_SHIFT = 1.2
"""An estimate holds while the collection has not grown or shrunk by more than this factor."""


class FilterCache:
    """What is remembered of filters: matching numbers and their vectors until the collection changes, shares longer.

    Numbers and vectors take at most `max_bytes`.
    """

    def __init__(self, max_bytes: int) -> None:
        # Vectors get most of the room: 1.5 KB a chunk with the default model, where its number takes 8 bytes.
        self.numbers: BoundedCache[tuple[str, int, bytes], Numbers] = BoundedCache(max_bytes // 4)
        self.vectors: BoundedCache[tuple[str, int, bytes], tuple[Numbers, Vectors]] = BoundedCache(3 * max_bytes // 4)
        self.shares: BoundedCache[tuple[str, bytes], tuple[int, float]] = BoundedCache(_ESTIMATES)
        self.asked: BoundedCache[tuple[str, int, bytes], bool] = BoundedCache(_ESTIMATES)


class FilterMatches:
    """The filter of one search on its view; None lets every chunk pass that the view sees.

    Which chunks pass is worked out for all of them when a filter is used for the second time since the collection
    changed, before that only for those that turn up: while much is written, nothing is worked out in vain.
    """

    def __init__(self, view: SearchView, where: Filter | None, cache: FilterCache) -> None:
        self.where = where
        self.is_open = where is None and view.within is None
        """Whether every visible chunk of the collection passes."""
        self._view = view
        self._cache = cache
        self._numbers: Numbers | None = None
        self.is_rare = False
        """Whether the filter is for a rare type of record, so that the few chunks that pass are known."""

    @cached_property
    def _key(self) -> tuple[str, int, bytes]:
        # Not the filter itself: True == 1 == 1.0 in Python, and not in filters. Not its text: that may be long.
        text = repr((self.where, None if self._view.within is None else self._view.scopes))
        return self._view.collection.uid, self._view.changed_position, hashlib.sha256(text.encode()).digest()

    def work_out_rare(self, record_type: str, at_most: int) -> None:
        """Work out which chunks pass if the filter is for a type of record of which there are at most so many."""
        if self.where is None:
            return
        known = self._cache.numbers.get(self._key) if self._may_remember else None
        if known is None:
            known = self._view.of_type(record_type, self.where, at_most)
            if known is not None and self._may_remember:
                self._cache.numbers.put(self._key, known, known.nbytes + _ENTRY_BYTES)
        self._numbers, self.is_rare = known, known is not None and len(known) <= at_most

    def share(self) -> float:
        """Return the share of chunks that pass: exact when they are known, else judged by a sample.

        The sample is remembered while the collection keeps its size roughly: it only decides how to search.
        """
        if self.is_open:
            return 1.0
        total, known = self._view.chunk_count(), self._known()
        if known is not None:
            return len(known) / max(1, total)
        if self.where is None:
            return 1.0
        key = (self._key[0], self._key[2])
        judged = self._cache.shares.get(key)
        if judged is None or not judged[0] / _SHIFT <= total <= judged[0] * _SHIFT:
            judged = (total, self._view.estimated_share(self.where))
            self._cache.shares.put(key, judged)
        return judged[1]

    @property
    def engine_filter(self) -> Filter | None:
        """Return the filter for an engine, which sees records of all scopes."""
        scopes = self._view.scopes
        if scopes is None or self._view.within is None:
            return self.where
        return both(self.where, scope_filter(scopes))

    @property
    def _may_remember(self) -> bool:
        """Return whether what is read belongs to the position that the cache is keyed by."""
        return self._view.snapshot is None and not self._view.has_lost_history

    @property
    def is_known(self) -> bool:
        """Return whether it is worked out which chunks pass."""
        return self._known() is not None

    def numbers(self) -> Numbers:
        """Return the numbers of all chunks that pass, ascending."""
        known = self._known()
        return self._work_out() if known is None else known

    def vectors(self) -> tuple[Numbers, Vectors]:
        """Return the stored vectors of all chunks that pass and have one: numbers, float32 rows of length 1.

        Of a small collection all vectors are remembered once, not those of each filter.
        """
        # Many filters over one small collection would otherwise each remember vectors of their own.
        if self.where is not None and not self.is_rare and self._view.chunk_count() <= _SMALL_COLLECTION:
            every, rows = FilterMatches(self._view, None, self._cache).vectors()
            passes = np.isin(every, self.numbers(), assume_unique=True)
            return every[passes], rows[passes]
        known = self._cache.vectors.get(self._key) if self._may_remember else None
        if known is None:
            known = self._view.vectors(self.numbers())
            if self._may_remember:
                self._cache.vectors.put(self._key, known, known[0].nbytes + known[1].nbytes + _ENTRY_BYTES)
        return known

    def first_passing(self, numbers: Numbers, limit: int) -> NDArray[np.bool_]:
        """Tell of each chunk whether it passes; only the first `limit` that do are sought."""
        known = self._known()
        if known is not None:
            return are_among(numbers, known)
        passing = np.zeros(len(numbers), dtype=np.bool_)
        # Best first and in parts: mostly the first part holds as many as are sought.
        for start in range(0, len(numbers), _LOOKED_UP):
            part = numbers[start : start + _LOOKED_UP].tolist()
            found = self._view.among(self.where, part)
            passing[start : start + len(part)] = [number in found for number in part]
            if int(passing.sum()) >= limit:
                break
        return passing

    def _known(self) -> Numbers | None:
        if self.where is None and not self.is_open:
            return self._view.matching(None)  # the view remembers it
        if self._numbers is None and self._may_remember:
            self._numbers = self._cache.numbers.get(self._key)
            if self._numbers is None and self._cache.asked.get(self._key):
                self._work_out()
            self._cache.asked.put(self._key, value=True)
        return self._numbers

    def _work_out(self) -> Numbers:
        self._numbers = self._view.matching(self.where)
        if self._may_remember:
            self._cache.numbers.put(self._key, self._numbers, self._numbers.nbytes + _ENTRY_BYTES)
        return self._numbers


def are_among(numbers: Numbers, ascending: Numbers) -> NDArray[np.bool_]:
    """Tell which of some numbers are among others; several times as quick as `np.isin` for a hundred."""
    if len(ascending) == 0:
        return np.zeros(len(numbers), dtype=np.bool_)
    at = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    return np.asarray(ascending[at] == numbers)


def both(one: Filter | None, other: Filter | None) -> Filter | None:
    """Return the filter that passes what both do; None passes everything."""
    if one is None or other is None:
        return other if one is None else one
    # Side by side, so that a given filter may be as deep as a filter may be.
    return And((*_clauses(one), *_clauses(other)))


def _clauses(condition: Filter) -> tuple[Filter, ...]:
    return condition.clauses if isinstance(condition, And) else (condition,)
