"""The owner's side of an engine process: starts it, calls it from many threads, watches it, stops it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import structlog

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import ExhaustedError, StoreUnavailableError
from groundwire.vectorstores.engine_channel import Answer, EngineChannel

HUNG_AFTER_S: Final = 20.0
"""After so long without a sign of life an engine is killed and replaced, unless the settings say otherwise."""

_MAIN = "groundwire.vectorstores.engine_main"
_READERS = 4
_WRITERS = 2
_READ_LIMIT_S = 60.0
_WRITE_LIMIT_S = 600.0
"""What one request may take, whatever its budget: the longest writes index and drop whole collections."""
_STEP_S = 0.1
"""So often a waiting call looks whether its budget is over or the engine has fallen silent."""
_BEAT_S = 0.5
_DRAIN_S = 0.02
_SILENT_S = 3.0
"""Without a sign of life for so long an engine counts as not responding: the disk may be slow for a moment."""
_REFUSED_AFTER_S = 5.0
"""Without a sign of life for so long, calls fail instead of waiting; short of that they may still be answered."""
_BUSY_LIMIT_S = 300.0
"""A serving engine that works without answering for so long is in an endless loop; loading takes 1 s for each 30,000
points."""
_STOP_S = 60.0
_STOP_SILENT_S = 10.0
"""Closing flushes: up to 3 s for a large shard on a busy disk."""
_KILL_S = 5.0
_FREE_BYTES = 64 * 1024 * 1024
"""With less space on the disk nothing is added. The libraries write to mapped files, which kills the process when
the disk is full, and they need room to delete, and to open a folder again."""
_GROWING = frozenset({"create", "create_indexed", "create_incomplete", "rewrite", "begin_rewrite", "copy", "upsert"})
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

_log = structlog.get_logger(__name__)


class EngineProcess:
    """A running engine. Calls block their thread only; reads and writes do not queue behind one another.

    A thread asks the engine every half second whether it lives. The library may hold the interpreter lock for
    seconds, in which the engine cannot answer; it counts as alive as long as it uses the processor. An engine that
    does neither (stopped, deadlocked, waiting for a dead disk) is silent.

    Args:
        name: of the engine in errors.
        module: has the class `Engine` whose methods are called.
        folder: where the engine writes.
        kept_open: descriptors that stay open in the engine as long as it runs (the owner lock).
        niceness: how much the engine gives way to others, 0 to 19.
        hung_after_s: seconds of silence after which the engine is killed.
        environment: variables that the engine has beside ours.
        is_serving: whether others wait for its answers; an engine that builds may work for hours.
    """

    def __init__(
        self,
        name: str,
        module: str,
        folder: Path,
        *,
        kept_open: tuple[int, ...] = (),
        niceness: int = 0,
        hung_after_s: float = HUNG_AFTER_S,
        environment: Mapping[str, str] = _NOTHING,
        is_serving: bool = True,
    ) -> None:
        self._name = name
        self._folder = folder
        self._hung_after_s = hung_after_s
        self._busy_limit_s = _BUSY_LIMIT_S if is_serving else float("inf")
        pairs = [socket.socketpair() for _ in range(1 + _READERS + _WRITERS)]
        held, self._lifeline = os.pipe()
        theirs = [far.fileno() for _, far in pairs]
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-P", "-m", _MAIN, module, *map(str, [held, niceness, *theirs])],
            pass_fds=(held, *theirs, *kept_open),
            stdin=subprocess.DEVNULL,
            env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        os.close(held)
        for _, far in pairs:
            far.close()
        self._heartbeat, *channels = (EngineChannel(near) for near, _ in pairs)
        self._changed = threading.Condition()
        self._readers = deque(channels[:_READERS])
        self._writers = deque(channels[_READERS:])
        self._abandoned: list[tuple[deque[EngineChannel], EngineChannel]] = []
        self._in_use = 0
        self._stopping = threading.Lock()
        self._is_stopping = threading.Event()
        self._pid = self._process.pid  # until the engine itself, its child, has told its own
        self._cpu_ticks = -1
        self._alive_at = time.monotonic()
        self.is_broken = False
        """Whether it has ended or is being stopped; it takes no more calls then."""
        self._watching = threading.Thread(target=self._watch, name=f"{name}-watch", daemon=True)
        self._watching.start()

    @property
    def silent_s(self) -> float:
        """Return for how many seconds there has been no sign of life, to the nearest half second."""
        return time.monotonic() - self._alive_at

    def check_responding(self) -> None:
        """Return if the engine has shown a sign of life lately; never waits.

        Raises:
            StoreUnavailableError: it has not, or it has ended.
        """
        if self.is_broken:
            raise self._ended()
        if self.silent_s >= _SILENT_S:
            raise self._silent()

    def read(self, budget: Budget, method: str, *arguments: Any) -> Any:
        """Call a method that changes nothing.

        Raises:
            StoreUnavailableError: the engine failed, has ended or does not respond.
            DeadlineError: the deadline of the budget passed; the engine may still be at it.
            CallCancelledError: the budget was cancelled; the engine may still be at it.
        """
        return self._call(self._readers, budget, _READ_LIMIT_S, method, arguments)

    def write(self, budget: Budget, method: str, *arguments: Any, should_stop: Callable[[], bool] | None = None) -> Any:
        """Call a method that writes.

        With `should_stop`, the request may take as long as its budget, and the engine is killed as soon as that
        returns true.

        Raises:
            StoreUnavailableError: the engine failed, has ended, was killed or does not respond.
            ExhaustedError: there is no space left on the disk.
            DeadlineError: the deadline of the budget passed; whether the engine wrote is unknown.
            CallCancelledError: the budget was cancelled; whether the engine wrote is unknown.
        """
        if method in _GROWING and self._is_disk_full():
            raise _disk_full()
        limit_s = _WRITE_LIMIT_S if should_stop is None else float("inf")
        return self._call(self._writers, budget, limit_s, method, arguments, should_stop)

    def wait_broken(self, timeout_s: float) -> bool:
        """Wait until the engine has ended or is being stopped; tell whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: self.is_broken, timeout_s)

    def close(self) -> None:
        """Let the engine finish what it is at, flush and end; kill it when it is silent. Idempotent."""
        with self._stopping:
            self._break()
            ends_at = time.monotonic() + _STOP_S
            with self._changed:
                while self._in_use and self.silent_s < _SILENT_S and time.monotonic() < ends_at:
                    self._changed.wait(_STEP_S)
            self._is_stopping.set()
            self._watching.join(_KILL_S)
            if not self._abandoned and not self._in_use and self.silent_s < _SILENT_S:
                for channel in (*self._readers, *self._writers):
                    channel.close()
                self._wait_flushed(ends_at)
            self.kill()
            for channel in (self._heartbeat, *self._readers, *self._writers, *(each for _, each in self._abandoned)):
                channel.close()

    def kill(self) -> bool:
        """End the engine at once: running calls fail, what was acknowledged is in the write-ahead log; idempotent.

        Returns:
            Whether the process is gone; one that waits for a dead disk goes when that answers.
        """
        self._break()
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)
        # The process that watches the lifeline may have been stopped as well.
        self._process.send_signal(signal.SIGCONT)
        try:
            self._process.wait(_KILL_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        return self._process.poll() is not None

    def _call(
        self,
        free: "deque[EngineChannel]",
        budget: Budget,
        limit_s: float,
        method: str,
        arguments: tuple[Any, ...],
        should_stop: Callable[[], bool] | None = None,
    ) -> Any:
        ends_at = time.monotonic() + limit_s
        channel = self._take(free, budget, ends_at)
        try:
            channel.send(method, arguments)
            answer = self._await(channel, budget, ends_at, should_stop)
        except (EOFError, OSError) as broken:
            self._leave(channel)
            channel.close()
            self._break()
            raise self._ended() from broken
        except BaseException:
            self._leave(channel, abandoned_by=free)
            raise
        self._leave(channel, free)
        if answer.failure is None:
            return answer.result
        if answer.failure.is_disk_full:
            raise _disk_full()
        raise StoreUnavailableError(f"{self._name} failed: {answer.failure.text}", engine=self._name)

    def _take(self, free: "deque[EngineChannel]", budget: Budget, ends_at: float) -> EngineChannel:
        """Wait for a free connection."""
        while True:
            self._check_worth_waiting(budget, ends_at)
            with self._changed:
                if budget.wait_for(self._changed, lambda: bool(free) or self.is_broken, _STEP_S) and not self.is_broken:
                    self._in_use += 1
                    return free.popleft()
            if self.is_broken:
                raise self._ended()

    def _await(
        self, channel: EngineChannel, budget: Budget, ends_at: float, should_stop: Callable[[], bool] | None
    ) -> Answer:
        while True:
            remaining_s = budget.remaining_s()
            answer = channel.answer(_STEP_S if remaining_s is None else min(_STEP_S, remaining_s))
            if answer is not None:
                return answer
            if should_stop is not None and should_stop():
                self.kill()
            self._check_worth_waiting(budget, ends_at)

    def _check_worth_waiting(self, budget: Budget, ends_at: float) -> None:
        budget.check()
        if self.silent_s >= _REFUSED_AFTER_S:
            raise self._silent()
        if time.monotonic() >= ends_at:
            raise StoreUnavailableError(f"{self._name} has not answered in time", engine=self._name)

    def _leave(
        self,
        channel: EngineChannel,
        free: "deque[EngineChannel] | None" = None,
        abandoned_by: "deque[EngineChannel] | None" = None,
    ) -> None:
        """Give a connection back, or note that its answer is still to come."""
        with self._changed:
            self._in_use -= 1
            if free is not None:
                free.append(channel)
            if abandoned_by is not None:
                self._abandoned.append((abandoned_by, channel))
            self._changed.notify_all()

    def _break(self) -> None:
        with self._changed:
            self.is_broken = True
            self._changed.notify_all()

    def _watch(self) -> None:
        """Ask for signs of life, and bring abandoned connections back once their answers have come."""
        try:
            while not self._is_stopping.wait(_BEAT_S):
                self._heartbeat.send("beat", ())
                asked_at = time.monotonic()
                while (answer := self._heartbeat.answer(_BEAT_S)) is None:
                    if self._is_stopping.is_set():
                        return
                    self._look_for_work()
                    self._kill_if_hung(asked_at)
                    self._take_back()
                self._pid = answer.result
                self._alive_at = time.monotonic()
                self._take_back()
        except (EOFError, OSError):
            self._break()

    def _look_for_work(self) -> None:
        """Count the use of the processor as a sign of life."""
        ticks = _cpu_ticks(self._pid)
        if ticks is not None and ticks != self._cpu_ticks:
            self._cpu_ticks, self._alive_at = ticks, time.monotonic()

    def _kill_if_hung(self, asked_at: float) -> None:
        now = time.monotonic()
        if min(self.silent_s, now - asked_at) < self._hung_after_s and now - asked_at < self._busy_limit_s:
            return
        _log.error(
            "the vector engine hangs and is killed",
            engine=self._name,
            silent_s=round(self.silent_s, 1),
            unanswered_s=round(now - asked_at, 1),
        )
        self.kill()

    def _take_back(self) -> None:
        with self._changed:
            waiting, self._abandoned = self._abandoned, []
        still_waiting = [(free, channel) for free, channel in waiting if channel.answer(_DRAIN_S) is None]
        with self._changed:
            self._abandoned += still_waiting
            for free, channel in waiting:
                if (free, channel) not in still_waiting:
                    free.append(channel)
            self._changed.notify_all()

    def _wait_flushed(self, ends_at: float) -> None:
        """Wait for the end of a process that flushes, as long as it uses the processor now and then."""
        self._alive_at = time.monotonic()
        while self.silent_s < _STOP_SILENT_S and time.monotonic() < ends_at:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_STEP_S)
                return
            self._look_for_work()

    def _is_disk_full(self) -> bool:
        try:
            return shutil.disk_usage(self._folder).free < _FREE_BYTES
        except OSError:
            return False  # the engine says better what is wrong with the folder

    def _ended(self) -> StoreUnavailableError:
        if self._is_disk_full():
            message = f"the engine process of {self._name} has ended, for there is no space left on its disk"
            return StoreUnavailableError(message, engine=self._name, what="disk")
        return StoreUnavailableError(f"the engine process of {self._name} has ended", engine=self._name)

    def _silent(self) -> StoreUnavailableError:
        return StoreUnavailableError(
            f"the engine process of {self._name} has not responded for {self.silent_s:.0f} s", engine=self._name
        )


def _disk_full() -> ExhaustedError:
    return ExhaustedError("no space left on the disk of the vector engine", what="disk")


def _cpu_ticks(pid: int) -> int | None:
    """Return how much time of the processor a process has used, in clock ticks; None when it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The name of the program stands in brackets and may hold anything; utime and stime are fields 14 and 15.
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
