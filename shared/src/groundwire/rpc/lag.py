"""How late the event loop runs its callbacks: the proof that nothing blocks it."""

import asyncio
import time
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

import structlog

_BUCKET_S = 0.001
_BUCKETS = 1000


@dataclass(frozen=True, slots=True)
class LagReading:
    """Lag since the last reset, in seconds; `p99_s` is rounded up to a millisecond and at most 1 s."""

    max_s: float
    p99_s: float
    samples: int


class LagGauge:
    """Sleeps `interval_s` over and over and notes how much too late it wakes.

    Sees everything that keeps the loop from running: blocking calls on it, and threads that hold the
    interpreter lock. A stall may begin in the middle of an interval, so that it is seen short by up to `interval_s`.
    Stalls longer than `warn_s` are logged, those of `warn_every_s` together.
    """

    def __init__(self, interval_s: float = 0.005, warn_s: float = 0.05, warn_every_s: float = 30.0) -> None:
        self._interval_s = interval_s
        self._warn_s = warn_s
        self._warn_every_s = warn_every_s
        self._warned_at = float("-inf")
        self._stalls: list[float] = []
        self._task: asyncio.Task[None] | None = None
        self.reset()

    def start(self) -> None:
        """Begin to sample on the running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._sample(), name="lag-gauge")

    async def stop(self) -> None:
        """End sampling; the reading stays."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None

    def reset(self) -> None:
        """Forget what was seen."""
        self._max_s = 0.0
        self.total_s = 0.0
        self._samples = 0
        self._counts = [0] * _BUCKETS

    def read(self) -> LagReading:
        """Return what was seen since the last reset."""
        p99_s = 0.0
        if self._samples:
            p99_s = _BUCKET_S * (1 + bisect_left(list(accumulate(self._counts)), 0.99 * self._samples))
        return LagReading(self._max_s, p99_s, self._samples)

    def up_to(self, milliseconds: Iterable[int]) -> list[int]:
        """Return how many samples since the last reset were later by less than each bound, of at most 1 s."""
        sums = [0, *accumulate(self._counts)]
        return [sums[bound] for bound in milliseconds]

    async def _sample(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + self._interval_s
            await asyncio.sleep(self._interval_s)
            self._note(max(0.0, loop.time() - due))

    def _note(self, lag_s: float) -> None:
        self._samples += 1
        self.total_s += lag_s
        self._max_s = max(self._max_s, lag_s)
        self._counts[min(int(lag_s / _BUCKET_S), _BUCKETS - 1)] += 1
        if lag_s > self._warn_s:
            self._stalls.append(lag_s)
        if self._stalls and time.monotonic() - self._warned_at >= self._warn_every_s:
            self._warned_at = time.monotonic()
            longest_ms, count = round(max(self._stalls) * 1000, 1), len(self._stalls)
            self._stalls.clear()
            structlog.get_logger(__name__).warning("event loop stalled", stalls=count, longest_ms=longest_ms)
