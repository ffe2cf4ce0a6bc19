"""What is specific to PostgreSQL: connections, JSON functions, advisory locks, errors.

The driver is imported when a server is connected to: it comes with the extra `postgres`.
"""

import hashlib
import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from decimal import Decimal
from functools import cache, lru_cache
from itertools import islice
from typing import Any

from sqlalchemy import (
    JSON,
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Engine,
    Float,
    LargeBinary,
    NullPool,
    Numeric,
    Select,
    Table,
    TableValuedAlias,
    Text,
    any_,
    bindparam,
    case,
    cast,
    create_engine,
    event,
    false,
    func,
    literal,
    literal_column,
    make_url,
    select,
    update,
)
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.types import TypeEngine

from groundwire.catalog.encoding import StoredPostings, decode_json, encode_json
from groundwire.kernel.budget import Budget, current_budget
from groundwire.kernel.errors import (
    DataLossError,
    ExhaustedError,
    InvalidRequestError,
    MissingExtraError,
    StoreUnavailableError,
)

ENTRIES, ELEMENTS = "groundwire_entries", "groundwire_elements"
# One round trip for so many rows.
_ROWS_PER_STATEMENT = 64
# Letters; an entry of an index has at most 2,704 bytes.
_LONGEST_WORD = 500
_KEPT_OF_WORD = 64

# PostgreSQL calls integers and fractions numbers; a text differs. What is beyond 64 bits counts as a fraction,
# as it does in SQLite. A CASE, and not an AND, keeps the cast from what is no number.
_FUNCTIONS = """
CREATE OR REPLACE FUNCTION groundwire_type(kind text, value text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE kind
        WHEN 'string' THEN 'text' WHEN 'boolean' THEN value
        WHEN 'number' THEN CASE
            WHEN value ~ '[.eE]' THEN 'real'
            WHEN CAST(value AS numeric) BETWEEN -9223372036854775808 AND 9223372036854775807 THEN 'integer'
            ELSE 'real' END
        ELSE kind END
$$;
CREATE OR REPLACE FUNCTION groundwire_entries(object json) RETURNS TABLE (key text, value text, type text)
LANGUAGE sql IMMUTABLE AS $$
    SELECT key, value #>> '{}', groundwire_type(json_typeof(value), value #>> '{}') FROM json_each(object)
$$;
CREATE OR REPLACE FUNCTION groundwire_elements(list json) RETURNS TABLE (type text, value text)
LANGUAGE sql IMMUTABLE AS $$
    SELECT groundwire_type(json_typeof(value), value #>> '{}'), value #>> '{}'
    FROM json_array_elements(CASE json_typeof(list) WHEN 'array' THEN list ELSE json_build_array(list) END)
$$;
CREATE OR REPLACE FUNCTION groundwire_elements(object jsonb, field text) RETURNS TABLE (type text, value text)
LANGUAGE sql IMMUTABLE AS $$
    SELECT groundwire_type(jsonb_typeof(value), value #>> '{}'), value #>> '{}'
    FROM jsonb_array_elements(
        CASE jsonb_typeof(object -> field) WHEN 'array' THEN object -> field ELSE jsonb_build_array(object -> field) END
    ) WHERE jsonb_exists(object, field)
$$;
"""


def upsert(table: Table) -> Any:
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - it brings the module of every driver

    return postgresql.insert(table)


def driver_rows(connection: Connection, statement: str, parameters: Sequence[Any] = ()) -> Sequence[Any]:
    return connection.exec_driver_sql(statement.replace("?", "%s"), tuple(parameters)).all()


# What is inside JSON


def to_binary_json(value: ColumnElement[Any], type_: TypeEngine[Any]) -> ColumnElement[Any]:
    """Return JSON text in the binary form that columns hold."""
    return cast(value, type_)


def json_text(column: ColumnElement[Any], _type: TypeEngine[Any]) -> ColumnElement[Any]:
    return cast(column, Text)


def stored_bytes(column: ColumnElement[Any]) -> ColumnElement[bytes]:
    return func.convert_to(cast(column, Text), "UTF8", type_=LargeBinary)


def type_of(column: ColumnElement[Any], field: str) -> ColumnElement[Any]:
    value = func.jsonb_extract_path(column, field)
    as_text = func.jsonb_extract_path_text(column, field)
    return func.groundwire_type(func.jsonb_typeof(value), as_text, type_=Text)


def field_of(column: ColumnElement[Any], field: str) -> ColumnElement[Any]:
    """Return the JSON text of a field of an object that stands in a text."""
    return cast(func.json_extract_path(cast(column, JSON), field), Text)


def first_type_of(column: ColumnElement[Any]) -> ColumnElement[Any]:
    first = func.json_extract_path(cast(column, JSON), "0")
    as_text = func.json_extract_path_text(cast(column, JSON), "0")
    return func.groundwire_type(func.json_typeof(first), as_text, type_=Text)


def list_of(value: ColumnElement[Any]) -> ColumnElement[Any]:
    return cast(func.json_build_array(value), Text)


def contains(value: ColumnElement[Any], part: str) -> ColumnElement[bool]:
    return func.strpos(value, part) > 0


def is_like(value: ColumnElement[Any], pattern: str) -> ColumnElement[bool]:
    # A backslash at the end escapes nothing and stands for itself.
    ends_open = (len(pattern) - len(pattern.rstrip("\\"))) % 2
    return value.like(pattern + "\\" * ends_open, escape="\\")


def number_among(each: TableValuedAlias, numbers: Sequence[int | float]) -> ColumnElement[bool]:
    exact = [Decimal(number) for number in numbers]
    # An integer that no float equals can equal no stored fraction.
    floats = [float(number) for number in numbers if abs(number) <= sys.float_info.max and float(number) == number]
    of_integers = cast(each.c.value, Numeric).in_([literal(each, Numeric) for each in exact])
    of_fractions = cast(each.c.value, Float(53)).in_([literal(each, Float(53)) for each in floats])
    return _of_numbers(each, of_integers, of_fractions if floats else false())


def number_holds(
    each: TableValuedAlias,
    exact: tuple[Callable[[Any, Any], Any], int | float],
    nearest: tuple[Callable[[Any, Any], Any], float],
) -> ColumnElement[bool]:
    of_integers = exact[0](cast(each.c.value, Numeric), literal(Decimal(exact[1]), Numeric))
    of_fractions = nearest[0](cast(each.c.value, Float(53)), literal(nearest[1], Float(53)))
    return _of_numbers(each, of_integers, of_fractions)


def _of_numbers(
    each: TableValuedAlias, of_integers: ColumnElement[bool], of_fractions: ColumnElement[bool]
) -> ColumnElement[bool]:
    # Compared separately: as floats different integers may be equal, and as decimals no float is what was written.
    return case((each.c.type == "integer", of_integers), (each.c.type == "real", of_fractions), else_=false())


# Many values and many rows at once


def among(column: ColumnElement[Any], values: BindParameter[Any]) -> ColumnElement[bool]:
    # As an array, in which an index can be asked for each; a subquery would be joined by a plan for a hundred rows.
    each = func.json_array_elements_text(cast(cast(values, Text), JSON))
    return column == any_(func.array(select(cast(each, column.type)).scalar_subquery()))


def array_of(*columns: ColumnElement[Any]) -> ColumnElement[Any]:
    values = [cast(column, JSON) if isinstance(column.type, JSON) else column for column in columns]
    row = values[0] if len(values) == 1 else func.json_build_array(*values)
    return func.coalesce(cast(func.json_agg(row), Text), literal_column("'[]'"))


def array_in(statement: Select[Any], type_: Any) -> ColumnElement[Any]:
    elements = func.coalesce(cast(func.json_agg(statement.subquery().c[0]), Text), literal_column("'[]'"), type_=type_)
    return select(elements).scalar_subquery()


def update_json(
    connection: Connection, key: Column[int], column: Column[Any], values: Iterable[tuple[int, Any]]
) -> None:
    rows = [{"of_row": number, "new": value} for number, value in values]
    if rows:
        changed = update(key.table).where(key == bindparam("of_row")).values({column.name: bindparam("new")})
        connection.execute(changed, rows)


def insert_rows(
    connection: Connection, table: Table, rows: Iterable[Mapping[str, Any]], *, skip_existing: bool = False
) -> None:
    remaining = iter(rows)
    while batch := list(islice(remaining, _ROWS_PER_STATEMENT)):
        columns = tuple(batch[0])
        statement = _statement(table, columns, len(batch), skip_existing)
        values = (
            _CONVERTED[name](value) if name in _CONVERTED else value for row in batch for name, value in row.items()
        )
        connection.exec_driver_sql(statement, tuple(values))


def last_key(connection: Connection, table: Table) -> int:
    """Return the highest key that a table with a sequence ever gave, 0 without one; chunks have numbers instead."""
    column = table.autoincrement_column
    if column is None:
        return 0
    if table.name == "chunks":
        found = connection.exec_driver_sql("SELECT value FROM counters WHERE name = 'chunk_numbers'").scalar()
    else:
        statement = "SELECT pg_sequence_last_value(pg_get_serial_sequence(%s, %s)::regclass)"
        found = connection.exec_driver_sql(statement, (table.name, column.name)).scalar()
    return max(int(found or 0), int(connection.execute(select(func.max(column))).scalar() or 0))


def continue_keys(connection: Connection, table: Table, last: int) -> None:
    """Let the keys that a table gives go on behind `last`."""
    column = table.autoincrement_column
    if column is None or not last:
        return
    if table.name == "chunks":
        connection.exec_driver_sql(_SET_NUMBERS, (last,))
    else:
        connection.execute(select(func.setval(func.pg_get_serial_sequence(table.name, column.name), last)))


@lru_cache(maxsize=512)
def _statement(table: Table, columns: tuple[str, ...], rows: int, skip_existing: bool) -> str:
    one = f"({', '.join(['%s'] * len(columns))})"
    ending = " ON CONFLICT DO NOTHING" if skip_existing else ""
    return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES {', '.join([one] * rows)}{ending}"  # noqa: S608 - names of the schema


def with_plain_fractions(encoded: str) -> str:
    """Return JSON text whose fractions are written without an exponent.

    Binary JSON of PostgreSQL would take 4e+16 for an integer, and compare it as one.
    """
    return _plain(decode_json(encoded)) if "e+" in encoded else encoded


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ",".join(f"{encode_json(key)}:{_plain(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_plain, value)) + "]"
    encoded = encode_json(value)
    return f"{Decimal(encoded):f}.0" if isinstance(value, float) and "e+" in encoded else encoded


def shortened(word: str) -> str:
    """Return a word as an index can hold it: its beginning and its digest where it has thousands of letters."""
    if len(word) <= _LONGEST_WORD:
        return word
    return word[:_KEPT_OF_WORD] + hashlib.sha256(word.encode()).hexdigest()


def is_shortened(word: str) -> bool:
    """Tell whether a word of an index may be what `shortened` made of a longer one."""
    digest = word[_KEPT_OF_WORD:]
    return len(digest) == hashlib.sha256().digest_size * 2 and set(digest) <= set("0123456789abcdef")


# What columns hold in another form than callers give.
_CONVERTED = {"word": shortened, "payload": with_plain_fractions}

# The full-text index and vectors, which are read and merged in bulk

_POSTINGS = """
    SELECT word, high, postings, {positions} FROM lexical_segments JOIN lexical_postings USING (segment_key)
    WHERE collection_key = %s AND state = ANY(%s) AND word = ANY(%s) ORDER BY state, segment_key, word
    """
_READ_POSTINGS, _READ_POSITIONS = _POSTINGS.format(positions="''::bytea"), _POSTINGS.format(positions="positions")
_COUNT_POSTINGS = """
    SELECT word, sum(length(postings)) FROM lexical_segments JOIN lexical_postings USING (segment_key)
    WHERE collection_key = %s AND state = ANY(%s) AND word = ANY(%s) GROUP BY word
    """
_MERGE = """
    INSERT INTO lexical_postings (segment_key, word, postings, positions)
    SELECT %s, word, string_agg(postings, ''::bytea ORDER BY segment_key),
        string_agg(positions, ''::bytea ORDER BY segment_key)
    FROM lexical_postings WHERE segment_key = ANY(%s) GROUP BY word
    """
_VECTORS = """
    SELECT chunk_number, vector FROM chunks JOIN embeddings USING (embedding_hash)
    WHERE chunk_number = ANY(%s) AND identity_digest = %s
    """


def read_postings(
    connection: Connection, collection_key: int, states: Sequence[str], words: Sequence[str], *, with_positions: bool
) -> StoredPostings:
    given = {shortened(word): word for word in words}
    statement = _READ_POSITIONS if with_positions else _READ_POSTINGS
    rows = connection.exec_driver_sql(statement, (collection_key, list(states), list(given))).all()
    return StoredPostings(
        [given[row[0]] for row in rows],
        [row[1] for row in rows],
        [len(row[2]) for row in rows],
        b"".join(row[2] for row in rows),
        b"".join(row[3] for row in rows),
    )


def sizes_of_postings(
    connection: Connection, collection_key: int, states: Sequence[str], words: Sequence[str]
) -> dict[str, int]:
    given = {shortened(word): word for word in words}
    rows = connection.exec_driver_sql(_COUNT_POSTINGS, (collection_key, list(states), list(given)))
    return {given[row[0]]: int(row[1]) for row in rows}


def merge_postings(connection: Connection, into: int, parts: Sequence[int]) -> None:
    connection.exec_driver_sql(_MERGE, (into, list(parts)))


def read_vectors(connection: Connection, identity_digest: str, numbers: Sequence[int]) -> tuple[list[int], bytes]:
    rows = connection.exec_driver_sql(_VECTORS, (list(numbers), identity_digest)).all()
    return [row[0] for row in rows], b"".join(row[1] for row in rows)


def file_problems(connection: Connection) -> Iterator[tuple[str, str]]:
    """Yield the indexes of the catalog that PostgreSQL marks as invalid."""
    invalid = """
        SELECT indexrelid::regclass::text FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
        WHERE NOT indisvalid AND relnamespace = current_schema()::regnamespace
        """
    for (name,) in connection.exec_driver_sql(invalid):
        yield "", f"the index {name} is not valid; run REINDEX INDEX {name}"


def lift_time_limit(connection: Connection) -> None:
    """Lift the time limit of this transaction's statements: for full checks and changes of the schema."""
    connection.exec_driver_sql("SET LOCAL statement_timeout = 0")


@contextmanager
def interruptible(connection: Connection, is_over: Callable[[], bool]) -> Iterator[None]:
    driver: Any = connection.connection.driver_connection
    ended = threading.Event()

    def watch() -> None:
        while not ended.wait(_LOOK_S):
            if is_over():
                driver.cancel_safe(timeout=_CONNECT_S)

    lift_time_limit(connection)
    watching = threading.Thread(target=watch, name="catalog-interrupt", daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()  # or it might cancel the next statement of the connection


# Connections and transactions

_CONNECT_S = 5
_LOOK_S = 0.1
_LOOK_IN_S = 1.0
# A server that does not answer `SELECT 1` for this long is lost; waiting calls get an error.
_SILENT_S = 5.0
_WRITER = "writer"
# A session may hold the writer's lock for this long without running a statement.
_STUCK_S = 3.0
_HOLDER = """
    SELECT activity.pid, extract(epoch FROM clock_timestamp() - state_change)::float8
    FROM pg_locks JOIN pg_stat_activity AS activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND classid::bigint = %s AND objid::bigint = %s
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
        AND activity.state LIKE 'idle%%'
    """
_JOIN = """
    INSERT INTO counters AS c (name, value) VALUES ('owners', 1)
    ON CONFLICT (name) DO UPDATE SET value = c.value + 1 RETURNING value
    """
# Those of two numbers have `objsubid` 2, those of one 64-bit number 1.
_OWNERS = """
    SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND classid::bigint = %s AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    """
OWN_COUNTERS = ("chunk_numbers", "owners")
"""What PostgreSQL alone counts in `counters`."""
_NUMBERS_AT_ONCE = 1024
_SET_NUMBERS = """
    INSERT INTO counters (name, value) VALUES ('chunk_numbers', %s)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
    """
_TAKE_NUMBERS = """
    INSERT INTO counters AS c (name, value)
    SELECT 'chunk_numbers', coalesce(max(chunk_number), 0) + %s FROM chunks
    ON CONFLICT (name) DO UPDATE SET value = c.value + %s RETURNING value
    """


@contextmanager
def translated_failures() -> Iterator[None]:
    """Raise kernel errors for what the database library raises inside the block.

    Broken constraints and wrong SQL are bugs of ours and pass unchanged.

    Raises:
        DataLossError: pages of the database are damaged.
        ExhaustedError: the disk of the server is full.
        InvalidRequestError: a text is too long for an index, or has a character that no text may have.
        StoreUnavailableError: the server cannot be reached, did not answer in time, or is shutting down.
    """
    try:
        yield
    except PoolTimeoutError as error:
        raise StoreUnavailableError("all connections of the catalog are in use", engine="catalog") from error
    except DBAPIError as error:
        state = str(getattr(error.orig, "sqlstate", None) or "")
        if state in {"XX001", "XX002"}:  # data_corrupted, index_corrupted
            raise DataLossError("the database of the catalog is damaged", what="catalog") from error
        if state == "53100":  # disk_full
            raise ExhaustedError("no space is left for the catalog", what="disk") from error
        if state == "55P03":  # lock_not_available
            raise StoreUnavailableError("another process keeps the catalog locked", engine="catalog") from error
        if state == "54000":  # program_limit_exceeded
            raise InvalidRequestError.of("catalog", "a text is too long for an index of PostgreSQL") from error
        # character_not_in_repertoire, untranslatable_character; some the driver refuses itself, without a state.
        if state in {"22021", "22P05"} or "NUL (0x00)" in str(error.orig):
            raise InvalidRequestError.of("request", "has the character U+0000, which PostgreSQL cannot hold") from error
        # Classes of errors of the connection, of transactions that it broke, of resources, locks and shutdowns.
        if isinstance(error, (OperationalError, InterfaceError)) or state[:2] in {"08", "25", "53", "55", "57"}:
            raise StoreUnavailableError("the catalog did not answer", engine="catalog") from error
        raise


def lock_number(schema: str, name: str) -> int:
    """Return the number of an advisory lock; catalogs in other schemas of the same database have other ones."""
    digest = hashlib.sha256(f"groundwire/{schema}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def owner_class(schema: str) -> int:
    """Return the base number of the advisory locks that show which processes are alive."""
    return lock_number(schema, "owners") & 0x7FFFFFFF


@cache
def _limited_connection() -> Any:
    """Return a class of connections that are closed when `must_end`, given the length of a wait, returns true.

    It is asked every tenth of a second in which the server is silent. The server's own limits do not help when it is
    frozen, or when the network drops everything.
    """
    import psycopg  # noqa: PLC0415 - comes with an extra

    class LimitedConnection(psycopg.Connection[Any]):
        must_end: Callable[[float], bool]

        def wait(self, gen: Any, *arguments: Any, **options: Any) -> Any:
            return super().wait(self._limited(gen), *arguments, **options)

        def _limited(self, gen: Any) -> Generator[Any, Any, Any]:
            began_at = time.monotonic()
            try:
                state = next(gen)
                while True:
                    ready = yield state
                    if not ready and self.must_end(time.monotonic() - began_at):
                        self.pgconn.finish()  # a late answer must not be taken for another's
                        raise psycopg.OperationalError("the server does not answer")
                    state = gen.send(ready)
            except StopIteration as ended:
                return ended.value

    return LimitedConnection


class _Presence:
    """One session that is open as long as the process lives; its locks end with it.

    A broken session is replaced. Until then the other processes consider this one dead and may take back what it has
    not published; its writes fail then, as after a lost race.

    Attributes:
        owner: the number of the process, 0 until `begin`.
        schema: that of the catalog.
        is_lost: the server did not answer this session, and has not answered it since.
    """

    def __init__(self, make_engine: Callable[..., Engine]) -> None:
        self.owner = 0
        self.is_lost = False

        def gives_up(waited_s: float) -> bool:
            if waited_s >= _SILENT_S:
                self.is_lost = True
            return waited_s >= _SILENT_S

        self._engine = make_engine(gives_up, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        self._connection: Connection | None = None
        self._is_shown = False
        self._lock = threading.Lock()
        self.schema = str(self._scalar(Budget(), "SELECT current_schema()"))
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._stay, name="catalog-presence", daemon=True)
        self._thread.start()

    def begin(self) -> None:
        """Take a number and hold its lock."""
        self.owner = int(self._scalar(Budget(), _JOIN))
        self._scalar(Budget(), "SELECT 1")

    def try_lock(self, name: str) -> bool:
        """Take a lock unless another process has it."""
        with translated_failures():
            number = lock_number(self.schema, name)
            return bool(self._scalar(current_budget(), "SELECT pg_try_advisory_lock(%s)", number))

    def unlock(self, name: str) -> None:
        """Release a lock; one that ended with its session is gone already."""
        with suppress(DBAPIError):
            self._scalar(Budget(), "SELECT pg_advisory_unlock(%s)", lock_number(self.schema, name))

    def end(self) -> None:
        """End the session; idempotent."""
        self._ending.set()
        # Before the session ends: the thread would open another one, which shows a process that is gone as alive.
        self._thread.join()
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is not None:
            # Explicitly, because the server notices the end of a session only some time later.
            with suppress(DBAPIError):
                connection.exec_driver_sql("SELECT pg_advisory_unlock_all()")
            connection.close()

    def _stay(self) -> None:
        while not self._ending.wait(_LOOK_IN_S):
            with suppress(DBAPIError):  # the server is gone; the next attempt may find it again
                self._scalar(Budget(), "SELECT 1")

    def _scalar(self, budget: Budget, statement: str, *parameters: int) -> Any:
        # Held during the statement: a session runs one at a time, which takes seconds at most.
        with budget.holding(self._lock):
            try:
                if self._connection is None:
                    self._connection, self._is_shown = self._engine.connect(), False
                if self.owner and not self._is_shown:
                    mine = (owner_class(self.schema), self.owner)
                    # May fail until the server has noticed the end of the previous session, which has the lock.
                    shown = self._connection.exec_driver_sql("SELECT pg_try_advisory_lock(%s, %s)", mine).scalar()
                    self._is_shown = bool(shown)
                answer = self._connection.exec_driver_sql(statement, parameters).scalar()
            except DBAPIError:
                broken, self._connection = self._connection, None
                if broken is not None:
                    broken.close()
                raise
            self.is_lost = False
            return answer


class CatalogServer:
    """A database of a PostgreSQL server, which several processes may have open at the same time.

    One of them writes at a time, as one thread does with SQLite, so that positions come in the order of the commits.

    Each process that opens the catalog gets a new number, which marks its unfinished work.

    `url` and `password` are those of `Database.open`, `wait_s` and `statement_s` those of its `Limits`; the latter also
    bounds how long a process is idle inside a transaction.
    """

    is_shared = True

    def __init__(
        self, url: str, password: str | None = None, *, wait_s: float = 10.0, statement_s: float = 60.0
    ) -> None:
        try:
            given = make_url(url)
        except (ArgumentError, ValueError):
            raise InvalidRequestError.of("catalog", "must look like postgresql://USER@HOST:PORT/DATABASE") from None
        if given.password is not None:
            # Every user of the machine can read a command line, and configurations are shown with their URLs.
            setting = "GROUNDWIRE_CATALOG_PASSWORD, or GROUNDWIRE_SESSIONS_PASSWORD for sessions"
            raise InvalidRequestError.of("catalog", f"must not hold the password; set {setting}")
        if importlib.util.find_spec("psycopg") is None:
            message = "PostgreSQL needs psycopg: pip install 'groundwire[postgres]'"
            raise MissingExtraError(message, extra="postgres")
        self._url = given.set(drivername="postgresql+psycopg", password=password)
        self._settings = {
            "lock_timeout": f"{wait_s * 1000:.0f}ms",
            "statement_timeout": f"{statement_s * 1000:.0f}ms",
            # A process that is idle inside a transaction must not keep all others from writing.
            "idle_in_transaction_session_timeout": f"{statement_s * 1000:.0f}ms",
            # Nor must one whose machine has silently disappeared.
            "tcp_keepalives_idle": "5",
            "tcp_keepalives_interval": "5",
            "tcp_keepalives_count": "2",
            "timezone": "UTC",
        }
        try:
            with translated_failures():
                self._presence = _Presence(self._engine)
        except UnicodeError:
            raise InvalidRequestError.of("catalog", "names a host that no host can be called") from None
        except StoreUnavailableError as error:
            # For whoever starts the process: a wrong password or name would look like a server that is down. Neither
            # the driver nor the server repeats a password.
            cause = error.__cause__
            said = " ".join(str(cause.orig if isinstance(cause, DBAPIError) else cause).split())
            raise StoreUnavailableError(f"{error.message}: {said}", engine="catalog") from error
        self._schema = self._presence.schema

        def must_end(_waited_s: float) -> bool:
            # While the server answers others, a statement may take as long as the server allows.
            return self._presence.is_lost

        # The pool of readers is that of the catalog, which keeps connections open itself.
        self.reading = self._engine(must_end, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        # Pinged first: a connection that the server has dropped is replaced before a write fails on it.
        self.writing = self._engine(must_end, pool_size=1, max_overflow=0, pool_timeout=30, pool_pre_ping=True)
        writer = lock_number(self._schema, _WRITER)

        def wait_for_turn(connection: Connection) -> None:
            # Released by the server after the commit is visible to all, so the next writer sees it.
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (writer,))
            connection.info["owner"] = self._presence.owner

        event.listen(self.writing, "begin", wait_for_turn)
        self._numbers = range(0)
        self._numbering = threading.Lock()

    def _engine(self, must_end: Callable[[float], bool], **options: Any) -> Engine:
        """Return an engine with connections of `_limited_connection`; none is opened yet."""
        engine = create_engine(
            self._url,
            **options,
            # Or each engine begins with a search for that type, which the catalog has no column of.
            use_native_hstore=False,
            connect_args={
                "connect_timeout": _CONNECT_S,
                "application_name": "groundwire",
                # A server that has silently disappeared is noticed after 15 s.
                "keepalives_idle": 5,
                "keepalives_interval": 5,
                "keepalives_count": 2,
                "tcp_user_timeout": 15_000,
            },
        )

        def connect(_dialect: Any, _record: Any, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
            import psycopg  # noqa: PLC0415 - comes with an extra

            if must_end(0.0):
                raise psycopg.OperationalError("the server does not answer")
            connection = _limited_connection().connect(*given, **named)
            connection.must_end = must_end
            return connection

        def configure(connection: Any, _record: Any) -> None:
            from psycopg.types.numeric import IntLoader  # noqa: PLC0415 - comes with an extra

            # Sums of integers, which PostgreSQL counts without limit.
            connection.adapters.register_loader("numeric", IntLoader)
            was, connection.autocommit = connection.autocommit, True
            connection.execute("".join(f"SET {name} = '{value}';" for name, value in self._settings.items()))
            connection.autocommit = was

        event.listen(engine, "do_connect", connect)
        event.listen(engine, "connect", configure)
        return engine

    def join(self) -> None:
        """Take a number that shows other processes that this one is alive until `close` or its death."""
        self._presence.begin()

    def other_owners(self, connection: Connection) -> frozenset[int]:
        """Return the numbers of the other live processes."""
        found = connection.exec_driver_sql(_OWNERS, (owner_class(self._schema),)).scalars()
        return frozenset(map(int, found)) - {self._presence.owner}

    def try_exclusive(self, name: str) -> bool:
        """Take a lock that one process has at a time, unless another has it."""
        return self._presence.try_lock(name)

    def end_exclusive(self, name: str) -> None:
        self._presence.unlock(name)

    translated_failures = staticmethod(translated_failures)

    def probe(self, _writer_busy_s: Callable[[], float | None]) -> "ServerProbe":
        alone = self._engine(lambda waited_s: waited_s >= _SILENT_S, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        return ServerProbe(alone, self._schema)

    def prepare(self, connection: Connection) -> None:
        """Create the functions that statements need, in the transaction that creates or upgrades the tables."""
        lift_time_limit(connection)
        connection.exec_driver_sql(_FUNCTIONS)

    def transaction(self, *, syncs: bool = True) -> AbstractContextManager[Connection]:  # noqa: ARG002 - see below
        """Give a connection inside a transaction that writes; one process at a time.

        Each is synced, because to ask for less takes a round trip.
        """
        return self.writing.begin()

    def begin_snapshot(self, connection: Connection) -> None:
        """Let a reading connection see one state of the database, that of its next statement, until `end_snapshot`."""
        connection.exec_driver_sql("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def end_snapshot(self, connection: Connection) -> None:
        """End the snapshot, so that the server can clean up what only it could see."""
        # The failure of a broken connection was reported already.
        driver: Any = None if connection.invalidated else connection.connection.driver_connection
        if driver is not None and not driver.closed:
            connection.exec_driver_sql("COMMIT")

    def take_chunk_numbers(self, count: int) -> range:
        """Return numbers for rows of `chunks` that no process was ever given."""
        with self._numbering:
            if len(self._numbers) >= count:
                given, self._numbers = self._numbers[:count], self._numbers[count:]
                return given
        # Without the lock, so that others need not wait; they take numbers of their own, some of which are never used.
        taken = max(count, _NUMBERS_AT_ONCE)
        with translated_failures(), self.reading.connect() as connection:
            up_to = int(connection.exec_driver_sql(_TAKE_NUMBERS, (taken, taken)).scalar_one())
        numbers = range(up_to - taken + 1, up_to + 1)
        with self._numbering:
            # Another thread may have taken numbers as well: the longer range is kept.
            self._numbers = max(self._numbers, numbers[count:], key=len)
        return numbers[:count]

    def scrub(self) -> bool:
        """Do nothing: the server frees the space of deleted rows by itself (autovacuum)."""
        return True

    def close(self) -> None:
        """Close all connections; idempotent."""
        self._presence.end()
        self.writing.dispose()


class ServerProbe:
    """A connection of its own, used by one thread at a time; a check that is not answered fails after seconds."""

    def __init__(self, engine: Engine, schema: str) -> None:
        self._engine = engine
        self._writer = lock_number(schema, _WRITER)
        self._connection: Connection | None = None

    def check_readable(self) -> None:
        """Return if the server answers.

        Raises:
            StoreUnavailableError: it does not, or cannot be reached.
        """
        self._row("SELECT 1")

    def check_writable(self) -> None:
        """Return if a transaction could write now, or other writers make progress; writes nothing.

        Raises:
            StoreUnavailableError: an idle session has held the writer's lock for seconds; the server takes no writes,
                or does not answer.
        """
        if self._row("SELECT pg_is_in_recovery()")[0]:
            raise StoreUnavailableError("the server of the catalog takes no writes", engine="catalog")
        holder = self._row(_HOLDER, (self._writer >> 32 & 0xFFFFFFFF, self._writer & 0xFFFFFFFF))
        if holder is not None and holder[1] >= _STUCK_S:
            raise StoreUnavailableError(f"the catalog has been locked for {holder[1]:.0f} s", engine="catalog")

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _row(self, statement: str, parameters: tuple[Any, ...] = ()) -> Any:
        try:
            with translated_failures():
                if self._connection is None:
                    self._connection = self._engine.connect()
                return self._connection.exec_driver_sql(statement, parameters).first()
        except StoreUnavailableError:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()
            raise
