"""What the server does about clients that say or take nothing, want too much time, or send what is no message."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
import structlog
from google.longrunning import operations_proto_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.kernel.errors import (
    DeadlineError,
    DrainingError,
    GroundwireError,
    InvalidRequestError,
    OverloadedError,
    ResponseTooLargeError,
    StreamIdleError,
)
from groundwire.rpc.calls import MAX_RESPONSE_BYTES, Call, as_groundwire_error
from groundwire.rpc.error_status import from_rpc_error
from groundwire.rpc.methods import CALL_LIMITS, METHODS, DeadlineTable, Work
from tests.integration.rpc.fake_ingest import FakeIngest, connected, fake_ingest, serving
from tests.stubs import METHOD_PATHS, Stubs

NO_MESSAGE = b"\xff\xff\xff"
SHAPES = {
    "GetDocument": "unary_unary",
    "GetDocumentText": "unary_stream",
    "PutChunks": "stream_unary",
    "UploadDocument": "stream_stream",
}


async def ending(call: Any) -> Any:
    """Return the error of a call, raw or not, of whatever shape."""
    try:
        if hasattr(call, "read"):
            while await call.read() is not grpc.aio.EOF:
                pass
        else:
            await call
    except grpc.aio.AioRpcError as error:
        return from_rpc_error(error)
    raise AssertionError("the call did not fail")


def raw(channel: Any, method: str, shape: str) -> Any:
    return getattr(channel, shape)(METHOD_PATHS[method])


@pytest.mark.parametrize("method", ["GetDocument", "GetDocumentText"])
async def test_a_response_that_clients_would_not_take_is_refused_with_its_size(method: str) -> None:
    servicer: Any = fake_ingest()
    large = "x" * MAX_RESPONSE_BYTES

    async def get(_request: Any, _context: Any) -> library_pb.GetDocumentResponse:
        return library_pb.GetDocumentResponse(text=large)

    async def get_text(_request: Any, _context: Any) -> AsyncIterator[library_pb.GetDocumentTextResponse]:
        yield library_pb.GetDocumentTextResponse(text="little")
        yield library_pb.GetDocumentTextResponse(text=large)

    servicer.GetDocument, servicer.GetDocumentText = get, get_text
    async with connected(servicer) as (_, stub):
        error = await ending(getattr(stub, method)(getattr(library_pb, f"{method}Request")()))
    assert type(error) is ResponseTooLargeError
    assert error.metadata == {"size_bytes": str(MAX_RESPONSE_BYTES + 5), "limit_bytes": str(MAX_RESPONSE_BYTES)}


@pytest.mark.parametrize("method", SHAPES)
async def test_bytes_that_are_no_message_are_the_fault_of_the_caller(method: str) -> None:
    shape = SHAPES[method]
    async with serving(fake_ingest()) as (server, port), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        sent = iter([NO_MESSAGE]) if shape.startswith("stream") else NO_MESSAGE
        with structlog.testing.capture_logs() as logs:
            error = await ending(raw(channel, method, shape)(sent))
            await server.stop(5)  # the caller has its error before the line is written

    assert isinstance(error, InvalidRequestError)
    assert [violation.field for violation in error.violations] == ["request"]
    assert "Decode" not in error.message
    assert [line["code"] for line in logs if line["event"] == "call"] == ["INVALID_ARGUMENT"]


async def test_bytes_that_are_no_message_end_a_stream_that_began_well() -> None:
    header = pb.UploadDocumentRequest(header=pb.UploadHeader(collection="fine")).SerializeToString()
    async with serving(fake_ingest()) as (_, port), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        error = await ending(raw(channel, "UploadDocument", "stream_stream")(iter([header, NO_MESSAGE])))

    assert isinstance(error, InvalidRequestError)


async def test_a_unary_call_without_its_message_is_refused() -> None:
    async with serving(fake_ingest()) as (_, port), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        error = await ending(raw(channel, "GetDocument", "stream_unary")(iter([])))

    assert isinstance(error, InvalidRequestError)
    assert error.message == "request: is missing"


@pytest.mark.parametrize("method", ["GetDocument", "UploadDocument"])
async def test_a_call_whose_message_does_not_come_ends_and_takes_no_place(method: str) -> None:
    limits = {Work.READ: 1, Work.UPLOAD: 1}
    async with (
        serving(fake_ingest(), first_message_s=1.0, call_limits=limits) as (server, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        shape = "stream_unary" if method == "GetDocument" else "stream_stream"
        silent = [raw(channel, method, shape)() for _ in range(5)]
        await asyncio.sleep(0.2)
        assert server.admission.active == 0
        await Stubs(channel).GetDocument(library_pb.GetDocumentRequest())

        errors = await asyncio.gather(*map(ending, silent))
        assert [type(error) for error in errors] == [StreamIdleError] * 5
        assert [error.metadata for error in errors] == [{"limit_s": "1.0"}] * 5


async def test_a_call_whose_deadline_passes_before_its_message_comes_is_not_called_idle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ends: asyncio.Queue[Exception] = asyncio.Queue()

    def status(error: Exception, method: str) -> GroundwireError:
        ends.put_nowait(error)
        return as_groundwire_error(error, method)

    # The client gives up at the same time, and mostly does not wait to hear what the server says.
    monkeypatch.setattr("groundwire.rpc.call_path.as_groundwire_error", status)
    async with (
        serving(fake_ingest(), first_message_s=60.0) as (_, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        assert isinstance(await ending(raw(channel, "GetDocument", "stream_unary")(timeout=0.3)), DeadlineError)
        assert type(await asyncio.wait_for(ends.get(), 10)) is DeadlineError


async def test_a_connection_has_eight_watches_of_the_health_and_they_are_no_work() -> None:
    own = [("grpc.use_local_subchannel_pool", 1)]
    async with (
        serving(fake_ingest()) as (server, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", own) as channel,
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", own) as another,
    ):
        asks = health_pb2.HealthCheckRequest()
        watches = [health_pb2_grpc.HealthStub(channel).Watch(asks) for _ in range(8)]
        for watch in watches:
            assert (await watch.read()).status
        refused = await ending(health_pb2_grpc.HealthStub(channel).Watch(asks))
        assert isinstance(refused, OverloadedError)
        assert refused.metadata == {"limit": "8", "work": "watch"}
        assert (await health_pb2_grpc.HealthStub(another).Watch(asks).read()).status
        assert server.admission.running()[Work.WATCH] == (9, CALL_LIMITS[Work.WATCH])
        assert server.admission.active == 0
        watches[0].cancel()
        async with asyncio.timeout(10):
            while server.admission.running()[Work.WATCH][0] > 8:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        assert (await health_pb2_grpc.HealthStub(channel).Watch(asks).read()).status


async def test_when_too_many_calls_wait_for_their_message_the_oldest_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groundwire.rpc.admission._MAX_WAITING", 3)
    async with (
        serving(fake_ingest(), first_message_s=60.0) as (_, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        silent = []
        for _ in range(4):
            silent.append(asyncio.create_task(ending(raw(channel, "GetDocument", "stream_unary")())))
            await asyncio.sleep(0.05)
        assert isinstance(await asyncio.wait_for(silent[0], 10), StreamIdleError)
        await Stubs(channel).GetDocument(library_pb.GetDocumentRequest())
        assert [task.done() for task in silent[1:]].count(False) >= 2
        for task in silent:
            task.cancel()


async def test_a_stream_whose_client_sends_nothing_more_ends() -> None:
    async with connected(fake_ingest(), stream_idle_s=0.3) as (_, stub):
        call = stub.UploadDocument()
        await call.write(pb.UploadDocumentRequest(header=pb.UploadHeader(collection="fine")))

        error = await ending(call)

    assert isinstance(error, StreamIdleError)
    assert error.metadata == {"limit_s": "0.3"}


class Endless(FakeIngest):
    """Streams a text without end, or answers with more than a client has room for."""

    async def GetDocumentText(  # noqa: N802 - the contract's name
        self, request: library_pb.GetDocumentTextRequest, context: Any
    ) -> AsyncIterator[library_pb.GetDocumentTextResponse]:
        try:
            while True:
                yield library_pb.GetDocumentTextResponse(text="x" * 60_000)
        finally:
            self.cancelled.set()

    async def GetDocument(self, request: library_pb.GetDocumentRequest, context: Any) -> library_pb.GetDocumentResponse:  # noqa: N802 - the same
        return library_pb.GetDocumentResponse(text="x" * 1_000_000)


@pytest.mark.parametrize(("method", "shape"), [("GetDocumentText", "unary_stream"), ("GetDocument", "unary_stream")])
async def test_a_client_that_takes_nothing_loses_its_place(method: str, shape: str) -> None:
    servicer = Endless()  # type: ignore[abstract]  # the other methods are not called
    limits = {Work.READ: 1, Work.STREAM: 1}
    options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 65_535)]
    async with (
        serving(servicer, stream_idle_s=0.5, call_limits=limits) as (server, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel,
    ):
        # Called as a stream, so that the client need not take the one response of a unary call.
        reader = raw(channel, method, shape)(b"")
        async with asyncio.timeout(10):
            while server.admission.active == 0:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.01)
        assert server.admission.active == 1

        await asyncio.wait_for(server.admission.idle(), 10)

        if method == "GetDocumentText":
            assert servicer.cancelled.is_set()
            assert isinstance(await ending(reader), StreamIdleError)


async def test_a_kind_of_work_at_its_limit_leaves_the_others_alone() -> None:
    servicer = fake_ingest()
    async with connected(servicer, call_limits={**CALL_LIMITS, Work.WRITE: 1}) as (_, stub):
        busy = stub.IngestDocument(pb.IngestDocumentRequest(collection="slow"))
        await servicer.entered.wait()
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await stub.IngestDocument(pb.IngestDocumentRequest(collection="fine"))
        error = from_rpc_error(refused.value)
        assert isinstance(error, OverloadedError)
        assert (error.retry_after_s, error.metadata) == (1.0, {"limit": "1", "work": "write"})

        await stub.GetDocument(library_pb.GetDocumentRequest(collection="fine"))
        servicer.release.set()
        await busy


async def test_a_call_may_take_longer_than_its_first_message() -> None:
    servicer = fake_ingest()
    async with connected(servicer, first_message_s=0.3) as (_, stub):
        slow = library_pb.GetDocumentRequest(collection="slow")
        running = [asyncio.ensure_future(stub.GetDocument(slow, timeout=limit_s)) for limit_s in (None, 30.0)]
        await servicer.entered.wait()
        await asyncio.sleep(1.0)
        servicer.release.set()
        await asyncio.gather(*running)


async def test_a_call_that_took_longer_than_its_first_message_still_has_its_limit() -> None:
    servicer = fake_ingest()
    async with connected(servicer, first_message_s=0.2, deadlines=DeadlineTable(0.6)) as (_, stub):
        slow = stub.GetDocument(library_pb.GetDocumentRequest(collection="slow"), timeout=60)
        assert isinstance(await ending(slow), DeadlineError)
        await asyncio.wait_for(servicer.cancelled.wait(), 10)


async def _work(*ends: Callable[[Call], object]) -> list[bool]:
    """Return for each of these, done by a call to itself, whether the call knows that only its limit ended it."""
    told, call = [], Call("/a/Method", Work.READ, None, None, 1.0)
    for end in ends:
        end(call)
        try:
            await asyncio.sleep(0.1)
        except asyncio.CancelledError:
            told.append(call.was_ended_by_limit())
    return told


async def test_a_call_knows_whether_only_its_limit_ended_it() -> None:
    def twice(call: Call) -> None:
        call.end()
        call.end()

    def by_its_client_too(call: Call) -> None:
        call.end()
        running = asyncio.current_task()
        assert running is not None
        running.cancel()

    # One limit after the other may end it: that of its work, and that for the client to take the response.
    assert await asyncio.create_task(_work(twice, Call.end)) == [True, True]
    assert await asyncio.create_task(_work(by_its_client_too)) == [False]


async def test_a_call_that_is_over_has_no_limit() -> None:
    def leave(call: Call) -> None:
        call.limit(0.05)
        call.leave(None)

    assert await asyncio.create_task(_work(leave)) == []


async def test_the_limit_of_the_server_caps_the_deadline_of_the_client() -> None:
    servicer = fake_ingest()
    async with connected(servicer, deadlines=DeadlineTable(0.5)) as (_, stub):
        began = time.monotonic()
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetDocument(library_pb.GetDocumentRequest(collection="slow"), timeout=60)
        assert isinstance(from_rpc_error(caught.value), DeadlineError)
        assert "time limit" in (caught.value.details() or ""), "the server ended it"
        assert time.monotonic() - began < 30
        await asyncio.wait_for(servicer.cancelled.wait(), 10)


async def test_calls_that_are_cut_off_are_told_so() -> None:
    servicer = fake_ingest()
    async with connected(servicer) as (server, stub):
        call = stub.GetDocument(library_pb.GetDocumentRequest(collection="slow"))
        await servicer.entered.wait()

        assert await server.stop(0.1) == 1

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call
        error = from_rpc_error(caught.value)
        assert isinstance(error, DrainingError)
        assert error.retry_after_s == 1.0


async def test_calls_that_begin_after_the_end_of_the_notice_are_told_so() -> None:
    async with connected(fake_ingest(), drain_notice_s=0.0) as (server, stub):
        await stub.GetDocument(library_pb.GetDocumentRequest())
        stopping = asyncio.create_task(server.stop(5))
        calls = []
        for _ in range(5):
            await asyncio.sleep(0.02)
            calls.append(asyncio.create_task(ending(stub.GetDocument(library_pb.GetDocumentRequest()))))
        errors = await asyncio.gather(*calls)
        await stopping

    assert [type(error) for error in errors] == [DrainingError] * 5
    assert [error.retry_after_s for error in errors] == [1.0] * 5


def test_every_method_of_the_contract_has_its_row() -> None:
    standard = {method.name for method in operations_proto_pb2.DESCRIPTOR.services_by_name["Operations"].methods}
    infrastructure = {"Check", "List", "Watch", "ServerReflectionInfo"}
    assert set(METHOD_PATHS) | standard == set(METHODS) - infrastructure
