"""The child's side: `python -m groundwire.processes.child_main MODULE NICENESS DESCRIPTORS ARGUMENT...`.

DESCRIPTORS are the inherited sockets, the lifeline first. There are two processes: a worker that runs MODULE, and this
one, which ends with the worker and kills it as soon as the other end of the lifeline is closed. A thread of the worker
could not do that, because libraries hold the interpreter lock for seconds.
"""

import ctypes
import importlib
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence

# From linux/prctl.h: Python has no name for it.
_PR_SET_PDEATHSIG = 1


def main(arguments: Sequence[str]) -> None:
    """Run the module until it ends or the lifeline is closed."""
    module, niceness, listed, *rest = arguments
    lifeline, *descriptors = map(int, listed.split(","))
    os.nice(int(niceness))
    # Before heavy imports, which start threads: a process must not fork with threads running.
    watcher = os.getpid()
    worker = os.fork()
    if worker:
        # This process ends with the worker's exit code, or kills the worker when the lifeline breaks.
        os.closerange(3, lifeline)
        os.closerange(lifeline + 1, os.sysconf("SC_OPEN_MAX"))
        ended = os.pidfd_open(worker)
        try:
            os.write(lifeline, worker.to_bytes(8, "big"))
        except OSError:
            os.kill(worker, signal.SIGKILL)  # the owner has gone already
        ready, _, _ = select.select([lifeline, ended], [], [])
        if ended not in ready:
            os.kill(worker, signal.SIGKILL)
        _, status = os.waitpid(worker, 0)
        # A process can exit only with a byte: a negative code (a signal) wraps around, and `exit_code` undoes that.
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    # The kernel kills this process when its parent ends, however that happens.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != watcher:
        os._exit(os.EX_SOFTWARE)
    os.close(lifeline)
    connections = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    importlib.import_module(module).main(connections, *rest)


if __name__ == "__main__":
    main(sys.argv[1:])
