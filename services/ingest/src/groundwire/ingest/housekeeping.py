"""The threads that sweep and rebuild behind the calls."""

import threading
import time
from collections.abc import Callable

import structlog

from groundwire.ingest.rebuild_index import RebuildIndex
from groundwire.ingest.sweep_leftovers import SweepLeftovers
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import CallCancelledError, CollectionNotFoundError

_TIDY_EVERY_S = 60.0
_FORGET_EVERY_S = 3600.0
_LONGEST_BACKOFF_S = 60.0
_STOP_LIMIT_S = 5.0
_REBUILD_S = 6 * 3600.0
"""Longer than an index of millions of points takes."""

_log = structlog.get_logger(__name__)


class Housekeeping:
    """Sweeps after every write and on a timer, and rebuilds indexes of collections that were written to.

    A failure is logged once and tried again, each time after a longer pause; it never reaches a caller.
    """

    def __init__(self, sweep: SweepLeftovers, rebuild: RebuildIndex, every_s: float) -> None:
        self._sweep = sweep
        self._rebuild = rebuild
        self._every_s = every_s
        self._wake = {name: threading.Event() for name in ("sweep", "rebuild")}
        self._closing = threading.Event()
        self._rebuilding = Budget()
        self._written: dict[str, Collection] = {}
        self._tidied_at = self._forgotten_at = float("-inf")
        self._threads = [
            threading.Thread(target=self._loop, args=("sweep", self._sweep_turn), name="sweeper", daemon=True),
            threading.Thread(target=self._loop, args=("rebuild", self._rebuild_turn), name="rebuilder", daemon=True),
        ]

    def start(self) -> None:
        """Take back what a dead process left, then work in the background."""
        self._sweep.recover()
        for thread in self._threads:
            thread.start()

    def wrote(self, collection: Collection) -> None:
        """Take note that a collection was written to; returns at once."""
        self._written[collection.engine_name] = collection
        self._wake["sweep"].set()
        self._wake["rebuild"].set()

    def nudge(self) -> None:
        """Sweep soon; returns at once."""
        self._wake["sweep"].set()

    def sweep_now(self) -> int:
        """Sweep in the thread of the caller; return how many tasks were done.

        Raises:
            StoreUnavailableError: the vector store failed.
        """
        return self._sweep()

    def close(self) -> None:
        """Stop; a sweep or rebuild under way ends at its next step."""
        self._closing.set()
        self._rebuilding.cancel()
        for event in self._wake.values():
            event.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_STOP_LIMIT_S)

    def _loop(self, name: str, turn: Callable[[], None]) -> None:
        failures = 0
        while not self._closing.is_set():
            # Before the turn: what is noted during the turn may have come too late for it.
            self._wake[name].clear()
            failures = 0 if self._succeeds(name, turn, failures) else failures + 1
            if failures:
                self._closing.wait(min(self._every_s * 2**failures, max(self._every_s, _LONGEST_BACKOFF_S)))
            else:
                self._wake[name].wait(self._every_s)

    @staticmethod
    def _succeeds(name: str, turn: Callable[[], None], failures: int) -> bool:
        try:
            turn()
        except Exception as error:  # noqa: BLE001 - the thread must outlive any failure of a turn
            if failures == 0:
                _log.warning("housekeeping failed and is tried again", turn=name, exc_info=error)
            return False
        if failures:
            _log.info("housekeeping works again", turn=name, failures=failures)
        return True

    def _sweep_turn(self) -> None:
        self._sweep()
        if time.monotonic() - self._tidied_at > _TIDY_EVERY_S:
            self._sweep.tidy()
            self._tidied_at = time.monotonic()
        if time.monotonic() - self._forgotten_at > _FORGET_EVERY_S:
            self._sweep.forget()
            self._forgotten_at = time.monotonic()

    def _rebuild_turn(self) -> None:
        for engine_name, collection in list(self._written.items()):
            # Before the look at `_closing`: `close` cancels what it finds here.
            self._rebuilding = Budget(_REBUILD_S)
            if self._closing.is_set():
                return
            try:
                self._rebuild(collection, self._rebuilding)
            except CallCancelledError:
                return
            except CollectionNotFoundError:
                pass  # dropped, or another engine collection serves now
            if self._written.get(engine_name) is collection:
                del self._written[engine_name]
