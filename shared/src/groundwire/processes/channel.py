"""Messages between a process and its child over a socket pair: 8 bytes of length, then the content."""

import json
import select
import socket
import struct
import time
from typing import Any

_LENGTH = struct.Struct("!Q")
_TIMEVAL = struct.Struct("@ll")
_RECEIVE_BYTES = 1 << 16
"""A search needs much less, and a larger buffer would be mapped into memory again for each read."""
_JOINED_BYTES = 1 << 20


class Channel:
    """The owner's end; used by one thread at a time. The owner never waits without a limit.

    A call of `receive` that times out loses nothing: the next call resumes sending and receiving.

    Messages longer than `most_bytes` are refused. Use it for children that are not trusted.
    """

    def __init__(self, end: socket.socket, most_bytes: int | None = None) -> None:
        # Reads wait in the system, which takes one call where looking first would take two.
        end.settimeout(None)
        self._socket = end
        self._waits_s = 0.0
        self._most_bytes = most_bytes
        self._unsent: list[memoryview] = []
        self._received = bytearray()
        self._is_closed_there = False

    def send(self, *parts: bytes) -> None:
        """Queue one message, the concatenation of its parts; `receive` sends it."""
        self._unsent += [memoryview(part) for part in _framed(parts)]

    def receive(self, timeout_s: float) -> bytearray | None:
        """Return the next message, or None if it has not arrived within `timeout_s`.

        Raises:
            EOFError: the child has closed the connection, or announces a message that is too long.
            OSError: the connection broke.
        """
        ends_at = time.monotonic() + timeout_s
        while True:
            try:
                while self._unsent:
                    part = self._unsent[0]
                    part = part[self._socket.send(part, socket.MSG_DONTWAIT) :]
                    self._unsent[:1] = [part] if part else []
            except BlockingIOError:
                pass
            if len(self._received) >= _LENGTH.size:
                size = _LENGTH.unpack_from(self._received)[0]
                # Before the rest arrives: a child that is not trusted could fill the memory.
                if self._most_bytes is not None and size > self._most_bytes:
                    raise EOFError("a message is too long")
                end = _LENGTH.size + size
                if len(self._received) >= end:
                    message = self._received[_LENGTH.size : end]
                    del self._received[:end]
                    return message
            if self._is_closed_there:
                raise EOFError("the child process has closed the connection")
            if (descriptor := self._socket.fileno()) < 0:
                raise EOFError("the connection was closed here")
            left_s = ends_at - time.monotonic()
            if self._unsent:
                poll = select.poll()
                poll.register(descriptor, select.POLLIN | select.POLLOUT)
                if not poll.poll(max(0.0, left_s) * 1000):
                    return None
                self._receive_on(0.0)
            elif not self._receive_on(left_s):
                return None

    def close(self) -> None:
        """Close this end; the child finishes its work and stops listening."""
        self._socket.close()

    def _receive_on(self, wait_s: float) -> bool:
        """Read what has arrived, or arrives within `wait_s`; tell whether there was anything, or the end."""
        # To the millisecond, so that waits of equal length need not be set again.
        wait_s = round(wait_s, 3)
        flags = 0 if wait_s > 0.0 else socket.MSG_DONTWAIT
        if not flags and wait_s != self._waits_s:
            seconds, part = divmod(wait_s, 1.0)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _TIMEVAL.pack(int(seconds), int(part * 1e6)))
            self._waits_s = wait_s
        try:
            received = self._socket.recv(_RECEIVE_BYTES, flags)
        except BlockingIOError:
            return False
        self._received += received
        self._is_closed_there = not received
        return True


def receive_message(end: socket.socket) -> bytearray:
    """Wait for a message in the child.

    Raises:
        EOFError: the owner has closed the connection.
    """
    return _receive(end, _LENGTH.unpack(_receive(end, _LENGTH.size))[0])


def send_message(end: socket.socket, *parts: bytes) -> None:
    """Send one message from the child, the concatenation of its parts; block until all of it is written."""
    for part in _framed(parts):
        end.sendall(part)


def _framed(parts: tuple[bytes, ...]) -> list[bytes]:
    """Return the buffers to send: small parts are joined to save system calls, large ones are not copied."""
    length = _LENGTH.pack(sum(map(len, parts)))
    if sum(map(len, parts)) <= _JOINED_BYTES:
        return [b"".join((length, *parts))]
    return [length, *(part for part in parts if part)]


def _receive(end: socket.socket, size: int) -> bytearray:
    received = bytearray(size)
    view = memoryview(received)
    while view:
        count = end.recv_into(view)
        if count == 0:
            raise EOFError("the owner has closed the connection")
        view = view[count:]
    return received


def json_parts(message: dict[str, Any], body: bytes = b"") -> tuple[bytes, bytes, bytes]:
    """Return the parts of a message of JSON and raw bytes, the format for children that are not trusted."""
    text = json.dumps(message, ensure_ascii=True).encode("ascii")
    return _LENGTH.pack(len(text)), text, body


def read_json(received: bytearray) -> tuple[dict[str, Any], bytearray]:
    """Return the JSON and the raw bytes of a message made by `json_parts`.

    Raises:
        EOFError: the message is malformed.
    """
    try:
        end = _LENGTH.size + _LENGTH.unpack_from(received)[0]
        message = json.loads(received[_LENGTH.size : end])
    except (struct.error, ValueError) as error:
        raise EOFError("a message cannot be read") from error
    if not isinstance(message, dict) or end > len(received):
        raise EOFError("a message cannot be read")
    return message, received[end:]
