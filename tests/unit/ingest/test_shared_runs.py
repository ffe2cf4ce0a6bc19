"""Long work runs once, whoever asks for it meanwhile joins, and it ends when nobody wants it any more."""

import contextvars
import threading
import time
from collections.abc import Callable

import pytest

from groundwire.ingest.index_builds import SharedRuns
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CallCancelledError, ConflictError, DeadlineError, UnavailableError


class Steps:
    """Work that tells a number for each time it is allowed to go on."""

    def __init__(self, count: int = 3) -> None:
        self.count = count
        self.go = threading.Semaphore(0)
        self.starts = 0
        self.was_stopped = threading.Event()

    def __call__(self, budget: Budget, tell: Callable[[int], None]) -> str:
        self.starts += 1
        try:
            for number in range(self.count):
                while not self.go.acquire(timeout=0.01):
                    budget.check()
                tell(number)
        except CallCancelledError:
            self.was_stopped.set()
            raise
        return "done"


class Caller(threading.Thread):
    """One call in a thread of its own."""

    def __init__(self, runs: SharedRuns, work: Steps, kind: str = "build", budget: Budget | None = None) -> None:
        super().__init__(daemon=True)
        self.heard: list[int] = []
        self.budget = budget or Budget(20)
        self.outcome: object = None
        self._ask: Callable[[], object] = lambda: runs("key", kind, work, self.budget, self.heard.append)
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self._ask()
        except Exception as error:  # noqa: BLE001 - tests look at it
            self.outcome = error

    def result(self) -> object:
        self.join(10)
        assert not self.is_alive()
        return self.outcome


def wait_for(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_second_caller_joins_and_hears_everything_from_the_beginning() -> None:
    runs, work = SharedRuns(), Steps()
    first = Caller(runs, work)
    work.go.release()
    wait_for(lambda: first.heard == [0])
    second = Caller(runs, work)
    wait_for(lambda: second.heard == [0])
    work.go.release(2)
    assert (first.result(), second.result()) == ("done", "done")
    assert (first.heard, second.heard, work.starts) == ([0, 1, 2], [0, 1, 2], 1)


def test_it_goes_on_while_one_of_two_callers_wants_it() -> None:
    runs, work = SharedRuns(), Steps()
    first, second = Caller(runs, work), Caller(runs, work)
    work.go.release()
    wait_for(lambda: first.heard == second.heard == [0])
    first.budget.cancel()
    assert isinstance(first.result(), CallCancelledError)
    work.go.release(2)
    assert second.result() == "done"
    assert not work.was_stopped.is_set()


def test_it_stops_when_the_last_caller_leaves_and_can_be_started_again() -> None:
    runs, work = SharedRuns(), Steps()
    only = Caller(runs, work)
    wait_for(lambda: work.starts == 1)
    only.budget.cancel()
    assert isinstance(only.result(), CallCancelledError)
    assert work.was_stopped.wait(5)
    again = Caller(runs, Steps(0))
    assert again.result() == "done"


def test_a_run_that_is_still_ending_does_not_take_the_one_after_it_along() -> None:
    runs, lingers, has_ended = SharedRuns(), threading.Event(), threading.Event()

    def linger(_budget: Budget, _tell: Callable[[int], None]) -> None:
        assert lingers.wait(20)
        has_ended.set()

    budget = Budget()
    first = threading.Thread(target=lambda: _leave(runs, linger, budget))
    first.start()
    budget.cancel()
    first.join()
    work = Steps(2)
    second = Caller(runs, work)
    work.go.release()
    wait_for(lambda: second.heard == [0])
    lingers.set()
    assert has_ended.wait(10)
    time.sleep(0.05)  # until the thread that has worked for nobody is over
    third = Caller(runs, work)
    wait_for(lambda: third.heard == [0])
    work.go.release()
    assert (second.result(), third.result(), work.starts) == ("done", "done", 1)


def _leave(runs: SharedRuns, work: Callable[[Budget, Callable[[int], None]], None], budget: Budget) -> None:
    with pytest.raises(CallCancelledError):
        runs("key", "build", work, budget, lambda _: None)


def test_a_run_belongs_to_the_request_of_its_first_caller() -> None:
    request = contextvars.ContextVar("request", default="")

    def call() -> str:
        request.set("first")
        return SharedRuns()("key", "build", lambda _budget, _tell: request.get(), Budget(20), lambda _: None)

    assert contextvars.copy_context().run(call) == "first"


def test_a_caller_whose_deadline_passes_leaves() -> None:
    work = Steps()
    late = Caller(SharedRuns(), work, budget=Budget(0.1))
    assert isinstance(late.result(), DeadlineError)
    assert work.was_stopped.wait(5)


def test_other_work_on_the_same_thing_is_refused() -> None:
    runs, work = SharedRuns(), Steps(1)
    first = Caller(runs, work)
    wait_for(lambda: work.starts == 1)
    assert isinstance(Caller(runs, Steps(), kind="check").result(), ConflictError)
    work.go.release()
    assert first.result() == "done"
    assert Caller(runs, Steps(0), kind="check").result() == "done"


def test_an_error_reaches_every_caller_and_the_next_call_runs_anew() -> None:
    runs, is_open = SharedRuns(), threading.Event()

    def fail(_budget: Budget, _tell: Callable[[int], None]) -> str:
        is_open.wait(5)
        raise UnavailableError("the model does not answer")

    outcomes: list[Exception] = []

    def call() -> None:
        with pytest.raises(UnavailableError) as failed:
            runs("key", "build", fail, Budget(20), lambda _: None)
        outcomes.append(failed.value)

    threads = [threading.Thread(target=call) for _ in range(3)]
    for thread in threads:
        thread.start()
    is_open.set()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 3
    assert Caller(runs, Steps(0)).result() == "done"


def test_closing_stops_what_is_going_on_and_refuses_more() -> None:
    runs, work = SharedRuns(), Steps()
    caller = Caller(runs, work)
    wait_for(lambda: work.starts == 1)
    runs.close()
    assert work.was_stopped.is_set()
    assert isinstance(caller.result(), CallCancelledError)
    assert isinstance(Caller(runs, Steps()).result(), CallCancelledError)
