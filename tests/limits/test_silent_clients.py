"""Clients that open calls and say nothing, or watch the health without end, deny nobody anything."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any, cast

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.kernel.errors import GroundwireError, OverloadedError, StreamIdleError
from groundwire.rpc.error_status import from_rpc_error
from tests.e2e.server import ServerProcess
from tests.limits.attacked_server import COLLECTION, channels, fill, start, use_every_service
from tests.stubs import METHOD_PATHS, Stubs

pytestmark = pytest.mark.limits

SILENT = 512  # four times the largest pool
FIRST_MESSAGE_S = 4.0
IDLE_S = 4.0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    limits = {"GROUNDWIRE_FIRST_MESSAGE_S": str(FIRST_MESSAGE_S), "GROUNDWIRE_STREAM_IDLE_S": str(IDLE_S)}
    running = start(tmp_path_factory.mktemp("silent"), **limits)
    try:
        fill(running.address)
        yield running
    finally:
        running.stop()


async def ending(call: Any) -> GroundwireError:
    """Return what a call that nobody sends anything to ends with."""
    try:
        await call.read()
    except grpc.aio.AioRpcError as error:
        return from_rpc_error(error)
    raise AssertionError("the call got an answer")


async def test_silent_streams_deny_nobody_and_end(server: ServerProcess) -> None:
    async with channels(server.address, SILENT) as opened:
        uploads = [Stubs(opened[n % len(opened)]).UploadDocument() for n in range(SILENT)]
        ends = [asyncio.create_task(ending(upload)) for upload in uploads]
        await asyncio.sleep(1.0)

        await use_every_service(server.address, 1)

        errors = Counter(type(error) for error in await asyncio.wait_for(asyncio.gather(*ends), FIRST_MESSAGE_S + 20))
        assert errors == {StreamIdleError: SILENT}


async def test_calls_without_their_message_deny_nobody(server: ServerProcess) -> None:
    async with channels(server.address, SILENT) as opened:
        # As a stream, so that the client is free not to send the message that a unary call has.
        method = METHOD_PATHS["ListCollections"]
        calls = [cast("Any", opened[n % len(opened)]).stream_unary(method)() for n in range(SILENT)]
        await asyncio.sleep(1.0)

        await use_every_service(server.address, 2)

        async def failure(call: Any) -> type[GroundwireError]:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            return type(from_rpc_error(caught.value))

        kinds = Counter(await asyncio.wait_for(asyncio.gather(*map(failure, calls)), FIRST_MESSAGE_S + 20))
        assert kinds == {StreamIdleError: SILENT}


async def test_uploads_that_stop_after_their_header_end_and_deny_no_other_kind_of_call(server: ServerProcess) -> None:
    async with channels(server.address, SILENT) as opened:
        calls = []
        for number in range(SILENT):
            call = Stubs(opened[number % len(opened)]).UploadDocument()
            header = pb.UploadHeader(collection=COLLECTION, source_uri=f"silent-{number}", total_bytes=1000)
            await call.write(pb.UploadDocumentRequest(header=header))
            calls.append(call)

        await use_every_service(server.address, 3)

        async def failure(call: Any) -> type[GroundwireError]:
            try:
                while await call.read() is not grpc.aio.EOF:
                    pass
            except grpc.aio.AioRpcError as error:
                return type(from_rpc_error(error))
            raise AssertionError("the upload came to an end")

        kinds = Counter(await asyncio.wait_for(asyncio.gather(*map(failure, calls)), IDLE_S + 30))
        assert set(kinds) == {StreamIdleError, OverloadedError}
        assert kinds[StreamIdleError] >= 64, "as many as there are places for uploads"
        assert sum(kinds.values()) == SILENT


async def test_health_answers_while_it_is_watched_without_end(server: ServerProcess) -> None:
    wanted = 2200
    async with channels(server.address, wanted) as opened:
        request = health_pb2.HealthCheckRequest()
        watches = [health_pb2_grpc.HealthStub(opened[n % len(opened)]).Watch(request) for n in range(wanted)]

        async def first(watch: Any) -> str:
            try:
                await watch.read()
            except grpc.aio.AioRpcError as error:
                refusal = from_rpc_error(error)
                assert isinstance(refusal, OverloadedError)
                assert refusal.retry_after_s == 1.0
                return "refused"
            return "watching"

        outcomes = Counter(await asyncio.wait_for(asyncio.gather(*map(first, watches)), 60))
        assert outcomes == {"watching": 8 * len(opened), "refused": wanted - 8 * len(opened)}
        async with grpc.aio.insecure_channel(server.address) as channel:
            for _ in range(20):
                answer = await health_pb2_grpc.HealthStub(channel).Check(request, timeout=5)
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
        await use_every_service(server.address, 4)
