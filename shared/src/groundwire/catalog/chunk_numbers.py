"""Chunk numbers: unique in the file, ascending, never given twice."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from sqlalchemy import Connection


class ChunkNumbers:
    """Hands out numbers before rows are written, so that rows are made ready outside the writer thread.

    The owner of the file is one process, so counting in memory is safe; SQLite's own sequence
    (AUTOINCREMENT) follows the highest number written and is where the count starts after a restart. Numbers
    of a failed write are skipped; after a restart they may be given again, but nothing had them.
    """

    def __init__(self, read: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._next: int | None = None

    def take(self, count: int) -> range:
        """Return `count` numbers that were never returned before."""
        with self._lock:
            first = self._next if self._next is not None else self._start()
            self._next = first + count
            return range(first, first + count)

    def _start(self) -> int:
        with self._read() as connection:
            found = connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'").scalar()
            return int(found or 0) + 1
