"""The bridge from the event loop to blocking code: a bounded set of threads that obey budgets."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial, wraps
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import DeadlineError
from groundwire.rpc import request_context

Params = ParamSpec("Params")
ResultT = TypeVar("ResultT")
ReportT = TypeVar("ReportT")
ItemT = TypeVar("ItemT")

# A thread runs ahead of a slow reader by so many reports, and then waits.
_QUEUED_REPORTS = 16
# How soon a thread that waits for its reader notices that nobody reads any more.
_POLL_S = 0.05
_END: Any = object()


class Closable(Protocol):
    """Something that has to be released, such as an open file."""

    def close(self) -> None: ...


ClosableT = TypeVar("ClosableT", bound=Closable)


class Workers:
    """Runs blocking functions in `size` threads; further calls wait in order of arrival.

    The functions see the context variables of the caller. A function is not interrupted: it has to
    `check()` its budget between batches, and ends soon after the budget was cancelled or is used up.
    """

    def __init__(self, size: int, name: str = "worker") -> None:
        self._pool = ThreadPoolExecutor(size, thread_name_prefix=name)

    @property
    def waiting(self) -> int:
        """Return how many functions wait for a thread."""
        return self._pool._work_queue.qsize()  # noqa: SLF001 - the pool has no public count

    async def run(
        self, budget: Budget, fn: Callable[Params, ResultT], *args: Params.args, **kwargs: Params.kwargs
    ) -> ResultT:
        """Return `fn(*args, **kwargs)`, run in a thread.

        When the awaiting task is cancelled or the deadline passes, the budget is cancelled and the call
        returns at once; a function that has not begun never begins.

        Raises:
            CallCancelledError: the budget was cancelled before the call.
            DeadlineError: the deadline passed; the outcome of a write is unknown.
        """
        budget.check()
        future = self._pool.submit(contextvars.copy_context().run, partial(fn, *args, **kwargs))
        try:
            return await _before_deadline(asyncio.wrap_future(future), budget)
        except BaseException:
            if not future.done() or future.cancelled():
                budget.cancel()
            raise

    @asynccontextmanager
    async def opened(self, budget: Budget, make: Callable[[], ClosableT]) -> AsyncIterator[ClosableT]:
        """Yield the result of `make()`, created and closed in threads; closed even if the caller leaves meanwhile.

        Raises:
            CallCancelledError: the budget was cancelled before the call.
            DeadlineError: the deadline passed.
        """
        budget.check()
        future = self._pool.submit(contextvars.copy_context().run, make)

        def close() -> None:
            if not future.cancelled() and future.exception() is None:
                future.result().close()

        try:
            yield await _before_deadline(asyncio.wrap_future(future), budget)
        finally:
            # However often the task is cancelled meanwhile: what comes after relies on the work being done.
            running, cancellation = asyncio.ensure_future(self.run(Budget(), close)), None
            while not running.done():
                try:
                    await asyncio.wait([running])
                except asyncio.CancelledError as error:
                    cancellation = error
            if cancellation is not None:
                raise cancellation
            running.result()

    async def iterate(self, budget: Budget, make: Callable[[], Iterator[ItemT]]) -> AsyncGenerator[ItemT, None]:
        """Yield the items of `make()`, each fetched in a thread when the consumer asks for it.

        No thread is held while the consumer is slow, so the iterator must not hold anything between two items either.

        Raises:
            CallCancelledError: the budget was cancelled.
            DeadlineError: the deadline passed.
        """
        items = await self.run(budget, make)
        while (item := await self.run(budget, next, items, _END)) is not _END:
            yield item

    async def stream(
        self,
        budget: Budget,
        fn: Callable[[Callable[[ReportT], None]], ResultT],
        *,
        is_passing: Callable[[ReportT], bool] = lambda _: False,
    ) -> AsyncGenerator[ReportT | ResultT, None]:
        """Yield what `fn(report)` reports, in order, and its result last.

        While 16 reports wait to be taken, `report` drops one that is passing, as how far the work is: the next one
        says more. It blocks the thread for any other. When the consumer leaves early (use `contextlib.aclosing`) or
        the deadline passes, the budget is cancelled and `report` raises.

        Raises:
            CallCancelledError: the budget was cancelled.
            DeadlineError: the deadline passed; the outcome of a write is unknown.
        """
        budget.check()
        pipe: _Pipe[ReportT] = _Pipe(budget, is_passing)
        future = self._pool.submit(contextvars.copy_context().run, fn, pipe.report)
        future.add_done_callback(pipe.end)
        try:
            while (report := await _before_deadline(pipe.next(), budget)) is not None:
                yield report[0]
            yield future.result()
        except BaseException:
            if not future.done():
                future.cancel()
                budget.cancel()
            raise

    def close(self) -> None:
        """Wait for running functions and end the threads; functions that have not begun never begin."""
        self._pool.shutdown(cancel_futures=True)


class _Servicer(Protocol):
    @property
    def workers(self) -> Workers: ...


ServicerT = TypeVar("ServicerT", bound=_Servicer)
RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


def in_worker(
    call: Callable[[ServicerT, RequestT], ResponseT],
) -> Callable[[ServicerT, RequestT, Any], Coroutine[Any, Any, ResponseT]]:
    """Run a call of a servicer in a thread of its workers, within the budget of the call."""

    @wraps(call)
    async def run(self: ServicerT, request: RequestT, _context: Any) -> ResponseT:
        return await self.workers.run(request_context.current().budget, call, self, request)

    return run


class _Pipe(Generic[ReportT]):
    """Carries reports from one thread to the event loop that made it, at most 16 at a time."""

    def __init__(self, budget: Budget, is_passing: Callable[[ReportT], bool]) -> None:
        self._budget = budget
        self._is_passing = is_passing
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[tuple[ReportT] | None] = asyncio.Queue()
        self._free = threading.Semaphore(_QUEUED_REPORTS)

    def report(self, value: ReportT) -> None:
        """Send a value; called in the thread."""
        self._budget.check()
        if not self._free.acquire(blocking=False):
            if self._is_passing(value):
                return
            while not self._free.acquire(timeout=_POLL_S):
                self._budget.check()
        self._loop.call_soon_threadsafe(self._queue.put_nowait, (value,))

    def end(self, _future: Future[Any]) -> None:
        """Send the end mark; the last thing the thread does."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
            self._loop.call_soon_threadsafe(self._queue.put_nowait, None)

    async def next(self) -> tuple[ReportT] | None:
        """Return the next value in a tuple, or None at the end."""
        item = await self._queue.get()
        self._free.release()
        return item


async def _before_deadline(work: Awaitable[ResultT], budget: Budget) -> ResultT:
    try:
        async with asyncio.timeout(budget.remaining_s()) as limit:
            return await work
    except TimeoutError as error:
        if not limit.expired():
            raise  # the work's own
        raise DeadlineError("the deadline of the call has passed") from error
