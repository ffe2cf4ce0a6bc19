"""Runs commands one after the other, each in a process of its own that finds all of the command line imported.

Reads one line of JSON for each command, forks, and prints the exit code. What `python -m groundwire.cli` takes before
it does anything is thus spent once; `tests/unit/cli/test_start_up.py` looks at what it imports.
"""

import gc
import importlib
import json
import os
import pkgutil
import runpy
import sys
from collections.abc import Mapping, Sequence

_FOR_SERVERS = {"server"}


def main() -> None:
    """Run commands until the input ends."""
    import groundwire.cli  # noqa: PLC0415 - the children of this process alone need it

    for module in pkgutil.iter_modules(groundwire.cli.__path__, "groundwire.cli."):
        if module.name.rpartition(".")[2] not in _FOR_SERVERS:
            importlib.import_module(module.name)
    for name in ("groundwire.client", "grpc._channel", "importlib.metadata"):
        importlib.import_module(name)
    gc.freeze()  # or each child looks through all of it when it ends
    del sys.modules["groundwire.cli.__main__"]
    while line := sys.stdin.readline():
        child = os.fork()
        if not child:
            _become(**json.loads(line))
            return
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)  # noqa: T201 - the parent reads it


def _become(*, arguments: Sequence[str], variables: Mapping[str, str], folder: str, streams: Sequence[str]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(variables)
    for number, path in enumerate(streams):
        os.dup2(os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY), number)
    sys.argv = ["groundwire", *arguments]
    runpy.run_module("groundwire.cli", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
