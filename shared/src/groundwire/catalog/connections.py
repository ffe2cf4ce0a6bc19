"""Connections to the SQLite file: settings of each one, and transactions that begin when we say so."""

import json
from pathlib import Path
from typing import Any

import pysqlite3
from sqlalchemy import URL, Connection, Engine, QueuePool, create_engine, event

from groundwire.kernel.errors import StoreMismatchError

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
    """Make the engine of the pooled reading connections; each transaction is one snapshot."""
    return _engine(path, (*_READ_SETTINGS, "PRAGMA query_only = ON"), "BEGIN DEFERRED", connections)


def _engine(path: Path, settings: tuple[str, ...], begin: str, connections: int) -> Engine:
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
        connection.exec_driver_sql(begin)

    event.listen(engine, "connect", configure)
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
