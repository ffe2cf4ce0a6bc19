"""Processes forked ahead, each of which becomes a child of `groundwire.processes` with all of it imported.

A server starts an engine and a parser, which import for a fifth of a second each. Where no process is left, where
another interpreter would be needed, and outside of `fork_ahead`, children start as they do for users.
"""

import fcntl
import importlib
import json
import os
import socket
import subprocess
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from groundwire.processes import child, child_main

MODULES = (
    "groundwire.ingest.parsing.parser_worker",
    "groundwire.vectorstores.engine_server",
    "groundwire.vectorstores.qdrant_edge.engine",
)
_MAX_ORDER_BYTES = 1 << 20
_MOST_DESCRIPTORS = 64


class _Forked(subprocess.Popen):  # type: ignore[type-arg]  # without streams there is no type of what they carry
    """A child of this process that is there already."""

    def __init__(self, pid: int, args: Sequence[str]) -> None:
        self.pid, self.args = pid, args
        self.returncode = None
        self.stdin = self.stdout = self.stderr = None
        self._waitpid_lock = threading.Lock()
        self._child_created = True


def import_children() -> None:
    """Import what children need."""
    for name in MODULES:
        importlib.import_module(name)


def fork_ahead(count: int) -> None:
    """Fork so many processes, which the next children will be; to be called before there are threads."""
    spares: deque[tuple[int, socket.socket]] = deque()
    for _ in range(count):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        pid = os.fork()
        if not pid:
            for other in (ours, *(each for _, each in spares)):
                other.close()
            _become(theirs)
        theirs.close()
        spares.append((pid, ours))

    def started(command: Sequence[str], *, pass_fds: Sequence[int], env: Mapping[str, str], **options: Any) -> Any:
        try:
            pid, orders = spares.popleft()
        except IndexError:
            return subprocess.Popen(command, pass_fds=pass_fds, env=env, **options)
        *_, last = (index for index, part in enumerate(command) if part == "-m")
        order = {"arguments": command[last + 2 :], "variables": dict(env), "descriptors": pass_fds}
        with orders:
            socket.send_fds(orders, [json.dumps(order).encode()], list(pass_fds))
        return _Forked(pid, command)

    # As far as `ChildProcess` uses it.
    used = SimpleNamespace(Popen=started, DEVNULL=subprocess.DEVNULL, TimeoutExpired=subprocess.TimeoutExpired)
    vars(child).update(subprocess=used)


def _become(orders: socket.socket) -> None:
    os.setpgid(0, 0)  # Ctrl-C is for the owner
    message, received, _, _ = socket.recv_fds(orders, _MAX_ORDER_BYTES, _MOST_DESCRIPTORS)
    if not message:
        os._exit(0)
    order = json.loads(message)
    orders.close()
    # Apart first: one may have come under the number that another is to have.
    free = 1 + max(*received, *order["descriptors"])
    moved = [fcntl.fcntl(number, fcntl.F_DUPFD, free) for number in received]
    os.closerange(3, free)
    for number, wanted in zip(moved, order["descriptors"], strict=True):
        os.dup2(number, wanted)
        os.close(number)
    os.environ.clear()
    os.environ.update(order["variables"])
    module = order["arguments"][0]
    Path("/proc/self/comm").write_text(module.rpartition(".")[2], encoding="ascii")
    child_main.main(order["arguments"])
    os._exit(0)  # an interpreter with all modules of a server in it takes a while to take them apart
