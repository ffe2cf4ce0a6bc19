"""Runs the command line, each time in a process of its own that finds all of it imported.

What `python -m groundwire.cli` takes before it does anything, a second for a server, is thus spent once;
`tests/unit/cli/test_start_up.py` and `tests/e2e/test_starting.py` look at real starts. The standard input is a socket:
each message is an order, and comes with the streams of the new process and a pipe, into which its id is written, and
its exit code when it ends.
"""

import gc
import importlib
import json
import os
import pkgutil
import runpy
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from selectors import EVENT_READ, DefaultSelector

from tests.conformance.processes import give_way_to_nobody
from tests.spare_processes import fork_ahead, import_children

STREAMS = 3
CHILDREN = 3
"""As many as a server of a test starts: its engine, and parsers."""
MAX_ORDER_BYTES = 1 << 20
_FOR_SERVERS = {"server"}
_OF_SERVERS = (
    "encodings.idna",
    "groundwire.answer.adapters.catalog_sessions",
    "groundwire.answer.bootstrap",
    "groundwire.cli.server",
    "groundwire.embedders.factory",
    "groundwire.ingest.bootstrap",
    "groundwire.retrieve.bootstrap",
    "groundwire.rpc.logs",
    "groundwire.standalone.bootstrap",
    "groundwire.standalone.process",
    "groundwire.standalone.readiness",
    "groundwire.standalone.split_answer",
    "groundwire.vectorstores.factory",
)
_OF_COMMANDS = ("groundwire.client", "grpc._channel", "importlib.metadata")


def main() -> None:
    """Start processes until the other end of the socket is closed."""
    _import_for(sys.argv[1])
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
            message, descriptors, _, _ = socket.recv_fds(orders, MAX_ORDER_BYTES, STREAMS + 1)
            if not message:
                # Servers of tests that failed, or of a run that was killed.
                for child, _ in filter(None, (other.data for other in waiting.get_map().values())):
                    os.kill(child, signal.SIGKILL)
                return
            *streams, report = descriptors
            child = os.fork()
            if not child:
                for other in waiting.get_map().values():
                    os.close(other.fd)
                    if other.data:
                        os.close(other.data[1])
                os.close(report)
                _become(streams=streams, **json.loads(message))
                return
            os.write(report, b"%d\n" % child)
            waiting.register(os.pidfd_open(child), EVENT_READ, (child, report))
            for number in streams:
                os.close(number)


def _import_for(kind: str) -> None:
    import groundwire.cli  # noqa: PLC0415 - the children of this process alone need it

    names = [module.name for module in pkgutil.iter_modules(groundwire.cli.__path__, "groundwire.cli.")]
    names = [name for name in names if name.rpartition(".")[2] not in _FOR_SERVERS]
    for name in (*names, *(_OF_SERVERS if kind == "server" else _OF_COMMANDS)):
        importlib.import_module(name)
    if kind == "server":
        give_way_to_nobody()
        import_children()
    del sys.modules["groundwire.cli.__main__"]


def _become(*, streams: Sequence[int], arguments: Sequence[str], variables: Mapping[str, str], folder: str) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # The objects of the runner have looked at its own streams, whether they can be wound back.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", buffering=1, closefd=False)
    if arguments[:1] == ["serve"]:
        fork_ahead(CHILDREN)
    sys.argv = ["groundwire", *arguments]
    runpy.run_module("groundwire.cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
