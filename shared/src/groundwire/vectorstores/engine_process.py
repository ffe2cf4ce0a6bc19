"""The owner's side of an engine process: starts it, calls it from many threads, stops it."""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import StoreUnavailableError

_MAIN = "groundwire.vectorstores.engine_main"
_READ_PIPES = 4
_WRITE_PIPES = 2
_POLL_S = 0.1
_STOP_S = 60.0
"""Closing flushes: up to 3 s for a large shard on a busy disk."""


class EngineProcess:
    """A running engine. Calls block their thread only; reads and writes do not queue behind one another.

    Args:
        name: of the engine in errors.
        module: has the class `Engine` whose methods are called.
        kept_open: descriptors that stay open in the engine as long as it runs (the owner lock).
        niceness: how much the engine gives way to others, 0 to 19.
    """

    def __init__(self, name: str, module: str, *, kept_open: tuple[int, ...] = (), niceness: int = 0) -> None:
        self._name = name
        pairs = [Pipe() for _ in range(_READ_PIPES + _WRITE_PIPES)]
        held, self._lifeline = os.pipe()
        theirs = [far.fileno() for _, far in pairs]
        self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
            [sys.executable, "-P", "-m", _MAIN, module, *map(str, [held, niceness, *theirs])],
            pass_fds=(held, *theirs, *kept_open),
            stdin=subprocess.DEVNULL,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        os.close(held)
        for _, far in pairs:
            far.close()
        self._reads = _pool([near for near, _ in pairs[:_READ_PIPES]])
        self._writes = _pool([near for near, _ in pairs[_READ_PIPES:]])
        self._stopping = threading.Lock()
        self.is_broken = False

    def read(self, budget: Budget, method: str, *arguments: Any) -> Any:
        """Call a method that changes nothing.

        Raises:
            StoreUnavailableError: the engine failed or has ended.
        """
        budget.check()
        with self._borrowed(self._reads) as pipe:
            return self._call(pipe, method, arguments)

    def write(self, budget: Budget, method: str, *arguments: Any, should_stop: Callable[[], bool] | None = None) -> Any:
        """Call a method that writes.

        With `should_stop`, the engine is killed as soon as that returns true.

        Raises:
            StoreUnavailableError: the engine failed, has ended or was killed.
        """
        budget.check()
        with self._borrowed(self._writes) as pipe:
            return self._call(pipe, method, arguments, should_stop)

    def close(self) -> None:
        """Let the engine flush and end; idempotent."""
        with self._stopping:
            self._close_pipes()
            try:
                self._process.wait(_STOP_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._cut_lifeline()

    def kill(self) -> None:
        """End the engine at once: running calls fail, what was acknowledged is in the write-ahead log; idempotent."""
        self.is_broken = True
        self._cut_lifeline()
        self._process.wait()

    def _call(
        self,
        pipe: Connection,
        method: str,
        arguments: tuple[Any, ...],
        should_stop: Callable[[], bool] | None = None,
    ) -> Any:
        try:
            pipe.send((method, arguments))
            while should_stop is not None and not pipe.poll(_POLL_S):
                if should_stop():
                    self.kill()
            error, result = pipe.recv()
        except (EOFError, OSError) as broken:
            self.is_broken = True
            raise StoreUnavailableError(f"the engine process of {self._name} has ended", engine=self._name) from broken
        if error is not None:
            raise StoreUnavailableError(f"{self._name} failed: {error}", engine=self._name)
        return result

    @contextmanager
    def _borrowed(self, pool: "queue.SimpleQueue[Connection]") -> Iterator[Connection]:
        pipe = pool.get()
        try:
            yield pipe
        finally:
            pool.put(pipe)

    def _close_pipes(self) -> None:
        """Wait for the calls that run, and close their pipes; later calls fail."""
        self.is_broken = True
        for pool, size in ((self._reads, _READ_PIPES), (self._writes, _WRITE_PIPES)):
            pipes = [pool.get() for _ in range(size)]
            for pipe in pipes:
                pipe.close()
                pool.put(pipe)

    def _cut_lifeline(self) -> None:
        lifeline, self._lifeline = self._lifeline, -1
        if lifeline >= 0:
            os.close(lifeline)


def _pool(pipes: list[Connection]) -> "queue.SimpleQueue[Connection]":
    pool: queue.SimpleQueue[Connection] = queue.SimpleQueue()
    for pipe in pipes:
        pool.put(pipe)
    return pool
