"""The owner's side of an engine process: starts it, calls it from many threads, watches it, stops it."""

import pickle
import shutil
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import structlog

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import ExhaustedError, StoreUnavailableError
from groundwire.processes.channel import Channel
from groundwire.processes.child import ChildProcess
from groundwire.vectorstores.engine_server import Answer

HUNG_AFTER_S: Final = 20.0
"""An engine without a sign of life for this long is killed and replaced, unless the settings say otherwise."""

_SERVER = "groundwire.vectorstores.engine_server"
_READERS = 4
_WRITERS = 2
_READ_LIMIT_S = 60.0
# Limit of one request, whatever its budget: the longest writes index and drop whole collections.
_WRITE_LIMIT_S = 600.0
# Interval at which a waiting call checks whether its budget is over or the engine has fallen silent.
_STEP_S = 0.1
_BEAT_S = 0.5
_DRAIN_S = 0.02
# An engine without a sign of life for this long counts as not responding; shorter silences may be a slow disk.
_SILENT_S = 3.0
# After this long without a sign of life calls fail instead of waiting; before, they may still be answered.
_REFUSED_AFTER_S = 5.0
# A serving engine that is busy for this long without answering is in an endless loop; loading takes 1 s for each 30,000
# points.
_BUSY_LIMIT_S = 300.0
_STOP_S = 60.0
# How long a serving engine may go on at its end with what callers have given up on, such as loading a collection: one
# that is killed leaves its collections unsealed, and the next start has to compare them with the catalog.
_FINISHING_S = 5.0
# Closing flushes: up to 3 s for a large shard on a busy disk.
_STOP_SILENT_S = 10.0
_KILL_S = 5.0
# With less space on the disk nothing is added. The libraries write to mapped files, which kills the process when the
# disk is full, and they need room to delete, and to open a folder again.
_FREE_BYTES = 64 * 1024 * 1024
_GROWING = frozenset({"create", "create_indexed", "rewrite", "begin_rewrite", "copy", "upsert"})
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})

_log = structlog.get_logger(__name__)


class _Connection:
    """Requests on one connection, one at a time. Answers carry the id of their request, so none is mixed up."""

    def __init__(self, end: socket.socket) -> None:
        self._channel = Channel(end)
        self._request_id = 0

    def send(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Queue a request; `answer` sends it."""
        self._request_id += 1
        self._channel.send(pickle.dumps((self._request_id, method, arguments), protocol=pickle.HIGHEST_PROTOCOL))

    def answer(self, timeout_s: float) -> Answer | None:
        """Return the answer to the last request, or None if it has not arrived within `timeout_s`.

        Raises:
            EOFError, OSError: the connection ended.
        """
        ends_at = time.monotonic() + timeout_s
        while (message := self._channel.receive(max(0.0, ends_at - time.monotonic()))) is not None:
            answer = Answer(*pickle.loads(message))  # noqa: S301 - our own engine
            # Another id belongs to an abandoned call: nobody waits for its answer any more.
            if answer.request_id == self._request_id:
                return answer
        return None

    def close(self) -> None:
        """Close this end; the engine finishes the current request and stops listening."""
        self._channel.close()


class _Connections:
    """The free connections for one purpose; hold `lock` to take or return one."""

    def __init__(self, connections: Sequence[_Connection], lock: threading.Lock) -> None:
        self.free = deque(connections)
        # One condition for each purpose, so that a returned connection wakes one thread instead of all.
        self.came_back = threading.Condition(lock)


class EngineProcess:
    """A running engine. Calls block their thread only; reads and writes do not queue behind one another.

    A thread pings the engine every half second. The library may hold the interpreter lock for seconds, during which the
    engine cannot answer, so an engine that uses the processor also counts as alive. An engine that does neither
    (suspended, deadlocked, waiting for a dead disk) is silent.

    Args:
        name: name of the engine in errors.
        module: module with the class `Engine`, whose methods are called.
        folder: where the engine writes.
        inherited: descriptors that stay open in the engine as long as it runs (the owner lock).
        niceness: how much the engine gives way to others, 0 to 19.
        hung_after_s: seconds of silence after which the engine is killed.
        environment: additional environment variables of the engine.
        is_serving: whether others wait for its answers; an engine that builds may work for hours.
    """

    def __init__(
        self,
        name: str,
        module: str,
        folder: Path,
        *,
        inherited: tuple[int, ...] = (),
        niceness: int = 0,
        hung_after_s: float = HUNG_AFTER_S,
        environment: Mapping[str, str] = _NOTHING,
        is_serving: bool = True,
    ) -> None:
        self._name = name
        self._folder = folder
        self._hung_after_s = hung_after_s
        self._busy_limit_s = _BUSY_LIMIT_S if is_serving else float("inf")
        self._finishing_s = _FINISHING_S if is_serving else 0.0
        self._process = ChildProcess(
            _SERVER,
            module,
            connections=1 + _READERS + _WRITERS,
            niceness=niceness,
            inherited=inherited,
            environment=environment,
        )
        self._heartbeat, *channels = (_Connection(end) for end in self._process.connections)
        lock = threading.Lock()
        # Separate, so that no search waits for a connection that a write holds for minutes.
        self._readers = _Connections(channels[:_READERS], lock)
        self._writers = _Connections(channels[_READERS:], lock)
        self._abandoned: list[tuple[_Connections, _Connection]] = []
        self._unused = threading.Condition(lock)
        self._in_use = 0
        self._stopping = threading.Lock()
        self._is_stopping = threading.Event()
        self._cpu_s = -1.0
        self._alive_at = time.monotonic()
        self._broken = threading.Event()
        self._watching = threading.Thread(target=self._watch, name=f"{name}-watch", daemon=True)
        self._watching.start()

    @property
    def is_broken(self) -> bool:
        """Tell whether the engine has ended or is being stopped; it takes no more calls then."""
        return self._broken.is_set()

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
            DeadlineError: the deadline of the budget passed; the engine may still be working on it.
            CallCancelledError: the budget was cancelled; the engine may still be working on it.
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
        return self._broken.wait(timeout_s)

    def close(self) -> None:
        """Let the engine finish its requests, flush and end; kill it when it is silent. Idempotent."""
        with self._stopping:
            self._break()
            ends_at = time.monotonic() + _STOP_S
            with self._unused:
                # Running calls may finish, unless the engine is silent: it may never answer them.
                while self._in_use and self.silent_s < _SILENT_S and time.monotonic() < ends_at:
                    self._unused.wait(_STEP_S)
                # So may, for a while, what callers have given up on; the watcher takes it back.
                gives_up_at = time.monotonic() + self._finishing_s
                while (
                    self._abandoned
                    and self._process.exit_code is None
                    and self.silent_s < _SILENT_S
                    and time.monotonic() < gives_up_at
                ):
                    self._unused.wait(_STEP_S)
            # Before the connections go: the watcher uses one of them, and gives back those whose answers came late.
            self._is_stopping.set()
            self._watching.join(_KILL_S)
            # Otherwise a request hangs, and the engine would never come to close its files: it is killed below.
            if not self._abandoned and not self._in_use and self.silent_s < _SILENT_S:
                for channel in (*self._readers.free, *self._writers.free):
                    channel.close()
                # Flushing takes seconds: let it go on as long as the engine uses the processor now and then.
                self._alive_at = time.monotonic()
                while self.silent_s < _STOP_SILENT_S and time.monotonic() < ends_at and not self._process.wait(_STEP_S):
                    self._look_for_work()
            self.kill()
            abandoned = (each for _, each in self._abandoned)
            for channel in (self._heartbeat, *self._readers.free, *self._writers.free, *abandoned):
                channel.close()

    def kill(self) -> bool:
        """End the engine at once: running calls fail, what was acknowledged is in the write-ahead log; idempotent.

        Returns:
            Whether the process is gone; one that waits for a dead disk ends once the disk answers.
        """
        self._break()
        return self._process.kill()

    def _call(
        self,
        connections: _Connections,
        budget: Budget,
        limit_s: float,
        method: str,
        arguments: tuple[Any, ...],
        should_stop: Callable[[], bool] | None = None,
    ) -> Any:
        ends_at = time.monotonic() + limit_s
        free, came_back = connections.free, connections.came_back
        channel: _Connection | None = None
        while channel is None:
            self._check_worth_waiting(budget, ends_at)
            with came_back:
                if not free:
                    budget.wait_for(came_back, lambda: bool(free) or self.is_broken, _STEP_S)
                if free and not self.is_broken:
                    self._in_use += 1
                    channel = free.popleft()
                elif self.is_broken:
                    raise self._ended()
        try:
            channel.send(method, arguments)
            remaining_s = budget.remaining_s()
            while (answer := channel.answer(_STEP_S if remaining_s is None else min(_STEP_S, remaining_s))) is None:
                if should_stop is not None and should_stop():
                    self.kill()
                self._check_worth_waiting(budget, ends_at)
                remaining_s = budget.remaining_s()
        except (EOFError, OSError) as broken:
            self._leave(channel)
            channel.close()
            self._break()
            raise self._ended() from broken
        except BaseException:
            # The engine may still be working on it, and the next request on this connection would wait for that.
            self._leave(channel, abandoned_by=connections)
            raise
        self._leave(channel, connections)
        if not answer.failure:
            return answer.result
        if answer.is_disk_full:
            raise _disk_full()
        raise StoreUnavailableError(f"{self._name} failed: {answer.failure}", engine=self._name)

    def _check_worth_waiting(self, budget: Budget, ends_at: float) -> None:
        budget.check()
        if self.silent_s >= _REFUSED_AFTER_S:
            raise self._silent()
        if time.monotonic() >= ends_at:
            raise StoreUnavailableError(f"{self._name} has not answered in time", engine=self._name)

    def _leave(
        self, channel: _Connection, back_to: _Connections | None = None, abandoned_by: _Connections | None = None
    ) -> None:
        """Return a connection, or note that its answer is still to come."""
        with self._unused:
            self._in_use -= 1
            if back_to is not None:
                back_to.free.append(channel)
                back_to.came_back.notify()
            if abandoned_by is not None:
                self._abandoned.append((abandoned_by, channel))
            if not self._in_use:
                self._unused.notify_all()

    def _break(self) -> None:
        self._broken.set()
        for each in (self._readers, self._writers):
            with each.came_back:
                each.came_back.notify_all()

    def _watch(self) -> None:
        """Ping the engine, and return abandoned connections to their pools once their answers have come."""
        try:
            while not self._is_stopping.wait(_BEAT_S):
                self._heartbeat.send("beat", ())
                asked_at = time.monotonic()
                while self._heartbeat.answer(_BEAT_S) is None:
                    if self._is_stopping.is_set():
                        return
                    self._look_for_work()
                    unanswered_s = time.monotonic() - asked_at
                    # Both: an engine that was suspended and continues has been silent, but was pinged only just now.
                    is_silent = min(self.silent_s, unanswered_s) >= self._hung_after_s
                    if is_silent or unanswered_s >= self._busy_limit_s:
                        _log.error(
                            "the vector engine hangs and is killed",
                            engine=self._name,
                            silent_s=round(self.silent_s, 1),
                            unanswered_s=round(unanswered_s, 1),
                        )
                        self.kill()
                    self._take_back()
                self._alive_at = time.monotonic()
                self._take_back()
        except (EOFError, OSError):
            self._break()

    def _look_for_work(self) -> None:
        """Count the use of the processor as a sign of life."""
        used_s = self._process.cpu_s()
        if used_s is not None and used_s != self._cpu_s:
            self._cpu_s, self._alive_at = used_s, time.monotonic()

    def _take_back(self) -> None:
        with self._unused:
            waiting = list(self._abandoned)
        # Outside the lock: looking for an answer takes a moment, and calls go on meanwhile.
        answered = [each for each in waiting if each[1].answer(_DRAIN_S) is not None]
        with self._unused:
            for connections, channel in answered:
                self._abandoned.remove((connections, channel))
                connections.free.append(channel)
                connections.came_back.notify()

    def _is_disk_full(self) -> bool:
        try:
            return shutil.disk_usage(self._folder).free < _FREE_BYTES
        except OSError:
            return False  # the engine itself has the better error for the folder

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
    # Most often some is left, which the operator sees and would take for enough.
    message = f"no space left on the disk of the vector engine, which needs {_FREE_BYTES >> 20} MiB to write"
    return ExhaustedError(message, what="disk")
