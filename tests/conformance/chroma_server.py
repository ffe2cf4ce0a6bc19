"""A real Chroma server on a free port of the loopback, for tests."""

import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.conformance.processes import end_with_parent, freeze

_START_S = 100.0
_MOST_PORTS = 5


class ChromaServer:
    """`chroma run` on a folder; it can be stopped and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"chroma+http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers; the first time on a port that nobody else has taken meanwhile."""
        is_first = not self.port
        for _ in range(_MOST_PORTS if is_first else 1):
            if is_first:
                self.port = _free_port()
            if self._begins():
                return
        raise RuntimeError("the Chroma server does not start")

    def _begins(self) -> bool:
        command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(self._folder)]
        self._process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - calls one function of the kernel
        )
        deadline = time.monotonic() + _START_S
        while time.monotonic() < deadline and self._process.poll() is None:
            # Another server may have taken the port, and answer, until this one has found that out and ended.
            if self._answers() and self._process.poll() is None:
                return True
            time.sleep(0.05)
        self.stop()
        return False

    def stop(self) -> None:
        """Kill it, as an outage does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Let it hang for a while."""
        assert self._process is not None
        freeze(self._process.pid)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/v2/heartbeat", timeout=1):
                return True
        except (urllib.error.URLError, OSError):
            return False


@contextmanager
def chroma_server(folder: Path) -> Iterator[ChromaServer]:
    """Run a server for a while."""
    server = ChromaServer(folder)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _free_port() -> int:
    """Return a port below those of outgoing connections, one of which could take it while the server is stopped."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
