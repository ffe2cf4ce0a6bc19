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
