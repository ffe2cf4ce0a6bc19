"""A child for tests: does what it is told, message by message."""

import os
import socket
import time
from collections.abc import Sequence

from groundwire.processes.channel import receive_message, send_message


def main(connections: Sequence[socket.socket], greeting: str = "") -> None:
    (owner,) = connections
    send_message(owner, greeting.encode(), b"|", str(os.getpid()).encode(), b"|", str(os.nice(0)).encode())
    while True:
        match bytes(receive_message(owner)).split(b" ", 1):
            case [b"exit", code]:
                os._exit(int(code))
            case [b"signal", number]:
                os.kill(os.getpid(), int(number))
            case [b"sleep", seconds]:
                time.sleep(float(seconds))
                send_message(owner, b"slept")
            case [b"burn", seconds]:
                ends_at = time.process_time() + float(seconds)
                while time.process_time() < ends_at:
                    pass
                send_message(owner, b"burnt")
            case [b"echo", content]:
                send_message(owner, content)
            case [b"announce", size]:
                owner.sendall(int(size).to_bytes(8, "big"))
            case _:
                raise ValueError("unknown order")
