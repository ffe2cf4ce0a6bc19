"""A real Chroma server on a free port of the loopback, for tests."""

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_START_S = 60.0


class ChromaServer:
    """`chroma run` on a folder; it can be stopped and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = _free_port()
        self.url = f"chroma+http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        command = [str(Path(sys.executable).with_name("chroma")), "run", "--path", str(self._folder)]
        self._process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the Chroma server does not start")
            time.sleep(0.05)

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
        self._process.send_signal(signal.SIGSTOP)
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
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
