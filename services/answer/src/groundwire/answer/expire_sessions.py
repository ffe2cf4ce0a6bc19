"""Remove sessions that closed long ago, now and then."""

import threading
from collections.abc import Callable

import structlog

_STOP_LIMIT_S = 5.0

_log = structlog.get_logger(__name__)


class ExpireSessions:
    """A thread that calls `expire` at its start and on a timer; a failure is logged once and tried again."""

    def __init__(self, expire: Callable[[], int], every_s: float = 600.0) -> None:
        self._expire = expire
        self._every_s = every_s
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="session-sweeper", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_LIMIT_S)

    def _loop(self) -> None:
        has_failed = False
        while not self._closing.is_set():
            try:
                self._expire()
                has_failed = False
            except Exception as error:  # noqa: BLE001 - the thread must outlive any failure
                if not has_failed:
                    _log.warning("old sessions could not be removed and are tried again", exc_info=error)
                has_failed = True
            self._closing.wait(self._every_s)
