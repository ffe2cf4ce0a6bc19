import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CallCancelledError, DeadlineError


def test_a_budget_without_deadline_never_ends() -> None:
    budget = Budget()
    budget.check()
    assert budget.remaining_s() is None


def test_a_cancelled_budget_fails_every_check() -> None:
    budget = Budget(60)
    budget.cancel()
    budget.cancel()
    with pytest.raises(CallCancelledError):
        budget.check()


def test_a_spent_budget_says_deadline() -> None:
    with pytest.raises(DeadlineError):
        Budget(0).check()


def test_remaining_time_shrinks_and_stays_positive() -> None:
    budget = Budget(1000)
    first = budget.remaining_s()
    assert first is not None
    assert 0 < first <= 1000


def test_cancelling_ends_a_wait_that_has_begun() -> None:
    budget, condition = Budget(), threading.Condition()

    def wait() -> bool:
        with condition:
            return budget.wait_for(condition, lambda: False)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        time.sleep(0.05)
        assert not waiting.done()
        budget.cancel()
        with pytest.raises(CallCancelledError):
            waiting.result(10)


def test_cancelling_ends_a_wait_behind_that_of_another_call() -> None:
    first, second, condition = Budget(), Budget(), threading.Condition()

    def wait(budget: Budget) -> bool:
        with condition:
            return budget.wait_for(condition, lambda: False, at_most_s=30)

    with ThreadPoolExecutor(2) as pool:
        ahead = pool.submit(wait, first)
        time.sleep(0.05)
        behind = pool.submit(wait, second)
        time.sleep(0.05)
        second.cancel()
        with pytest.raises(CallCancelledError):
            behind.result(10)
        assert not ahead.done()
        first.cancel()
        with pytest.raises(CallCancelledError):
            ahead.result(10)


def test_cancelling_ends_one_wait_though_another_of_the_same_budget_has_ended() -> None:
    budget, lasting, short = Budget(), threading.Condition(), threading.Condition()

    def wait() -> bool:
        with lasting:
            return budget.wait_for(lasting, lambda: False, at_most_s=30)

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        time.sleep(0.05)
        with short:
            assert not budget.wait_for(short, lambda: False, at_most_s=0.01)
        budget.cancel()
        with pytest.raises(CallCancelledError):
            waiting.result(10)


def test_a_result_is_waited_for_until_it_is_there_or_the_budget_ends() -> None:
    done: Future[str] = Future()
    timer = threading.Timer(0.05, done.set_result, ["there"])
    timer.start()
    budget = Budget(30)
    assert budget.result_of(done) == "there"
    assert (budget.remaining_s() or 0.0) > 10.0
    timer.join()
    with pytest.raises(DeadlineError):
        Budget(0.05).result_of(Future[str]())


def test_a_wait_ends_with_the_deadline() -> None:
    budget, condition = Budget(0.05), threading.Condition()
    with condition, pytest.raises(DeadlineError):
        budget.wait_for(condition, lambda: False, at_most_s=60)


def test_a_wait_can_be_given_up_before_the_budget_ends() -> None:
    condition = threading.Condition()
    with condition:
        assert not Budget().wait_for(condition, lambda: False, at_most_s=0.01)
        assert not Budget(60).wait_for(condition, lambda: False, at_most_s=0.01)


def test_what_already_holds_is_not_waited_for_even_with_a_spent_budget() -> None:
    condition = threading.Condition()
    with condition:
        assert Budget(0).wait_for(condition, lambda: True)


def test_a_lock_is_waited_for_as_long_as_the_budget_lasts() -> None:
    lock = threading.Lock()
    with Budget().holding(lock):
        assert lock.locked()
        with pytest.raises(DeadlineError), Budget(0.1).holding(lock):
            raise AssertionError("nobody else may get in")
    assert not lock.locked()
    with pytest.raises(ValueError, match="inside"), Budget().holding(lock):
        raise ValueError("inside")
    assert not lock.locked()


def test_a_cancelled_call_stops_waiting_for_a_lock() -> None:
    lock, budget = threading.Lock(), Budget()

    def wait() -> None:
        with budget.holding(lock):
            raise AssertionError("nobody else may get in")

    with lock, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        time.sleep(0.05)
        budget.cancel()
        with pytest.raises(CallCancelledError):
            waiting.result(10)


def test_a_part_has_a_share_of_the_time_and_ends_with_the_whole() -> None:
    budget = Budget(10)
    part = budget.part(0.5)
    assert 4.0 < (part.remaining_s() or 0.0) <= 5.0
    assert Budget().part(0.5).remaining_s() is None
    budget.cancel()
    with pytest.raises(CallCancelledError):
        part.check()
    with pytest.raises(CallCancelledError):
        budget.part(0.5).check()


def test_a_capped_budget_ends_at_its_cap_and_never_after_the_whole() -> None:
    budget = Budget(10)
    assert 1.0 < (budget.part(at_most_s=2).remaining_s() or 0.0) <= 2.0
    assert 9.0 < (budget.part(at_most_s=20).remaining_s() or 0.0) <= 10.0
    assert 1.0 < (Budget().part(at_most_s=2).remaining_s() or 0.0) <= 2.0
    assert Budget(0).part(at_most_s=2).remaining_s() == 0.0
    capped = budget.part(at_most_s=2)
    budget.cancel()
    with pytest.raises(CallCancelledError):
        capped.check()


def test_a_cancelled_part_leaves_the_whole_alone() -> None:
    budget = Budget(10)
    budget.part(0.5).cancel()
    budget.check()
