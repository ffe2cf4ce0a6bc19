"""What callers are charged: per tenant and subject, with a burst, and whatever becomes of others."""

import pytest

from groundwire.kernel.errors import QuotaExceededError
from groundwire.kernel.identity import Identity, Quota
from groundwire.rpc.admission import Quotas


class Seconds:
    """A clock that is set by hand, in seconds."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
def quotas(clock: Seconds) -> Quotas:
    return Quotas(clock)


def _caller(quota: Quota, subject: str = "ada", tenant: str = "acme") -> Identity:
    return Identity(tenant, subject, quota=quota)


def test_a_pause_however_long_saves_up_no_more_than_the_burst(quotas: Quotas, clock: Seconds) -> None:
    caller = _caller(Quota(per_second=1.0, burst=3.0))
    quotas.charge(caller, 3.0)
    clock.now += 3600
    quotas.charge(caller, 3.0)
    with pytest.raises(QuotaExceededError):
        quotas.charge(caller, 1.0)


def test_a_call_that_costs_more_than_the_burst_runs_on_a_full_bucket_and_is_paid_off(
    quotas: Quotas, clock: Seconds
) -> None:
    caller = _caller(Quota(per_second=1.0, burst=3.0))
    quotas.charge(caller, 10.0)
    with pytest.raises(QuotaExceededError) as refused:
        quotas.charge(caller, 1.0)
    assert refused.value.retry_after_s == 8.0
    clock.now += 7.9
    with pytest.raises(QuotaExceededError):
        quotas.charge(caller, 1.0)
    clock.now += 0.2
    quotas.charge(caller, 1.0)


def test_what_a_refused_call_would_cost_is_not_charged(quotas: Quotas) -> None:
    caller = _caller(Quota(per_second=1.0, burst=3.0))
    quotas.charge(caller, 2.0)
    for _ in range(3):
        with pytest.raises(QuotaExceededError):
            quotas.charge(caller, 2.0)
    quotas.charge(caller, 1.0)


def test_subjects_of_one_name_in_two_tenants_share_nothing(quotas: Quotas) -> None:
    for tenant in ("acme", "globex"):
        caller = _caller(Quota(per_second=1.0, burst=1.0, at_a_time=1), tenant=tenant)
        quotas.charge(caller, 1.0)
        quotas.enter(caller)
        with pytest.raises(QuotaExceededError):
            quotas.charge(caller, 1.0)
        with pytest.raises(QuotaExceededError):
            quotas.enter(caller)


def test_thousands_of_other_callers_make_nobody_forgotten_who_still_calls(quotas: Quotas) -> None:
    running = _caller(Quota(at_a_time=1), "running")
    frequent = _caller(Quota(per_second=0.001, burst=2.0), "frequent")
    leave = quotas.enter(running)
    assert leave is not None
    quotas.charge(frequent, 1.0)
    for number in range(12_000):
        if number == 6000:
            quotas.charge(frequent, 1.0)
        quotas.charge(_caller(Quota(per_second=1.0), f"other-{number}"), 1.0)
    with pytest.raises(QuotaExceededError):
        quotas.enter(running)
    with pytest.raises(QuotaExceededError):
        quotas.charge(frequent, 1.0)
    leave()
    assert quotas.enter(running) is not None


def test_whoever_comes_back_at_the_time_that_was_told_is_let_in(quotas: Quotas, clock: Seconds) -> None:
    for per_second, told in [(3.0, 0.334), (1000.0, 0.1)]:  # no sooner than in a tenth of a second
        caller = _caller(Quota(per_second=per_second, burst=1.0), f"at {per_second}")
        quotas.charge(caller, 1.0)
        with pytest.raises(QuotaExceededError) as refused:
            quotas.charge(caller, 1.0)
        assert refused.value.retry_after_s == told
        clock.now += told
        quotas.charge(caller, 1.0)


def test_ten_thousand_callers_are_remembered_and_whoever_has_not_called_for_longest_is_not(quotas: Quotas) -> None:
    first, second = (_caller(Quota(per_second=0.001, burst=1.0), subject) for subject in ("first", "second"))
    quotas.charge(first, 1.0)
    quotas.charge(second, 1.0)
    for number in range(9_999):
        quotas.charge(_caller(Quota(per_second=1.0), f"other-{number}"), 1.0)
    with pytest.raises(QuotaExceededError):
        quotas.charge(second, 1.0)
    quotas.charge(first, 1.0)  # forgotten, and so begins with a full bucket
