"""Durations counted in narrow classes, and the steps of calls, measured in one place for figures and for traces."""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

_STEP = math.log(1.02)
_SMALLEST_S = 1e-6


class Latencies:
    """Counts durations in classes of 2 % width: quantiles are exact to 1 %; count, mean and maximum are exact.

    One thread adds at a time; others may read meanwhile and miss the latest.
    """

    def __init__(self) -> None:
        self.count = 0
        self.total_s = 0.0
        self.maximum_s = 0.0
        self._classes: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        """Count one duration, at least 0."""
        self.count += 1
        self.total_s += seconds
        self.maximum_s = max(self.maximum_s, seconds)
        self._classes[round(math.log(max(seconds, _SMALLEST_S)) / _STEP)] += 1

    def merge(self, other: "Latencies") -> None:
        self.count += other.count
        self.total_s += other.total_s
        self.maximum_s = max(self.maximum_s, other.maximum_s)
        self._classes.update(other._classes)  # noqa: SLF001 - the same class

    @property
    def mean_s(self) -> float:
        """Return the mean in seconds, 0.0 without durations."""
        return self.total_s / self.count if self.count else 0.0

    def quantile_s(self, share: float) -> float:
        """Return the duration that `share` in (0, 1] of all do not exceed, in seconds; 0.0 without durations."""
        rank, seen = math.ceil(share * self.count), 0
        for number in sorted(self._classes):
            seen += self._classes[number]
            if seen >= rank:
                return min(math.exp(number * _STEP), self.maximum_s)
        return 0.0

    def up_to(self, bounds_s: Iterable[float]) -> list[int]:
        """Return how many durations do not exceed each bound; a duration within 1 % of it may be on either side."""
        classes = self._classes.copy()
        numbers = [round(math.log(bound_s) / _STEP) for bound_s in bounds_s]
        return [sum(count for number, count in classes.items() if number <= last) for last in numbers]


_guard = threading.Lock()
_steps: dict[str, Latencies] = {}
_begin_span: Callable[[str], Callable[[], None] | None] | None = None


class Step:
    """Measures a step of a call, as in `with Step("search.embed"):`, even when it fails.

    Names are written in the code, never made of what callers send: each is a time series, and the name of a span.
    """

    __slots__ = ("_began", "_end_span", "_name")

    def __init__(self, name: str) -> None:
        self._name = name

    def __enter__(self) -> None:
        self._end_span = None if _begin_span is None else _begin_span(self._name)
        self._began = time.perf_counter()

    def __exit__(self, *_failure: object) -> None:
        elapsed_s = time.perf_counter() - self._began
        with _guard:
            latencies = _steps.get(self._name)
            if latencies is None:
                latencies = _steps[self._name] = Latencies()
            latencies.add(elapsed_s)
        if self._end_span is not None:
            self._end_span()


def step_latencies() -> dict[str, Latencies]:
    """Return the durations of each step that has run in this process, by name."""
    with _guard:
        return dict(_steps)


def trace_steps(begin_span: Callable[[str], Callable[[], None] | None] | None) -> None:
    """Open a span around every step from now on: `begin_span` returns what ends it, None where it opens none."""
    global _begin_span  # noqa: PLW0603 - one tracer for the process, as there is one log
    _begin_span = begin_span
