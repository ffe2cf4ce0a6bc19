"""The owner's side of a child process: start it, check that it is working, end it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final

_MAIN = "groundwire.processes.child_main"
_KILL_S = 5.0
# The watcher exits with the code of the worker, of which -64 to -1, those of signals, wrap around to 192 to 255.
_SIGNALS_FROM = 192
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class ChildProcess:
    """A Python process that runs `main(connections, *arguments)` of a module, and ends with its owner in any case.

    There are two processes: the worker, and a watcher (`child_main`). The constructor waits for neither, so an owner
    can start a child ahead of its first use.

    `module` has the function `main`, which gets `arguments`. `connections` is the number of socket pairs to the child.
    `niceness` is 0 to 19. `inherited` are descriptors that stay open in the child. `environment` adds variables to
    those of this process.
    """

    def __init__(
        self,
        module: str,
        *arguments: str,
        connections: int = 1,
        niceness: int = 0,
        inherited: tuple[int, ...] = (),
        environment: Mapping[str, str] = _NOTHING,
    ) -> None:
        pairs = [socket.socketpair() for _ in range(connections)]
        # The lifeline: the watcher reports the worker's id on it, and kills the worker once our end is closed.
        self._lifeline, far_lifeline = socket.socketpair()
        self._lifeline.setblocking(False)  # noqa: FBT003 - the library's own parameter
        far_ends = [far_lifeline, *(far for _, far in pairs)]
        descriptors = [far.fileno() for far in far_ends]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
                # -P: a module in the current folder must not stand in for one of ours.
                [sys.executable, "-P", "-m", _MAIN, module, str(niceness), ",".join(map(str, descriptors)), *arguments],
                pass_fds=(*descriptors, *inherited),
                stdin=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C is for the owner, which ends its children in order
                env={**os.environ, **environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
        except BaseException:
            for near in (self._lifeline, *(near for near, _ in pairs)):
                near.close()
            raise
        finally:
            for far in far_ends:
                far.close()
        self.connections = [near for near, _ in pairs]
        self._worker: int | None = None

    @property
    def pid(self) -> int:
        """Return the id of the worker; for the first hundredths of a second, until it runs, that of the watcher."""
        if self._worker is None:
            with suppress(OSError):
                said = self._lifeline.recv(8)
                self._worker = int.from_bytes(said, "big") if said else None
        return self._worker or self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Return the exit code of the worker, negative for a signal; None while it runs."""
        code = self._process.poll()
        return code if code is None or code < _SIGNALS_FROM else code - 256

    def cpu_s(self) -> float | None:
        """Return the processor seconds that the worker has used; None if it has ended."""
        return cpu_s(self.pid)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the process to end; return whether it has ended."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout_s)
        return self._process.poll() is not None

    def kill(self) -> bool:
        """Kill the process at once, even if it is suspended; idempotent.

        Returns:
            Whether it has ended; a process that waits for a dead disk ends once the disk answers.
        """
        self._lifeline.close()
        # The watcher may be suspended too; without SIGCONT it would not notice the closed lifeline.
        self._process.send_signal(signal.SIGCONT)
        if not self.wait(_KILL_S):
            self._process.kill()
        return self._process.poll() is not None


def cpu_s(pid: int) -> float | None:
    """Return the processor seconds that a process has used; None if it has ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The program name is in brackets and may contain spaces and brackets; utime and stime are fields 14 and 15.
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
