"""Deadline and cancellation of a call, passed down to blocking work."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from groundwire.kernel.errors import CallCancelledError, DeadlineError

ResultT = TypeVar("ResultT")
# A cancellation cannot wake a thread that waits for a lock, so the thread checks the budget this often.
_LOOK_S = 0.05


class Budget:
    """Deadline and cancellation of one call; safe to share between threads.

    Long work calls `check()` between batches, so that it stops within one batch after the caller left. Waits for
    other threads use `wait_for`, which ends when the budget does.
    """

    def __init__(self, timeout_s: float | None = None) -> None:
        self._ends_at = None if timeout_s is None else time.monotonic() + timeout_s
        self._cancelled = False
        self._lock = threading.Lock()
        self._waited_on: list[threading.Condition] = []
        self._parts: list[Budget] = []

    def part(self, share: float = 1.0, *, at_most_s: float | None = None) -> "Budget":
        """Return a budget with a share of the time that is left, in (0, 1], and no more than `at_most_s`.

        It is cancelled with this one.
        """
        remaining_s = self.remaining_s()
        limits = (at_most_s, None if remaining_s is None else share * remaining_s)
        part = Budget(min((each for each in limits if each is not None), default=None))
        with self._lock:
            self._parts.append(part)
            part._cancelled = self._cancelled  # `cancel` may have gone through the parts just before this one was added
        return part

    def cancel(self) -> None:
        """Make every later `check()` fail and end every `wait_for`; idempotent."""
        with self._lock:
            self._cancelled = True
            waited_on, parts = list(self._waited_on), list(self._parts)
        # Without the lock: a waiter takes it while it holds its condition.
        for condition in waited_on:
            with condition:
                condition.notify_all()
        for part in parts:
            part.cancel()

    def remaining_s(self) -> float | None:
        """Return the seconds left, at least 0, or None without a deadline."""
        return None if self._ends_at is None else max(0.0, self._ends_at - time.monotonic())

    def check(self) -> None:
        """Return if there is time left.

        Raises:
            CallCancelledError: `cancel()` was called.
            DeadlineError: the deadline has passed.
        """
        if self._cancelled:
            raise CallCancelledError("the call was cancelled")
        if self.remaining_s() == 0.0:
            raise DeadlineError("the deadline of the call has passed")

    def wait_for(
        self, condition: threading.Condition, predicate: Callable[[], bool], at_most_s: float | None = None
    ) -> bool:
        """Wait, with `condition` held, until `predicate()` holds; return whether it does.

        It is false only when `at_most_s` seconds have passed before the budget ended.

        Raises:
            CallCancelledError: `cancel()` was called before it held.
            DeadlineError: the deadline passed before it held.
        """
        gives_up_at = None if at_most_s is None else time.monotonic() + at_most_s
        with self._lock:
            self._waited_on.append(condition)  # once for each thread that waits: several may wait on the same one
        try:
            while not predicate():
                self.check()
                left = [self.remaining_s(), None if gives_up_at is None else gives_up_at - time.monotonic()]
                timeout = min((seconds for seconds in left if seconds is not None), default=None)
                # When both times are up the budget takes precedence: the next `check` raises.
                if timeout is not None and timeout <= 0.0 and self.remaining_s() != 0.0:
                    return False
                condition.wait(timeout)
            return True
        finally:
            with self._lock:
                self._waited_on.remove(condition)

    @contextmanager
    def holding(self, lock: threading.Lock) -> Iterator[None]:
        """Hold a lock, waiting for it no longer than the budget lasts.

        Raises:
            CallCancelledError: `cancel()` was called while waiting.
            DeadlineError: the deadline passed while waiting.
        """
        while not lock.acquire(timeout=_LOOK_S):
            self.check()
        try:
            yield
        finally:
            lock.release()

    def result_of(self, future: Future[ResultT]) -> ResultT:
        """Wait for the result of a future and return it, or raise its exception.

        Raises:
            CallCancelledError: `cancel()` was called before it was there.
            DeadlineError: the deadline passed before it was there.
        """
        ready = threading.Condition()

        def wake(_future: Future[ResultT]) -> None:
            with ready:
                ready.notify_all()

        # Not `future.result(timeout)`, which a cancellation of the budget would not end.
        future.add_done_callback(wake)
        with ready:
            self.wait_for(ready, future.done)
        return future.result()


CURRENT_BUDGET: ContextVar[Budget | None] = ContextVar("groundwire_budget", default=None)
"""Set once by each call, and never reset: every call has its own task, with which the binding ends."""


def current_budget() -> Budget:
    """Return the budget of the call that this thread or task works for; outside of calls it is unlimited.

    For waits of shared resources deep below a use case, such as a connection of the catalog. Ports take a budget.
    """
    return CURRENT_BUDGET.get() or Budget()
