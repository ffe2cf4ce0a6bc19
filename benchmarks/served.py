"""Starts a server process with a temporary data folder for the other scripts of this folder."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

GROUNDWIRE = [sys.executable, "-m", "groundwire.cli"]


@contextmanager
def server(scratch: Path, arguments: Sequence[str]) -> Iterator[str]:
    """Give the address of a server whose data and `server.log` are in `scratch`; it is stopped afterwards."""
    with server_process(scratch, arguments) as (address, _):
        yield address


@contextmanager
def server_process(scratch: Path, arguments: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Give address and process id of a server; see `server`."""
    command = [*GROUNDWIRE, "serve", "--listen", "127.0.0.1:0", "--data", str(scratch / "data"), *arguments]
    scratch.mkdir(parents=True, exist_ok=True)
    with (scratch / "server.log").open("w") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = (process.stdout or sys.exit("no output")).readline().strip()
            if not line.startswith("listening on "):
                sys.exit((scratch / "server.log").read_text())
            yield line.removeprefix("listening on "), process.pid
        finally:
            process.terminate()
            process.wait()
