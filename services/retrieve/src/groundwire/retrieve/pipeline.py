"""Figures of the searches of this process, since it started and over the last hour."""

import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

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


SLICE_S = 5.0
LONGEST_WINDOW_S = 3600.0
_SLICES = int(LONGEST_WINDOW_S / SLICE_S) + 1
_MAX_SERIES = 1000


@dataclass(frozen=True, slots=True)
class SearchSample:
    """What one search adds. Durations in seconds, None where the step did not run.

    `relevance` is the mean over its results, None without results. `rejected` counts candidates of sources that are
    not approved.
    """

    failed: bool
    total_s: float
    results: int = 0
    rejected: int = 0
    relevance: float | None = None
    embedding_s: float | None = None
    search_s: float | None = None
    engine_s: float | None = None


class PipelineFigures:
    """Sums over searches."""

    def __init__(self) -> None:
        self.requests = 0
        self.errors = 0
        self.empties = 0
        self.rejected = 0
        self.total, self.embedding, self.search, self.engine = Latencies(), Latencies(), Latencies(), Latencies()
        self._relevance = 0.0
        self._with_results = 0

    @property
    def average_relevance(self) -> float:
        """Return the mean of the mean relevance of searches with results, 0.0 without any."""
        return self._relevance / self._with_results if self._with_results else 0.0

    def add(self, sample: SearchSample) -> None:
        """Count one search."""
        self.requests += 1
        self.errors += sample.failed
        self.empties += not sample.failed and not sample.results
        self.rejected += sample.rejected
        if sample.relevance is not None:
            self._relevance += sample.relevance
            self._with_results += 1
        self.total.add(sample.total_s)
        pairs = ((self.embedding, sample.embedding_s), (self.search, sample.search_s), (self.engine, sample.engine_s))
        for latencies, seconds in pairs:
            if seconds is not None:
                latencies.add(seconds)

    def merge(self, other: "PipelineFigures") -> None:
        """Count everything that `other` has counted."""
        self.requests += other.requests
        self.errors += other.errors
        self.empties += other.empties
        self.rejected += other.rejected
        self._relevance += other._relevance  # noqa: SLF001 - the same class
        self._with_results += other._with_results  # noqa: SLF001 - the same class
        self.total.merge(other.total)
        self.embedding.merge(other.embedding)
        self.search.merge(other.search)
        self.engine.merge(other.engine)


class _Series:
    """The figures of each slice of the last hour, and of all before the latest slice.

    A search is counted once, in the latest slice: many of them come in each second, and few ask for the sums.
    """

    def __init__(self) -> None:
        self.before_latest = PipelineFigures()
        self.slices: deque[tuple[int, PipelineFigures]] = deque(maxlen=_SLICES)

    def latest(self, now: int) -> PipelineFigures:
        """Return the figures of the slice that is now."""
        if not self.slices or self.slices[-1][0] != now:
            if self.slices:
                self.before_latest.merge(self.slices[-1][1])
            self.slices.append((now, PipelineFigures()))
        return self.slices[-1][1]

    def since(self, oldest: int | None) -> list[PipelineFigures]:
        """Return the figures to add up, of the slices from one on, or of all times."""
        if oldest is None:
            return [self.before_latest, *(figures for _, figures in [*self.slices][-1:])]
        return [figures for at, figures in self.slices if at >= oldest]


class Pipeline:
    """Counts the searches of each tenant, over all and by collection; safe to use from many threads.

    At most 1,000 collections are told apart; searches of further ones are counted over all only.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._series: dict[str, dict[str | None, _Series]] = {}
        """By tenant and collection; None has what belongs to no collection that is told apart."""
        self._count = 0
        self._lock = threading.Lock()

    def add(self, tenant: str, collection: str | None, sample: SearchSample) -> None:
        """Count a search; `collection` is None where no such collection exists."""
        now = int(self._monotonic() // SLICE_S)
        with self._lock:
            of_tenant = self._series.setdefault(tenant, {})
            if collection not in of_tenant and self._count >= _MAX_SERIES:
                collection = None
            series = of_tenant.get(collection)
            if series is None:
                series = of_tenant[collection] = _Series()
                self._count += 1
            series.latest(now).add(sample)

    def read(self, tenant: str, collection: str | None, window_s: float | None) -> PipelineFigures:
        """Return a copy of the sums over all collections or over one.

        Args:
            tenant: whose searches.
            collection: None for all.
            window_s: only the slices of 5 s that began in the last so many seconds or hold its beginning; None: since
                the start.
        """
        found = PipelineFigures()
        oldest = None if window_s is None else int((self._monotonic() - window_s) // SLICE_S)
        with self._lock:
            of_tenant = self._series.get(tenant, {})
            asked = of_tenant.values() if collection is None else filter(None, [of_tenant.get(collection)])
            for series in asked:
                for figures in series.since(oldest):
                    found.merge(figures)
        return found
