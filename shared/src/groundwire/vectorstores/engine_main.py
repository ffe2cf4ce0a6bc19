"""Starts an engine process: `python -m groundwire.vectorstores.engine_main MODULE LIFELINE NICENESS PIPE...`.

MODULE has a class `Engine`; the others are inherited descriptors (those of the pipes are sockets) and a niceness. The
process is two: a child that runs the engine, and this one, which ends with the child and kills it as soon as the other
end of the lifeline is closed. A thread of the child could not do that: engines hold the interpreter lock for seconds.
"""

import ctypes
import os
import select
import signal
import sys
from collections.abc import Sequence

_PR_SET_PDEATHSIG = 1


def main(arguments: Sequence[str]) -> None:
    """Run the engine until its pipes or its lifeline are closed."""
    module = arguments[0]
    lifeline, niceness, *pipes = map(int, arguments[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the owner, who closes the pipes
    os.nice(niceness)
    # Before anything heavy is imported: a process must not fork with threads running.
    watcher = os.getpid()
    child = os.fork()
    if child:
        _watch(child, lifeline)
    _end_with(watcher)
    os.close(lifeline)
    from groundwire.vectorstores.engine_server import serve  # noqa: PLC0415 - imported by the child alone

    serve(module, pipes)


def _end_with(watcher: int) -> None:
    """Let the kernel kill this process when its parent ends, however that happens."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != watcher:
        os._exit(os.EX_SOFTWARE)


def _watch(child: int, lifeline: int) -> None:
    """End this process with the child's exit code, or kill the child when the lifeline breaks."""
    os.closerange(3, lifeline)
    os.closerange(lifeline + 1, os.sysconf("SC_OPEN_MAX"))
    ended = os.pidfd_open(child)
    ready, _, _ = select.select([lifeline, ended], [], [])
    if ended not in ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    main(sys.argv[1:])
