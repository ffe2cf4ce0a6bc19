"""The catalog file: opening, snapshots to read, transactions to write, and the clocks that go with them."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection, Engine, select, update
from sqlalchemy.exc import DatabaseError

from groundwire.catalog.migrations import migrate
from groundwire.catalog.schema import chunks, collections, counters
from groundwire.catalog.sqlite import (
    OwnerLock,
    begin_snapshot,
    check_sqlite_version,
    end_snapshot,
    last_number,
    reading_engine,
    translated_failures,
    upsert,
    writing_engine,
)
from groundwire.catalog.writer import Writer
from groundwire.kernel.budget import Budget, current_budget
from groundwire.kernel.clock import Clock, SystemClock, epoch_ms
from groundwire.kernel.errors import DrainingError, InvalidRequestError, StoreUnavailableError

_STORE_EVERY_MS = 1000
_STEADY, _DOWN, _WALL = "steady_ms", "downtime_ms", "wall_ms"


class SteadyTime:
    """Begins as the time of day of a new catalog and goes on while a process has the catalog open.

    A clock that is set forward ages nothing, one that is set back keeps nothing. A catalog that is closed does not age
    either, so that what is remembered for a day is remembered for a day of service. Where time without a server counts
    too, `with_downtime_ms` has it as far as the clock of the machine knows it.
    """

    def __init__(self, connection: Connection, clock: Clock) -> None:
        """Go on where the last process stopped; what it did not store counts as time without a server."""
        rows = connection.execute(select(counters.c.name, counters.c.value)).all()
        stored = {str(name): int(value) for name, value in rows}
        wall = epoch_ms(clock.now())
        self._clock = clock
        self._stored_ms = 0
        self._begun_s = clock.elapsed_s()
        self._base_ms = stored.get(_STEADY, wall)
        self._downtime_ms = stored.get(_DOWN, 0) + max(0, wall - stored.get(_WALL, wall))

    def now_ms(self) -> int:
        """Return the milliseconds of service, counted from the time of day at which the catalog was made."""
        return self._base_ms + int((self._clock.elapsed_s() - self._begun_s) * 1000)

    def with_downtime_ms(self) -> int:
        """Return the same and the milliseconds without a server."""
        return self.now_ms() + self._downtime_ms

    def store(self, connection: Connection, *, at_once: bool = False) -> None:
        """Note how far it is, at most once a second unless `at_once`, in a transaction that is made anyway."""
        if not at_once and self.now_ms() - self._stored_ms < _STORE_EVERY_MS:
            return
        self._stored_ms = self.now_ms()
        # The time of day goes with it: if the clock was set meanwhile, the next process must not take that for a pause.
        values = {_STEADY: self.now_ms(), _DOWN: self._downtime_ms, _WALL: epoch_ms(self._clock.now())}
        statement = upsert(counters).values([{"name": name, "value": value} for name, value in values.items()])
        value = statement.excluded.value
        connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_={"value": value}))


NOW_MS = select(counters.c.value).where(counters.c.name == _STEADY).scalar_subquery()
"""The milliseconds of service inside a transaction of the writer, a second late at most."""


def advance_position(connection: Connection, collection_key: int | None = None, *, keeps_history: bool = False) -> int:
    """Count one more change and return its position.

    Args:
        connection: of the transaction that makes the change.
        collection_key: the collection that changes; None when it is not known, which counts for all of them.
        keeps_history: what readers saw before can still be read as of an earlier position: nothing was deleted or
            overwritten for good.
    """
    statement = update(counters).where(counters.c.name == POSITION).values(value=counters.c.value + 1)
    position = int(connection.execute(statement.returning(counters.c.value)).scalar_one())
    changed = {"changed_position": position}
    if not keeps_history:
        changed["readable_from"] = position
    of_collection = update(collections).values(changed)
    if collection_key is not None:
        of_collection = of_collection.where(collections.c.collection_key == collection_key)
    connection.execute(of_collection)
    return position


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
            if self._next is None:
                with self._read() as connection:
                    self._next = last_number(connection, chunks) + 1
            first, self._next = self._next, self._next + count
            return range(first, first + count)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CatalogUsage:
    """Reading connections in use and at most, reads so far that had to wait for one, and writes that wait now."""

    connections: int
    max_connections: int
    connection_waits: int
    waiting_writes: int


READ_CONNECTIONS = 16
READ_WAIT_S = 10.0
"""Reads take milliseconds: who waits so long for a connection has met a fault, however much time the call has left."""
POSITION = "position"
_SCRUB_S = 2.0
_SCRUB_PAUSE_S = 0.05


class Database:
    """An open catalog; safe to use from many threads, owned by one process.

    One writer, many readers: a read sees the state after some acknowledged write and never waits for the
    writer.
    """

    def __init__(self, path: Path, lock: OwnerLock, writing: Engine, reading: Engine, clock: Clock) -> None:
        self.path = path
        self._lock = lock
        self._writing = writing
        self._readers = _Readers(reading, READ_CONNECTIONS)
        with reading.connect() as connection:
            self.steady = SteadyTime(connection, clock)
        # The time of service is written along with whatever is written anyway, so that it costs no flush of its own.
        self._writer = Writer(writing, self.position, self.steady.store)
        self._closing = threading.Lock()
        self._closed = False
        self.chunk_numbers = ChunkNumbers(self.read)

    @classmethod
    def open(cls, url: str, clock: Clock | None = None) -> "Database":
        """Open `sqlite:FILE`, made when missing (with its folder, readable by the owner only), and migrate it.

        `clock` measures the ages of rows.

        Raises:
            InvalidRequestError: the URL is of another form.
            StoreOwnedError: another process has the file open.
            StoreMismatchError: the file was made by another version or is no catalog; it is left unchanged.
            DataLossError: the file is damaged.
        """
        path = _parse(url)
        check_sqlite_version()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = OwnerLock(path)
        try:
            # Made here, for the owner alone, because SQLite would make it for everybody whom the umask lets in.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            with translated_failures():
                migrate(path)
                return cls(path, lock, writing_engine(path), reading_engine(path), clock or SystemClock())
        except BaseException:
            lock.release()
            raise

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection that sees one snapshot; for a few statements, never across a wait for anything else.

        A thread has one at a time, so that threads cannot wait for one another's. Waiting for it ends with the budget
        of the current call.

        Raises:
            StoreUnavailableError: none became free in time, or the file cannot be read.
            RuntimeError: this thread has one already, which is a defect of its code.
        """
        if self._closed:
            raise DrainingError("the catalog is closed")
        with translated_failures(), self._readers.one(current_budget()) as connection:
            yield connection

    def write(self, work: Callable[[Connection], T], *, alone: bool = False) -> T:
        """Run `work` on the writer thread in one transaction and return what it returns, once it is durable.

        An exception of `work` rolls back and leaves unchanged. The transaction may hold other work as well, unless it
        is to be `alone`: that is for work which reads through `read` too, or may be interrupted. Work that could not
        begin when the budget of the current call has ended is taken back.

        Raises:
            DeadlineError, CallCancelledError: the work was taken back; nothing was written.
            RuntimeError: this thread has a reading connection, which is a defect of its code.
        """
        # Nobody waits for the writer with a connection in hand, for which others wait.
        self._readers.refuse_holder()
        return self._writer.run(work, alone=alone)

    def scrub(self, budget: Budget) -> bool:
        """Empty the write-ahead log, which holds what was deleted until it is written over; tell whether it is empty.

        Deleted rows are overwritten in the file itself when the log is folded into it. That waits for readers of
        earlier states, for `budget` and no longer than two seconds.
        """
        ends_at = time.monotonic() + _SCRUB_S
        while True:
            if self._writer.checkpoint():
                return True
            budget.check()
            if time.monotonic() > ends_at:
                return False
            time.sleep(_SCRUB_PAUSE_S)

    def writer_busy_s(self) -> float | None:
        """Return how long the writer has used the processor, None unless it is inside a transaction; never waits."""
        return self._writer.busy_s()

    def usage(self) -> "CatalogUsage":
        """Return how much is in use and how much waits now; never waits itself."""
        readers = self._readers
        return CatalogUsage(READ_CONNECTIONS - readers.free, READ_CONNECTIONS, readers.waits, self._writer.waiting)

    @property
    def latest_position(self) -> int:
        """Return the position of the last transaction that was committed, without asking the file."""
        return self._writer.position

    @staticmethod
    def position(connection: Connection) -> int:
        """Return how many publishing and deleting transactions the snapshot has seen."""
        return int(connection.execute(select(counters.c.value).where(counters.c.name == POSITION)).scalar_one())

    def close(self) -> None:
        """Finish handed-in writes, fold the log into the file and let go of the lock; idempotent."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            # What has passed since it was last stored would else count as time without a server.
            with suppress(StoreUnavailableError):  # the rows age a little later
                self._writer.run(lambda connection: self.steady.store(connection, at_once=True))
            self._writer.close()
            self._readers.close()
            # The last connection to close folds the write-ahead log into the file.
            self._writing.dispose()
            self._lock.release()


class _Readers:
    """Hands out connections to read, so many at a time and one to each thread.

    They stay open, and only SQLite hears of the transactions on them: what SQLAlchemy does around each one, to take it
    out of the pool, to begin and to put it back, costs several times as much as the statements of a search.
    """

    def __init__(self, engine: Engine, size: int) -> None:
        self._engine = engine
        self.free = size
        self.waits = 0
        self._idle: list[Connection] = []
        self._is_closed = False
        self._changed = threading.Condition()
        self._own = threading.local()

    @contextmanager
    def one(self, budget: Budget) -> Iterator[Connection]:
        """Give a connection inside a transaction that sees one snapshot from its first statement on."""
        self.refuse_holder()
        with self._changed:
            if self.free == 0:
                self.waits += 1
                self._wait_free(budget)
            self.free -= 1
            # Opened below, outside the lock, where there is none yet.
            connection = self._idle.pop() if self._idle else None
        self._own.reads = True
        try:
            if connection is None:
                connection = self._engine.connect()
            begin_snapshot(connection)
            try:
                yield connection
            finally:
                end_snapshot(connection)
        except DatabaseError:
            if connection is not None:
                connection.close()  # whatever state it is in, nobody else gets it
                connection = None
            raise
        finally:
            self._own.reads = False
            with self._changed:
                self.free += 1
                self._changed.notify()
                if connection is not None and not self._is_closed:
                    self._idle.append(connection)
                    connection = None
            if connection is not None:
                connection.close()

    def _wait_free(self, budget: Budget) -> None:
        try:
            is_free = budget.wait_for(self._changed, lambda: self.free > 0, READ_WAIT_S)
        except BaseException:
            self._changed.notify()  # what woke this thread may have been meant for another
            raise
        if not is_free:
            raise StoreUnavailableError("all read connections of the catalog are in use", engine="catalog")

    def close(self) -> None:
        """Close all connections; one that is in use when its reader is done."""
        with self._changed:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        self._engine.dispose()

    def refuse_holder(self) -> None:
        """Raise RuntimeError when this thread reads."""
        if getattr(self._own, "reads", False):
            raise RuntimeError("a thread that reads the catalog must not wait for it again")


def _parse(url: str) -> Path:
    scheme, separator, rest = url.partition(":")
    if scheme != "sqlite" or not separator or not rest.strip("/"):
        raise InvalidRequestError.of("catalog", f"must look like sqlite:FILE, not {scheme}:…")
    return Path(rest.removeprefix("//")).absolute()
