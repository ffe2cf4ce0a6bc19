"""Several processes of one service behind one port, among which the kernel spreads connections (SO_REUSEPORT)."""

import multiprocessing
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from groundwire.kernel.errors import GroundwireError, PreconditionError
from groundwire.standalone.settings import ProcessSettings, ServiceName

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

_RESTART_S = 1.0
"""Between the end of a process and the start of the one in its place, so that one that cannot run costs little."""
_STARTED_S = 300.0


def run_several(service: ServiceName, settings: ProcessSettings, serve: Callable[..., None]) -> None:
    """Run `settings.server.processes` processes until SIGTERM or SIGINT; prints `listening on` once all can serve.

    One that ends by itself is started anew. `serve` is called in each with service, settings, and what to call once it
    listens.

    Raises:
        PreconditionError: one of them ended before it could serve; it has said why.
    """
    # Spawned, not forked, before anything of gRPC runs here: its threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    host, _, port = settings.server.listen.rpartition(":")
    with closing(_reserved(host, int(port))) as place:
        listen = f"{host}:{place.getsockname()[1]}"
        running: dict[int, SpawnProcess] = {}
        # Held as long as its process: it is gone before the process has it when nobody here has it any more.
        readiness: dict[int, Any] = {}

        def start(index: int) -> None:
            ready = readiness[index] = context.Event()
            own = settings.of_process(index, listen)
            running[index] = context.Process(
                target=_serve_one, args=(serve, service, own, ready), name=f"{service}-{index}"
            )
            # Ctrl-C is for this process, which ends the others; they inherit that it is blocked.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            running[index].start()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

        try:
            for index in range(settings.server.processes):
                start(index)
            _await_all(list(readiness.values()), running, stopping)
            if not stopping.is_set():
                print(f"listening on {listen}", flush=True)  # noqa: T201 - the one line that scripts wait for
            while not stopping.is_set():
                wait([process.sentinel for process in running.values()], timeout=_RESTART_S)
                ended = [index for index, process in running.items() if not process.is_alive()]
                if ended and not stopping.wait(_RESTART_S):
                    for index in ended:
                        start(index)
        finally:
            for process in running.values():
                process.terminate()
            for process in running.values():
                process.join()


def _await_all(readiness: list[Any], running: "dict[int, SpawnProcess]", stopping: threading.Event) -> None:
    until = time.monotonic() + _STARTED_S
    while not stopping.is_set() and not all(ready.is_set() for ready in readiness):
        if time.monotonic() > until or not all(process.is_alive() for process in running.values()):
            raise PreconditionError("one of the processes could not start")
        wait([process.sentinel for process in running.values()], timeout=0.1)


def _reserved(host: str, port: int) -> socket.socket:
    """Return a socket that keeps a port for those who share it; connections never come to it, as it does not listen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    place = socket.socket(family, socket.SOCK_STREAM)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    place.bind((host.strip("[]"), port))
    return place


def _serve_one(serve: Callable[..., None], service: ServiceName, settings: ProcessSettings, ready: Any) -> None:
    """Run in a process of its own: serve on the shared port."""
    try:
        serve(service, settings, on_listening=lambda _: ready.set(), shares_port=True)
    except GroundwireError as error:
        sys.exit(f"{error.reason}: {error.message}")
