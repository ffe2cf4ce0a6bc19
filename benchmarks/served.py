"""Starts a server process with a temporary data folder for the other scripts of this folder, and finds its children."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from groundwire.client import GroundwireClient
from groundwire.processes.child import cpu_s as cpu_s_of_one

_LIMIT_S = 600.0
"""Of a call: some measure a machine that is busy, or models that are slow."""
GROUNDWIRE = [sys.executable, "-m", "groundwire.cli"]


@contextmanager
def served_client(arguments: Sequence[str], data: Path | None = None) -> Iterator[GroundwireClient]:
    """Give a client of a server; see `server`."""
    with server(arguments, data) as address, GroundwireClient(address, timeout_s=_LIMIT_S) as client:
        yield client


@contextmanager
def server(arguments: Sequence[str], data: Path | None = None) -> Iterator[str]:
    """Give the address of a server whose data and `server.log` are in `data`, or in a folder that is removed."""
    with (
        tempfile.TemporaryDirectory(prefix="groundwire-") as scratch,
        server_process(data or Path(scratch), arguments) as (address, _),
    ):
        yield address


@contextmanager
def server_process(scratch: Path, arguments: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Give address and process id of a server whose data and `server.log` are in `scratch`."""
    command = [*GROUNDWIRE, "serve", "--listen", "127.0.0.1:0", "--data", str(scratch / "data"), *arguments]
    scratch.mkdir(parents=True, exist_ok=True)
    with (
        (scratch / "server.log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        try:
            line = (process.stdout or sys.exit("no output")).readline().strip()
            if not line.startswith("listening on "):
                sys.exit((scratch / "server.log").read_text())
            yield line.removeprefix("listening on "), process.pid
        finally:
            process.terminate()


def with_children(process_id: int) -> list[int]:
    """Return a process and all that are below it."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended meanwhile
            # Behind the name, which may have spaces.
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(stat.parent.name))
    found, waiting = list[int](), [process_id]
    while waiting:
        found.append(process := waiting.pop())
        waiting += children.get(process, [])
    return found


def cpu_s(process_id: int) -> float:
    """Return the processor seconds of a process and its children that are still there."""
    return sum(cpu_s_of_one(process) or 0.0 for process in with_children(process_id))


def memory_mib(process_id: int, figure: str) -> float:
    """Return a figure of `/proc/PID/status`, such as `VmRSS`, of a process; 0 if it has ended."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{process_id}/status").read_text().partition(f"{figure}:")[2].split()[0]) / 1024
    return 0.0
