"""Runs background jobs on their own schedules; none of them can hold up another."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime

import structlog

from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import Clock
from groundwire.kernel.errors import CallCancelledError, GroundwireError

# Pauses double: what recovers is soon done, and what stays broken costs little.
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0
# A job that waits for a silent engine must not keep the server from stopping.
_STOP_LIMIT_S = 5.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Subject:
    """The subject of a job; `key` identifies it within the job, `collection` is empty if it concerns none."""

    key: str = ""
    tenant: str = ""
    collection: str = ""


@dataclass(frozen=True, slots=True)
class Job:
    """Work that may be repeated at any time, for each of its subjects alone.

    `run` returns how much it did. It is called at most every `every_s` seconds (0: at every turn) and gets a budget of
    `timeout_s` seconds.
    """

    name: str
    run: Callable[[Subject, Budget], int]
    subjects: Callable[[], Iterable[Subject]] = lambda: (Subject(),)
    every_s: float = 0.0
    timeout_s: float = 30.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A job that fails for a subject: since when, how often in a row, and why.

    `reason` is a value of `ErrorReason`, or INTERNAL for a bug of ours, of which the log says more. It is tried again
    at `retry_at`, a time of `time.monotonic`.
    """

    job: str
    subject: Subject
    since: datetime
    count: int
    reason: str
    message: str
    retry_at: float


@dataclass(slots=True)
class JobFigures:
    """What a job has done since the process began."""

    runs: int = 0
    done: int = 0
    failures: int = 0
    last_success: datetime | None = None


@dataclass(slots=True)
class _Lane:
    """Jobs that take turns in one thread."""

    jobs: Sequence[Job]
    wake: threading.Event = field(default_factory=threading.Event)
    budget: Budget | None = None


class Housekeeping:
    """Runs jobs after every write and on a timer, in one thread for each lane.

    A failure is recorded for that job and subject, and tried again after a pause that doubles up to a minute; the other
    subjects and jobs go on as if nothing had happened. The first failure and the recovery are logged, `failures`
    lists what fails now.
    """

    def __init__(self, clock: Clock, every_s: float) -> None:
        self._lanes = list[_Lane]()
        self._clock = clock
        self._every_s = every_s
        self._closing = threading.Event()
        self._guard = threading.Lock()
        # By name of the job and tenant, which is empty for what concerns none.
        self._figures = dict[tuple[str, str], JobFigures]()
        self._failures: dict[tuple[str, str], Failure] = {}  # by name of the job and key of the subject
        self._ran_at: dict[str, float] = {}
        self._threads = list[threading.Thread]()

    def add(self, jobs: Sequence[Job]) -> None:
        """Run some jobs in turn in a thread of their own, their lane; call this before `start`."""
        lane, name = _Lane(jobs), f"housekeeping-{len(self._lanes)}"
        self._lanes.append(lane)
        self._figures |= {(job.name, ""): JobFigures() for job in jobs}
        # Daemons, so that one that hangs in an engine does not keep the process alive.
        self._threads.append(threading.Thread(target=self._loop, args=(lane,), name=name, daemon=True))

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def nudge(self) -> None:
        """Run the jobs soon; returns at once. Failed jobs still wait until their pause ends."""
        for lane in self._lanes:
            lane.wake.set()

    def run_now(self, names: Sequence[str], budget: Budget) -> int:
        """Run some jobs in the thread of the caller, whether they are due or not; return how much they did.

        Raises:
            GroundwireError: the first failure, after all subjects had their turn.
        """
        done, errors = 0, list[Exception]()
        for job in (job for lane in self._lanes for job in lane.jobs if job.name in names):
            for subject in job.subjects():
                budget.check()
                try:
                    done += self._run(job, subject, budget)
                except Exception as error:  # noqa: BLE001 - raised below
                    errors.append(error)
        if errors:
            raise errors[0]
        return done

    def failures(self, tenant: str) -> list[Failure]:
        """Return the current failures of the tenant's collections and of the whole server, longest first."""
        with self._guard:
            found = [each for each in self._failures.values() if each.subject.tenant in {"", tenant}]
        return sorted(found, key=lambda failure: failure.since)

    def figures(self, tenant: str | None = None) -> dict[str, JobFigures]:
        """Return what each job has done so far, by name: for all, or for the collections of a tenant and the server.

        A tenant does not see how much is done for the server as a whole, since that includes the work for others.
        """
        totals: dict[str, JobFigures] = {}
        with self._guard:
            for (name, owner), each in self._figures.items():
                if tenant is not None and owner not in {"", tenant}:
                    continue
                total = totals.setdefault(name, JobFigures())
                total.runs, total.failures = total.runs + each.runs, total.failures + each.failures
                total.done += each.done if tenant in {None, owner} else 0
                successes = [moment for moment in (total.last_success, each.last_success) if moment is not None]
                total.last_success = max(successes, default=None)
        return totals

    def close(self) -> None:
        """Stop; a running job ends at its next step."""
        self._closing.set()
        for lane in self._lanes:
            if lane.budget is not None:
                lane.budget.cancel()
            lane.wake.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(_STOP_LIMIT_S)

    def _loop(self, lane: _Lane) -> None:
        while not self._closing.is_set():
            # Before the turn: what is noted during the turn may have come too late for it.
            lane.wake.clear()
            for job in lane.jobs:
                # For all its subjects if it is due, else for those whose pause after a failure has ended.
                now = time.monotonic()
                with self._guard:
                    retry_at = {key: each.retry_at for (name, key), each in self._failures.items() if name == job.name}
                is_due = now - self._ran_at.get(job.name, float("-inf")) >= job.every_s
                if not is_due and all(at > now for at in retry_at.values()):
                    continue
                if is_due:  # a turn that only repeats what failed must not put off the next regular one
                    self._ran_at[job.name] = now
                try:
                    subjects = list(job.subjects())
                except Exception as error:  # noqa: BLE001 - the thread must outlive any failure
                    self._failed(job, Subject(), error)
                    continue
                keys = {subject.key for subject in subjects}
                with self._guard:  # subjects that no longer exist, such as a deleted collection, cannot fail any more
                    for name, key in list(self._failures):
                        if name == job.name and key not in keys:
                            del self._failures[name, key]
                for subject in subjects:
                    if retry_at.get(subject.key, now) > now or not (is_due or subject.key in retry_at):
                        continue
                    # Set before `_closing` is read: `close` sets that first, and then cancels the budget that it finds.
                    lane.budget = Budget(job.timeout_s)
                    if self._closing.is_set():
                        return
                    # `_run` records the failure; the next subjects still get their turn.
                    with suppress(Exception):
                        self._run(job, subject, lane.budget)
            lane.wake.wait(min([self._every_s, *(job.every_s for job in lane.jobs if job.every_s)]))

    def _run(self, job: Job, subject: Subject, budget: Budget) -> int:
        try:
            done = job.run(subject, budget)
        except CallCancelledError:
            raise  # the service is closing, or the caller left
        except Exception as error:
            self._failed(job, subject, error)
            raise
        with self._guard:
            figures = self._figures.setdefault((job.name, subject.tenant), JobFigures())
            figures.runs, figures.done, figures.last_success = figures.runs + 1, figures.done + done, self._clock.now()
            ended = self._failures.pop((job.name, subject.key), None)
        if ended is not None:
            _log.info("housekeeping works again", job=job.name, collection=subject.collection, failures=ended.count)
        return done

    def _failed(self, job: Job, subject: Subject, error: Exception) -> None:
        with self._guard:
            figures = self._figures.setdefault((job.name, subject.tenant), JobFigures())
            figures.runs, figures.failures = figures.runs + 1, figures.failures + 1
            before = self._failures.get((job.name, subject.key))
            count = 1 if before is None else before.count + 1
            # The exponent is bounded: after a thousand failures in a row the power would not fit into a float.
            pause_s = min(_FIRST_PAUSE_S * 2 ** min(count - 1, 10), _LONGEST_PAUSE_S)
            self._failures[job.name, subject.key] = Failure(
                job=job.name,
                subject=subject,
                since=self._clock.now() if before is None else before.since,
                count=count,
                reason=error.reason if isinstance(error, GroundwireError) else "INTERNAL",
                message=error.message if isinstance(error, GroundwireError) else "internal error",
                retry_at=time.monotonic() + pause_s,
            )
        if count == 1:  # an engine that is down for a day would fill the log
            _log.warning(
                "housekeeping failed and is tried again", job=job.name, collection=subject.collection, exc_info=error
            )
