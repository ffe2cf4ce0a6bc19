"""Runs the command line, each time in a process of its own that finds all of it imported.

What `python -m groundwire.cli` takes before it does anything, a second for a server, is thus spent once;
`tests/unit/cli/test_start_up.py` and `tests/e2e/test_starting.py` look at real starts.
"""

import atexit
import importlib
import os
import pkgutil
import runpy
import sys
import threading
from contextlib import suppress

from tests.conformance.processes import give_way_to_nobody
from tests.fork_server import Order, serve
from tests.spare_processes import fork_ahead, import_children, import_engine_of

CHILDREN = 3
"""As many as a server of a test starts: its engine, and parsers."""
_FOR_SERVERS = {"server"}
_OF_SERVERS = (
    "encodings.idna",
    "groundwire.answer.adapters.catalog_sessions",
    "groundwire.answer.bootstrap",
    "groundwire.cli.server",
    "groundwire.embedders.factory",
    "groundwire.ingest.bootstrap",
    "groundwire.retrieve.bootstrap",
    "groundwire.rpc.logs",
    "groundwire.standalone.bootstrap",
    "groundwire.standalone.process",
    "groundwire.standalone.readiness",
    "groundwire.standalone.split_answer",
    "groundwire.vectorstores.factory",
)
_OF_CATALOGS = ("alembic.migration", "alembic.operations", "psycopg", "sqlalchemy.dialects.postgresql.psycopg")
"""Only what migrates a catalog or has one on a server imports these, the last two where an extra is installed."""
_OF_COMMANDS = ("groundwire.client", "grpc._channel", "importlib.metadata")


def main() -> None:
    """Start processes until the other end of the socket is closed."""
    _import_for(sys.argv[1])
    serve(lambda order: import_engine_of(order["arguments"]), _become)


def _import_for(kind: str) -> None:
    import groundwire.cli  # noqa: PLC0415 - the children of this process alone need it

    names = [module.name for module in pkgutil.iter_modules(groundwire.cli.__path__, "groundwire.cli.")]
    names = [name for name in names if name.rpartition(".")[2] not in _FOR_SERVERS]
    for name in (*names, *(_OF_SERVERS if kind == "server" else _OF_COMMANDS)):
        importlib.import_module(name)
    if kind == "server":
        for name in _OF_CATALOGS:
            with suppress(ImportError):
                importlib.import_module(name)
        give_way_to_nobody()
        import_children()
    del sys.modules["groundwire.cli.__main__"]


def _become(order: Order, streams: list[int]) -> None:
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["variables"])
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # The objects of the runner have looked at its own streams, whether they can be wound back.
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", buffering=1, closefd=False)
    if order["arguments"][:1] == ["serve"]:
        fork_ahead(CHILDREN)
    sys.argv = ["groundwire", *order["arguments"]]
    try:
        runpy.run_module("groundwire.cli", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if not isinstance(ended.code, int):
            raise
        _end(ended.code)


def _end(code: int) -> None:
    """End as the interpreter does, without taking its modules apart, which takes longer than most commands."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, and for those of pools
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
