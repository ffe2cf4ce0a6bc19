"""Decide which token sequences run next: queries first, documents in turns, batches of a bounded duration."""

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from groundwire.embedders.calls import Call, Item
from groundwire.kernel.errors import UnavailableError

BATCH_S: Final = 0.03
"""A batch of documents should take this long while somebody asks: what a query waits for at worst."""

QUIET_BATCH_S: Final = 0.12
"""The same while nobody asks: at the speed of a core without matrix units four texts of a usual chunk, which cost a
tenth less together than one by one; more together are no faster (measured)."""

QUIET_AFTER_S: Final = 2.0
"""Nobody asks when the last query is so long ago."""

MAX_QUERY_RUN: Final = 16
"""After so many batches of queries in a row, waiting documents get one: a busy server must still finish its ingest."""

_FIRST_TOKENS_PER_S = 5_000.0
_NEW_SPEED_WEIGHT = 0.2
_MAX_ITEMS = 64
_MIN_LENGTH_RATIO = 0.85
"""The shortest document of a batch has at least this share of the longest one's length: the rest is padding."""

_MIN_TOKENS = 512
"""So many tokens run together even on a slow machine: queries, which are short, and documents while nobody asks."""


class Schedule:
    """The queue between callers and workers, and the slots in which inferences run; thread-safe."""

    def __init__(self, slots: int) -> None:
        self._free_slots = slots
        self._changed = threading.Condition()
        self._queries: deque[Item] = deque()
        self._turns: deque[Call] = deque()
        self._query_run = 0
        self._asked_at = float("-inf")
        self._tokens_per_s = _FIRST_TOKENS_PER_S
        self._closed = False

    def add_queries(self, items: list[Item]) -> None:
        """Queue items ahead of all documents.

        Raises:
            UnavailableError: the schedule is closed.
        """
        with self._changed:
            self._check_open()
            self._asked_at = time.monotonic()
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
            self._asked_at = time.monotonic()
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
            batch = _Batch(max(self._tokens_per_s * BATCH_S, _MIN_TOKENS), 0.0)
            batch.take_from(self._queries)
            return batch.items
        self._query_run = 0
        while self._turns:
            if items := self._next_documents(self._turns.popleft()):
                return items
        return []

    def _next_documents(self, call: Call) -> list[Item]:
        """Return a batch of the call, filled up with items of the same length of those that wait behind it."""
        if call.has_failed:
            call.slices.clear()
            return []
        is_quiet = time.monotonic() - self._asked_at > QUIET_AFTER_S
        size = max(self._tokens_per_s * QUIET_BATCH_S, _MIN_TOKENS) if is_quiet else self._tokens_per_s * BATCH_S
        batch = _Batch(size, _MIN_LENGTH_RATIO)
        for each in (call, *self._turns):
            batch.take_from(each.slices[0])
            if not each.slices[0]:
                each.slices.popleft()
        self._turns = deque(each for each in (*self._turns, call) if each.slices)
        return batch.items

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


@dataclass(slots=True)
class _Batch:
    """Items whose padded size fits a budget of tokens and whose lengths are similar; at least one."""

    budget_tokens: float
    min_length_ratio: float
    items: list[Item] = field(default_factory=list)
    _shortest: int = 0
    _longest: int = 0

    def take_from(self, queue: deque[Item]) -> None:
        """Move items from the front of the queue into the batch, up to the first one that does not fit."""
        while queue and self._takes(len(queue[0].sequence)):
            self.items.append(queue.popleft())

    def _takes(self, length: int) -> bool:
        shortest, longest = min(self._shortest or length, length), max(self._longest, length)
        size = longest * (len(self.items) + 1)
        is_too_much = len(self.items) == _MAX_ITEMS or size > self.budget_tokens
        if self.items and (is_too_much or shortest < self.min_length_ratio * longest):
            return False
        self._shortest, self._longest = shortest, longest
        return True
