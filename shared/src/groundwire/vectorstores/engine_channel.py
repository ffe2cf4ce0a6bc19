"""A connection between an engine and its owner: one request at a time, and no wait of the owner without an end.

Each message is its length in 8 bytes and a pickle: `(request id, method, arguments)`, and back
`(request id, failure or None, result)`.
"""

import pickle
import select
import socket
import struct
import time
from dataclasses import dataclass
from typing import Any

_LENGTH = struct.Struct("!Q")
_RECEIVE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class EngineFailure:
    """Why a method of an engine failed: one line of text, and whether the disk is full."""

    text: str
    is_disk_full: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What a method returned, or why it failed."""

    failure: EngineFailure | None
    result: Any = None


class EngineChannel:
    """The owner's end; used by one thread at a time.

    A request whose answer nobody waited for stays under way: `answer` goes on with sending and receiving it, whoever
    calls it next. Answers carry the id of their request, so that none is ever taken for that of another.
    """

    def __init__(self, end: socket.socket) -> None:
        end.settimeout(0.0)
        self._socket = end
        self._request_id = 0
        self._unsent = memoryview(b"")
        self._received = bytearray()
        self._is_closed_there = False

    def send(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Begin a request; `answer` does the sending."""
        self._request_id += 1
        self._unsent = memoryview(_frame((self._request_id, method, arguments)))

    def answer(self, timeout_s: float) -> Answer | None:
        """Return the answer to the last request, or None when it has not come after so many seconds.

        Raises:
            EOFError: the engine has closed the connection.
            OSError: the connection broke.
        """
        ends_at = time.monotonic() + timeout_s
        while True:
            self._exchange()
            if (answer := self._take_answer()) is not None:
                return answer
            if self._is_closed_there:
                raise EOFError("the engine has closed the connection")
            remaining_s = ends_at - time.monotonic()
            if remaining_s <= 0:
                return None
            poll = select.poll()
            poll.register(self._socket, select.POLLIN | (select.POLLOUT if self._unsent else 0))
            poll.poll(remaining_s * 1000)

    def close(self) -> None:
        """Close this end; the engine ends what it is at, and then listens no longer."""
        self._socket.close()

    def _exchange(self) -> None:
        """Send and receive as much as goes without waiting."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
        except BlockingIOError:
            pass
        try:
            while part := self._socket.recv(_RECEIVE_BYTES):
                self._received += part
            self._is_closed_there = True
        except BlockingIOError:
            pass

    def _take_answer(self) -> Answer | None:
        while len(self._received) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(self._received)[0]
            if len(self._received) < end:
                return None
            request_id, failure, result = pickle.loads(self._received[_LENGTH.size : end])  # noqa: S301 - our own engine
            del self._received[:end]
            if request_id == self._request_id:
                return Answer(failure, result)
        return None


def receive_request(end: socket.socket) -> tuple[int, str, tuple[Any, ...]]:
    """Wait for a request in the engine, and return its id, method and arguments.

    Raises:
        EOFError: the owner has closed the connection.
    """
    size = _LENGTH.unpack(_receive(end, _LENGTH.size))[0]
    request: tuple[int, str, tuple[Any, ...]] = pickle.loads(_receive(end, size))  # noqa: S301 - our own owner
    return request


def send_answer(end: socket.socket, request_id: int, answer: Answer) -> None:
    """Send an answer in the engine, waiting until the owner has taken it."""
    end.sendall(_frame((request_id, answer.failure, answer.result)))


def _frame(message: tuple[Any, ...]) -> bytes:
    body = pickle.dumps(message, protocol=pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(body)) + body


def _receive(end: socket.socket, size: int) -> bytearray:
    received = bytearray(size)
    view = memoryview(received)
    while view:
        count = end.recv_into(view)
        if count == 0:
            raise EOFError("the owner has closed the connection")
        view = view[count:]
    return received
