"""Locks by name and slots: what calls that write wait for, in order of arrival and within their budgets."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import OverloadedError

MAX_WAITING = 8
"""Calls that may wait for one document: others would only take threads from those for other documents."""


class KeyedLocks:
    """One lock for each key that is in use; keys nobody uses take no memory.

    More than `max_waiting` calls for one key are refused at once; None allows any number. `among_processes`, given a
    key and a budget, keeps other processes out as well.
    """

    def __init__(
        self,
        max_waiting: int | None = None,
        among_processes: Callable[[str, Budget], AbstractContextManager[None]] = lambda _key, _budget: nullcontext(),
    ) -> None:
        self._max_waiting = max_waiting
        self._among_processes = among_processes
        self._changed = threading.Condition()
        self._queues: dict[tuple[str, ...], deque[object]] = {}

    @contextmanager
    def hold(self, key: tuple[str, ...], budget: Budget) -> Iterator[None]:
        """Hold the lock of `key`.

        Raises:
            CallCancelledError: `budget` was cancelled while waiting.
            DeadlineError: `budget` was used up while waiting.
            OverloadedError: too many wait for it already.
        """
        # A queue and not a lock for each key: who waits has to leave when its budget ends, and order is kept.
        ticket = object()
        with self._changed:
            queue = self._queues.setdefault(key, deque())
            if self._max_waiting is not None and len(queue) > self._max_waiting:
                message = f"{self._max_waiting} calls wait for the same document already"
                raise OverloadedError(message, limit=self._max_waiting)
            queue.append(ticket)
        try:
            with self._changed:
                budget.wait_for(self._changed, lambda: queue[0] is ticket)
            with self._among_processes("/".join(key), budget):
                yield
        finally:
            with self._changed:
                queue.remove(ticket)
                if not queue:
                    del self._queues[key]
                # All: they wait for different keys, and the condition does not know who is next for this one.
                self._changed.notify_all()


class Slots:
    """Lets `size` callers work at a time; the others wait in order of arrival."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._changed = threading.Condition()
        self._tickets: list[object] = []

    @contextmanager
    def hold(self, budget: Budget) -> Iterator[None]:
        """Hold a slot.

        Raises:
            CallCancelledError: `budget` was cancelled while waiting.
            DeadlineError: `budget` was used up while waiting.
        """
        ticket = object()
        with self._changed:
            self._tickets.append(ticket)
        try:
            with self._changed:
                budget.wait_for(self._changed, lambda: ticket in self._tickets[: self._size])
            yield
        finally:
            with self._changed:
                self._tickets.remove(ticket)
                self._changed.notify_all()
