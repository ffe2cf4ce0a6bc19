"""Runs the sessions of a shell that a page shows, and compares what they print with what the page says.

A block of code whose language is `console` is a session: `$ ` begins a command, `> ` goes on with it, everything else
is what it prints, where `…` stands for anything. `^C` stops the server that `$ groundwire serve` has started. Code that
the page tells to save as a file, "Save this as `NAME`", is saved before.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.server import ServerProcess, groundwire

_BLOCK = re.compile(r"^(?P<indent> *)```(?P<language>\w*)\n(?P<code>.*?)^ *```$", flags=re.MULTILINE | re.DOTALL)
_SAVE = re.compile(r"[Ss]ave (?:this|it) as\s+`([^`]+)`[^`]*\Z")
_PLAIN = re.compile(r"groundwire [^|&;<>$`]*")
_TIMEOUT_S = 60
_ADDRESS = "127.0.0.1:50051"
"""Of the server that pages speak of."""


@dataclass(frozen=True)
class Step:
    """A command, and what the page says it prints; a file to save if `path` is given."""

    command: str
    printed: str = ""
    path: str = ""

    def shows(self, printed: str) -> bool:
        """Tell whether the page says what was printed."""
        expected = ".*".join(re.escape(part) for part in self.printed.strip().split("…"))
        return re.fullmatch(expected, printed.strip(), flags=re.DOTALL) is not None


def steps_of(page: Path) -> list[Step]:
    """Return what a page tells to do, in order."""
    text = page.read_text(encoding="utf-8")
    steps = []
    for block in _BLOCK.finditer(text):
        code = re.sub(f"^{block['indent']}", "", block["code"], flags=re.MULTILINE)
        if saved := _SAVE.search(text[: block.start()]):
            steps.append(Step(code, path=saved[1]))
        elif block["language"] == "console":
            steps += _session(code)
    return steps


def _session(code: str) -> list[Step]:
    steps: list[tuple[list[str], list[str]]] = []
    for line in code.splitlines():
        if line.startswith("$ "):
            steps.append(([line.removeprefix("$ ")], []))
        elif line == "^C":
            steps.append((["^C"], []))
        elif not steps[-1][1] and (line.startswith("> ") or steps[-1][0][-1].endswith("\\")):
            steps[-1][0].append(line.removeprefix("> "))
        else:
            steps[-1][1].append(line)
    return [Step("\n".join(command), "\n".join(printed)) for command, printed in steps]


class Shell:
    """The current folder, and the servers that a page starts in it.

    Args:
        address: of a server for pages that start none.
        embedder: of the servers that are started, unless the page names one.
    """

    def __init__(self, address: str, embedder: str) -> None:
        self._address = address
        self._embedder = embedder
        self._server: ServerProcess | None = None

    def run(self, step: Step) -> None:
        """Do what a page tells.

        Raises:
            AssertionError: it prints something else, or fails without that being shown.
        """
        if step.path:
            path = Path(step.path)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step.command.replace(_ADDRESS, self._address), encoding="utf-8")
        elif step.command == "^C":
            self.stop()
        elif step.command.startswith("groundwire serve"):
            self._serve(shlex.split(step.command)[2:])
        else:
            self._run(step)

    def stop(self) -> None:
        """Stop the server, if one was started."""
        server, self._server = self._server, None
        assert server is None or server.stop() == 0

    def _serve(self, arguments: list[str]) -> None:
        assert self._server is None, "the page does not stop its server"
        at = arguments.index("--data") + 1
        data = Path(arguments.pop(at)).resolve()
        arguments.remove("--data")
        if "--embedder" not in arguments:
            arguments += ["--embedder", self._embedder]
        self._server = ServerProcess(data, arguments)
        self._address = self._server.address

    def _run(self, step: Step) -> None:
        command = step.command.replace(_ADDRESS, self._address)
        if _PLAIN.fullmatch(command):
            done = groundwire(*shlex.split(command)[1:], address=self._address)
        else:
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
            variables = os.environ | {"GROUNDWIRE_ADDRESS": self._address, "PATH": path}
            done = subprocess.run(
                ["bash", "-c", command], env=variables, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
            )
        shown = done.stdout if done.stdout.strip() or done.returncode == 0 else done.stderr
        assert done.returncode == 0 or step.printed, (step.command, done.stderr)
        if step.printed.strip():
            assert step.shows(shown), (
                f"$ {step.command}\nthe page shows:\n{step.printed}\nprinted:\n{done.stdout}\n{done.stderr}"
            )
