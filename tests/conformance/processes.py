"""What runs below a process, as Linux tells it, and what ends with it, however it ends."""

import ctypes
import importlib
import os
import signal
import subprocess
import time
from functools import cache
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def descendants(pid: int) -> set[int]:
    """Return the ids of all processes below one."""
    found: set[int] = set()
    for listing in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, listing.read_text().split()):
            found |= {child} | descendants(child)
    return found


def engine_pids(owner: int, folder: Path = Path("/")) -> list[int]:
    """Return the processes that run the engines of an owner in a folder, without those that watch over them."""

    def is_engine(pid: int) -> bool:
        said = [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "comm")]
        return any(b"engine_server" in each for each in said) and not descendants(pid)

    def is_in_folder(pid: int) -> bool:
        files = (each.readlink() for each in Path(f"/proc/{pid}/fd").iterdir())
        return any(file.is_relative_to(folder.resolve()) for file in files)

    return [pid for pid in descendants(owner) if is_engine(pid) and is_in_folder(pid)]


def is_running(pid: int) -> bool:
    """Tell whether a process exists and is no zombie."""
    return _state(Path(f"/proc/{pid}")) not in "XZ"


def freeze(pid: int) -> None:
    """Stop a process, and return when none of its threads runs: the signal alone leaves them some more milliseconds."""
    os.kill(pid, signal.SIGSTOP)
    ends_at = time.monotonic() + 60
    while any(_state(thread) in "RSD" for thread in Path(f"/proc/{pid}/task").glob("*")):
        assert time.monotonic() < ends_at
        time.sleep(0.001)


def end_with_parent() -> None:
    """Let this process end when the thread ends that started it: to be called between fork and exec."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGQUIT)


def remove_at_the_end(folder: Path) -> None:
    """Remove a folder when this process has ended, also where it is killed: pytest-xdist waits ten seconds for one."""
    janitor = _janitor()
    assert janitor.stdin is not None
    janitor.stdin.write(f"{folder}\n".encode())


@cache
def _janitor() -> "subprocess.Popen[bytes]":
    # Its standard input ends with this process. What ends at the same time may still write into a folder.
    script = """
        while read -r folder; do set -- "$@" "$folder"; done
        for _ in 1 2 3 4 5; do rm -rf "$@" 2>/dev/null && exit; sleep 1; done
    """
    return subprocess.Popen(["/bin/sh", "-c", script], stdin=subprocess.PIPE, bufsize=0, start_new_session=True)


def give_way_to_nobody() -> None:
    """Let parsers and builders of indexes run like everything else: on a full machine tests would wait for minutes."""
    for module, constant in (
        ("groundwire.ingest.parsing.parser_pool", "_NICENESS"),
        ("groundwire.vectorstores.qdrant_edge.store", "_BUILDER_NICENESS"),
    ):
        imported = importlib.import_module(module)
        assert hasattr(imported, constant)
        setattr(imported, constant, 0)


def _state(process: Path) -> str:
    try:
        return process.joinpath("stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"
