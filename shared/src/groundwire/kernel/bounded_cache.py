"""A least-recently-used cache of values that can be recomputed."""

import sys
import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
ValueT = TypeVar("ValueT")

_PLAIN = frozenset({str, int, float, bool, type(None)})


class BoundedCache(Generic[KeyT, ValueT]):
    """Holds values up to a total weight, such as entries or bytes; thread-safe, never waits.

    The sum of weights is at most `capacity`; 0 keeps nothing.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._held: OrderedDict[KeyT, tuple[ValueT, int]] = OrderedDict()
        self._weight = 0
        self.hits = 0
        self.misses = 0

    def get(self, key: KeyT) -> ValueT | None:
        """Return the value, which counts as used now, or None."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                self.misses += 1
                return None
            self.hits += 1
            self._held.move_to_end(key)
            return found[0]

    def get_all(self, keys: Iterable[KeyT]) -> list[ValueT | None]:
        """Return the value of each key, or None; a search looks up a hundred at once."""
        asked = list(keys)
        with self._lock:
            found = [*map(self._held.get, asked)]
            for key, each in zip(asked, found, strict=True):
                if each is not None:
                    self._held.move_to_end(key)
            misses = found.count(None)
            self.hits, self.misses = self.hits + len(found) - misses, self.misses + misses
        return [None if each is None else each[0] for each in found]

    def put(self, key: KeyT, value: ValueT, weight: int = 1) -> None:
        """Store a value under its key; one heavier than the capacity is not stored."""
        with self._lock:
            # Even if the new value is not kept: the old one is out of date.
            self._weight -= self._held.pop(key, (None, 0))[1]
            # Otherwise it would evict everything else, and then itself.
            if weight > self._capacity:
                return
            self._held[key] = (value, weight)
            self._weight += weight
            while self._weight > self._capacity:
                self._weight -= self._held.popitem(last=False)[1][1]

    @property
    def weight(self) -> int:
        return self._weight

    def __len__(self) -> int:
        return len(self._held)


def bytes_of(*values: Any) -> int:
    """Return roughly the bytes that texts, numbers and collections of them take; shared parts count each time."""
    size = 0
    for value in values:
        size += sys.getsizeof(value)
        # Plain values first, because testing for a mapping takes longer than everything else here.
        kind = type(value)
        if kind in _PLAIN:
            continue
        if kind is tuple or kind is list:
            size += bytes_of(*value)
        elif isinstance(value, Mapping):
            size += bytes_of(*value, *value.values())
    return size
