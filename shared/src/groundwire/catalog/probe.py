"""Asks the catalog file whether it can be read and written, without taking a connection from those who work."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pysqlite3

from groundwire.kernel.errors import StoreUnavailableError

_BUSY_MS = 500
_STUCK_S = 3.0
"""Somebody else's transaction may keep others from writing for so long, and ours without using the processor."""


class CatalogProbe:
    """Connections of its own, used by one thread at a time.

    Args:
        path: of the file.
        writer_busy_s: how long the writer of this process has used the processor, None outside of its transactions.
    """

    def __init__(self, path: Path, writer_busy_s: Callable[[], float | None] = lambda: None) -> None:
        self._path = path
        self._writer_busy_s = writer_busy_s
        self._seen_busy_s: float | None = None
        self._connection: Any = None
        self._inode = 0
        self._version = -1
        self._written_at = time.monotonic()

    def check_readable(self) -> None:
        """Return if a transaction can read the file.

        Raises:
            StoreUnavailableError: it cannot, or the file is not there any more.
        """
        self._run("SELECT count(*) FROM sqlite_schema")

    def check_writable(self) -> None:
        """Return if a transaction could write now, or others get on with writing; writes nothing.

        Raises:
            StoreUnavailableError: somebody has held the lock for seconds and committed nothing, and it is not our
                writer at work; or the file fails.
        """
        # Of the commits of other connections; its own do not count.
        version = self._run("PRAGMA data_version")
        busy_s = self._writer_busy_s()
        # A long transaction of ours is no fault: calls wait for it, and it ends. One that does nothing may never end.
        if version != self._version or (busy_s is not None and busy_s != self._seen_busy_s):
            self._version, self._seen_busy_s, self._written_at = version, busy_s, time.monotonic()
        try:
            self._run("BEGIN IMMEDIATE", then="ROLLBACK", busy_ms=0)
            self._written_at = time.monotonic()
        except StoreUnavailableError as error:
            locked_s = time.monotonic() - self._written_at
            is_locked = isinstance(error.__cause__, pysqlite3.OperationalError) and "locked" in str(error.__cause__)
            if not is_locked:
                raise
            if locked_s >= _STUCK_S:
                message = f"the catalog has been locked for {locked_s:.0f} s"
                raise StoreUnavailableError(message, engine="catalog") from error

    def close(self) -> None:
        """Close the connection; idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _run(self, statement: str, *, then: str = "", busy_ms: int = _BUSY_MS) -> Any:
        try:
            if self._connection is None:
                uri = f"{self._path.as_uri()}?mode=rw"
                self._connection = pysqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
                self._inode = self._path.stat().st_ino
            if self._path.stat().st_ino != self._inode:
                raise FileNotFoundError("it is another file")
            self._connection.execute(f"PRAGMA busy_timeout = {busy_ms}")
            row = self._connection.execute(statement).fetchone()
            if then:
                self._connection.execute(then)
        except OSError as error:
            raise StoreUnavailableError("the file of the catalog is gone", engine="catalog") from error
        except pysqlite3.DatabaseError as error:
            raise StoreUnavailableError(f"the catalog does not answer: {error}", engine="catalog") from error
        return row[0] if row else None
