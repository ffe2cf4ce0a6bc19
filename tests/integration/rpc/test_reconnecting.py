"""How soon a channel between services tries again to connect."""

import socket
import time
from itertools import pairwise

import grpc

from groundwire.rpc.channels import SERVICE_SILENCE, channel_arguments

_ATTEMPTS = 8
_JITTER = 1.2
"""The library varies each wait by up to a fifth."""


def test_a_service_is_tried_again_within_half_a_second_however_long_it_is_away() -> None:
    moments = list[float]()
    with socket.create_server(("127.0.0.1", 0)) as away:
        away.settimeout(20)
        address = f"127.0.0.1:{away.getsockname()[1]}"
        with grpc.insecure_channel(address, options=channel_arguments("test", SERVICE_SILENCE)) as channel:
            channel.subscribe(lambda _: None, try_to_connect=True)
            while len(moments) < _ATTEMPTS:
                away.accept()[0].close()
                moments.append(time.monotonic())
    # Twice the longest wait, for a busy machine. Without the bound the last two waits are longer than that.
    late = sorted(after - before for before, after in pairwise(moments))
    assert late[-2] < 2 * _JITTER * SERVICE_SILENCE.reconnect_ms / 1000
