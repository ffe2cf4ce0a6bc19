"""Where log lines go: one thread writes them, and nobody else ever waits for the file.

A write of its own for each call would cost a busy server more than anything else it does around the call; and a pipe
that nobody reads, or a disk that hangs, would stop whoever logs.
"""

import atexit
import io
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

_EVERY_S = 0.05
_MAX_WAITING_CHARS = 4 * 1024 * 1024
_AT_EXIT_S = 1.0


class LineLogger:
    """A logger for structlog that hands lines to a thread which writes them to one file; safe to use from many threads.

    Lines of the levels debug and info are written together, up to 50 ms later; from warning up each is written as soon
    as the file takes it. While the file takes nothing, 4 MiB of lines wait; further ones are dropped, and
    `dropped_line` makes the line that says how many.
    """

    def __init__(self, file: TextIO, dropped_line: Callable[[int], str] = "{} log lines dropped".format) -> None:
        self._file = file
        self._dropped_line = dropped_line
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._waiting_chars = 0
        self._is_urgent = False
        self._is_writing = False
        self._dropped = 0
        threading.Thread(target=self._loop, name="log-lines", daemon=True).start()
        atexit.register(self.flush, _AT_EXIT_S)

    def info(self, line: str) -> None:
        """Take an ordinary line."""
        self._take(line, is_urgent=False)

    def warning(self, line: str) -> None:
        """Take a line that is to be seen at once."""
        self._take(line, is_urgent=True)

    debug = info
    error = critical = warning

    def flush(self, limit_s: float) -> bool:
        """Return whether everything that was taken is written, after at most `limit_s`."""
        with self._changed:
            self._is_urgent = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._waiting and not self._is_writing, limit_s)

    def _take(self, line: str, *, is_urgent: bool) -> None:
        with self._changed:
            if self._waiting_chars + len(line) > _MAX_WAITING_CHARS:
                self._dropped += 1
                return
            self._waiting.append(line)
            self._waiting_chars += len(line)
            # The thread looks by itself every 50 ms; waking it for each ordinary line would cost more than the line.
            if is_urgent:
                self._is_urgent = True
                self._changed.notify_all()

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_urgent, _EVERY_S)
                self._is_urgent = False
                lines = list(self._waiting)
                self._waiting.clear()
                self._waiting_chars = 0
                if self._dropped:
                    lines.append(self._dropped_line(self._dropped))
                    self._dropped = 0
                self._is_writing = bool(lines)
            if lines:
                self._write("\n".join([*lines, ""]))
                with self._changed:
                    self._is_writing = False
                    self._changed.notify_all()

    def _write(self, text: str) -> None:
        """Write to the file; what it does not take any more is lost, because nothing may fail for its log."""
        with suppress(OSError, ValueError):
            try:
                descriptor = self._file.fileno()
            except io.UnsupportedOperation:  # a file in memory
                self._file.write(text)
                return
            # Not through the buffer of the file: a process that ends waits for the lock of it.
            rest = memoryview(text.encode("utf-8", "backslashreplace"))
            while rest:
                rest = rest[os.write(descriptor, rest) :]
