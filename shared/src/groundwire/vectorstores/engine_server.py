"""Answers the requests of an engine's owner over pipes, in the engine process.

Each pipe has a thread of its own, so that searches run side by side.
"""

import importlib
import os
import threading
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any


def serve(module: str, descriptors: Sequence[int]) -> None:
    """Make the `Engine` of a module, answer on every pipe until all are closed, then close it.

    A request is `(method, arguments)`, its answer `(error, result)` with the error as text or None.
    """
    threading.excepthook = _end_process
    engine = importlib.import_module(module).Engine()
    pipes = [threading.Thread(target=_answer, args=(engine, Connection(fd))) for fd in descriptors]
    for thread in pipes:
        thread.start()
    for thread in pipes:
        thread.join()
    engine.close_all()


def _answer(engine: Any, pipe: Connection) -> None:
    while True:
        try:
            method, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        answer = _call(engine, method, arguments)
        try:
            pipe.send(answer)
        except OSError:
            return


def _call(engine: Any, method: str, arguments: tuple[Any, ...]) -> tuple[str | None, Any]:
    try:
        return None, getattr(engine, method)(*arguments)
    except Exception as error:  # noqa: BLE001 - every failure is an answer; the libraries raise bare Exception
        return f"{type(error).__name__}: {error}", None


def _end_process(failure: threading.ExceptHookArgs) -> None:
    """End the process after a panic of a library: the owner sees broken pipes and starts another."""
    threading.__excepthook__(failure)
    os._exit(os.EX_SOFTWARE)
