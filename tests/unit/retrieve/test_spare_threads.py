"""Work beside its caller, while a thread is free, and as part of the same call."""

import contextvars
import threading
import time
from collections.abc import Iterator

import pytest

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import DeadlineError
from groundwire.retrieve.candidates import SpareThreads
from groundwire.rpc import request_context
from groundwire.rpc.request_context import RequestContext


@pytest.fixture
def spare() -> Iterator[SpareThreads]:
    made = SpareThreads(1)
    yield made
    made.close()


def test_work_runs_in_another_thread_with_the_context_of_its_caller(spare: SpareThreads) -> None:
    call = contextvars.copy_context()
    call.run(request_context.bind, RequestContext(request_id="r1"))
    began = threading.Event()

    def work() -> str:
        began.set()
        return request_context.current().request_id

    wait = call.run(spare.start, work, Budget())
    assert began.wait(30), "it runs before it is waited for"
    assert wait() == "r1"


def test_a_thread_is_free_again_after_its_work(spare: SpareThreads) -> None:
    ends_at = time.monotonic() + 30
    for _ in range(2):
        while spare.start(threading.get_ident, Budget())() == threading.get_ident():
            assert time.monotonic() < ends_at


def test_without_a_free_thread_the_caller_does_the_work_itself(spare: SpareThreads) -> None:
    ends = threading.Event()
    first = spare.start(lambda: ends.wait(30), Budget())
    assert spare.start(threading.get_ident, Budget())() == threading.get_ident()
    ends.set()
    assert first()


def test_work_is_waited_for_while_the_budget_lasts_and_until_it_ends_on_closing(spare: SpareThreads) -> None:
    ends, has_ended = threading.Event(), threading.Event()

    def work() -> None:
        ends.wait(30)
        has_ended.set()

    wait = spare.start(work, Budget(0.01))
    with pytest.raises(DeadlineError):
        wait()
    threading.Timer(0.05, ends.set).start()
    spare.close()
    assert has_ended.is_set()


def test_an_error_of_the_work_comes_back(spare: SpareThreads) -> None:
    with pytest.raises(ZeroDivisionError):
        spare.start(lambda: 1 // 0, Budget())()
