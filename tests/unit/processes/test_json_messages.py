"""JSON with bytes behind it: what is read from a child that nobody trusts."""

import pytest

from groundwire.processes.channel import json_parts, read_json


@pytest.mark.parametrize("body", [b"", b"\x00\xff" * 5])
def test_what_is_written_is_read(body: bytes) -> None:
    message = {"a": 1, "text": "Ω\ud800", "list": [None, {"b": True}]}
    assert read_json(bytearray(b"".join(json_parts(message, body)))) == (message, bytearray(body))


@pytest.mark.parametrize(
    "received",
    [
        *(b"", b"\x00", b"\x00" * 8, b"\xff" * 40),
        *((3).to_bytes(8, "big") + b"{,}", (9).to_bytes(8, "big") + b"{}"),
        *((2).to_bytes(8, "big") + b"[]", (4).to_bytes(8, "big") + b"\xff\xfe{}"),
    ],
)
def test_nonsense_ends_the_connection(received: bytes) -> None:
    with pytest.raises(EOFError):
        read_json(bytearray(received))
