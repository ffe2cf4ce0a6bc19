"""Messages over a socket pair: the lengths, a JSON text, and a body of raw bytes."""

import json
import socket
import struct
from collections.abc import Callable
from typing import Any

_LENGTHS = struct.Struct(">QQ")
_STEP_BYTES = 1 << 18
MAX_FRAME_BYTES = 1 << 30
"""Nothing longer is accepted from the other side."""

Wait = Callable[[], None]


def send_frame(end: socket.socket, message: dict[str, Any], body: bytes, wait: Wait) -> None:
    """Send a frame; `wait` is called whenever the socket's timeout passes and may raise."""
    text = json.dumps(message, ensure_ascii=True).encode("ascii")
    for part in (_LENGTHS.pack(len(text), len(body)), text, body):
        view = memoryview(part)
        while view:
            try:
                view = view[end.send(view[:_STEP_BYTES]) :]
            except TimeoutError:
                wait()


def receive_frame(end: socket.socket, wait: Wait) -> tuple[dict[str, Any], bytearray]:
    """Receive a frame; `wait` is called whenever the socket's timeout passes and may raise.

    Raises:
        EOFError: the other side is gone, or speaks nonsense.
    """
    text_bytes, body_bytes = _LENGTHS.unpack(_receive(end, _LENGTHS.size, wait))
    if text_bytes + body_bytes > MAX_FRAME_BYTES:
        raise EOFError("a frame is too long")
    message = json.loads(_receive(end, text_bytes, wait))
    return message, _receive(end, body_bytes, wait)


def _receive(end: socket.socket, count: int, wait: Wait) -> bytearray:
    buffer = bytearray(count)
    view = memoryview(buffer)
    while view:
        try:
            received = end.recv_into(view[:_STEP_BYTES])
        except TimeoutError:
            wait()
            continue
        except OSError as error:
            raise EOFError("the connection broke") from error
        if received == 0:
            raise EOFError("the connection ended")
        view = view[received:]
    return buffer
