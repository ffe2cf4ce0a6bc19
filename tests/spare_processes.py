"""Forked processes that become children of `groundwire.processes`, with all that they need imported.

An engine and a parser import for a fifth of a second each, that of Chroma for a second. A server of a test has forked
some ahead (`fork_ahead`); those of tests themselves come from a fork server (`fork_to_order`), this module run as a
program. Where no process is left, or a test has changed where Python finds modules, children start as they do for
users; `tests/unit/processes` looks at real starts.
"""

import fcntl
import importlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from groundwire.processes import child, child_main
from tests.fork_server import ForkedProcess, Order, serve

MODULES = (
    "groundwire.ingest.parsing.parser_worker",
    "groundwire.vectorstores.engine_server",
    "groundwire.vectorstores.qdrant_edge.engine",
)
_READ_AT_START = ("GLIBC_TUNABLES", "MALLOC_PERTURB_")
"""Variables that the C library reads when a program starts, and not when it forks."""
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
            _wait_for_order(theirs)
        theirs.close()
        spares.append((pid, ours))

    def started(command: Sequence[str], *, pass_fds: Sequence[int], env: Mapping[str, str], **options: Any) -> Any:
        try:
            pid, orders = spares.popleft()
        except IndexError:
            return subprocess.Popen(command, pass_fds=pass_fds, env=env, **options)
        with orders:
            socket.send_fds(orders, [json.dumps(_order(command, pass_fds, env)).encode()], list(pass_fds))
        return _Forked(pid, command)

    _replace_popen(started)


def fork_to_order() -> None:
    """Let children be forked by a process that is started when the first of them is."""
    program = (sys.executable, list(sys.path))

    def started(command: Sequence[str], *, pass_fds: Sequence[int], env: Mapping[str, str], **options: Any) -> Any:
        if program != (sys.executable, sys.path):
            return subprocess.Popen(command, pass_fds=pass_fds, env=env, **options)
        order = {**_order(command, pass_fds, env), "folder": str(Path.cwd())}
        read_at_start = tuple((name, env[name]) for name in _READ_AT_START if name in env)
        return ForkedProcess(__name__, "children", order, pass_fds, command, read_at_start)

    _replace_popen(started)


def start_by_interpreter() -> None:
    """Let children start as they do for users."""
    vars(child).update(subprocess=subprocess)


def import_engine_of(arguments: Sequence[str]) -> None:
    """Import the library of an engine that takes long, where the arguments of a process name it."""
    if any("chroma" in argument for argument in arguments):
        for name in ("chromadb.config", "chromadb.errors", "groundwire.vectorstores.chroma.engine"):
            importlib.import_module(name)


def _replace_popen(popen: Callable[..., Any]) -> None:
    # As far as `ChildProcess` uses it.
    used = SimpleNamespace(Popen=popen, DEVNULL=subprocess.DEVNULL, TimeoutExpired=subprocess.TimeoutExpired)
    vars(child).update(subprocess=used)


def _order(command: Sequence[str], descriptors: Sequence[int], variables: Mapping[str, str]) -> Order:
    *_, last = (index for index, part in enumerate(command) if part == "-m")
    return {"arguments": command[last + 2 :], "variables": dict(variables), "descriptors": descriptors}


def _wait_for_order(orders: socket.socket) -> None:
    os.setpgid(0, 0)  # Ctrl-C is for the owner
    message, received, _, _ = socket.recv_fds(orders, _MAX_ORDER_BYTES, _MOST_DESCRIPTORS)
    if not message:
        os._exit(0)
    orders.close()
    _become(json.loads(message), received)


def _become_to_order(order: Order, received: list[int]) -> None:
    os.setpgid(0, 0)
    os.chdir(order["folder"])
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    _become(order, received)


def _become(order: Order, received: list[int]) -> None:
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


def _main() -> None:
    import_children()
    serve(lambda order: import_engine_of(order["arguments"]), _become_to_order)


if __name__ == "__main__":
    _main()
