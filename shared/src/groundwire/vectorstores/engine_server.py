"""Answers the requests of an engine's owner, in the engine process.

Each connection has a thread of its own, so that searches run side by side. The first one only says that the process
lives: it answers while the library is still being imported, and whenever the library lets go of the interpreter lock.
"""

import errno
import importlib
import os
import socket
import threading
from collections.abc import Sequence
from typing import Any

from groundwire.vectorstores.engine_channel import Answer, EngineFailure, receive_request, send_answer

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_TEXTS = ("no space left", "os error 28", "disk quota exceeded", "os error 122", "file too large", "disk is full")
"""What the libraries say, which raise bare exceptions."""


class Heartbeat:
    """Answers that the process lives, with its id."""

    def beat(self) -> int:
        """Return the id of this process."""
        return os.getpid()


def serve(module: str, descriptors: Sequence[int]) -> None:
    """Make the `Engine` of a module, answer on every connection until all are closed, then close it."""
    threading.excepthook = _end_process
    heartbeat, *connections = (socket.socket(fileno=descriptor) for descriptor in descriptors)
    threading.Thread(target=_answer_all, args=(Heartbeat(), heartbeat), daemon=True).start()
    engine = importlib.import_module(module).Engine()
    threads = [threading.Thread(target=_answer_all, args=(engine, connection)) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.close_all()


def _answer_all(engine: Any, connection: socket.socket) -> None:
    while True:
        try:
            request_id, method, arguments = receive_request(connection)
        except (EOFError, OSError):
            return
        answer = _call(engine, method, arguments)
        try:
            send_answer(connection, request_id, answer)
        except OSError:
            return


def _call(engine: Any, method: str, arguments: tuple[Any, ...]) -> Answer:
    try:
        return Answer(None, getattr(engine, method)(*arguments))
    except Exception as error:  # noqa: BLE001 - every failure is an answer; the libraries raise bare Exception
        text = f"{type(error).__name__}: {error}"
        is_full = getattr(error, "errno", None) in _FULL or any(said in text.lower() for said in _FULL_TEXTS)
        return Answer(EngineFailure(text, is_full))


def _end_process(failure: threading.ExceptHookArgs) -> None:
    """End the process after a panic of a library: the owner sees broken connections and starts another."""
    threading.__excepthook__(failure)
    os._exit(os.EX_SOFTWARE)
