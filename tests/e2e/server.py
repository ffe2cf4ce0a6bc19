"""Starts `groundwire serve` as a process of its own, as an operator would."""

import atexit
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

STARTED = "listening on "
ASKS_ENGINE = {"GROUNDWIRE_RETRIEVE_EXACT_CHUNKS": "0"}
"""Variables of a server that searches small collections by the engine, too."""


class ServerProcess:
    """A running server; `address` is what clients need. Kill it, stop it, start another on the same data."""

    def __init__(self, data: Path, arguments: Sequence[str] = ("--embedder", "hashing:256"), **variables: str) -> None:
        self._log = (data.parent / f"{data.name}.log").open("a", encoding="utf-8")
        command = [sys.executable, "-m", "groundwire.cli", "serve", "--listen", "127.0.0.1:0", "--data", str(data)]
        self.process = subprocess.Popen(
            [*command, *arguments], stdout=subprocess.PIPE, stderr=self._log, text=True, env=os.environ | variables
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        if not line.startswith(STARTED):
            self.close()
            raise AssertionError(f"the server did not start: {Path(self._log.name).read_text(encoding='utf-8')}")
        self.address = line.removeprefix(STARTED)

    def kill(self) -> None:
        """End it as a power cut would, without any chance to clean up."""
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def stop(self) -> int:
        """Ask it to stop and return its exit code."""
        self.process.terminate()
        self.close()
        return self.process.returncode

    def close(self) -> None:
        """Wait for the end, and make it come."""
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self._log.close()


def groundwire(*arguments: str, address: str | None = None) -> "subprocess.CompletedProcess[str]":
    """Run the command line and return what it printed."""
    variables = os.environ | ({"GROUNDWIRE_ADDRESS": address} if address else {})
    with TemporaryDirectory() as folder:
        printed = [Path(folder, name) for name in ("stdout", "stderr")]
        for path in printed:
            path.touch()
        streams = [os.devnull, *map(str, printed)]
        code = _commands().run(
            {"arguments": arguments, "variables": variables, "folder": str(Path.cwd()), "streams": streams}
        )
        stdout, stderr = (path.read_bytes().decode() for path in printed)
    return subprocess.CompletedProcess(arguments, code, stdout, stderr)


class _Commands:
    """The process of `command_runner`."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.e2e.command_runner"]
        variables = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
        )

    def run(self, order: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            print(json.dumps(order), file=self._process.stdin, flush=True)
            return int(self._process.stdout.readline())
        except BaseException:  # a time limit of the test, too: what comes later is not for the next command
            self.close()
            _commands.cache_clear()
            raise

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@cache
def _commands() -> _Commands:
    started = _Commands()
    atexit.register(started.close)
    return started
