"""What is specific to SQLite: connections, the file, JSON functions, errors."""

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

import pysqlite3
from sqlalchemy import (
    JSON,
    URL,
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Engine,
    LargeBinary,
    NullPool,
    QueuePool,
    Result,
    Select,
    Table,
    TableValuedAlias,
    and_,
    bindparam,
    create_engine,
    event,
    false,
    func,
    insert,
    literal,
    select,
    text,
    type_coerce,
    update,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler
from sqlalchemy.engine import IteratorResult
from sqlalchemy.engine.result import SimpleResultMetaData
from sqlalchemy.exc import DatabaseError, IntegrityError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.types import TypeEngine

from groundwire.catalog.encoding import StoredPostings, decode_json, encode_json
from groundwire.kernel.errors import (
    DataLossError,
    ExhaustedError,
    StoreMismatchError,
    StoreUnavailableError,
)
from groundwire.kernel.files import OwnerLock

upsert = sqlite.insert
EACH = "json_each"
"""The function that makes a table of what is in a list or an object."""

_FIXED_SINCE = (3, 51, 3)
_WITHDRAWN = (3, 52, 0)
BUSY_TIMEOUT_MS = 10_000
_CHECKPOINT_WAIT_MS = 50
# A full cache of the driver gives up its newest statement, so that all that come later are prepared at each execution,
# which takes several times as long as most of them run. There are some 300 different statements, and many have variants
# for numbers of rows or words.
_CACHED_STATEMENTS = 1024
# Steps of SQLite's virtual machine: some milliseconds.
_STEPS_BETWEEN_LOOKS = 200_000
_READ_SETTINGS = (
    # Each connection has to ask, or nothing is checked and nothing cascades.
    "PRAGMA foreign_keys = ON",
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    "PRAGMA cache_size = -8192",
    "PRAGMA mmap_size = 268435456",
)
_WRITE_SETTINGS = (
    *_READ_SETTINGS,
    "PRAGMA journal_mode = WAL",
    # With less a power cut may take back what was acknowledged (docs/adr/0011).
    "PRAGMA synchronous = FULL",
    # What is deleted is overwritten, not only unlinked.
    "PRAGMA secure_delete = ON",
    "PRAGMA cache_size = -32768",
    # Four times the default: pages that many small documents touch are copied back once.
    "PRAGMA wal_autocheckpoint = 4000",
    # Otherwise the log would keep the size of the largest transaction that there ever was.
    "PRAGMA journal_size_limit = 67108864",
)


def check_sqlite_version(version: tuple[int, ...] = pysqlite3.sqlite_version_info) -> None:
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
    # Nothing is rolled back once more when the connection is put back: every transaction has been ended by then.
    pool = {"poolclass": QueuePool, "pool_size": 1, "max_overflow": 0, "pool_timeout": 30, "pool_reset_on_return": None}
    return _engine(path, _WRITE_SETTINGS, "BEGIN IMMEDIATE", pool)


def reading_engine(path: Path) -> Engine:
    """Make the engine of the reading connections, which begin and end snapshots by the functions below.

    It pools none: a closed connection is really closed, so that it releases the file and no broken state remains.
    """
    return _engine(path, (*_READ_SETTINGS, "PRAGMA query_only = ON"), None, {"poolclass": NullPool})


def driver_rows(connection: Connection, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
    driver: Any = connection.connection.dbapi_connection
    try:
        rows: list[Any] = driver.execute(statement, parameters).fetchall()
    except pysqlite3.OperationalError as error:
        raise OperationalError(statement, None, error) from error
    except pysqlite3.IntegrityError as error:
        raise IntegrityError(statement, None, error) from error
    except pysqlite3.DatabaseError as error:
        raise DatabaseError(statement, None, error) from error
    return rows


class _Compiler(SQLiteCompiler):
    def limit_clause(self, select: Any, **options: Any) -> str:
        # When a limit is nothing but a parameter, SQLite plans by its value, and prepares the statement again at every
        # execution, which takes several times as long as running it. With an expression it does not.
        clause: str = super().limit_clause(select, **options)  # type: ignore[no-untyped-call]
        return clause.replace(" OFFSET", " + 0 OFFSET", 1)


def _engine(path: Path, settings: tuple[str, ...], begin: str | None, pool: Mapping[str, Any]) -> Engine:
    engine = create_engine(
        URL.create("sqlite+pysqlite", database=str(path)),
        module=pysqlite3.dbapi2,
        **pool,
        # None stops the driver from beginning transactions by itself, which it does late and deferred.
        connect_args={
            "isolation_level": None,
            "check_same_thread": False,
            "cached_statements": _CACHED_STATEMENTS,
        },
        json_serializer=encode_json,
        json_deserializer=decode_json,
    )

    engine.dialect.statement_compiler = _Compiler

    def configure(dbapi_connection: Any, _record: Any) -> None:
        for setting in settings:
            dbapi_connection.execute(setting)

    def start(connection: Connection) -> None:
        driver_rows(connection, str(begin))

    event.listen(engine, "connect", configure)
    if begin is not None:
        event.listen(engine, "begin", start)
    return engine


_ROWS_PER_STATEMENT = 64


# What is inside JSON


def to_binary_json(value: ColumnElement[Any], type_: TypeEngine[Any]) -> ColumnElement[Any]:
    """Return JSON text in the binary form that columns hold."""
    return func.jsonb(value, type_=type_)


def json_text(column: ColumnElement[Any], type_: TypeEngine[Any]) -> ColumnElement[Any]:
    return func.json(column, type_=type_)


def stored_bytes(column: ColumnElement[Any]) -> ColumnElement[bytes]:
    return type_coerce(column, LargeBinary)


def type_of(column: ColumnElement[Any], field: str) -> ColumnElement[Any]:
    return func.json_type(column, path_of(field))


def first_type_of(column: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.json_type(column, "$[0]")


def list_of(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return func.json_array(value)


def contains(value: ColumnElement[Any], part: str) -> ColumnElement[bool]:
    return func.instr(value, part) > 0


def is_like(value: ColumnElement[Any], pattern: str) -> ColumnElement[bool]:
    # SQLite's LIKE ignores case.
    return value.op("GLOB", is_comparison=True)(like_to_glob(pattern))


def number_among(each: TableValuedAlias, numbers: Sequence[int | float]) -> ColumnElement[bool]:
    # Each with a type of its own: in a list that begins with a fraction all would be bound as fractions, and integers
    # beyond 53 bits be rounded.
    exact = []
    for number in numbers:
        if isinstance(number, float) or -_INT64 <= number < _INT64:
            exact.append(literal(number))
        # SQLite holds larger integers as fractions; one that no float equals can equal no stored number.
        elif abs(number) <= sys.float_info.max and float(number) == number:
            exact.append(literal(float(number)))
    return and_(each.c.type.in_(_NUMBERS), each.c.value.in_(exact)) if exact else false()


def number_holds(
    each: TableValuedAlias,
    exact: tuple[Callable[[Any, Any], Any], int | float],
    nearest: tuple[Callable[[Any, Any], Any], float],
) -> ColumnElement[bool]:
    # It compares integers with floats exactly, but takes none beyond 64 bits.
    holds, bound = exact if isinstance(exact[1], float) or -_INT64 <= exact[1] < _INT64 else nearest
    return and_(each.c.type.in_(_NUMBERS), holds(each.c.value, bound))


def like_to_glob(pattern: str) -> str:
    """Translate a LIKE pattern with backslash escapes."""
    parts = re.findall(r"\\.|%|_|[^\\%_]+|\\", pattern, flags=re.DOTALL)
    wild = {"%": "*", "_": "?"}
    plain = (part[1:] if part.startswith("\\") and len(part) > 1 else part for part in parts)
    return "".join(
        wild.get(part) or re.sub(r"[*?\[]", r"[\g<0>]", each) for part, each in zip(parts, plain, strict=True)
    )


def path_of(field: str) -> str:
    return f"$.{json.dumps(field, ensure_ascii=False)}"


# Many values and many rows at once


def among(column: ColumnElement[Any], values: BindParameter[Any]) -> ColumnElement[bool]:
    return column.in_(select(func.json_each(values).table_valued("value").c.value))


def array_of(*columns: ColumnElement[Any]) -> ColumnElement[Any]:
    # As texts they would be decoded one by one.
    values = [func.json(column) if isinstance(column.type, JSON) else column for column in columns]
    return func.json_group_array(values[0] if len(values) == 1 else func.json_array(*values))


def execute(connection: Connection, statement: Any, given: Mapping[str, Any]) -> Result[*tuple[Any, ...]]:
    # The columns that an INSERT or UPDATE names depend on what is given.
    compiled = _compiled(statement, tuple(given) if statement.is_dml else ())
    values = {**compiled.constants, **given}
    for name, encode in compiled.encoders:
        values[name] = encode(values[name])
    rows = driver_rows(connection, compiled.sql, [values[name] for name in compiled.names])
    if compiled.has_decoders:
        rows = [
            [value if decode is None else decode(value) for decode, value in zip(compiled.decoders, row, strict=True)]
            for row in rows
        ]
    return IteratorResult(compiled.columns, iter(rows))


class _Compiled:
    """The SQL of a statement, and how its parameters and columns are converted."""

    def __init__(self, statement: Any, given: tuple[str, ...]) -> None:
        compiled = statement.compile(dialect=_DIALECT, column_keys=given or None)
        self.sql = str(compiled)
        self.names: Sequence[str] = compiled.positiontup or ()
        self.constants = {name: value for name, value in compiled.params.items() if name not in given}
        encoders = ((name, compiled.binds[name].type.dialect_impl(_DIALECT)) for name in set(self.names))
        self.encoders = [(name, encode) for name, type_ in encoders if (encode := type_.bind_processor(_DIALECT))]
        found = statement.returning_column_descriptions if statement.is_dml else statement.column_descriptions
        self.columns = SimpleResultMetaData([each["name"] for each in found], extra=[(each["expr"],) for each in found])
        types = (each["type"].dialect_impl(_DIALECT) for each in found)
        self.decoders = [type_.result_processor(_DIALECT, None) for type_ in types]
        self.has_decoders = any(self.decoders)


_DIALECT: Any = sqlite.dialect(paramstyle="qmark", json_serializer=encode_json, json_deserializer=decode_json)
_DIALECT.statement_compiler = _Compiler
_compiled = lru_cache(maxsize=512)(_Compiled)


def array_in(statement: Select[Any], type_: Any) -> ColumnElement[Any]:
    return select(func.json_group_array(statement.subquery().c[0], type_=type_)).scalar_subquery()


def update_json(
    connection: Connection, key: Column[int], column: Column[Any], values: Iterable[tuple[int, Any]]
) -> None:
    rows = json.dumps([[number, encode_json(value)] for number, value in values])
    each: Any = func.json_each(rows).table_valued("value").c.value
    new = func.jsonb(func.json_extract(each, "$[1]"), type_=column.type)
    connection.execute(update(key.table).where(key == func.json_extract(each, "$[0]")).values({column.name: new}))


def last_key(connection: Connection, table: Table) -> int:
    """Return the highest key that a table with AUTOINCREMENT ever gave, 0 without one."""
    statement = "SELECT seq FROM sqlite_sequence WHERE name = ?"
    return int(connection.exec_driver_sql(statement, (table.name,)).scalar() or 0)


def continue_keys(connection: Connection, table: Table, last: int) -> None:
    """Let the keys that a table with AUTOINCREMENT gives go on behind `last`."""
    if table.dialect_options["sqlite"]["autoincrement"]:
        # Deleted and inserted, because sqlite_sequence has no unique key for an upsert.
        connection.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
        connection.exec_driver_sql("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, last))


def insert_rows(
    connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]], *, skip_existing: bool = False
) -> None:
    # One statement for 64 rows gives up the interpreter lock as often as one for a single row.
    remaining = iter(rows)
    while batch := list(islice(remaining, _ROWS_PER_STATEMENT)):
        statement = _statement(table, tuple(batch[0]), len(batch), skip_existing)
        driver_rows(connection, statement, [value for row in batch for value in row.values()])


@lru_cache(maxsize=512)
def _statement(table: Table, columns: tuple[str, ...], rows: int, skip_existing: bool) -> str:
    if tuple(column.name for column in table.c if column.name in columns) != columns:
        raise ValueError(f"columns of {table.name} must be in the order of the table")
    one = insert(table).values(dict.fromkeys(columns)).compile(dialect=sqlite.dialect(paramstyle="qmark"))
    head, values, row = str(one).partition(" VALUES ")
    return head + values + ", ".join([row] * rows) + (" ON CONFLICT DO NOTHING" if skip_existing else "")


_INT64 = 2**63
_NUMBERS = ("integer", "real")
_DAMAGED = ("malformed", "not a database", "corrupt")
_FULL = ("disk is full", "disk full")


@contextmanager
def translated_failures(path: Path) -> Iterator[None]:
    """Raise kernel errors for what the database library raises inside the block about this file.

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
            # The log names the file, which tells the catalog from sessions; callers do not see paths.
            raise ExhaustedError(f"no space is left on the disk of {str(path)!r}", what="disk") from error
        if isinstance(error, OperationalError):
            raise StoreUnavailableError("the catalog did not answer", engine="catalog") from error
        raise


def file_problems(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the file: the number of the row, or nothing, and what to say."""
    for found in connection.exec_driver_sql("PRAGMA integrity_check").scalars():
        if found != "ok":
            yield "", f"integrity check: {found}"
    for table, row, parent, _ in connection.exec_driver_sql("PRAGMA foreign_key_check"):
        yield "" if row is None else str(row), f"broken reference from {table} to {parent}"


@contextmanager
def interruptible(connection: Connection, is_over: Callable[[], bool]) -> Iterator[None]:
    driver: Any = connection.connection.driver_connection
    driver.set_progress_handler(is_over, _STEPS_BETWEEN_LOOKS)
    try:
        yield
    finally:
        driver.set_progress_handler(None, 0)


# Statements written as SQL, because the planner or the interpreter would take longer otherwise

# One row instead of one for each word and segment. In every segment the words come in order, so that the scores of a
# chunk are always added up in the same order.
_READ = """
    SELECT json_group_array(word), json_group_array(high), json_group_array(length(postings)),
        CAST(group_concat(postings, '') AS BLOB), {positions}
    FROM (
        SELECT word, high, postings, positions FROM lexical_segments CROSS JOIN lexical_postings USING (segment_key)
        WHERE collection_key = ? AND state IN ({states}) AND word IN ({words})
        ORDER BY state, segment_key, word
    )
    """
READ_POSTINGS = _READ.replace("{positions}", "NULL")
READ_POSITIONS = _READ.replace("{positions}", "CAST(group_concat(positions, '') AS BLOB)")
COUNT_POSTINGS = """
    SELECT word, sum(length(postings))
    FROM lexical_segments CROSS JOIN lexical_postings USING (segment_key)
    WHERE collection_key = ? AND state IN ({states}) AND word IN ({words})
    GROUP BY word
    """
_MERGE = text(
    """
    INSERT INTO lexical_postings (segment_key, word, postings, positions)
    SELECT :merged, word, CAST(group_concat(postings, '') AS BLOB), CAST(group_concat(positions, '') AS BLOB)
    FROM (SELECT * FROM lexical_postings WHERE segment_key IN :parts ORDER BY word, segment_key) GROUP BY word
    """
).bindparams(bindparam("parts", expanding=True))
# CROSS JOIN keeps the order: without it SQLite may begin with all vectors of the model.
_VECTORS = """
    SELECT json_group_array(chunk_number), CAST(group_concat(vector, '') AS BLOB) FROM json_each(?) AS given
    CROSS JOIN chunks ON chunk_number = given.value
    CROSS JOIN embeddings ON identity_digest = ? AND embeddings.embedding_hash = chunks.embedding_hash
    """


def read_postings(
    connection: Connection, collection_key: int, states: Sequence[str], words: Sequence[str], *, with_positions: bool
) -> StoredPostings:
    statement = filled(READ_POSITIONS if with_positions else READ_POSTINGS, len(states), len(words))
    (row,) = driver_rows(connection, statement, (collection_key, *states, *words))
    of_words, highs, sizes = map(json.loads, row[:3])
    return StoredPostings(of_words, highs, sizes, row[3] or b"", row[4] or b"")


def sizes_of_postings(
    connection: Connection, collection_key: int, states: Sequence[str], words: Sequence[str]
) -> dict[str, int]:
    statement = filled(COUNT_POSTINGS, len(states), len(words))
    return dict(driver_rows(connection, statement, (collection_key, *states, *words)))


@lru_cache(maxsize=512)
def filled(template: str, states: int, words: int) -> str:
    """Return the statement for this many states and words."""
    return template.format(states=", ".join("?" * states), words=", ".join("?" * words))


def merge_postings(connection: Connection, into: int, parts: Sequence[int]) -> None:
    connection.execute(_MERGE, {"merged": into, "parts": parts})


def read_vectors(connection: Connection, identity_digest: str, numbers: Sequence[int]) -> tuple[list[int], bytes]:
    ((found, vectors),) = driver_rows(connection, _VECTORS, (json.dumps(numbers), identity_digest))
    return json.loads(found), vectors or b""


class CatalogFile:
    """The file of a catalog, which this process owns: nobody else reads or writes it."""

    is_shared = False

    def __init__(self, path: Path) -> None:
        check_sqlite_version()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = path
        self._lock = OwnerLock(path, path.with_name(f"{path.name}.lock"), "a catalog file")
        try:
            # Created here, readable by the owner only, because SQLite would apply the umask.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except BaseException:
            self._lock.release()
            raise
        self.reading, self.writing = reading_engine(path), writing_engine(path)
        self._writing: Connection | None = None
        self._syncs = True  # as `_WRITE_SETTINGS` say
        self._numbering = threading.Lock()
        self._next: int | None = None

    def join(self) -> None:
        """Do nothing: nobody else has the file open."""

    def other_owners(self, _connection: Connection) -> frozenset[int]:
        """Return none: the file has one owner."""
        return frozenset()

    def try_exclusive(self, _name: str) -> bool:
        """Return true, because there is no other process."""
        return True

    def end_exclusive(self, name: str) -> None:
        """Do nothing, because nobody waits to be let in."""

    def translated_failures(self) -> AbstractContextManager[None]:
        """Raise kernel errors for what the database library raises inside the block."""
        return translated_failures(self.path)

    def prepare(self, connection: Connection) -> None:
        """Do nothing: statements need only the tables."""

    @contextmanager
    def transaction(self, *, syncs: bool = True) -> Iterator[Connection]:
        """Give the writing connection inside a transaction; one at a time.

        Without `syncs` it survives the process, and a power cut only from the next transaction on that syncs.
        """
        # It stays open: to take it out of the pool and to put it back takes as long as some statements.
        if self._writing is None:
            self._writing = self.writing.connect()
        if syncs != self._syncs:
            driver_rows(self._writing, f"PRAGMA synchronous = {'FULL' if syncs else 'NORMAL'}")
            self._syncs = syncs
        with self._writing.begin():
            yield self._writing

    def begin_snapshot(self, connection: Connection) -> None:
        """Let a reading connection see one state of the file, that of its next statement, until `end_snapshot`."""
        driver_rows(connection, "BEGIN DEFERRED")

    def end_snapshot(self, connection: Connection) -> None:
        """End the snapshot, so that the log can be folded into the file."""
        driver: Any = connection.connection.dbapi_connection
        # Without space or memory SQLite ends the transaction itself: a COMMIT would fail and hide the reason.
        if driver.in_transaction:
            driver_rows(connection, "COMMIT")

    def take_chunk_numbers(self, count: int) -> range:
        """Return keys for new rows of `chunks` that no row ever had.

        The owner of the file is one process, so counting in memory is safe; SQLite's own sequence (AUTOINCREMENT)
        follows the highest key written and is where the count starts after a restart. Keys of a failed write are
        skipped; after a restart they may be given again, but nothing had them.
        """
        with self._numbering:
            if self._next is None:
                statement = text("SELECT seq FROM sqlite_sequence WHERE name = 'chunks'")
                with self.reading.connect() as connection:
                    self._next = int(connection.execute(statement).scalar() or 0) + 1
            first, self._next = self._next, self._next + count
            return range(first, first + count)

    def scrub(self) -> bool:
        """Fold the write-ahead log into the file and empty it; False while readers need what is in it."""
        if self._writing is None:
            return True
        # Other writes wait behind this one: better to come again than to wait for readers here.
        driver_rows(self._writing, f"PRAGMA busy_timeout = {_CHECKPOINT_WAIT_MS}")
        ((busy, *_),) = driver_rows(self._writing, "PRAGMA wal_checkpoint(TRUNCATE)")
        driver_rows(self._writing, f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        return not busy

    def probe(self, writer_busy_s: Callable[[], float | None]) -> "FileProbe":
        return FileProbe(self.path, writer_busy_s)

    def close(self) -> None:
        """Close all connections and release the lock."""
        # The last connection to close folds the write-ahead log into the file.
        if self._writing is not None:
            self._writing.close()
        self.writing.dispose()
        self._lock.release()


_BUSY_MS = 500
# How long a transaction may block writers: another process's in all, ours without using the processor.
_STUCK_S = 3.0


class FileProbe:
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
        """Return if a transaction could write now, or other writers make progress; writes nothing.

        Raises:
            StoreUnavailableError: somebody has held the lock for seconds and committed nothing, and it is not our
                writer at work; or the file fails.
        """
        # Of the commits of other connections; its own do not count.
        version = self._run("PRAGMA data_version")
        busy_s = self._writer_busy_s()
        # A long transaction of ours is fine: calls wait for it, and it ends. An idle one may never end.
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
        if self._connection is not None:
            self._connection.close()

    def _run(self, statement: str, *, then: str = "", busy_ms: int = _BUSY_MS) -> Any:
        try:
            if self._connection is None:
                uri = f"{self._path.as_uri()}?mode=rw"
                self._connection = pysqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)
                self._inode = self._path.stat().st_ino
            # An open file survives its removal: the name may belong to another file by now.
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
