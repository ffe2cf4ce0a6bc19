"""Durations of many calls in little memory."""

import math
from collections import Counter

_STEP = math.log(1.02)
_SMALLEST_S = 1e-6


class Latencies:
    """Counts durations in classes of 2 % width: quantiles are right to 1 %, count, mean and maximum exactly."""

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
        """Count everything that `other` has counted."""
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
        wanted, seen = math.ceil(share * self.count), 0
        for number in sorted(self._classes):
            seen += self._classes[number]
            if seen >= wanted:
                return min(math.exp(number * _STEP), self.maximum_s)
        return 0.0
