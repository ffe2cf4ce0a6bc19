"""Clients that ask for much and read nothing hold no thread and no connection of the catalog."""

import asyncio
import time
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import pytest

from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.client import AsyncGroundwireClient
from groundwire.kernel.errors import OverloadedError, StreamIdleError
from groundwire.rpc.error_status import from_rpc_error
from tests.limits.attacked_server import COLLECTION, channels, fill, start, use_every_service
from tests.stubs import Stubs, by_id

pytestmark = pytest.mark.limits

IDLE_S = 15.0
PLACES = 64
"""Streams at a time: four times the threads that read."""
READERS = 4 * PLACES
TEXT = "# First\n\n" + "Some words that fill a line of the text.\n" * 75_000  # 3 MB


async def test_slow_readers_of_a_text_hold_nobody_up(tmp_path: Path) -> None:
    server = start(tmp_path, GROUNDWIRE_STREAM_IDLE_S=str(IDLE_S))
    try:
        await asyncio.to_thread(fill, server.address, TEXT.encode())
        async with channels(server.address, READERS) as opened:
            request = pb.GetDocumentTextRequest(collection=COLLECTION, reference=by_id("first"))
            stubs = [Stubs(channel) for channel in opened]
            calls = [stubs[number % len(stubs)].GetDocumentText(request) for number in range(READERS)]
            began = time.monotonic()
            firsts = await asyncio.gather(*(call.read() for call in calls), return_exceptions=True)
            reading = [
                call for call, first in zip(calls, firsts, strict=True) if isinstance(first, pb.GetDocumentTextResponse)
            ]
            refused = Counter(type(from_rpc_error(first)) for first in firsts if isinstance(first, grpc.RpcError))
            assert len(reading) == PLACES
            assert refused == Counter({OverloadedError: READERS - PLACES})

            async with AsyncGroundwireClient(server.address) as client:
                for _ in range(32):
                    await asyncio.wait_for(client.list_documents(collection=COLLECTION), 20)
            if time.monotonic() - began < IDLE_S:
                assert not any(call.done() for call in reading), "no slow reader has been given up yet"
            await asyncio.sleep(IDLE_S + 1)
            await use_every_service(server.address, 1)

            async def failure(call: Any) -> type[Exception]:
                try:
                    while await call.read() is not grpc.aio.EOF:
                        pass
                except grpc.aio.AioRpcError as error:
                    return type(from_rpc_error(error))
                raise AssertionError("a reader that took nothing got the whole text")

            ends = Counter(await asyncio.wait_for(asyncio.gather(*map(failure, reading)), 60))
            assert ends == {StreamIdleError: len(reading)}
    finally:
        server.stop()
