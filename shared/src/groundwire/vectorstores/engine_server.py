"""Answers the requests of an engine's owner, in the engine process.

Each connection has its own thread, so that searches run side by side. The first one only says that the process
lives: it answers while the library is still being imported, and whenever the library lets go of the interpreter lock.

A request is a pickle of `(request id, method, arguments)`, its answer one of an `Answer` as a plain tuple.
"""

import errno
import importlib
import os
import pickle
import socket
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from groundwire.processes.channel import receive_message, send_message

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# What the libraries say, which raise bare exceptions.
_FULL_TEXTS = ("no space left", "os error 28", "disk quota exceeded", "os error 122", "file too large", "disk is full")


class Answer(NamedTuple):
    """The result of a method, or a line on why it failed and whether that was because of a full disk."""

    request_id: int
    result: Any
    failure: str = ""
    is_disk_full: bool = False


def main(connections: Sequence[socket.socket], module: str) -> None:
    """Make the `Engine` of a module, answer on every connection until all are closed, then close it."""
    threading.excepthook = _end_process
    heartbeat, *others = connections
    threading.Thread(target=_answer_all, args=(SimpleNamespace(beat=lambda: True), heartbeat), daemon=True).start()
    engine = importlib.import_module(module).Engine()
    threads = [threading.Thread(target=_answer_all, args=(engine, connection)) for connection in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    engine.close_all()


def _answer_all(engine: Any, connection: socket.socket) -> None:
    while True:
        try:
            request_id, method, arguments = pickle.loads(receive_message(connection))  # noqa: S301 - our own owner
        except (EOFError, OSError):
            return
        try:
            answer = Answer(request_id, getattr(engine, method)(*arguments))
        except Exception as error:  # noqa: BLE001 - every failure is an answer; the libraries raise bare Exception
            text = f"{type(error).__name__}: {error}"
            is_full = getattr(error, "errno", None) in _FULL or any(said in text.lower() for said in _FULL_TEXTS)
            answer = Answer(request_id, None, text, is_full)
        try:
            send_message(connection, pickle.dumps(tuple(answer), protocol=pickle.HIGHEST_PROTOCOL))
        except OSError:
            return


def _end_process(failure: threading.ExceptHookArgs) -> None:
    """End the process after a panic of a library: the owner sees broken connections and starts another."""
    threading.__excepthook__(failure)
    os._exit(os.EX_SOFTWARE)
