"""Locks by name, so that two ingests of one document wait for each other and all others do not."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from groundwire.kernel.budget import Budget

_POLL_S = 0.05


@dataclass(slots=True)
class _Held:
    lock: threading.Lock = field(default_factory=threading.Lock)
    users: int = 0


class KeyedLocks:
    """One lock for each key that is in use; keys nobody uses take no memory."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: dict[tuple[str, ...], _Held] = {}

    @contextmanager
    def hold(self, key: tuple[str, ...], budget: Budget) -> Iterator[None]:
        """Hold the lock of `key`.

        Raises:
            CallCancelledError: `budget` was cancelled while waiting.
            DeadlineError: `budget` was used up while waiting.
        """
        with self._guard:
            held = self._held.setdefault(key, _Held())
            held.users += 1
        try:
            while not held.lock.acquire(timeout=_POLL_S):
                budget.check()
            try:
                yield
            finally:
                held.lock.release()
        finally:
            with self._guard:
                held.users -= 1
                if held.users == 0:
                    del self._held[key]
