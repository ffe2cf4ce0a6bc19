"""A process that imports much once, and forks others which find it imported.

Its standard input is a socket: each message is an order, and comes with the descriptors of the new process and a pipe,
into which its id is written, and its exit code when it ends.
"""

import atexit
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from selectors import EVENT_READ, DefaultSelector
from typing import IO, Any, Self

_MAX_ORDER_BYTES = 1 << 20
_MOST_DESCRIPTORS = 64

Order = dict[str, Any]
Variables = tuple[tuple[str, str], ...]


class ForkedProcess:
    """A process that was forked to order, used as those of `subprocess` are; the descriptors stay open here."""

    stdin = stdout = stderr = None

    def __init__(
        self,
        module: str,
        kind: str,
        order: Order,
        descriptors: Sequence[int],
        args: Sequence[str],
        variables: Variables = (),
    ) -> None:
        self.args = args
        self.returncode: int | None = None
        read_end, write_end = os.pipe()
        self._reports: IO[bytes] = os.fdopen(read_end, "rb", buffering=0)
        # Not at the end of the process: another thread may be waiting for that as well.
        weakref.finalize(self, self._reports.close)
        self._reading = threading.Lock()
        try:
            server = started_server(module, kind, variables)
            socket.send_fds(server, [json.dumps(order).encode()], [*descriptors, write_end])
        finally:
            os.close(write_end)
        self.pid = int(self._reports.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, None while it runs."""
        try:
            return self.wait(timeout=0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code once it has ended; negative: the signal that ended it.

        Raises:
            subprocess.TimeoutExpired: it has not ended in time.
        """
        if self.returncode is None and not select.select([self._reports], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
        with self._reading:
            if self.returncode is None:
                # The server is gone, and what it started with it, where it says nothing.
                self.returncode = int(self._reports.readline() or -signal.SIGKILL)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it may end between the two
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def started_server(module: str, kind: str, variables: Variables = ()) -> socket.socket:
    """Return the socket of the process that runs `module` with the argument `kind`, started at the first call.

    `variables` are those of the environment that only a program that starts reads.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _MAX_ORDER_BYTES)
    environment = os.environ | dict(variables) | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with theirs:
        process = subprocess.Popen([sys.executable, "-m", module, kind], stdin=theirs.fileno(), env=environment)

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def serve(prepare: Callable[[Order], None], become: Callable[[Order, list[int]], None]) -> None:
    """Fork a process for each order until the other end of the socket is closed.

    `prepare` imports what the order needs, before the fork; `become` runs in the new process.
    """
    gc.freeze()  # or each child looks through all of it when it ends
    orders = socket.socket(fileno=sys.stdin.fileno())
    waiting = DefaultSelector()
    waiting.register(orders, EVENT_READ)
    while True:
        for ready, _ in waiting.select():
            if ready.data:
                waiting.unregister(ready.fd)
                os.close(ready.fd)
                child, report = ready.data
                os.write(report, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                os.close(report)
                continue
            message, descriptors, _, _ = socket.recv_fds(orders, _MAX_ORDER_BYTES, _MOST_DESCRIPTORS)
            if not message:
                # Servers of tests that failed, or of a run that was killed.
                for child, _ in filter(None, (other.data for other in waiting.get_map().values())):
                    os.kill(child, signal.SIGKILL)
                return
            order = json.loads(message)
            *handed_over, report = descriptors
            prepare(order)
            child = os.fork()
            if not child:
                for other in waiting.get_map().values():
                    os.close(other.fd)
                    if other.data:
                        os.close(other.data[1])
                os.close(report)
                become(order, handed_over)
                return
            os.write(report, b"%d\n" % child)
            waiting.register(os.pidfd_open(child), EVENT_READ, (child, report))
            for number in handed_over:
                os.close(number)
