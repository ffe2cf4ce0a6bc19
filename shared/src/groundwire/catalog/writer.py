"""The one thread that writes."""

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from sqlalchemy import Connection

from groundwire.catalog.postgresql import CatalogServer
from groundwire.catalog.sqlite import CatalogFile
from groundwire.kernel.budget import Budget, current_budget
from groundwire.kernel.errors import CallCancelledError, DeadlineError, DrainingError

T = TypeVar("T")

GROUP_UNITS: Final = 32
GROUP_S: Final = 0.02
"""Waiting units join a transaction, and so share its flush to disk, as long as it is younger than this."""

_TIDYING_S = 1.0


@dataclass(eq=False, slots=True)
class _Unit:
    """Work that was handed in; `outcome` is its result or exception, withheld until the transaction has ended."""

    work: Callable[[Connection], Any]
    alone: bool
    future: Future[Any] = field(default_factory=Future)
    outcome: Any = None
    failed: bool = False

    def resolve(self) -> None:
        if self.failed:
            self.future.set_exception(self.outcome)
        else:
            self.future.set_result(self.outcome)


class Writer:
    """Runs units of work one after the other; those that wait at the same time in one transaction.

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
        with storage.writing.begin() as connection:
            self.position = read_position(connection)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="catalog-writer")
        self._inside = threading.local()
        self._waiting: deque[_Unit] = deque()
        self._taking = threading.Lock()
        self._clock: int | None = None
        """That of the processor time of the thread, while it is inside a transaction."""

    def run(self, work: Callable[[Connection], T], *, alone: bool = False) -> T:
        """Run `work` in a transaction; when it returns the changes survive SIGKILL and power loss.

        An exception of `work` rolls back all that it did and leaves unchanged. It sees what other units did before it,
        as always, and nothing of those that come after it.

        Args:
            work: gets the connection; whatever others did before may not be committed yet, so that other connections
                do not see it.
            alone: give it a transaction of its own, because it needs other connections to see all that it sees, or
                because it may be interrupted, which ends the transaction for all.

        Raises:
            DrainingError: the database is closed.
            DeadlineError, CallCancelledError: the budget of the current call ended before the work could begin; it
                never will.
        """
        if getattr(self._inside, "active", False):
            raise RuntimeError("a unit of work must not start another one")
        # In the context of the caller, so that the audit log knows the caller.
        context = copy_context()
        unit = _Unit(lambda connection: context.run(work, connection), alone)
        self._waiting.append(unit)
        try:
            # One task for each unit; tasks whose unit joined an earlier group find nothing to do.
            self._thread.submit(self._commit_waiting)
        except RuntimeError as error:
            if self._withdrawn(unit):
                raise DrainingError("the catalog is closed") from error
        # Once begun it ends by itself, at the latest when the database gives up waiting for another process.
        try:
            return cast("T", current_budget().result_of(unit.future))
        except (DeadlineError, CallCancelledError):
            # Cleanup after the deadline of a call gets some time to begin, too.
            with suppress(TimeoutError):
                return cast("T", unit.future.result(_TIDYING_S))
            if self._withdrawn(unit):
                raise
            return cast("T", unit.future.result())

    @property
    def waiting(self) -> int:
        """Return how many units wait for the thread."""
        return len(self._waiting)

    def busy_s(self) -> float | None:
        """Return how long the thread has used the processor, None unless it is inside a transaction."""
        clock = self._clock
        return None if clock is None else time.clock_gettime(clock)

    def scrub(self, budget: Budget) -> bool:
        """Remove all traces of deleted content, between two transactions; False while readers need them.

        Raises:
            DrainingError: the database is closed.
            DeadlineError, CallCancelledError: the budget ended before it was done.
        """
        try:
            scrubbing = self._thread.submit(self._storage.scrub)
        except RuntimeError as error:
            raise DrainingError("the catalog is closed") from error
        return budget.result_of(scrubbing)

    def close(self) -> None:
        """Finish the work that was handed in, then stop; idempotent."""
        self._thread.shutdown(wait=True)

    def _withdrawn(self, unit: _Unit) -> bool:
        """Take a unit back; False when the thread, that was just ending, has it already."""
        with self._taking:
            if unit not in self._waiting:
                return False
            self._waiting.remove(unit)
            return True

    def _next(self, *, joins: bool) -> _Unit | None:
        """Take the unit that waits longest; None when there is none, or when it does not join a group."""
        with self._taking:
            if not self._waiting or (joins and self._waiting[0].alone):
                return None
            return self._waiting.popleft()

    def _commit_waiting(self) -> None:
        first = self._next(joins=False)
        if first is None:
            return  # it went with a group before
        group = [first]
        self._inside.active = True
        try:
            with self._storage.translated_failures(), self._storage.writing.begin() as connection:
                self._clock = time.pthread_getcpuclockid(threading.get_ident())
                self._at_begin(connection)
                self._run_group(connection, group)
                position = self._read_position(connection)
            self.position = position
        except BaseException as error:  # noqa: BLE001 - whatever it is belongs to the callers
            for unit in group:
                unit.outcome, unit.failed = (unit.outcome if unit.failed else error), True
        finally:
            self._clock = None
            self._inside.active = False
        # No caller returns before the transaction is durable.
        for unit in group:
            unit.resolve()

    def _run_group(self, connection: Connection, group: list[_Unit]) -> None:
        """Run the one unit of the group and, if others wait, those as well; they are added to the group."""
        if group[0].alone or not self._waiting:
            group[0].outcome = group[0].work(connection)  # alone: an exception ends the transaction
            return
        ends_at = time.monotonic() + GROUP_S
        self._attempt(connection, group[0])
        while len(group) < GROUP_UNITS and time.monotonic() < ends_at and (unit := self._next(joins=True)) is not None:
            group.append(unit)
            self._attempt(connection, unit)

    def _attempt(self, connection: Connection, unit: _Unit) -> None:
        """Run a unit inside a transaction that it shares; what it did is undone when it fails.

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
