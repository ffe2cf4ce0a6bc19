"""Blocking work beside the event loop, with budgets."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import IO

import pytest

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CallCancelledError, DeadlineError
from groundwire.rpc import request_context
from groundwire.rpc.request_context import RequestContext
from groundwire.rpc.workers import Workers


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers(2)
    yield made
    made.close()


async def test_a_function_runs_in_a_thread_with_the_context_of_its_caller(workers: Workers) -> None:
    request_context.bind(RequestContext(request_id="r1"))

    def where(prefix: str, *, suffix: str) -> tuple[str, bool]:
        request_id = request_context.current().request_id
        return prefix + request_id + suffix, threading.current_thread() is threading.main_thread()

    assert await workers.run(Budget(), where, "<", suffix=">") == ("<r1>", False)


async def test_errors_of_the_function_come_back_and_leave_the_budget(workers: Workers) -> None:
    budget = Budget(5)

    def fail() -> None:
        raise TimeoutError("the function's own")

    with pytest.raises(TimeoutError, match="the function's own"):
        await workers.run(budget, fail)
    budget.check()


async def test_at_most_size_functions_run_at_a_time(workers: Workers) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1

    await asyncio.gather(*(workers.run(Budget(), work) for _ in range(10)))
    assert most == 2


def until_stopped(budget: Budget, begun: threading.Event, stopped: threading.Event) -> None:
    begun.set()
    try:
        while True:
            budget.check()
            time.sleep(0.002)
    finally:
        stopped.set()


async def test_cancelling_the_caller_stops_the_function(workers: Workers) -> None:
    budget, begun, stopped = Budget(), threading.Event(), threading.Event()
    caller = asyncio.create_task(workers.run(budget, until_stopped, budget, begun, stopped))
    assert await asyncio.to_thread(begun.wait, 10)
    caller.cancel()

    with pytest.raises(asyncio.CancelledError):
        await caller
    assert await asyncio.to_thread(stopped.wait, 10)


async def test_the_deadline_ends_the_wait_and_the_function(workers: Workers) -> None:
    budget, begun, stopped = Budget(0.5), threading.Event(), threading.Event()

    with pytest.raises(DeadlineError):
        await workers.run(budget, until_stopped, budget, begun, stopped)
    assert begun.is_set()
    assert await asyncio.to_thread(stopped.wait, 10)


async def test_a_function_that_has_not_begun_never_begins(workers: Workers) -> None:
    release, begun = threading.Event(), threading.Event()
    busy = [asyncio.create_task(workers.run(Budget(), release.wait, 5)) for _ in range(2)]
    await asyncio.sleep(0.01)
    with pytest.raises(DeadlineError):
        await workers.run(Budget(0.02), begun.set)
    release.set()
    await asyncio.gather(*busy)

    assert not begun.is_set()


async def test_a_cancelled_budget_refuses_work(workers: Workers) -> None:
    budget = Budget()
    budget.cancel()

    with pytest.raises(CallCancelledError):
        await workers.run(budget, pytest.fail, "ran")


async def test_what_is_opened_is_closed_when_the_caller_left_meanwhile(workers: Workers) -> None:
    begun, release, closed = threading.Event(), threading.Event(), threading.Event()

    class Opened:
        def close(self) -> None:
            closed.set()

    def make() -> Opened:
        begun.set()
        release.wait(10)
        return Opened()

    async def use() -> None:
        async with workers.opened(Budget(), make):
            raise AssertionError

    caller = asyncio.create_task(use())
    assert await asyncio.to_thread(begun.wait, 10)
    caller.cancel()
    await asyncio.sleep(0)
    assert not closed.is_set()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert closed.is_set()


async def test_a_caller_that_is_cancelled_again_leaves_when_what_it_opened_is_closed(workers: Workers) -> None:
    closing, release, closed = threading.Event(), threading.Event(), threading.Event()

    class Opened:
        def close(self) -> None:
            closing.set()
            assert release.wait(10)
            closed.set()

    async def use() -> None:
        async with workers.opened(Budget(), Opened):
            pass

    caller = asyncio.create_task(use())
    assert await asyncio.to_thread(closing.wait, 10)
    for _ in range(3):
        caller.cancel()
        await asyncio.sleep(0.01)
        assert not caller.done()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert closed.is_set()


async def test_what_cannot_be_opened_says_so(workers: Workers) -> None:
    def fail() -> IO[bytes]:
        raise FileNotFoundError("no such file")

    with pytest.raises(FileNotFoundError, match="no such file"):
        async with workers.opened(Budget(), fail):
            pytest.fail("opened")


async def test_a_stream_gives_reports_in_order_and_the_result_last(workers: Workers) -> None:
    def count(report: Callable[[int], None]) -> str:
        for number in range(100):
            report(number)
        return "done"

    assert [item async for item in workers.stream(Budget(), count)] == [*range(100), "done"]


async def test_a_stream_ends_with_the_error_of_its_function(workers: Workers) -> None:
    def fail(report: Callable[[int], None]) -> None:
        report(1)
        raise ValueError("broken")

    items = workers.stream(Budget(), fail)
    assert await anext(items) == 1
    with pytest.raises(ValueError, match="broken"):
        await anext(items)


async def test_a_slow_consumer_holds_the_function_back(workers: Workers) -> None:
    reported = 0

    def count(report: Callable[[int], None]) -> None:
        nonlocal reported
        for number in range(1000):
            report(number)
            reported = number + 1

    async with aclosing(workers.stream(Budget(), count)) as items:
        assert await anext(items) == 0
        await asyncio.sleep(0.05)
        assert reported <= 18


async def test_passing_reports_are_dropped_for_a_slow_consumer_and_others_are_not(workers: Workers) -> None:
    ended = threading.Event()

    def count(report: Callable[[int], None]) -> str:
        for number in range(1, 1001):
            report(-number)
        ended.set()
        report(1)
        return "done"

    def is_negative(report: object) -> bool:
        return isinstance(report, int) and report < 0

    async with aclosing(workers.stream(Budget(), count, is_passing=is_negative)) as items:
        assert await anext(items) == -1
        assert await asyncio.to_thread(ended.wait, 10), "the thread goes on though nobody takes what it reports"
        rest = [item async for item in items]

    assert rest[-2:] == [1, "done"]
    assert len(rest) < 40


async def test_slow_consumers_of_iterators_hold_no_thread() -> None:
    workers = Workers(1)
    try:
        streams = [workers.iterate(Budget(), lambda: iter(range(3))) for _ in range(8)]
        assert [await anext(stream) for stream in streams] == [0] * 8
        assert await asyncio.wait_for(workers.run(Budget(), lambda: "free"), 10) == "free"
        assert [[item async for item in stream] for stream in streams] == [[1, 2]] * 8
    finally:
        workers.close()


async def test_an_iterator_ends_with_its_error(workers: Workers) -> None:
    def broken() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    items = workers.iterate(Budget(), broken)
    assert await anext(items) == 1
    with pytest.raises(ValueError, match="broken"):
        await anext(items)


@pytest.mark.parametrize("leave", ["close", "cancel", "deadline"])
async def test_a_consumer_that_leaves_stops_the_function(workers: Workers, leave: str) -> None:
    begun, ended = threading.Event(), threading.Event()
    budget = Budget(0.5 if leave == "deadline" else None)

    def endless(report: Callable[[int], None]) -> None:
        begun.set()
        try:
            while True:
                report(1)
        finally:
            ended.set()

    async def consume() -> None:
        async with aclosing(workers.stream(budget, endless)) as items:
            async for _ in items:
                if leave == "close":
                    return
                await asyncio.sleep(0.02)

    consumer = asyncio.create_task(consume())
    assert await asyncio.to_thread(begun.wait, 10)
    if leave == "cancel":
        consumer.cancel()
    (outcome,) = await asyncio.gather(consumer, return_exceptions=True)

    assert type(outcome) is {"close": type(None), "cancel": asyncio.CancelledError, "deadline": DeadlineError}[leave]
    assert await asyncio.to_thread(ended.wait, 10)
