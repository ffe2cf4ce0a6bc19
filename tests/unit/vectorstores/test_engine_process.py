"""What callers of an engine process can rely on when it is slow, stopped, killed or full."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import (
    CallCancelledError,
    DeadlineError,
    ExhaustedError,
    GroundwireError,
    StoreUnavailableError,
)
from groundwire.vectorstores import engine_process, engine_store
from groundwire.vectorstores.engine_process import EngineProcess
from groundwire.vectorstores.engine_store import OwnedEngine
from tests.conformance.processes import freeze

STUB = "tests.unit.vectorstores.stub_engine"
ROOT = str(Path(__file__).parents[3])

Start = Callable[..., EngineProcess]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    if ROOT not in sys.path:
        monkeypatch.syspath_prepend(ROOT)
    engines: list[EngineProcess] = []

    def started(hung_after_s: float = 60.0) -> EngineProcess:
        engine = EngineProcess("stub", STUB, tmp_path, hung_after_s=hung_after_s)
        engines.append(engine)
        assert engine.read(Budget(60.0), "echo", b"ready") == b"ready"
        eventually(lambda: engine._process.pid != engine._process._process.pid)  # its watcher has told the pid
        return engine

    yield started
    for engine in engines:
        engine.close()


def eventually(condition: Callable[[], bool], within_s: float = 30.0) -> None:
    ends_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def elapsed_of(call: Callable[[], object]) -> tuple[float, GroundwireError]:
    began_at = time.monotonic()
    with pytest.raises(GroundwireError) as raised:
        call()
    return time.monotonic() - began_at, raised.value


def test_a_call_ends_with_its_budget_while_the_engine_works(start: Start) -> None:
    engine = start()
    elapsed_s, error = elapsed_of(lambda: engine.read(Budget(0.3), "echo_later", b"late", 3.0))
    assert isinstance(error, DeadlineError)
    assert 0.25 <= elapsed_s < 2.0
    budget = Budget()
    threading.Timer(0.3, budget.cancel).start()
    elapsed_s, error = elapsed_of(lambda: engine.write(budget, "echo_later", b"late", 3.0))
    assert isinstance(error, CallCancelledError)
    assert elapsed_s < 2.0


def test_waiting_for_a_free_connection_ends_with_the_budget(start: Start) -> None:
    engine = start()
    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(engine.read, Budget(20.0), "echo_later", b"slow", 3.0) for _ in range(4)]
        eventually(lambda: not engine._readers.free)
        elapsed_s, error = elapsed_of(lambda: engine.read(Budget(0.3), "echo", b"next"))
        assert isinstance(error, DeadlineError)
        assert elapsed_s < 2.0
        assert engine.write(Budget(10.0), "echo", b"writes have their own") == b"writes have their own"
        assert {each.result() for each in running} == {b"slow"}


def test_a_late_answer_reaches_nobody_else(start: Start) -> None:
    engine = start()
    for number in range(4):  # as many as there are connections to read through
        with pytest.raises(DeadlineError):
            engine.read(Budget(0.1), "echo_later", b"late %d" % number * 100_000, 1.0)

    def asked(number: int) -> tuple[int, bytes]:
        return number, engine.read(Budget(20.0), "echo", b"own %d" % number)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(asked, range(200)))
    assert answers == [(number, b"own %d" % number) for number in range(200)]
    eventually(lambda: len(engine._readers.free) == 4)


def test_callers_give_up_on_a_stopped_engine_and_are_answered_when_it_goes_on(start: Start) -> None:
    engine = start()
    freeze(engine._process.pid)
    try:
        with ThreadPoolExecutor(24) as pool:
            began_at = time.monotonic()
            calls = [
                pool.submit(engine.read if number % 3 else engine.write, Budget(30.0), "echo", b"%d" % number)
                for number in range(24)  # four times the connections
            ]
            errors = [call.exception(25.0) for call in calls]
            assert time.monotonic() - began_at < 20.0
        assert len(errors) == 24
        for error in errors:
            assert isinstance(error, StoreUnavailableError)
            assert "has not responded for" in error.message
            assert error.retry_after_s is not None
        with pytest.raises(StoreUnavailableError):
            engine.check_responding()
        elapsed_s, _ = elapsed_of(lambda: engine.read(Budget(30.0), "echo", b"next"))
        assert elapsed_s < 10.0
    finally:
        os.kill(engine._process.pid, signal.SIGCONT)
    eventually(lambda: engine.silent_s < 1.0, within_s=30.0)
    engine.check_responding()
    for number in range(50):
        assert engine.read(Budget(10.0), "echo", b"after %d" % number) == b"after %d" % number
    eventually(lambda: len(engine._readers.free) == 4 and len(engine._writers.free) == 2)


def test_an_engine_that_works_without_letting_anybody_in_is_not_taken_for_hung(start: Start) -> None:
    engine = start(hung_after_s=1.0)
    with ThreadPoolExecutor(1) as pool:
        began_at = time.monotonic()
        # As a write, which may take ten minutes: on a busy machine the work takes more than one, the limit of reads.
        working = pool.submit(engine.write, Budget(500.0), "work", 200_000_000)
        time.sleep(0.25)
        with pytest.raises(DeadlineError):
            engine.write(Budget(1.5), "echo", b"nobody answers")
        assert working.result() > 0
        assert time.monotonic() - began_at > 1.75  # longer than one that hangs may live
    assert not engine.is_broken
    assert engine.read(Budget(10.0), "echo", b"still there") == b"still there"


def test_a_hung_engine_is_killed_and_replaced(start: Start) -> None:
    owned = OwnedEngine(lambda: start(hung_after_s=3.0))
    first = owned.live(Budget(10.0))
    freeze(first._process.pid)
    eventually(lambda: first.is_broken, within_s=20.0)
    assert owned.live(Budget(30.0)).read(Budget(30.0), "echo", b"replaced") == b"replaced"
    owned.check_responding()
    eventually(lambda: first._process.exit_code is not None)
    owned.close()


def test_an_engine_that_was_killed_is_replaced_though_nobody_calls(start: Start) -> None:
    owned = OwnedEngine(start)
    first = owned.live(Budget(10.0))
    os.kill(first._process.pid, signal.SIGKILL)
    eventually(lambda: owned._engine is not None and owned._engine is not first)
    assert owned.live(Budget(10.0)).read(Budget(10.0), "echo", b"replaced") == b"replaced"
    assert {end.fileno() for end in first._process.connections} == {-1}  # its descriptors do not add up
    owned.close()


class PausedStarts:
    """Starts the first engine at once, and the next ones when the test lets it."""

    def __init__(self, start: Start) -> None:
        self._start = start
        self.engines: list[EngineProcess] = []
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.failure: Exception | None = None

    def __call__(self) -> EngineProcess:
        if self.engines:
            self.begun.set()
            assert self.may_go_on.wait(60.0)
            if self.failure is not None:
                raise self.failure
        self.engines.append(self._start())
        return self.engines[-1]


@pytest.fixture
def starts(start: Start) -> PausedStarts:
    return PausedStarts(start)


@pytest.fixture
def owned(starts: PausedStarts) -> Iterator[OwnedEngine]:
    """Give one whose engine was killed and is just being started again."""
    owned = OwnedEngine(starts)
    os.kill(owned.live(Budget(10.0))._process.pid, signal.SIGKILL)
    assert starts.begun.wait(30.0)
    yield owned
    starts.may_go_on.set()
    owned.close()


def waiting_call(pool: ThreadPoolExecutor, owned: OwnedEngine) -> "Future[EngineProcess]":
    budget = Budget()
    call = pool.submit(owned.live, budget)
    eventually(lambda: bool(budget._waited_on))
    return call


def test_who_waits_for_an_engine_gets_it_as_soon_as_it_runs(owned: OwnedEngine, starts: PausedStarts) -> None:
    with ThreadPoolExecutor(1) as pool:
        call = waiting_call(pool, owned)
        starts.may_go_on.set()
        assert call.result(15.0) is starts.engines[1]


def test_who_waits_for_an_engine_is_told_at_once_that_it_fails(owned: OwnedEngine, starts: PausedStarts) -> None:
    starts.failure = StoreUnavailableError("the folder cannot be opened")
    with ThreadPoolExecutor(1) as pool:
        call = waiting_call(pool, owned)
        starts.may_go_on.set()
        with pytest.raises(StoreUnavailableError, match="the folder cannot be opened"):
            call.result(15.0)


def test_who_waits_for_an_engine_is_told_at_once_that_the_store_is_closed(
    owned: OwnedEngine, starts: PausedStarts
) -> None:
    with ThreadPoolExecutor(2) as pool:
        call = waiting_call(pool, owned)
        closing = pool.submit(owned.close)
        with pytest.raises(StoreUnavailableError, match="the vector store is closed"):
            call.result(15.0)
        starts.may_go_on.set()
        closing.result(15.0)


def test_closing_ends_an_engine_that_is_just_starting(
    owned: OwnedEngine, starts: PausedStarts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_store, "_STOP_S", 60.0)
    threading.Timer(0.5, starts.may_go_on.set).start()
    owned.close()
    # Before it returns: whoever opens the folder next must not meet another engine there.
    assert [engine._process.exit_code is not None for engine in starts.engines] == [True, True]


def test_closing_does_not_wait_for_the_next_attempt_to_start(
    owned: OwnedEngine, starts: PausedStarts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_store, "_PAUSES_S", (60.0,))
    monkeypatch.setattr(engine_store, "_STOP_S", 60.0)
    starts.failure = StoreUnavailableError("the folder cannot be opened")
    starts.may_go_on.set()
    eventually(lambda: bool(owned._failure))
    began_at = time.monotonic()
    owned.close()
    assert time.monotonic() - began_at < 15.0


def test_callers_do_not_wait_for_an_engine_that_fails_to_start(start: Start) -> None:
    can_start = threading.Event()
    can_start.set()

    def started() -> EngineProcess:
        if not can_start.is_set():
            raise StoreUnavailableError("the folder cannot be opened")
        return start()

    owned = OwnedEngine(started)
    first = owned.live(Budget(10.0))
    can_start.clear()
    os.kill(first._process.pid, signal.SIGKILL)
    eventually(lambda: bool(owned._failure))
    elapsed_s, error = elapsed_of(lambda: owned.live(Budget(30.0)))
    assert "the folder cannot be opened" in error.message
    assert elapsed_s < 2.0
    with pytest.raises(StoreUnavailableError, match="cannot be opened"):
        owned.check_responding()
    can_start.set()
    eventually(lambda: owned._live() is not None, within_s=20.0)
    assert owned.live(Budget(10.0)).read(Budget(10.0), "echo", b"back") == b"back"
    owned.close()


def test_the_engine_ends_with_its_parent_process(start: Start) -> None:
    engine = start()
    os.kill(engine._process.pid, signal.SIGKILL)
    eventually(lambda: engine.is_broken)
    with pytest.raises(StoreUnavailableError, match="has ended"):
        engine.read(Budget(10.0), "echo", b"next")


@pytest.mark.parametrize("is_called", [False, True])
def test_closing_does_not_wait_for_a_stopped_engine(start: Start, *, is_called: bool) -> None:
    engine = start()
    freeze(engine._process.pid)
    with ThreadPoolExecutor(2) as pool:
        if is_called:
            pool.submit(engine.read, Budget(60.0), "echo", b"never")
            pool.submit(engine.write, Budget(60.0), "echo", b"never")
        time.sleep(0.2)
        began_at = time.monotonic()
        engine.close()
        assert time.monotonic() - began_at < 25.0
    assert engine._process.exit_code is not None


def test_closing_waits_for_the_calls_that_run(start: Start) -> None:
    engine = start()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(engine.read, Budget(30.0), "echo_later", b"done", 1.0)
        eventually(lambda: engine._in_use == 1)
        engine.close()
        assert running.result() == b"done"
    assert engine._process.exit_code == 0


def test_closing_lets_the_engine_end_what_a_caller_has_given_up_on(start: Start) -> None:
    engine = start()
    with pytest.raises(DeadlineError):
        engine.read(Budget(0.1), "echo_later", b"late", 2.0)
    engine.close()
    assert engine._process.exit_code == 0, "it was not killed, and has closed its files"


def test_a_full_disk_is_named(start: Start, tmp_path: Path) -> None:
    engine = start()
    with pytest.raises(ExhaustedError, match="no space left") as failed:
        engine.write(Budget(10.0), "fail_full")
    assert failed.value.metadata == {"what": "disk"}
    engine.write(Budget(10.0), "limit_files", 100_000)
    engine.write(Budget(10.0), "upsert", str(tmp_path / "points"), 90_000)
    with pytest.raises(ExhaustedError, match="no space left"):
        engine.write(Budget(10.0), "upsert", str(tmp_path / "points"), 90_000)
    assert engine.read(Budget(10.0), "echo", b"reads go on") == b"reads go on"


def test_nothing_is_added_when_little_space_is_left_and_reads_go_on(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, points = start(), tmp_path / "points"
    monkeypatch.setattr(engine_process, "_FREE_BYTES", 1 << 62)
    with pytest.raises(ExhaustedError, match="no space left"):
        engine.write(Budget(10.0), "upsert", str(points), 10)
    assert not points.exists()
    assert engine.read(Budget(10.0), "echo", b"reads go on") == b"reads go on"
    os.kill(engine._process.pid, signal.SIGKILL)
    eventually(lambda: engine.is_broken)
    with pytest.raises(StoreUnavailableError, match="no space left"), suppress(DeadlineError):
        engine.read(Budget(10.0), "echo", b"next")
