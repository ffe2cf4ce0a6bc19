"""The catalog file: opening, snapshots to read and transactions to write."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pysqlite3
from sqlalchemy import Connection, Engine, select

from groundwire.catalog.bookkeeping_tables import counters
from groundwire.catalog.chunk_numbers import ChunkNumbers
from groundwire.catalog.connections import check_sqlite_version, reading_engine, writing_engine
from groundwire.catalog.failures import translated_failures
from groundwire.catalog.migrating import migrate
from groundwire.catalog.owner_lock import OwnerLock
from groundwire.catalog.steady_time import SteadyTime
from groundwire.catalog.writer import Writer
from groundwire.kernel.budget import Budget, current_budget
from groundwire.kernel.clock import Clock, SystemClock
from groundwire.kernel.errors import DrainingError, InvalidRequestError, StoreUnavailableError

T = TypeVar("T")

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
        self._reading = reading
        self._readers = _Readers(READ_CONNECTIONS)
        with reading.connect() as connection:
            self.steady = SteadyTime(connection, clock)
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
        check_sqlite_version(pysqlite3.sqlite_version_info)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = OwnerLock(path)
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
            with translated_failures():
                migrate(path)
                return cls(
                    path, lock, writing_engine(path), reading_engine(path, READ_CONNECTIONS), clock or SystemClock()
                )
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
        reader = self._readers.one(current_budget())
        with reader, translated_failures(), self._reading.connect() as connection, connection.begin():
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
            with suppress(StoreUnavailableError):  # the rows age a little later
                self._writer.run(lambda connection: self.steady.store(connection, at_once=True))
            self._writer.close()
            self._reading.dispose()
            # The last connection to close folds the write-ahead log into the file.
            self._writing.dispose()
            self._lock.release()


class _Readers:
    """Hands out the right to read, to so many threads at a time and to each thread once."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._changed = threading.Condition()
        self._own = threading.local()

    @contextmanager
    def one(self, budget: Budget) -> Iterator[None]:
        self.refuse_holder()
        with self._changed:
            try:
                is_free = budget.wait_for(self._changed, lambda: self._free > 0, READ_WAIT_S)
            except BaseException:
                self._changed.notify()  # what woke this thread may have been meant for another
                raise
            if not is_free:
                raise StoreUnavailableError("all read connections of the catalog are in use", engine="catalog")
            self._free -= 1
        self._own.reads = True
        try:
            yield
        finally:
            self._own.reads = False
            with self._changed:
                self._free += 1
                self._changed.notify()

    def refuse_holder(self) -> None:
        """Raise RuntimeError when this thread reads."""
        if getattr(self._own, "reads", False):
            raise RuntimeError("a thread that reads the catalog must not wait for it again")


def _parse(url: str) -> Path:
    scheme, separator, rest = url.partition(":")
    if scheme != "sqlite" or not separator or not rest.strip("/"):
        raise InvalidRequestError.of("catalog", f"must look like sqlite:FILE, not {scheme}:…")
    return Path(rest.removeprefix("//")).absolute()
