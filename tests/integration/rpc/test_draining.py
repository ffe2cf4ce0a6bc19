"""What SIGTERM does to a server process."""

import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.client import AsyncGroundwireClient
from groundwire.kernel.errors import DrainingError
from groundwire.rpc import healthcheck
from groundwire.rpc.error_status import from_rpc_error
from groundwire.rpc.server import GrpcServer
from tests.integration.rpc.fake_ingest import NAME, FakeIngest, connected, fake_ingest, serving
from tests.stubs import METHOD_PATHS, Stubs

ROOT = Path(__file__).resolve().parents[3]


@asynccontextmanager
async def server_process(drain_s: float) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Start a server whose slow call ends with SIGUSR1."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.integration.rpc.server_process",
        str(drain_s),
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        port = int(await asyncio.wait_for(process.stdout.readline(), 100))
        yield process, f"127.0.0.1:{port}"
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def wait_until_it_drains(address: str) -> None:
    while healthcheck.status_of(address) == "SERVING":
        time.sleep(0.02)


async def slow_call(channel: grpc.aio.Channel) -> Any:
    """Send a call that the server works on when this returns."""
    stub: Any = Stubs(channel)
    stream = stub.UploadDocument()
    await stream.write(pb.UploadDocumentRequest(header=pb.UploadHeader(collection="slow")))
    await stream.done_writing()
    assert (await stream.read()).HasField("accepted")
    return stream


@asynccontextmanager
async def calling(calls: Sequence[Callable[[], Awaitable[object]]]) -> AsyncIterator[None]:
    """Make calls again and again, all of them at once; each has been answered when this begins."""
    ended, answered = asyncio.Event(), [asyncio.Event() for _ in calls]

    async def again_and_again(call: Callable[[], Awaitable[object]], first: asyncio.Event) -> None:
        while not ended.is_set():
            await call()
            first.set()

    async with asyncio.TaskGroup() as callers:
        for each in zip(calls, answered, strict=True):
            callers.create_task(again_and_again(*each))
        async with asyncio.timeout(60):
            for first in answered:
                await first.wait()
        yield
        ended.set()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_accepted_calls_finish_before_the_server_stops(number: signal.Signals) -> None:
    async with server_process(drain_s=10) as (process, address), grpc.aio.insecure_channel(address) as channel:
        stream = await slow_call(channel)
        process.send_signal(number)
        await asyncio.to_thread(wait_until_it_drains, address)
        process.send_signal(signal.SIGUSR1)

        assert (await stream.read()).HasField("result")
        assert process.stdout is not None
        rest = await asyncio.wait_for(process.stdout.read(), 60)
        assert rest.split() == [b"stopped"]
        assert await process.wait() == 0


async def test_new_calls_are_refused_while_draining() -> None:
    servicer = fake_ingest()
    async with (
        serving(servicer) as (server, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        stub = Stubs(channel)
        accepted = stub.GetDocument(library_pb.GetDocumentRequest(collection="slow"))
        await servicer.entered.wait()
        stopping = asyncio.create_task(server.stop(5))
        await asyncio.sleep(0)

        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.GetDocument(library_pb.GetDocumentRequest(collection="fine"))
        translated = from_rpc_error(refused.value)
        assert isinstance(translated, DrainingError)
        assert translated.retry_after_s == 1.0
        # Whoever watches the server still hears of it, and who sends no message is not waited for.
        health = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert health.status == health_pb2.HealthCheckResponse.NOT_SERVING
        silent: Any = channel.stream_unary(METHOD_PATHS["GetDocument"])()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await asyncio.wait_for(silent, 10)
        assert isinstance(from_rpc_error(refused.value), DrainingError)

        servicer.release.set()
        await accepted
        assert await stopping == 0


async def test_a_call_without_message_is_told_that_the_server_stops_however_late() -> None:
    async with (
        serving(fake_ingest(), first_message_s=2.0) as (server, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        silent: list[Any] = [channel.stream_unary(METHOD_PATHS["GetDocument"])() for _ in range(3)]
        async with asyncio.timeout(10):
            while server.admission.waiting < len(silent):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        holding = asyncio.create_task(server.admission.hold(0.1, 0.1))
        await asyncio.sleep(0)
        server.admission.drain()
        server.admission.drain()  # nobody is ended twice, which would look as if the client had left
        await holding
        await asyncio.sleep(2.5)  # longer than each would have waited for its message
        server.admission.release()
        for call in silent:
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await asyncio.wait_for(call, 20)
            assert isinstance(from_rpc_error(refused.value), DrainingError)


async def test_a_call_without_message_is_told_at_once_when_the_server_begins_to_drain() -> None:
    async with (
        serving(fake_ingest(), first_message_s=60.0) as (server, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        silent: Any = channel.stream_unary(METHOD_PATHS["GetDocument"])()
        async with asyncio.timeout(10):
            while server.admission.waiting == 0:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        server.admission.drain()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await asyncio.wait_for(silent, 20)
        assert isinstance(from_rpc_error(refused.value), DrainingError)


async def test_refusals_are_held_back_until_no_more_come_and_for_no_longer_than_the_limit() -> None:
    async with connected(fake_ingest()) as (server, stub):
        server.admission.drain()
        async with asyncio.timeout(20):
            await server.admission.hold(0.05, 60.0)  # it is quiet
            await server.admission.hold(60.0, 0.05)
        held: list[asyncio.Task[object]] = []

        async def keep_calling() -> None:
            while True:
                held.append(asyncio.ensure_future(stub.GetDocument(library_pb.GetDocumentRequest(), timeout=60)))
                await asyncio.sleep(0.01)

        calling = asyncio.ensure_future(keep_calling())
        async with asyncio.timeout(20):
            await server.admission.hold(0.5, 1.5)  # it is never quiet
        calling.cancel()
        assert not any(each.done() for each in held)
        server.admission.release()
        refused = await asyncio.gather(*held, return_exceptions=True)
    assert {type(from_rpc_error(each)) for each in refused if isinstance(each, grpc.RpcError)} == {DrainingError}


async def test_a_call_that_takes_too_long_is_cut_off() -> None:
    async with server_process(drain_s=0.2) as (process, address), grpc.aio.insecure_channel(address) as channel:
        stream = await slow_call(channel)  # nothing ends it
        process.send_signal(signal.SIGTERM)

        with pytest.raises(grpc.aio.AioRpcError):
            await stream.read()
        assert await asyncio.wait_for(process.wait(), 60) == 0


async def test_a_second_signal_does_not_wait() -> None:
    async with server_process(drain_s=600) as (process, address), grpc.aio.insecure_channel(address) as channel:
        stream = await slow_call(channel)
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(wait_until_it_drains, address)  # two signals at once are one
        process.send_signal(signal.SIGTERM)

        with pytest.raises(grpc.aio.AioRpcError):
            await stream.read()
        assert await asyncio.wait_for(process.wait(), 60) == 0


async def test_stopping_takes_back_readiness_and_can_be_repeated() -> None:
    async with connected(fake_ingest()) as (server, _):
        await server.stop(1)
        assert not server.health.is_ready
        assert await server.stop(0) == 0


async def test_the_health_check_command_tells_by_its_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    async with server_process(drain_s=1) as (_, address):
        codes = [
            await asyncio.to_thread(healthcheck.main, [address, *service]) for service in ([], [NAME], ["liveness"])
        ]
        assert codes == [0, 0, 0]
        assert await asyncio.to_thread(healthcheck.main, [address, "nothing"]) == 1
    assert await asyncio.to_thread(healthcheck.main, [address]) == 1
    assert healthcheck.main([]) == 2
    assert capsys.readouterr().out.split() == ["SERVING"] * 3 + ["NOT_FOUND", "UNAVAILABLE"]


@pytest.mark.requirement("R13")
async def test_no_call_fails_while_servers_are_replaced_one_after_the_other() -> None:
    listen = ["127.0.0.1:0", "127.0.0.1:0"]
    async with AsyncExitStack() as stack:

        async def start(number: int) -> tuple[FakeIngest, GrpcServer]:
            servicer = fake_ingest()
            begun = serving(servicer, listen=listen[number], drain_notice_s=0.2)
            server, port = await stack.enter_async_context(begun)
            listen[number] = f"127.0.0.1:{port}"
            return servicer, server

        running = [await start(number) for number in range(2)]
        client = await stack.enter_async_context(AsyncGroundwireClient(f"ipv4:{','.join(listen)}"))
        stack.enter_context(structlog.testing.capture_logs())
        async with asyncio.timeout(120), calling([partial(client.get_document, collection="fine")] * 4):
            for number in (0, 1) * 3:
                servicer, server = running[number]
                async with grpc.aio.insecure_channel(listen[number]) as channel:
                    stream = await slow_call(channel)  # no client can repeat it: it was answered in part
                    stopping = asyncio.create_task(server.stop(60))
                    while not server.admission._draining:  # noqa: ASYNC110 - nobody tells
                        await asyncio.sleep(0.01)
                    servicer.release.set()
                    assert (await stream.read()).HasField("result")
                assert await stopping == 0
                servicer, _ = running[number] = await start(number)
                while not servicer.seen:  # noqa: ASYNC110 - the next one is replaced once clients have found this one
                    await asyncio.sleep(0.05)


async def test_clients_that_call_again_at_once_are_told_why_every_call_failed() -> None:
    """Some of their calls are on the way at every moment, also at the one when the server stops."""
    refused: Counter[tuple[str, bool]] = Counter()
    async with AsyncExitStack() as stack:
        server, port = await stack.enter_async_context(serving(fake_ingest()))
        own = [("grpc.use_local_subchannel_pool", 1)]
        channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}", own) for _ in range(8)]
        stubs = [Stubs(await stack.enter_async_context(channel)) for channel in channels]

        async def call(stub: Stubs) -> None:
            try:
                await stub.GetDocument(library_pb.GetDocumentRequest(collection="fine"), timeout=20)
            except grpc.aio.AioRpcError as error:
                is_told = any(key == "grpc-status-details-bin" for key, _ in error.trailing_metadata() or ())
                refused[error.code().name, is_told] += 1
                await asyncio.sleep(0)

        async with calling([partial(call, stub) for stub in stubs for _ in range(4)]):
            await server.stop(2)
    assert refused["UNAVAILABLE", True] >= 32
    # Without details it only says that nobody listens there any more.
    assert set(refused) <= {("UNAVAILABLE", True), ("UNAVAILABLE", False)}
