"""Writes the query log behind the calls, in batches."""

import threading
import time
from collections import deque
from datetime import timedelta

import structlog

from groundwire.kernel.errors import GroundwireError
from groundwire.kernel.query_log import LoggedQuery
from groundwire.retrieve.log_ports import QueryLogStore

_EVERY_S = 1.0
_BATCH = 500
_FORGET_EVERY_S = 3600.0
_STOP_LIMIT_S = 5.0

_log = structlog.get_logger(__name__)


class QueryRecorder:
    """Takes entries at once and stores them within a second; safe to use from many threads.

    What was taken is stored before `close` returns. While the catalog cannot be written, entries wait; beyond
    `capacity` new ones are refused.

    Args:
        store: where entries go.
        retention: how long entries are kept.
        capacity: most entries that wait.
    """

    def __init__(self, store: QueryLogStore, retention: timedelta, capacity: int = 10_000) -> None:
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
