"""Locks by key: writing calls wait for them in order of arrival, within their budgets."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import islice

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import OverloadedError

MAX_WAITING = 8
"""Calls that may wait for one document: others would only take threads from those for other documents."""


class KeyedLocks:
    """One lock for each key that is in use, which `holders` may hold at a time; keys nobody uses take no memory.

    More than `max_waiting` calls for one key are refused at once; None allows any number. `among_processes`, given a
    key and a budget, keeps other processes out as well.
    """

    def __init__(
        self,
        max_waiting: int | None = None,
        among_processes: Callable[[str, Budget], AbstractContextManager[None]] = lambda _key, _budget: nullcontext(),
        holders: int = 1,
    ) -> None:
        self._holders = holders
        self._max_waiting = max_waiting
        self._among_processes = among_processes
        self._changed = threading.Condition()
        self._queues: dict[tuple[str, ...], deque[object]] = {}

    @contextmanager
    def hold(self, key: tuple[str, ...], budget: Budget) -> Iterator[None]:
        """Hold the lock of `key`.

        Raises:
            OverloadedError: too many wait for it already.
        """
        # A queue and not a lock for each key: a waiting call leaves when its budget ends; the order stays.
        ticket = object()
        with self._changed:
            queue = self._queues.setdefault(key, deque())
            if self._max_waiting is not None and len(queue) >= self._holders + self._max_waiting:
                message = f"{self._max_waiting} calls are already waiting for the same document"
                raise OverloadedError(message, limit=self._max_waiting)
            queue.append(ticket)
        try:
            with self._changed:
                budget.wait_for(self._changed, lambda: ticket in islice(queue, self._holders))
            with self._among_processes("/".join(key), budget):
                yield
        finally:
            with self._changed:
                queue.remove(ticket)
                if not queue:
                    del self._queues[key]
                # All of them: they wait for different keys, and the condition does not know who is next for this one.
                self._changed.notify_all()
