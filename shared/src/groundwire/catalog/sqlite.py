"""All that is peculiar to SQLite: connections, its file, its JSON functions, its errors."""

import errno
import fcntl
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pysqlite3
from sqlalchemy import URL, ColumnElement, Connection, Engine, QueuePool, Table, create_engine, event, func, insert
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import DatabaseError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.types import UserDefinedType

from groundwire.kernel.errors import (
    DataLossError,
    ExhaustedError,
    StoreMismatchError,
    StoreOwnedError,
    StoreUnavailableError,
)

upsert = sqlite.insert
"""An INSERT that can say what happens ON CONFLICT."""

_FIXED_SINCE = (3, 51, 3)
_WITHDRAWN = (3, 52, 0)
BUSY_TIMEOUT_MS = 10_000
_READ_SETTINGS = (
    "PRAGMA foreign_keys = ON",
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    "PRAGMA cache_size = -8192",
    "PRAGMA mmap_size = 268435456",
)
_WRITE_SETTINGS = (
    *_READ_SETTINGS,
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    # What is deleted is overwritten, not only unlinked.
    "PRAGMA secure_delete = ON",
    "PRAGMA cache_size = -32768",
    # Four times the default: pages that many small documents touch are copied back once.
    "PRAGMA wal_autocheckpoint = 4000",
    "PRAGMA journal_size_limit = 67108864",
)


_DECODER = json.JSONDecoder()
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def check_sqlite_version(version: tuple[int, ...]) -> None:
    """Refuse versions of SQLite with the WAL-reset bug (sqlite.org, "WAL-reset bug"; fixed in 3.51.3, not in 3.52.0).

    Raises:
        StoreMismatchError: the library is too old or withdrawn.
    """
    if version < _FIXED_SINCE or version == _WITHDRAWN:
        got = ".".join(map(str, version))
        raise StoreMismatchError(
            f"SQLite {got} can corrupt a database in WAL mode; install pysqlite3 0.6.1 or newer",
            setting="sqlite version",
            expected=">= 3.51.3",
            got=got,
        )


def writing_engine(path: Path) -> Engine:
    """Make the engine of the one writing connection; its transactions are BEGIN IMMEDIATE."""
    return _engine(path, _WRITE_SETTINGS, "BEGIN IMMEDIATE", connections=1)


def reading_engine(path: Path, connections: int) -> Engine:
    """Make the engine of the reading connections, which begin and end snapshots by the functions below."""
    return _engine(path, (*_READ_SETTINGS, "PRAGMA query_only = ON"), None, connections)


def begin_snapshot(connection: Connection) -> None:
    """Let a reading connection see one state of the file, that of its next statement, until `end_snapshot`."""
    driver_rows(connection, "BEGIN DEFERRED")


def end_snapshot(connection: Connection) -> None:
    """Let the writer fold away what only this connection may have seen."""
    driver_rows(connection, "COMMIT")


def driver_rows(connection: Connection, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
    """Return the rows of a statement as the driver gives them.

    For short statements on the path of every search: what SQLAlchemy does around one takes several times as long.
    """
    driver: Any = connection.connection.dbapi_connection
    try:
        rows: list[Any] = driver.execute(statement, parameters).fetchall()
    except pysqlite3.OperationalError as error:
        raise OperationalError(statement, None, error) from error
    except pysqlite3.DatabaseError as error:
        raise DatabaseError(statement, None, error) from error
    return rows


def _engine(path: Path, settings: tuple[str, ...], begin: str | None, connections: int) -> Engine:
    engine = create_engine(
        URL.create("sqlite+pysqlite", database=str(path)),
        module=pysqlite3.dbapi2,
        poolclass=QueuePool,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=30,
        # None stops the driver from beginning transactions by itself, which it does late and deferred.
        connect_args={"isolation_level": None, "check_same_thread": False},
        json_serializer=encode_json,
        json_deserializer=decode_json,
    )

    def configure(dbapi_connection: Any, _record: Any) -> None:
        for setting in settings:
            dbapi_connection.execute(setting)

    def start(connection: Connection) -> None:
        connection.exec_driver_sql(str(begin))

    event.listen(engine, "connect", configure)
    if begin is not None:
        event.listen(engine, "begin", start)
    return engine


def encode_json(value: Any) -> str:
    """Return compact JSON; ValueError for numbers that JSON does not have."""
    return _ENCODER.encode(value)


def decode_json(stored: str) -> Any:
    """Return the value of JSON text as `encode_json` writes it; quick for the empty lists that most rows have."""
    if stored == "[]":
        return []
    if stored == "{}":
        return {}
    value, end = _DECODER.raw_decode(stored)
    if end != len(stored):
        raise json.JSONDecodeError("Extra data", stored, end)
    return value


class BinaryJson(UserDefinedType[str]):
    """JSON in SQLite's binary form, which its functions read two to three times faster than text.

    Takes what `json.dumps` takes and gives JSON text.
    """

    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        """Return the name of the type in DDL; its affinity is BLOB."""
        return "BLOB"

    def bind_processor(self, dialect: Any) -> Any:  # noqa: ARG002 - SQLAlchemy's signature
        """Return the function that makes text of a value."""
        return encode_json

    def bind_expression(self, bindvalue: Any) -> ColumnElement[Any]:
        """Wrap a value on its way in."""
        return func.jsonb(bindvalue, type_=self)

    def column_expression(self, colexpr: Any) -> ColumnElement[Any]:
        """Wrap the column on its way out."""
        return func.json(colexpr, type_=self)


_ROWS_PER_STATEMENT = 64


def insert_rows(
    connection: Connection,
    table: Table,
    columns: tuple[str, ...],
    rows: Iterable[Sequence[Any]],
    *,
    skip_existing: bool = False,
) -> None:
    """Insert rows, each the values of `columns` as the driver takes them: JSON is given as text.

    `columns` stand in the order of the table.
    """
    remaining = iter(rows)
    while batch := list(islice(remaining, _ROWS_PER_STATEMENT)):
        statement = _statement(table, columns, len(batch), skip_existing)
        connection.exec_driver_sql(statement, tuple(chain.from_iterable(batch)))


@lru_cache(maxsize=512)
def _statement(table: Table, columns: tuple[str, ...], rows: int, skip_existing: bool) -> str:
    if tuple(column.name for column in table.c if column.name in columns) != columns:
        raise ValueError(f"columns of {table.name} must be in the order of the table")
    one = insert(table).values(dict.fromkeys(columns)).compile(dialect=sqlite.dialect(paramstyle="qmark"))
    head, values, row = str(one).partition(" VALUES ")
    return head + values + ", ".join([row] * rows) + (" ON CONFLICT DO NOTHING" if skip_existing else "")


_DAMAGED = ("malformed", "not a database", "corrupt")
_FULL = ("disk is full", "disk full")


@contextmanager
def translated_failures() -> Iterator[None]:
    """Raise kernel errors for what the database library raises inside the block.

    Broken constraints and wrong SQL are bugs of ours and pass unchanged.

    Raises:
        DataLossError: the file is damaged.
        ExhaustedError: the disk is full.
        StoreUnavailableError: any other failure of the file, or no connection is free.
    """
    try:
        yield
    except PoolTimeoutError as error:
        raise StoreUnavailableError("all read connections of the catalog are in use", engine="catalog") from error
    except DatabaseError as error:
        said = str(error.orig).lower()
        if any(word in said for word in _DAMAGED):
            raise DataLossError("the catalog file is damaged", what="catalog") from error
        if any(word in said for word in _FULL):
            raise ExhaustedError("no space is left for the catalog", what="disk") from error
        if isinstance(error, OperationalError):
            raise StoreUnavailableError("the catalog did not answer", engine="catalog") from error
        raise


class OwnerLock:
    """An advisory lock on `<file>.lock`, held until `release()` or the end of the process.

    The lock file stays behind: removing it would let two processes lock two different files. It holds
    the id of the owner for the message of whoever comes second.
    """

    def __init__(self, path: Path) -> None:
        lock_path = path.with_name(path.name + ".lock")
        self._descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(self._descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            if error.errno not in {errno.EWOULDBLOCK, errno.EACCES}:
                raise
            message = f"{path} is in use by process {owner}; one process owns a catalog file"
            raise StoreOwnedError(message, path=str(path), owner=owner) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another process own the file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


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
