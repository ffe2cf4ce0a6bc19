"""A log that nobody reads stops nothing."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import grpc
import pytest

from groundwire.client import AsyncGroundwireClient
from tests.limits.attacked_server import COLLECTION, ENGINES
from tests.stubs import METHOD_PATHS

pytestmark = pytest.mark.limits

F_SETPIPE_SZ = 1031
MALFORMED = 48


@pytest.fixture
def deaf_server(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Start a server whose log nobody reads."""
    read_end, write_end = os.pipe()
    fcntl.fcntl(write_end, F_SETPIPE_SZ, 4096)
    command = [
        sys.executable,
        "-m",
        "groundwire.cli",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        str(tmp_path / "d"),
    ]
    process = subprocess.Popen([*command, *ENGINES], stdout=subprocess.PIPE, stderr=write_end, text=True)
    os.close(write_end)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
        os.close(read_end)


async def test_a_server_whose_log_nobody_reads_serves_and_stops(deaf_server: "subprocess.Popen[str]") -> None:
    assert deaf_server.stdout is not None
    address = deaf_server.stdout.readline().strip().removeprefix("listening on ")
    async with grpc.aio.insecure_channel(address) as channel, AsyncGroundwireClient(address) as client:
        await client.create_collection(collection=COLLECTION)
        malformed = cast("Any", channel).unary_unary(METHOD_PATHS["GetDocument"])

        async def send() -> grpc.StatusCode:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await malformed(b"\xff\xff\xff", timeout=20)
            return caught.value.code()

        codes = await asyncio.gather(*(send() for _ in range(MALFORMED)))
        assert codes == [grpc.StatusCode.INVALID_ARGUMENT] * MALFORMED
        for _ in range(200):  # each is a line of the log, together more than the pipe holds
            await asyncio.wait_for(client.list_collections(), 20)
        await asyncio.wait_for(client.health(), 20)

    deaf_server.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(deaf_server.wait, 30) == 0
