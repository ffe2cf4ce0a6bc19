"""Commands that `command_runner` starts, used as processes of `subprocess` are."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.fork_server import ForkedProcess

_OF_SERVERS = {"backup", "config", "copy", "migrate", "restore", "serve"}
"""Commands that import what servers do."""


class Command(ForkedProcess):
    """A process of the command line with its streams, descriptors which stay open here; without `stdin` it has none."""

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        stdout: int,
        stderr: int,
        stdin: int | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        order = {"arguments": arguments, "variables": {**os.environ, **(variables or {})}, "folder": str(Path.cwd())}
        kind = "server" if arguments and arguments[0] in _OF_SERVERS else "commands"
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            streams = [nothing if stdin is None else stdin, stdout, stderr]
            super().__init__("tests.e2e.command_runner", kind, order, streams, ["groundwire", *arguments])
        finally:
            os.close(nothing)
