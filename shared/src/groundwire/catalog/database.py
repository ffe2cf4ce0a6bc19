"""The open catalog: snapshots to read, one transaction at a time that writes, and the clocks that go with them."""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeAlias, TypeVar, cast

from sqlalchemy import Connection, Executable, Result, bindparam, select, update
from sqlalchemy.exc import DBAPIError

from groundwire.catalog.dialects import driver_rows, execute, replacing
from groundwire.catalog.migrations import migrate
from groundwire.catalog.postgresql import CatalogServer, ServerProbe
from groundwire.catalog.schema import collections, counters
from groundwire.catalog.sqlite import CatalogFile, FileProbe
from groundwire.kernel.budget import Budget, current_budget
from groundwire.kernel.catalog_urls import file_of, is_on_server
from groundwire.kernel.clock import Clock, SystemClock, epoch_ms
from groundwire.kernel.errors import (
    CallCancelledError,
    DataLossError,
    DeadlineError,
    DrainingError,
    StoreUnavailableError,
)

# What is not stored before a crash counts as downtime; storing it more often would add to every write.
_STORE_EVERY_MS = 1000
_STEADY, _DOWN, _WALL = "steady_ms", "downtime_ms", "wall_ms"
_COUNTERS = select(counters.c.name, counters.c.value)


class SteadyTime:
    """A clock that starts at the time of day of a new catalog and runs while a process has the catalog open.

    Changes of the system clock neither age nor preserve anything. A closed catalog does not age
    either, so that what is remembered for a day is remembered for a day of service. Where time without a server counts
    too, `with_downtime_ms` has it as far as the clock of the machine knows it.
    """

    def __init__(self, connection: Connection, clock: Clock) -> None:
        self._clock = clock
        self.resume(connection)

    def resume(self, connection: Connection) -> None:
        """Continue where the last process stopped; what it did not store counts as downtime."""
        stored = _counters(connection)
        wall = epoch_ms(self._clock.now())
        self._stored_ms = 0
        self._begun_s = self._clock.elapsed_s()
        self._base_ms = stored.get(_STEADY, wall)
        # At least 0: the clock may have been set back meanwhile.
        self._downtime_ms = stored.get(_DOWN, 0) + max(0, wall - stored.get(_WALL, wall))

    def now_ms(self) -> int:
        """Return the milliseconds of service time, starting from the time of day at which the catalog was created."""
        return self._base_ms + int((self._clock.elapsed_s() - self._begun_s) * 1000)

    def with_downtime_ms(self) -> int:
        """Return the milliseconds of service time plus downtime."""
        return self.now_ms() + self._downtime_ms

    def store(self, connection: Connection, *, at_once: bool = False) -> None:
        """Store the service time, at most once a second unless `at_once`, in a transaction that is made anyway."""
        if not at_once and self.now_ms() - self._stored_ms < _STORE_EVERY_MS:
            return
        stored = _counters(connection)
        # Other processes may have been running for longer, or have started while this one wrote nothing.
        if (ahead_ms := stored.get(_STEADY, 0) - self.now_ms()) > 0:
            self._base_ms, self._downtime_ms = self._base_ms + ahead_ms, stored.get(_DOWN, 0)
        self._stored_ms = self.now_ms()
        # Stored with the time of day, so that the next process does not take a changed clock for downtime.
        values = {_STEADY: self.now_ms(), _DOWN: self._downtime_ms, _WALL: epoch_ms(self._clock.now())}
        storing = replacing(connection, counters, ("name",), ("value",))
        for name, value in values.items():
            execute(connection, storing, {"name": name, "value": value})


def _counters(connection: Connection) -> dict[str, int]:
    return {str(name): int(value) for name, value in execute(connection, _COUNTERS, {})}


NOW_MS = select(counters.c.value).where(counters.c.name == _STEADY).scalar_subquery()
"""The milliseconds of service inside a transaction of the writer, a second late at most."""


def advance_position(connection: Connection, collection_key: int, *, keeps_history: bool = False) -> int:
    """Count one more change, of a collection, in the transaction that makes it, and return its position.

    With `keeps_history`, what readers saw before can still be read as of an earlier position: nothing was deleted or
    overwritten for good.
    """
    position = int(execute(connection, _ADVANCE, {}).scalar_one())
    execute(connection, _CHANGE[keeps_history], {"at_position": position, "key": collection_key})
    return position


def owner_of(connection: Connection) -> int:
    """Return the number of the process that a write transaction belongs to, 0 where there is only one."""
    return int(connection.info.get("owner", 0))


T = TypeVar("T")
Storage: TypeAlias = CatalogFile | CatalogServer
Probe: TypeAlias = FileProbe | ServerProbe


@dataclass(frozen=True, slots=True)
class CatalogUsage:
    """Read connections in use, their limit, how many reads have waited for one, and how many writes wait now."""

    connections: int
    max_connections: int
    connection_waits: int
    waiting_writes: int


@dataclass(frozen=True, slots=True)
class Limits:
    """Connections to read with, and seconds.

    Reads and writes take milliseconds: who waits for `wait_s`, for a free connection or on a server for another process
    that writes, has met a fault, however much time the call has left. A statement on a server may take `statement_s`.
    """

    connections: int = 16
    wait_s: float = 10.0
    statement_s: float = 60.0


POSITION = "position"
POSITION_NOW = select(counters.c.value).where(counters.c.name == POSITION).scalar_subquery()
_POSITION = "SELECT value FROM counters WHERE name = ?"
_ADVANCE = (
    update(counters).where(counters.c.name == POSITION).values(value=counters.c.value + 1).returning(counters.c.value)
)
_CHANGED = (
    update(collections)
    .where(collections.c.collection_key == bindparam("key"))
    .values(changed_position=bindparam("at_position"))
)
# By whether history is kept; made once, since every write runs one.
_CHANGE = {True: _CHANGED, False: _CHANGED.values(readable_from=bindparam("at_position"))}
_TRY_AGAIN_S = 0.02
_SCRUB_S = 2.0
_SCRUB_PAUSE_S = 0.05


class Database:
    """An open catalog; safe to use from many threads.

    One writer, many readers: a read sees the state after some acknowledged write and never waits for the
    writer. A file is owned by one process; any number share a server, one of which writes at a time.

    Attributes:
        path: the file; of a server the folder that was given.
        folder: where this process keeps what belongs to its catalog.
        is_shared: other processes may write the catalog, too.
        clock: gives the time of day of what is written.
    """

    def __init__(self, storage: Storage, path: Path, clock: Clock, limits: Limits) -> None:
        self.path = path
        self.folder = path if storage.is_shared else path.resolve().parent
        self.is_shared = storage.is_shared
        self.clock = clock
        self._storage = storage
        self._readers = _Readers(storage, limits)
        with storage.reading.connect() as connection:
            self.steady = SteadyTime(connection, clock)
        # The service time is written with other changes, so that it costs no flush of its own.
        read_position = (lambda _: 0) if storage.is_shared else self.position  # others write a shared one, too
        self._writer = Writer(storage, read_position, self.steady.store)
        self._closing = threading.Lock()
        self._closed = False

    @classmethod
    def open(
        cls,
        url: str,
        clock: Clock | None = None,
        *,
        folder: Path | None = None,
        password: str | None = None,
        limits: Limits | None = None,
    ) -> "Database":
        """Open a catalog, created when it is empty or missing, and migrate it.

        Args:
            url: `sqlite:FILE` (made with its folder, readable by the owner only), or
                `postgresql://USER@HOST:PORT/DATABASE`, whose database exists.
            clock: gives the time of day of what is written, and measures the ages of rows.
            folder: of the process, with a catalog on a server; the current one by default.
            password: of the user of a server; without one the driver looks in PGPASSWORD and the user's .pgpass.
            limits: of connections and of time.

        Raises:
            InvalidRequestError: the URL is of another form.
            StoreOwnedError: another process has the file open.
            StoreMismatchError: it was made by another version or is no catalog; it is left unchanged.
            MissingExtraError: the driver of the server is not installed.
            StoreUnavailableError: the server cannot be reached.
            DataLossError: the file is damaged.
        """
        limits = limits or Limits()
        storage: Storage
        if is_on_server(url):
            path = (folder or Path()).absolute()
            storage = CatalogServer(url, password, wait_s=limits.wait_s, statement_s=limits.statement_s)
        else:
            path = file_of(url)
            storage = CatalogFile(path)
        try:
            with storage.translated_failures():
                migrate(storage)
                storage.join()
                return cls(storage, path, clock or SystemClock(), limits)
        except BaseException as error:
            storage.close()
            if isinstance(error, DataLossError) and not storage.is_shared:
                # Whoever opens it is at the machine, and may have named a wrong file.
                raise DataLossError(f"{path} is damaged, or no catalog: restore a backup", **error.metadata) from error
            raise

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Give a connection that sees one snapshot; for a few statements, never across a wait for anything else.

        A thread has one at a time, so that threads cannot wait for one another's. Waiting for it ends with the budget
        of the current call.

        Raises:
            StoreUnavailableError: none became free in time, or the catalog cannot be read.
            RuntimeError: this thread has one already, which is a defect of its code.
        """
        begin = self._storage.begin_snapshot
        with self._storage.translated_failures(), self._readers.one(current_budget(), begin) as (connection, _):
            try:
                yield connection
            finally:
                self._storage.end_snapshot(connection)

    def rows(self, statement: Executable, given: Mapping[str, Any] | None = None) -> list[Any]:
        """Return what one statement, for `execute`, finds; like `read`, without the round trips of a transaction.

        Raises:
            StoreUnavailableError, RuntimeError: as `read` does.
        """
        run = partial(execute, statement=statement, given=given or {})
        with self._storage.translated_failures(), self._readers.one(current_budget(), run) as (_, found):
            return list(found)

    def query(self, statement: Executable, given: Mapping[str, Any] | None = None) -> Result[*tuple[Any, ...]]:
        """Return all that one statement finds which is built for this call; `rows` is for those that are made once.

        Raises:
            StoreUnavailableError, RuntimeError: as `read` does.
        """
        with self.read() as connection:
            return connection.execute(statement, given).freeze()()

    def change(self, statement: Executable) -> int:
        """Run one statement in a transaction of the writer, as `write` does; return how many rows it changed."""
        return self.write(lambda connection: connection.execute(statement).rowcount)

    def write(self, work: Callable[[Connection], T], *, alone: bool = False, syncs: bool = True) -> T:
        """Run `work` in one transaction of the writer and return what it returns, once it is durable.

        An exception of `work` rolls back and leaves unchanged. The transaction may hold other work as well, unless it
        is to be `alone`: that is for work which reads through `read` too, or may be interrupted. Work that could not
        begin when the budget of the current call has ended is taken back. Without `syncs` a power cut may undo it until
        the next write that syncs; before that nothing may be acknowledged, nor the position advanced.

        Raises:
            DeadlineError, CallCancelledError: the work was taken back; nothing was written.
            RuntimeError: this thread has a reading connection, which is a defect of its code.
        """
        # A thread must not wait for the writer while it holds a connection that others wait for.
        self._readers.refuse_holder()
        return self._writer.run(work, alone=alone, syncs=syncs)

    def take_chunk_numbers(self, count: int) -> range:
        """Return unused chunk numbers, so that rows can be prepared before the transaction."""
        with self._storage.translated_failures():
            return self._storage.take_chunk_numbers(count)

    def other_owners(self, connection: Connection) -> frozenset[int]:
        """Return the numbers of the other processes that have the catalog open now.

        Call it after reading what they own: an owner that is not among these is dead.
        """
        return self._storage.other_owners(connection)

    @contextmanager
    def exclusive(self, name: str, budget: Budget) -> Iterator[None]:
        """Admit one process at a time; threads of one process do not exclude one another."""
        # Polled: a wait inside the server would occupy the one session that shows this process as alive.
        while not self._storage.try_exclusive(name):
            budget.check()
            time.sleep(_TRY_AGAIN_S)
        try:
            yield
        finally:
            self._storage.end_exclusive(name)

    def scrub(self, budget: Budget) -> bool:
        """Empty the write-ahead log, which holds what was deleted until it is written over; return whether it is empty.

        Deleted rows are overwritten in the file itself when the log is folded into it. That waits for readers of
        earlier states, for `budget` and no longer than two seconds.
        """
        ends_at = time.monotonic() + _SCRUB_S
        while True:
            if self._writer.scrub(budget):
                return True
            budget.check()
            if time.monotonic() > ends_at:
                return False
            time.sleep(_SCRUB_PAUSE_S)

    def probe(self) -> Probe:
        """Return a probe of the catalog with a connection of its own; close it."""
        return self._storage.probe(self.writer_busy_s)

    def writer_busy_s(self) -> float | None:
        """Return how long the writer has used the processor, None unless it is inside a transaction; never waits."""
        return self._writer.busy_s()

    def usage(self) -> "CatalogUsage":
        """Return how many connections are in use and how many calls wait now; never waits itself."""
        readers = self._readers
        at_most = readers.limits.connections
        return CatalogUsage(at_most - readers.free, at_most, readers.waits, self._writer.waiting)

    @property
    def latest_position(self) -> int:
        """Return the position of the last transaction that any process committed.

        A file is not asked. A thread that reads gets the position of its snapshot.
        """
        if not self.is_shared:
            return self._writer.position
        if (connection := self._readers.of_thread.connection) is not None:
            return self.position(connection)
        with self.read() as connection:
            return self.position(connection)

    @staticmethod
    def position(connection: Connection) -> int:
        """Return how many publishing and deleting transactions the snapshot has seen."""
        ((position,),) = driver_rows(connection, _POSITION, (POSITION,))
        return int(position)

    def close(self) -> None:
        """Finish submitted writes, fold the log into the file and release the lock; idempotent."""
        with self._closing:
            if self._closed:
                return
            self._closed = True
            # Otherwise the time since it was last stored would count as downtime.
            with suppress(StoreUnavailableError):  # the rows age a little later
                self._writer.run(lambda connection: self.steady.store(connection, at_once=True))
            self._writer.close()
            self._readers.close()
            self._storage.close()


class _OnDatabase(Protocol):
    _database: Database


OwnerT = TypeVar("OwnerT", bound=_OnDatabase)
Params = ParamSpec("Params")


def in_transaction(
    method: Callable[Concatenate[OwnerT, Connection, Params], T],
) -> Callable[Concatenate[OwnerT, Params], T]:
    """Run a method as `Database.write` runs work: in one transaction of the writer, whose connection it gets.

    Callers leave the connection out.
    """

    @wraps(method)
    def run(self: OwnerT, /, *args: Params.args, **kwargs: Params.kwargs) -> T:
        return self._database.write(lambda connection: method(self, connection, *args, **kwargs))

    return run


class _OfThread(threading.local):
    """The connection that a thread reads with, if any."""

    connection: Connection | None = None


class _Readers:
    """Pool of reading connections, one to each thread.

    They stay open, and transactions on them go past SQLAlchemy: what SQLAlchemy does around each one, to
    take it out of the pool, to begin and to put it back, costs several times as much as the statements of a search.
    """

    def __init__(self, storage: Storage, limits: Limits) -> None:
        self._storage = storage
        self.limits = limits
        self.free = limits.connections
        self.waits = 0
        self._idle: list[Connection] = []
        self._is_closed = False
        self._changed = threading.Condition()
        self.of_thread = _OfThread()

    @contextmanager
    def one(self, budget: Budget, begin: Callable[[Connection], T]) -> Iterator[tuple[Connection, T]]:
        """Give a connection and what `begin` returns of it, which is called again where an idle connection is broken.

        It begins a transaction that sees one snapshot, or executes the only statement, which sees one by itself.
        """
        self.refuse_holder()
        with self._changed:
            if self._is_closed:
                raise DrainingError("the catalog is closed")
            if self.free == 0:
                self.waits += 1
                try:
                    is_free = budget.wait_for(self._changed, lambda: self.free > 0, self.limits.wait_s)
                except BaseException:
                    self._changed.notify()  # pass on the wake-up, which may have been meant for another thread
                    raise
                if not is_free:
                    raise StoreUnavailableError("all read connections of the catalog are in use", engine="catalog")
            self.free -= 1
            # A missing connection is opened below, outside the lock.
            connection = self._idle.pop() if self._idle else None
        try:
            connection, begun = self._begun(connection, begin)
            self.of_thread.connection = connection
            yield connection, begun
        except DBAPIError:
            if connection is not None:
                connection.close()  # in an unknown state, so no other thread gets it
                connection = None
            raise
        finally:
            self.of_thread.connection = None
            with self._changed:
                self.free += 1
                self._changed.notify()
                if connection is not None and not self._is_closed:
                    self._idle.append(connection)
                    connection = None
            if connection is not None:
                connection.close()

    def _begun(self, connection: Connection | None, begin: Callable[[Connection], T]) -> tuple[Connection, T]:
        """Begin on an idle connection, or on a new one where there is none that works."""
        if connection is not None:
            try:
                return connection, begin(connection)
            except DBAPIError:
                # The server was restarted, so that all other open connections are dead as well.
                with self._changed:
                    broken, self._idle = [connection, *self._idle], []
                for each in broken:
                    each.close()
        connection = self._storage.reading.connect()
        try:
            return connection, begin(connection)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Close all connections; those in use are closed when their readers are done."""
        with self._changed:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def refuse_holder(self) -> None:
        if self.of_thread.connection is not None:
            raise RuntimeError("a thread that reads the catalog must not wait for it again")


GROUP_UNITS: Final = 32
GROUP_S: Final = 0.02
"""Waiting units join a transaction, and so share its flush to disk, as long as it is younger than this."""

_TIDYING_S = 1.0


@dataclass(eq=False, slots=True)
class _Unit:
    """Submitted work; `outcome` is its result or exception, withheld until the transaction has ended."""

    work: Callable[[Connection], Any]
    alone: bool
    syncs: bool
    outcome: Any = None
    failed: bool = False
    is_done: bool = False


class Writer:
    """Runs units of work one after the other; units that wait at the same time share a transaction.

    There is no thread for it: the one whose unit has waited longest makes the transaction, and takes the others along.
    Handing a unit to another thread and its result back takes longer than most units do.

    Attributes:
        position: what `read_position` returned at the end of the last transaction that was committed.
    """

    def __init__(
        self,
        storage: CatalogFile | CatalogServer,
        read_position: Callable[[Connection], int],
        at_begin: Callable[[Connection], None] = lambda _: None,
    ) -> None:
        self._storage = storage
        self._read_position = read_position
        self._at_begin = at_begin
        with storage.transaction() as connection:
            self.position = read_position(connection)
        self._waiting: deque[_Unit] = deque()
        self._changed = threading.Condition()
        # The thread that writes now, if any.
        self._thread: int | None = None
        self._is_closed = False
        # The CPU clock of the thread, while it is inside a transaction.
        self._clock: int | None = None

    def run(self, work: Callable[[Connection], T], *, alone: bool = False, syncs: bool = True) -> T:
        """Run `work` in a transaction; when it returns the changes survive SIGKILL and power loss.

        An exception of `work` rolls back all that it did and leaves unchanged. It sees what other units did before it,
        as always, and nothing of those that come after it.

        Args:
            work: gets the connection; whatever others did before may not be committed yet, so that other connections
                do not see it.
            alone: give it a transaction of its own, because it needs other connections to see all that it sees, or
                because it may be interrupted, which ends the transaction for all.
            syncs: false when the changes need to survive power loss only together with later ones that sync.

        Raises:
            DrainingError: the database is closed.
            DeadlineError, CallCancelledError: the budget of the current call ended before the work could begin; it
                never will.
        """
        if self._thread == threading.get_ident():
            raise RuntimeError("a unit of work must not start another one")  # it would wait for its own end
        # In the context of the caller, whichever thread runs it, so that the audit log knows the caller.
        context = copy_context()
        unit = _Unit(lambda connection: context.run(work, connection), alone, syncs)
        if self._takes_over(unit):
            self._commit(unit)
        if unit.failed:
            raise unit.outcome
        return cast("T", unit.outcome)

    def _takes_over(self, unit: _Unit) -> bool:
        """Wait until a unit is done, or until it is the turn of this thread to write: true, and the unit is taken."""

        def is_ready() -> bool:
            return unit.is_done or (self._thread is None and self._waiting[0] is unit)

        with self._changed:
            if self._is_closed:
                raise DrainingError("the catalog is closed")
            self._waiting.append(unit)
            try:
                current_budget().wait_for(self._changed, is_ready)
            except (DeadlineError, CallCancelledError):
                # Cleanup after the deadline of a call also gets some time to begin.
                self._changed.wait_for(is_ready, _TIDYING_S)
                if unit in self._waiting and not is_ready():
                    self._waiting.remove(unit)
                    raise
                # Once begun it always ends, at the latest when the database gives up waiting for another process.
                self._changed.wait_for(is_ready)
            except BaseException:
                # Nobody would run it, and all that come behind it would wait for it.
                with suppress(ValueError):
                    self._waiting.remove(unit)
                self._changed.notify_all()
                raise
            if unit.is_done:
                return False
            self._waiting.popleft()
            self._thread = threading.get_ident()
            return True

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def busy_s(self) -> float | None:
        """Return how long the thread that writes has used the processor, None unless it is inside a transaction."""
        clock = self._clock
        try:
            return None if clock is None else time.clock_gettime(clock)
        except OSError:  # the thread has ended since
            return None

    def scrub(self, budget: Budget) -> bool:
        """Remove all traces of deleted content, between two transactions; False while readers need them.

        Raises:
            DrainingError: the database is closed.
            DeadlineError, CallCancelledError: the budget ended before it could begin.
        """
        with self._changed:
            if self._is_closed:
                raise DrainingError("the catalog is closed")
            budget.wait_for(self._changed, lambda: self._thread is None)
            self._thread = threading.get_ident()
        try:
            return self._storage.scrub()
        finally:
            self._end_turn()

    def close(self) -> None:
        """Finish the submitted work, then stop; idempotent."""
        with self._changed:
            self._is_closed = True
            self._changed.wait_for(lambda: self._thread is None and not self._waiting)

    def _end_turn(self, done: Sequence[_Unit] = ()) -> None:
        with self._changed:
            self._thread = None
            for unit in done:
                unit.is_done = True
            self._changed.notify_all()

    def _commit(self, first: _Unit) -> None:
        group, is_shared = [first], bool(self._waiting) and not first.alone
        # What joins may have to survive a power cut, and one sync serves all.
        syncs = first.syncs or is_shared
        try:
            with self._storage.translated_failures(), self._storage.transaction(syncs=syncs) as connection:
                self._clock = time.pthread_getcpuclockid(threading.get_ident())
                self._at_begin(connection)
                if not is_shared:
                    # Without a savepoint: there is nobody whose changes its failure would undo.
                    first.outcome = first.work(connection)  # an exception ends the transaction
                else:
                    # What waits joins the transaction, because syncing the disk takes longer than most of the work.
                    ends_at = time.monotonic() + GROUP_S
                    self._attempt(connection, first)
                    while len(group) < GROUP_UNITS and time.monotonic() < ends_at:
                        with self._changed:
                            if not self._waiting or self._waiting[0].alone:
                                break
                            group.append(self._waiting.popleft())
                        self._attempt(connection, group[-1])
                # Work that needs no sync makes nothing visible, so the position stays.
                position = self._read_position(connection) if syncs else self.position
            self.position = position
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the callers
            for unit in group:
                unit.outcome, unit.failed = (unit.outcome if unit.failed else error), True
        finally:
            self._clock = None
            # No caller returns before the transaction is durable.
            self._end_turn(group)

    def _attempt(self, connection: Connection, unit: _Unit) -> None:
        """Run a unit inside a shared transaction; when it fails, only its own changes are undone.

        Raises:
            Exception: that of the unit, when the failure was so bad that the database gave up the whole transaction.
        """
        # A savepoint for each, so that the failure of one does not undo those it shares the transaction with.
        savepoint = connection.begin_nested()
        try:
            with self._storage.translated_failures():
                unit.outcome = unit.work(connection)
        except BaseException as error:
            unit.outcome, unit.failed = error, True
            try:
                savepoint.rollback()
            except Exception:  # noqa: BLE001 - the reason is the error of the unit
                raise error from None
            # The whole transaction was rolled back silently with its connection, so the group cannot go on.
            if connection.invalidated:
                raise
        else:
            savepoint.commit()
