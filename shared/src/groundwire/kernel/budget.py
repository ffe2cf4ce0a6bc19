"""The time and the permission a call has left, passed down to blocking work."""

import time

from groundwire.kernel.errors import CallCancelledError, DeadlineError


class Budget:
    """Deadline and cancellation of one call; safe to share between threads.

    Long work calls `check()` between batches, so that it stops within one batch after the caller left.
    """

    def __init__(self, timeout_s: float | None = None) -> None:
        self._ends_at = None if timeout_s is None else time.monotonic() + timeout_s
        self._cancelled = False

    def cancel(self) -> None:
        """Make every later `check()` fail; idempotent."""
        self._cancelled = True

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
