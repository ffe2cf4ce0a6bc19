"""The outcomes of searches: figures of this process, which searches are logged, and how the log is written."""

import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from groundwire.catalog.collections import Collections
from groundwire.catalog.query_log import QueryLogs
from groundwire.catalog.records import RecordAccesses
from groundwire.kernel.chunk import StoredChunk
from groundwire.kernel.collection import Collection, ProfileName, SearchMode
from groundwire.kernel.errors import GroundwireError
from groundwire.kernel.identifiers import quick_id
from groundwire.kernel.latencies import Latencies
from groundwire.kernel.query_log import LoggedQuery, QueryLogMode, QueryType
from groundwire.kernel.records import MEMORY
from groundwire.retrieve.search_types import SearchResult

SLICE_S = 5.0
LONGEST_WINDOW_S = 3600.0
# One more than an hour holds, because the hour begins within a slice.
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

    def again(self, total_s: float) -> "SearchSample":
        """Return the sample for a cached response, for which nothing was embedded or searched."""
        return SearchSample(
            failed=False, total_s=total_s, results=self.results, rejected=self.rejected, relevance=self.relevance
        )


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
            # A remembered response embeds and searches nothing; as 0 s it would make both look fast.
            if seconds is not None:
                latencies.add(seconds)

    def merge(self, other: "PipelineFigures") -> None:
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

    def since(self, oldest: int | None) -> tuple[list[PipelineFigures], list[PipelineFigures]]:
        """Return the figures to add up, of the slices from one on, or of all times: those that change, and the rest."""
        if oldest is None:
            return [self.before_latest, *(figures for _, figures in [*self.slices][-1:])], []
        figures = [figures for at, figures in self.slices if at >= oldest]
        return figures[-1:], figures[:-1]


class Pipeline:
    """Counts the searches of each tenant, over all and by collection; safe to use from many threads.

    At most 1,000 collections have figures of their own; searches of others count only in those of all.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self.outcomes: Counter[str] = Counter()
        """How many searches gave results, gave none, or failed, over all tenants."""
        # By tenant and collection; None holds searches that are counted for no single collection.
        self._series: dict[str, dict[str | None, _Series]] = {}
        self._count = 0
        self._lock = threading.Lock()

    def add(self, tenant: str, collection: str | None, sample: SearchSample) -> None:
        """Count a search; `collection` is None where no such collection exists."""
        now = int(self._monotonic() // SLICE_S)
        with self._lock:
            self.outcomes["failed" if sample.failed else "results" if sample.results else "empty"] += 1
            of_tenant = self._series.setdefault(tenant, {})
            # Names come from callers; without a bound they would fill the memory.
            if collection not in of_tenant and self._count >= _MAX_SERIES:
                collection = None
            series = of_tenant.get(collection)
            if series is None:
                series = of_tenant[collection] = _Series()
                self._count += 1
            if not series.slices or series.slices[-1][0] != now:
                if series.slices:
                    # A slice that has ended no longer changes: it is added to the totals once.
                    series.before_latest.merge(series.slices[-1][1])
                series.slices.append((now, PipelineFigures()))
            series.slices[-1][1].add(sample)

    def read(self, tenant: str, collection: str | None, window_s: float | None) -> PipelineFigures:
        """Return a copy of the sums over all collections or over one.

        With `window_s` only the slices of 5 s count that began in the last so many seconds or hold its beginning.
        """
        found = PipelineFigures()
        oldest = None if window_s is None else int((self._monotonic() - window_s) // SLICE_S)
        ended: list[PipelineFigures] = []
        with self._lock:
            of_tenant = self._series.get(tenant, {})
            asked = of_tenant.values() if collection is None else filter(None, [of_tenant.get(collection)])
            for series in asked:
                changing, rest = series.since(oldest)
                for figures in changing:
                    found.merge(figures)
                ended += rest
        # Adding up an hour of many collections takes seconds, and searches, even on the event loop, wait for the lock.
        for figures in ended:
            found.merge(figures)
        return found


MAX_QUERY_CHARS = 8192
_MAX_NAME_CHARS = 63
_MAX_AGENT_CHARS = 256
_EVERY_S = 1.0
# Entries of one transaction: other writers wait no longer than these take.
_BATCH = 500
_FORGET_EVERY_S = 3600.0
_STOP_LIMIT_S = 5.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    """A search as it arrived, before anything of it was checked: what the log says of any search, valid or not.

    `collection` and `query` are as they were sent. `started` is the reading of `time.perf_counter` at receipt.
    `names_entity`: it searches what is kept for an entity, so its text may say something about a person.
    """

    tenant: str
    collection: str
    query: str
    user_agent: str
    received: datetime
    started: float
    names_entity: bool = False


@dataclass(frozen=True, slots=True)
class ServedSearch:
    """The record of a served search, small enough to be cached with its response."""

    collection: Collection
    query_type: QueryType
    mode: SearchMode
    sample: SearchSample
    memories: tuple[str, ...] = ()
    """Ids of the documents of memories among the results."""
    names_entity: bool = False

    @classmethod
    def of(cls, result: SearchResult, *, names_entity: bool) -> "ServedSearch":
        relevances = [hit.score.relevance for hit in result.hits]
        sample = SearchSample(
            failed=False,
            total_s=result.times.total_s,
            results=len(result.hits),
            rejected=result.counts.rejected,
            relevance=sum(relevances) / len(relevances) if relevances else None,
            embedding_s=result.times.embedding_s or None,
            search_s=result.times.search_s,
            engine_s=result.times.engine_s,
        )
        memories = memories_among(hit.stored for hit in result.hits)
        return cls(result.plan.collection, result.plan.query_type, result.plan.mode, sample, memories, names_entity)


def memories_among(found: Iterable[StoredChunk]) -> tuple[str, ...]:
    """Return the ids of the documents that are memories."""
    documents = (stored.document for stored in found)
    return tuple(each.document_id for each in documents if (each.fields.record or {}).get("type") == MEMORY)


class QueryRecorder:
    """Takes entries at once and stores them within a second; safe to use from many threads.

    What was taken is stored before `close` returns. While the catalog cannot be written, entries wait; beyond
    `capacity` new ones are refused.

    Counts of records that were found, `accesses`, are stored along with the entries.
    """

    def __init__(
        self, store: QueryLogs, retention: timedelta, accesses: RecordAccesses, capacity: int = 10_000
    ) -> None:
        self._store = store
        self._accesses = accesses
        self._retention = retention
        self._capacity = capacity
        self._waiting: deque[LoggedQuery] = deque()
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="query-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def record(self, entry: LoggedQuery) -> bool:
        """Queue an entry and return at once; tell whether there was room for it."""
        if len(self._waiting) >= self._capacity:
            return False
        self._waiting.append(entry)
        # The thread that writes may have ended already.
        if self._closing.is_set():
            self._write_or_warn()
        return True

    def flush(self) -> None:
        """Store everything taken so far.

        Raises:
            GroundwireError: the catalog cannot be written; the entries wait for the next turn.
        """
        with self._writing:
            self._accesses.flush()
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
                try:
                    self._store.append(batch)
                except BaseException:
                    # Back to the front in their order: the next turn tries again.
                    self._waiting.extendleft(reversed(batch))
                    raise

    def close(self) -> None:
        """Store the queued entries and stop; later entries are stored at once."""
        self._closing.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_LIMIT_S)
        self._write_or_warn()

    def _loop(self) -> None:
        forgotten_at = float("-inf")
        while not self._closing.is_set():
            self._write_or_warn()
            if time.monotonic() - forgotten_at > _FORGET_EVERY_S:
                try:
                    self._store.forget(self._retention)
                except GroundwireError:
                    _log.warning("old entries of the query log cannot be removed", exc_info=True)
                forgotten_at = time.monotonic()
            self._wake.wait(_EVERY_S)
            self._wake.clear()

    def _write_or_warn(self) -> None:
        try:
            self.flush()
        except GroundwireError:
            _log.warning("the query log cannot be written", waiting=len(self._waiting), exc_info=True)


@dataclass(frozen=True, slots=True)
class RecordSearch:
    """Records each search once, served or failed, without waiting for the catalog."""

    collections: Collections
    recorder: QueryRecorder
    pipeline: Pipeline
    mode: QueryLogMode
    accesses: RecordAccesses

    def served(self, call: ReceivedCall, search: ServedSearch, sample: SearchSample) -> str | None:
        """Record a search that was served; return its log id, empty when no log is kept, None when it could not be."""
        self.pipeline.add(call.tenant, call.collection, sample)
        if search.memories:
            self.accesses.note(call.tenant, search.memories)
        if self.mode is QueryLogMode.OFF:
            return ""
        call = replace(call, names_entity=search.names_entity)
        entry = self._entry(call, search.collection, sample, search.query_type, search.mode)
        return entry.log_id if self.recorder.record(entry) else None

    def failed(self, call: ReceivedCall, reason: str) -> None:
        collection = None
        with suppress(GroundwireError):
            collection = self.collections.get(call.tenant, call.collection)
        sample = SearchSample(failed=True, total_s=time.perf_counter() - call.started)
        self.pipeline.add(call.tenant, None if collection is None else collection.name, sample)
        if self.mode is not QueryLogMode.OFF:
            self.recorder.record(self._entry(call, collection, sample, error_reason=reason))

    def _entry(
        self,
        call: ReceivedCall,
        collection: Collection | None,
        sample: SearchSample,
        query_type: QueryType | None = None,
        mode: SearchMode | None = None,
        error_reason: str = "",
    ) -> LoggedQuery:
        # The book profile keeps no question on disk (requirement S4-44), and neither is what is asked about an entity,
        # so that deleting its records leaves nothing of it in the log.
        is_private = collection is None or collection.profile is ProfileName.BOOK or call.names_entity
        says_nothing = self.mode is QueryLogMode.FACTS or (self.mode is QueryLogMode.AUTO and is_private)
        return LoggedQuery(
            log_id=quick_id(),
            tenant=call.tenant,
            # As it was sent: that of a failed search may be no valid name and of any length.
            collection=call.collection[:_MAX_NAME_CHARS],
            collection_uid="" if collection is None else collection.uid,
            query="" if says_nothing else call.query[:MAX_QUERY_CHARS],
            query_type=query_type,
            result_count=sample.results,
            # The mean of relevances of 1 may lie above it by rounding.
            average_relevance=min(1.0, sample.relevance or 0.0),
            processing_s=sample.total_s,
            log_time=call.received,
            user_agent=call.user_agent[:_MAX_AGENT_CHARS],
            mode=mode,
            error_reason=error_reason,
        )
