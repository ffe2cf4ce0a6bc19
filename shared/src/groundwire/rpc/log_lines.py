"""Where log lines go: ordinary ones are collected and written together, what went wrong at once.

A write of its own for each call would cost a busy server more than anything else it does around the call.
"""

import atexit
import threading
import time
from collections import deque
from contextlib import suppress
from typing import TextIO

_EVERY_S = 0.05


class LineLogger:
    """A logger for structlog that writes to one file; safe to use from many threads.

    Lines of the levels debug and info are in the file after 50 ms, or when the process ends; from warning up each is
    there when the call returns, and so is everything before it.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._waiting: deque[str] = deque()
        self._writing = threading.Lock()
        self._wake = threading.Event()
        threading.Thread(target=self._loop, name="log-lines", daemon=True).start()
        atexit.register(self.flush)

    def info(self, line: str) -> None:
        """Take an ordinary line."""
        self._waiting.append(line)
        if not self._wake.is_set():
            self._wake.set()

    def warning(self, line: str) -> None:
        """Write a line and all that wait."""
        self._waiting.append(line)
        self.flush()

    debug = info
    error = critical = warning

    def flush(self) -> None:
        """Write what waits; it is lost when the file takes nothing any more, because no call may fail for its log."""
        with self._writing, suppress(OSError, ValueError):
            lines = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if lines:
                self._file.write("\n".join([*lines, ""]))
                self._file.flush()

    def _loop(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            time.sleep(_EVERY_S)
            self.flush()
