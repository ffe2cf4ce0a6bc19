"""The server with which `groundwire restore` checks what it restored, a child process that ends with the command."""

import os
import re
import signal
import socket
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from groundwire.cli.__main__ import main as run_command
from groundwire.kernel.errors import PreconditionError
from groundwire.processes.child import ChildProcess

_LISTENING: Final = "listening on "
# What makes a server reachable, or asks its callers for other credentials than this one's only caller has, or limits
# that one; and a folder of uploads that other servers share, of which it would know none and remove all.
_NOT_FOR_A_CHECK: Final = (
    *("GROUNDWIRE_CALLER", "GROUNDWIRE_INGEST_STAGING", "GROUNDWIRE_JW", "GROUNDWIRE_KEYS", "GROUNDWIRE_METRICS"),
    *("GROUNDWIRE_PROCESSES", "GROUNDWIRE_TLS", "OTEL_"),
)
_SERVER: Final = re.compile(r"^[a-z+]+://")
# It has no calls to finish when it is told to end, and an engine to close.
_END_S: Final = 60.0


@contextmanager
def checking_server(data: Path, catalog: str, keys: Path) -> Iterator[str]:
    """Run a server on what was restored, on the loopback interface alone, and give its address.

    Raises:
        PreconditionError: it does not start.
    """
    # A vector store server may hold the collections of what the backup is of: they have the same names.
    is_shared = _SERVER.search(os.environ.get("GROUNDWIRE_VECTORS", ""))
    serve = ("serve", "--listen", "127.0.0.1:0", "--data", str(data), "--catalog", catalog, "--keys", str(keys))
    with tempfile.TemporaryFile("w+", encoding="utf-8") as log:
        server = ChildProcess(
            __name__,
            str(log.fileno()),
            *serve,
            inherited=(log.fileno(),),
            environment={"GROUNDWIRE_VECTORS": "memory:"} if is_shared else {},
        )
        try:
            with server.connections[0] as output, output.makefile(encoding="utf-8") as lines:
                line = lines.readline().strip()
                if not line.startswith(_LISTENING):
                    server.wait(_END_S)
                    log.seek(0)
                    *_, reason = ["it gives no reason", *log.read().splitlines()]
                    raise PreconditionError(f"no server starts on what was restored: {reason}")
                yield line.removeprefix(_LISTENING)
        finally:
            if server.exit_code is None:
                with suppress(ProcessLookupError):
                    os.kill(server.pid, signal.SIGTERM)
                server.wait(_END_S)
            server.kill()


def main(connections: list[socket.socket], log: str, *arguments: str) -> None:
    """Run a command in the child: its output goes to the connection, and its log to a descriptor."""
    os.dup2(connections[0].fileno(), 1)
    os.dup2(int(log), 2)
    # The objects that there are have looked at the streams of the owner, whether they can be wound back.
    sys.stdout = os.fdopen(1, "w", closefd=False)  # noqa: TID251 - nothing is printed here
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)  # noqa: TID251 - nor here
    for name in list(os.environ):
        if name.startswith(_NOT_FOR_A_CHECK):
            del os.environ[name]
    sys.argv[1:] = arguments
    run_command()
