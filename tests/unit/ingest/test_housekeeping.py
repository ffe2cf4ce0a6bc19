"""Jobs behind the calls: what fails is tried again after pauses, is told, and holds nothing else up."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from groundwire.ingest import housekeeping as housekeeping_module
from groundwire.ingest.housekeeping import Housekeeping, Job, Subject
from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import SystemClock
from groundwire.kernel.errors import DataLossError, StoreUnavailableError

A, B, SERVER = Subject("a", "me", "tides"), Subject("b", "other", "moons"), Subject("s")


def eventually(is_true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if is_true():
            return True
        time.sleep(0.01)
    return False


class Work:
    """Counts its runs, and fails for the subjects in `broken`."""

    def __init__(self, *broken: Subject) -> None:
        self.broken, self.ran = set(broken), list[Subject]()

    def __call__(self, subject: Subject, budget: Budget) -> int:
        self.ran.append(subject)
        if subject in self.broken:
            raise DataLossError("a chunk has no vector", what="vector")
        return 2


@contextmanager
def running(*lanes: Sequence[Job], every_s: float = 0.02) -> Iterator[Housekeeping]:
    housekeeping = Housekeeping(SystemClock(), every_s)
    for lane in lanes:
        housekeeping.add(lane)
    housekeeping.start()
    yield housekeeping
    housekeeping.close()


def test_a_subject_that_fails_holds_up_neither_others_nor_the_jobs_behind_it() -> None:
    first, second = Work(A), Work()
    with running([Job("first", first, lambda: [A, B]), Job("second", second)]) as housekeeping:
        assert eventually(lambda: first.ran.count(B) >= 3 and len(second.ran) >= 3)
        (failure,) = housekeeping.failures("me")
    assert (failure.job, failure.subject, failure.reason) == ("first", A, "DATA_LOSS")
    assert failure.message == "a chunk has no vector"
    assert first.ran.count(A) < first.ran.count(B), "it pauses"
    figures = housekeeping.figures()
    assert figures["first"].failures == first.ran.count(A)
    assert figures["first"].done == 2 * first.ran.count(B)
    assert figures["first"].runs == len(first.ran)
    assert figures["first"].last_success is not None


def test_pauses_double_and_end_with_a_success(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping_module, "_FIRST_PAUSE_S", 0.2)
    work, times = Work(A), list[float]()

    def run(subject: Subject, budget: Budget) -> int:
        times.append(time.monotonic())
        return work(subject, budget)

    with running([Job("first", run, lambda: [A])]) as housekeeping:
        assert eventually(lambda: len(times) == 3)
        assert times[1] - times[0] >= 0.2
        assert times[2] - times[1] >= 0.4
        assert [each.count for each in housekeeping.failures("me")] == [3]
        work.broken.clear()
        assert eventually(lambda: housekeeping.failures("me") == [])


def test_a_rare_job_that_failed_is_tried_before_its_time_comes_round() -> None:
    work = Work(A)
    with running([Job("rare", work, lambda: [A, B], every_s=3600)]):
        assert eventually(lambda: work.ran.count(A) == 2)
    assert work.ran.count(B) == 1


def test_a_job_that_does_not_know_its_subjects_is_told_of_and_the_next_runs() -> None:
    second, locked = Work(), [True]

    def subjects() -> list[Subject]:
        if locked:
            raise StoreUnavailableError("the catalog is locked", engine="catalog")
        return [A]

    with running([Job("first", Work(), subjects), Job("second", second)]) as housekeeping:
        assert eventually(lambda: len(second.ran) >= 1)
        assert [each.job for each in housekeeping.failures("me")] == ["first"]
        locked.clear()
        assert eventually(lambda: housekeeping.failures("me") == [])


def test_failures_are_those_of_the_tenant_and_of_the_server() -> None:
    with running([Job("job", Work(A, B, SERVER), lambda: [A, B, SERVER])]) as housekeeping:
        assert eventually(lambda: housekeeping.figures()["job"].failures >= 3)
        assert {each.subject for each in housekeeping.failures("me")} == {A, SERVER}
        assert {each.subject for each in housekeeping.failures("other")} == {B, SERVER}


def test_figures_of_a_tenant_leave_out_what_is_done_for_others() -> None:
    housekeeping = Housekeeping(SystemClock(), 1.0)
    housekeeping.add([Job("job", Work(), lambda: (A, B, B, SERVER))])
    housekeeping.run_now(["job"], Budget())
    figures = [housekeeping.figures(tenant)["job"] for tenant in (None, "me", "other", "nobody")]
    # Runs for the server count for everybody, and how much they did for nobody.
    assert [(each.runs, each.done) for each in figures] == [(4, 8), (2, 2), (3, 4), (1, 0)]


def test_what_went_with_its_collection_fails_no_more() -> None:
    left = [A]
    with running([Job("job", Work(A), lambda: list(left))]) as housekeeping:
        assert eventually(lambda: len(housekeeping.failures("me")) == 1)
        left.clear()
        # The pause of a failure does not keep the list of subjects from being looked at.
        assert eventually(lambda: housekeeping.failures("me") == [])


def test_a_job_that_hangs_keeps_no_other_lane_waiting_and_ends_with_the_service() -> None:
    entered = threading.Event()

    def hang(_: Subject, budget: Budget) -> int:
        entered.set()
        while True:
            budget.check()
            time.sleep(0.01)

    other = Work()
    with running([Job("hangs", hang, timeout_s=60)], [Job("other", other)]):
        assert entered.wait(10)
        assert eventually(lambda: len(other.ran) >= 3)
        before = time.monotonic()
    assert time.monotonic() - before < 30


def test_a_job_gets_no_more_than_its_time() -> None:
    def hang(_: Subject, budget: Budget) -> int:
        while True:
            budget.check()
            time.sleep(0.01)

    with running([Job("hangs", hang, timeout_s=0.1)]) as housekeeping:
        assert eventually(lambda: [each.reason for each in housekeeping.failures("me")] == ["DEADLINE_EXCEEDED"])


def test_at_once_means_all_subjects_then_the_first_failure() -> None:
    work = Work(A)
    housekeeping = Housekeeping(SystemClock(), 60)
    housekeeping.add([Job("job", work, lambda: [A, B], every_s=3600)])
    with pytest.raises(DataLossError):
        housekeeping.run_now(["job"], Budget(60))
    assert work.ran == [A, B]
    work.broken.clear()
    assert housekeeping.run_now(["job"], Budget(60)) == 4
    assert housekeeping.run_now(["unknown"], Budget(60)) == 0
