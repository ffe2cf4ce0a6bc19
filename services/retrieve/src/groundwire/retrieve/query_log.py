"""What became of searches: which of it is logged, and how it is written behind the calls and listed."""

import os
import threading
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from groundwire.catalog.collections import Collections
from groundwire.catalog.query_log import QueryLogs
from groundwire.kernel.collection import Collection, ProfileName, SearchMode
from groundwire.kernel.errors import GroundwireError
from groundwire.kernel.query_log import LoggedQuery, QueryLogMode, QueryType
from groundwire.retrieve.pipeline import Pipeline, SearchSample
from groundwire.retrieve.search_types import SearchResult

MAX_QUERY_CHARS = 8192
_MAX_NAME_CHARS = 63
_MAX_AGENT_CHARS = 256
_EVERY_S = 1.0
_BATCH = 500
_FORGET_EVERY_S = 3600.0
_STOP_LIMIT_S = 5.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    """A search as it arrived, before anything of it was checked: what the log says of any search, valid or not.

    `collection` and `query` are as they were sent. `started` is the reading of `time.perf_counter` at receipt.
    """

    tenant: str
    collection: str
    query: str
    user_agent: str
    received: datetime
    started: float


@dataclass(frozen=True, slots=True)
class ServedSearch:
    """What is recorded of a search that was served: little enough to be remembered with its response."""

    collection: Collection
    query_type: QueryType
    mode: SearchMode
    sample: SearchSample

    @classmethod
    def of(cls, result: SearchResult) -> "ServedSearch":
        """Take what counts of a result."""
        relevances = [hit.score.relevance for hit in result.hits]
        sample = SearchSample(
            failed=False,
            total_s=result.times.total_s,
            results=len(result.hits),
            rejected=result.counts.rejected,
            relevance=sum(relevances) / len(relevances) if relevances else None,
            embedding_s=result.times.embedding_s or None,
            search_s=result.times.search_s or None,
            engine_s=result.times.engine_s,
        )
        return cls(result.plan.collection, result.plan.query_type, result.plan.mode, sample)

    def again(self, total_s: float) -> "ServedSearch":
        """Return it for a response that was remembered, which nothing was embedded or searched for."""
        sample = replace(self.sample, total_s=total_s, embedding_s=None, search_s=None, engine_s=None)
        return ServedSearch(self.collection, self.query_type, self.mode, sample)


class QueryRecorder:
    """Takes entries at once and stores them within a second; safe to use from many threads.

    What was taken is stored before `close` returns. While the catalog cannot be written, entries wait; beyond
    `capacity` new ones are refused.

    Args:
        store: where entries go.
        retention: how long entries are kept.
        capacity: most entries that wait.
    """

    def __init__(self, store: QueryLogs, retention: timedelta, capacity: int = 10_000) -> None:
        self._store = store
        self._retention = retention
        self._capacity = capacity
        self._waiting: deque[LoggedQuery] = deque()
        self._writing = threading.Lock()
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="query-log", daemon=True)

    def start(self) -> None:
        """Begin to write behind the calls."""
        self._thread.start()

    def record(self, entry: LoggedQuery) -> bool:
        """Take an entry and return at once; tell whether there was room for it."""
        if len(self._waiting) >= self._capacity:
            return False
        self._waiting.append(entry)
        if self._closing.is_set():
            self._write_or_warn()
        elif len(self._waiting) >= _BATCH:
            self._wake.set()
        return True

    def flush(self) -> None:
        """Store everything taken so far.

        Raises:
            GroundwireError: the catalog cannot be written; the entries wait for the next turn.
        """
        with self._writing:
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
                try:
                    self._store.append(batch)
                except BaseException:
                    self._waiting.extendleft(reversed(batch))
                    raise

    def close(self) -> None:
        """Store what was taken and stop; what is recorded later is stored at once."""
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
                self._forget_or_warn()
                forgotten_at = time.monotonic()
            self._wake.wait(_EVERY_S)
            self._wake.clear()

    def _write_or_warn(self) -> None:
        try:
            self.flush()
        except GroundwireError:
            _log.warning("the query log cannot be written", waiting=len(self._waiting), exc_info=True)

    def _forget_or_warn(self) -> None:
        try:
            self._store.forget(self._retention)
        except GroundwireError:
            _log.warning("old entries of the query log cannot be removed", exc_info=True)


@dataclass(frozen=True, slots=True)
class RecordSearch:
    """Records each search once, served or failed, without waiting for the catalog."""

    collections: Collections
    recorder: QueryRecorder
    pipeline: Pipeline
    mode: QueryLogMode

    def served(self, call: ReceivedCall, search: ServedSearch) -> str | None:
        """Record a search that was served; return its log id, empty when no log is kept, None when it could not be."""
        sample = search.sample
        self.pipeline.add(call.tenant, call.collection, sample)
        if self.mode is QueryLogMode.OFF:
            return ""
        entry = LoggedQuery(
            log_id=os.urandom(16).hex(),
            tenant=call.tenant,
            collection=call.collection,
            collection_uid=search.collection.uid,
            query=self._text(call, search.collection),
            query_type=search.query_type,
            result_count=sample.results,
            average_relevance=min(1.0, sample.relevance or 0.0),
            processing_s=sample.total_s,
            log_time=call.received,
            user_agent=call.user_agent[:_MAX_AGENT_CHARS],
            mode=search.mode,
            error_reason="",
        )
        return entry.log_id if self.recorder.record(entry) else None

    def failed(self, call: ReceivedCall, reason: str) -> None:
        """Record a search that failed for a reason of the contract."""
        collection = None
        with suppress(GroundwireError):
            collection = self.collections.get(call.tenant, call.collection)
        elapsed_s = time.perf_counter() - call.started
        sample = SearchSample(failed=True, total_s=elapsed_s)
        self.pipeline.add(call.tenant, None if collection is None else collection.name, sample)
        entry = LoggedQuery(
            log_id=os.urandom(16).hex(),
            tenant=call.tenant,
            collection=call.collection[:_MAX_NAME_CHARS],
            collection_uid="" if collection is None else collection.uid,
            query=self._text(call, collection),
            query_type=None,
            result_count=0,
            average_relevance=0.0,
            processing_s=elapsed_s,
            log_time=call.received,
            user_agent=call.user_agent[:_MAX_AGENT_CHARS],
            mode=None,
            error_reason=reason,
        )
        if self.mode is not QueryLogMode.OFF:
            self.recorder.record(entry)

    def _text(self, call: ReceivedCall, collection: Collection | None) -> str:
        """Return what the log may say: the book profile keeps no question on disk (requirement S4-44)."""
        is_private = collection is None or collection.profile is ProfileName.BOOK
        if self.mode is QueryLogMode.FACTS or (self.mode is QueryLogMode.AUTO and is_private):
            return ""
        return call.query[:MAX_QUERY_CHARS]
