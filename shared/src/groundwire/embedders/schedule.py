"""Decide which token sequences run next: queries first, documents in turns, batches of a bounded duration."""

import threading
from collections import deque
from typing import Final

from groundwire.embedders.calls import Call, Item
from groundwire.kernel.errors import UnavailableError

BATCH_S: Final = 0.03
"""A batch of documents should take this long: what a query waits for at worst. Larger ones are no faster (measured)."""

MAX_QUERY_RUN: Final = 16
"""After so many batches of queries in a row, waiting documents get one: a busy server must still finish its ingest."""

_FIRST_TOKENS_PER_S = 5_000.0
_NEW_SPEED_WEIGHT = 0.2
_MAX_ITEMS = 64
_MIN_LENGTH_RATIO = 0.75
"""The shortest document of a batch has at least this share of the longest one's length: the rest is padding."""

_MIN_QUERY_TOKENS = 512
"""Queries are short: so many tokens of them run together even on a slow machine."""


class Schedule:
    """The queue between callers and workers, and the slots in which inferences run; thread-safe."""

    def __init__(self, slots: int) -> None:
        self._free_slots = slots
        self._changed = threading.Condition()
        self._queries: deque[Item] = deque()
        self._turns: deque[Call] = deque()
        self._query_run = 0
        self._tokens_per_s = _FIRST_TOKENS_PER_S
        self._closed = False

    def add_queries(self, items: list[Item]) -> None:
        """Queue items ahead of all documents.

        Raises:
            UnavailableError: the schedule is closed.
        """
        with self._changed:
            self._check_open()
            self._queries.extend(items)
            self._changed.notify()

    def add_documents(self, call: Call, items: list[Item]) -> None:
        """Queue a slice of a call, sorted by length; calls take turns.

        Raises:
            UnavailableError: the schedule is closed.
        """
        with self._changed:
            self._check_open()
            if not call.slices:
                self._turns.append(call)
            call.slices.append(deque(items))
            self._changed.notify_all()

    def take_slot(self) -> bool:
        """Return whether the caller may run its query at once in its own thread; then it must `free_slot`.

        That saves two changes of threads, a third of the time of a query on busy cores (measured).

        Raises:
            UnavailableError: the schedule is closed.
        """
        with self._changed:
            self._check_open()
            if self._queries or self._turns or not self._free_slots:
                return False
            self._free_slots -= 1
            return True

    def free_slot(self) -> None:
        """End what `take_slot` or `next_batch` began."""
        with self._changed:
            self._free_slots += 1
            self._changed.notify_all()

    def wait_for_slots(self, slots: int) -> None:
        """Block until so many slots are free: until nothing runs any more, when all are asked for."""
        with self._changed:
            self._changed.wait_for(lambda: self._free_slots >= slots)

    def _check_open(self) -> None:
        if self._closed:
            raise UnavailableError("the embedder is closed")

    def next_batch(self) -> list[Item]:
        """Return the items to run together now, in a slot that the worker must `free_slot` afterwards.

        Blocks until there are some and a slot is free; empty, without a slot, once closed.
        """
        with self._changed:
            while not self._closed:
                if self._free_slots and (batch := self._pick()):
                    self._free_slots -= 1
                    return batch
                self._changed.wait()
            return []

    def _pick(self) -> list[Item]:
        if self._queries and not (self._turns and self._query_run >= MAX_QUERY_RUN):
            self._query_run += 1
            return _take(self._queries, max(self._tokens_per_s * BATCH_S, _MIN_QUERY_TOKENS), 0.0)
        self._query_run = 0
        while self._turns:
            if batch := self._next_documents(self._turns.popleft()):
                return batch
        return []

    def _next_documents(self, call: Call) -> list[Item]:
        if call.has_failed:
            call.slices.clear()
            return []
        batch = _take(call.slices[0], self._tokens_per_s * BATCH_S, _MIN_LENGTH_RATIO)
        if not call.slices[0]:
            call.slices.popleft()
        if call.slices:
            self._turns.append(call)
        return batch

    def record(self, tokens: int, seconds: float) -> None:
        """Learn from a batch of `tokens` (padding included) how fast one worker is."""
        with self._changed:
            speed = tokens / max(seconds, 1e-6)
            self._tokens_per_s += _NEW_SPEED_WEIGHT * (speed - self._tokens_per_s)

    def close(self) -> list[Call]:
        """Refuse further work, let the workers end, and return the calls that still wait in the queue."""
        with self._changed:
            self._closed = True
            waiting = [item.call for item in self._queries] + list(self._turns)
            self._queries.clear()
            self._turns.clear()
            self._changed.notify_all()
            return waiting


def _take(queue: deque[Item], budget_tokens: float, min_length_ratio: float) -> list[Item]:
    """Remove items from the front whose padded size fits the budget and whose lengths are similar; at least one."""
    batch = [queue.popleft()]
    longest = len(batch[0].sequence)
    while queue and len(batch) < _MAX_ITEMS:
        length = len(queue[0].sequence)
        longest = max(longest, length)
        if longest * (len(batch) + 1) > budget_tokens or length < min_length_ratio * longest:
            break
        batch.append(queue.popleft())
    return batch
