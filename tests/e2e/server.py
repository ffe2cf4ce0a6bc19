"""Starts `groundwire serve` as a process of its own, as an operator would."""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Self

from tests.catalogs import POSTGRESQL, catalog_kind, catalog_url
from tests.e2e.commands import Command

STARTED = "listening on "
HASHING = ("--embedder", "hashing:256")
ASKS_ENGINE = {"GROUNDWIRE_RETRIEVE_EXACT_CHUNKS": "0"}
"""Variables of a server that searches small collections by the engine, too."""


class ServerProcess:
    """A running server; `address` is what clients need. Kill it, stop it, start another on the same data."""

    def __init__(self, data: Path, arguments: Sequence[str] = HASHING, **variables: str) -> None:
        if catalog_kind() == POSTGRESQL and "--catalog" not in arguments:
            arguments = (*arguments, "--catalog", catalog_url(data))
        self._log = (data.parent / f"{data.name}.log").open("a", encoding="utf-8")
        command = ["serve", "--listen", "127.0.0.1:0", "--data", str(data), *arguments]
        read_end, write_end = os.pipe()
        self._stdout = os.fdopen(read_end)
        try:
            self.process = Command(command, stdout=write_end, stderr=self._log.fileno(), variables=variables)
        finally:
            os.close(write_end)
        line = self._stdout.readline().strip()
        if not line.startswith(STARTED):
            self.close()
            raise AssertionError(f"the server did not start: {Path(self._log.name).read_text(encoding='utf-8')}")
        self.address = line.removeprefix(STARTED)
        self._is_killed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: type[BaseException] | None, *_: object) -> None:
        code = self.stop()
        assert failure or self._is_killed or code == 0, f"it ended with {code}"

    def kill(self) -> None:
        """End it as a power cut would, without any chance to clean up."""
        self._is_killed = True
        self.process.send_signal(signal.SIGKILL)
        self.close()

    def stop(self) -> int:
        """Ask it to stop and return its exit code."""
        self.process.terminate()
        return self.close()

    def close(self) -> int:
        """Wait for the end, make it come, and return the exit code."""
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self._stdout.close()
        self._log.close()
        return self.process.wait()


def groundwire(
    *arguments: str, address: str | None = None, stdin: str = "", **variables: str
) -> "subprocess.CompletedProcess[str]":
    """Run the command line with this input and these variables and return what it printed."""
    if address:
        variables["GROUNDWIRE_ADDRESS"] = address
    with TemporaryFile() as typed, TemporaryFile() as stdout, TemporaryFile() as stderr:
        os.pwrite(typed.fileno(), stdin.encode(), 0)
        command = Command(
            arguments,
            stdin=typed.fileno(),
            stdout=stdout.fileno(),
            stderr=stderr.fileno(),
            variables=variables,
        )
        try:
            code = command.wait()
        finally:
            command.kill()  # where the time of the test has ended
        printed = [os.pread(file.fileno(), 1 << 30, 0).decode() for file in (stdout, stderr)]
    return subprocess.CompletedProcess(arguments, code, *printed)
