"""Commands that `command_runner` starts, used as processes of `subprocess` are."""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, Self

_OF_SERVERS = {"backup", "config", "copy", "migrate", "restore", "serve"}
"""Commands that import what servers do."""


class Command:
    """A process of the command line with its streams, descriptors which stay open here; without `stdin` it has none."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stdout: int,
        stderr: int,
        stdin: int | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.args = ["groundwire", *arguments]
        self.returncode: int | None = None
        read_end, write_end = os.pipe()
        self._reports: IO[bytes] = os.fdopen(read_end, "rb", buffering=0)
        order = {"arguments": arguments, "variables": {**os.environ, **(variables or {})}, "folder": str(Path.cwd())}
        orders = runner("server" if arguments and arguments[0] in _OF_SERVERS else "commands")
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            streams = [nothing if stdin is None else stdin, stdout, stderr]
            socket.send_fds(orders, [json.dumps(order).encode()], [*streams, write_end])
        finally:
            os.close(nothing)
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
        if self.returncode is None:
            if not select.select([self._reports], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = int(self._reports.readline())
            self._reports.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@cache
def runner(kind: str) -> socket.socket:
    """Return the socket of the process that starts servers (`server`) or other commands, started at the first call."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with theirs:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.command_runner", kind], stdin=theirs.fileno(), env=variables
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
