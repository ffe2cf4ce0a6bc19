"""Every call shape through a real server: errors, request ids, logs, limits."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest
import structlog
from google.rpc import error_details_pb2, status_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2

from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.kernel.errors import (
    CallCancelledError,
    DeadlineError,
    DocumentNotFoundError,
    GroundwireError,
    InternalError,
    InvalidRequestError,
    NotAvailableError,
    OverloadedError,
    PreconditionError,
    StartError,
    StoreUnavailableError,
)
from groundwire.rpc.error_status import from_rpc_error
from groundwire.rpc.methods import DeadlineTable, Work
from groundwire.rpc.server import GrpcServer, ServerOptions
from tests.integration.rpc.fake_ingest import LIBRARY, NAME, connected, fake_ingest, serving
from tests.stubs import Stubs

SHAPES = ["unary_unary", "unary_stream", "stream_unary", "stream_stream"]


async def call(stub: Any, shape: str, collection: str, **options: Any) -> list[Any]:
    """Make a call of a shape and return all responses; a failure comes as the client's translated error."""
    try:
        if shape == "unary_unary":
            return [await stub.GetDocument(library_pb.GetDocumentRequest(collection=collection), **options)]
        if shape == "unary_stream":
            stream = stub.GetDocumentText(library_pb.GetDocumentTextRequest(collection=collection), **options)
            return [message async for message in stream]
        if shape == "stream_unary":
            first = pb.PutChunksRequest(header=pb.PutChunksHeader(collection=collection))
            return [await stub.PutChunks(iter([first]), **options)]
        header = pb.UploadDocumentRequest(header=pb.UploadHeader(collection=collection))
        return [message async for message in stub.UploadDocument(iter([header]), **options)]
    except grpc.aio.AioRpcError as error:
        raise from_rpc_error(error) from error


@pytest.fixture
async def stub() -> AsyncIterator[Any]:
    async with connected(fake_ingest()) as (_, made):
        yield made


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_call_of_every_shape_goes_through_all_layers(stub: Any, shape: str) -> None:
    responses = await call(stub, shape, "fine")

    assert len(responses) == {"unary_unary": 1, "unary_stream": 3, "stream_unary": 1, "stream_stream": 2}[shape]


@pytest.mark.parametrize("shape", SHAPES)
async def test_an_error_keeps_its_class_and_facts_in_every_shape(stub: Any, shape: str) -> None:
    with pytest.raises(DocumentNotFoundError) as missing:
        await call(stub, shape, "missing")
    with pytest.raises(InvalidRequestError) as invalid:
        await call(stub, shape, "invalid")
    with pytest.raises(StoreUnavailableError) as down:
        await call(stub, shape, "down")

    assert (missing.value.name, missing.value.metadata) == ("doc_1", {"resource": "doc_1"})
    assert [(v.field, v.description) for v in invalid.value.violations] == [("collection", "must be nice")]
    assert (down.value.retry_after_s, down.value.metadata) == (0.1, {"engine": "memory"})


async def test_messages_before_an_error_arrive(stub: Any) -> None:
    stream = stub.GetDocumentText(library_pb.GetDocumentTextRequest(collection="missing"))

    received = [(await stream.read()).text for _ in range(3)]

    assert received == ["part 0", "part 1", "part 2"]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stream.read()
    assert caught.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_defect_shows_an_id_and_nothing_else(stub: Any, shape: str) -> None:
    with structlog.testing.capture_logs() as logs, pytest.raises(InternalError) as caught:
        await call(stub, shape, "bug")

    assert "hunter2" not in str(vars(caught.value)) + str(caught.value)
    (logged,) = [line for line in logs if line["event"] == "internal error"]
    assert logged["error_id"] == caught.value.metadata["error_id"]
    assert isinstance(logged["exc_info"], ValueError)


@pytest.mark.parametrize(
    ("raised", "told"),
    [
        (ExceptionGroup("of tasks", [DocumentNotFoundError("doc_1")]), DocumentNotFoundError),
        (ExceptionGroup("", [ExceptionGroup("of tasks", [DocumentNotFoundError("doc_1")])]), DocumentNotFoundError),
        (ExceptionGroup("of tasks", [DocumentNotFoundError("doc_1"), DocumentNotFoundError("doc_2")]), InternalError),
        (StartError("it does not start"), InternalError),
    ],
)
async def test_the_error_of_a_call_is_that_of_the_only_task_that_failed(
    raised: Exception, told: type[GroundwireError]
) -> None:
    servicer: Any = fake_ingest()

    async def get(_request: Any, _context: Any) -> library_pb.GetDocumentResponse:
        raise raised

    servicer.GetDocument = get
    async with connected(servicer) as (_, stub):
        with pytest.raises(told):
            await call(stub, "unary_unary", "fine")


async def test_what_only_the_operator_can_mend_is_logged_with_its_place(stub: Any) -> None:
    with structlog.testing.capture_logs() as logs:
        for collection in ("full", "crowded", "lost", "locked", "down"):
            with pytest.raises(GroundwireError) as caught:
                await call(stub, "unary_unary", collection)
            assert "/srv" not in caught.value.message

    assert [line["error"] for line in logs if line["event"] == "call failed"] == [
        "no space is left on the disk of '/srv/my data/it.db'",
        "no space is left for vectors",
        "a chunk contradicts its checksum",
        "another process has locked /srv/data/it.lock",
    ]


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_status_that_the_method_set_itself_stays(stub: Any, shape: str) -> None:
    with pytest.raises(GroundwireError, match="the method's own") as caught:
        await call(stub, shape, "abort")

    assert isinstance(caught.value, InvalidRequestError)


async def test_a_method_nobody_wrote_is_unimplemented_with_its_name(stub: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as unary:
        await stub.ListStats(library_pb.ListStatsRequest())
    with pytest.raises(grpc.aio.AioRpcError) as streamed:
        _ = [message async for message in stub.AskStream(answer_pb.AskStreamRequest())]

    assert [error.value.code() for error in (unary, streamed)] == [grpc.StatusCode.UNIMPLEMENTED] * 2
    translated = [from_rpc_error(error.value) for error in (unary, streamed)]
    assert [type(error) for error in translated] == [NotAvailableError] * 2
    assert [error.metadata["feature"] for error in translated] == ["ListStats", "AskStream"]


@pytest.mark.parametrize(
    "path", ["/groundwire.api.ingest.v1.IngestService/Newer", "/of.another/Service", f"/x/{'y' * 5000}"]
)
async def test_a_method_that_the_server_does_not_know_is_unimplemented_with_its_name(path: str) -> None:
    async with (
        serving(fake_ingest()) as (_, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        newer: Any = channel.unary_unary(path)
        newer_stream: Any = channel.unary_stream(path)
        with pytest.raises(grpc.aio.AioRpcError) as unary:
            await newer(b"")
        with pytest.raises(grpc.aio.AioRpcError) as streamed:
            _ = [message async for message in newer_stream(b"")]
    for caught in (unary, streamed):
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        error = from_rpc_error(caught.value)
        assert isinstance(error, NotAvailableError)
        assert error.metadata["feature"][:100] == path.rpartition("/")[2][:100]
        assert len(error.message) <= 300


async def test_every_error_status_has_exactly_one_error_info(stub: Any) -> None:
    for collection in ("missing", "invalid", "down", "bug"):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetDocument(library_pb.GetDocumentRequest(collection=collection))
        trailers = dict(caught.value.trailing_metadata() or ())
        details = status_pb2.Status.FromString(trailers["grpc-status-details-bin"]).details
        assert [detail.Is(error_details_pb2.ErrorInfo.DESCRIPTOR) for detail in details].count(True) == 1


async def test_retries_are_told_when_to_come_back(stub: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetDocument(library_pb.GetDocumentRequest(collection="down"))

    assert dict(caught.value.trailing_metadata() or ())["grpc-retry-pushback-ms"] == "100"


@pytest.mark.parametrize("good", ["trace-1", "y" * 128, "aZ09._:/+=@-"])
@pytest.mark.parametrize("collection", ["fine", "missing"])
async def test_the_request_id_of_the_caller_comes_back(stub: Any, collection: str, good: str) -> None:
    sent = stub.GetDocument(library_pb.GetDocumentRequest(collection=collection), metadata=(("x-request-id", good),))

    assert dict(await sent.trailing_metadata())["x-request-id"] == good


@pytest.mark.parametrize("bad", ["", "a b", 'x"}', "y" * 129])
async def test_an_unusable_request_id_is_replaced(stub: Any, bad: str) -> None:
    sent = stub.GetDocument(library_pb.GetDocumentRequest(), metadata=(("x-request-id", bad),))

    made = dict(await sent.trailing_metadata())["x-request-id"]
    assert made not in {bad, ""}
    assert (await sent).text == made, "the handler sees the same id"


@pytest.mark.requirement("T38")
async def test_the_context_knows_peer_and_tenant() -> None:
    servicer = fake_ingest()
    async with connected(servicer) as (_, stub):
        await call(stub, "unary_unary", "who")

    (seen,) = servicer.seen
    assert "grpc-python-asyncio" in seen.user_agent
    assert seen.tenant == "default"


async def test_a_call_is_one_log_line_without_content() -> None:
    async with connected(fake_ingest()) as (server, stub):
        with structlog.testing.capture_logs() as logs:
            await call(stub, "unary_unary", "fine", metadata=(("x-request-id", "trace-2"),))
            with pytest.raises(DocumentNotFoundError):
                await call(stub, "unary_stream", "missing")
            await server.stop(5)  # a caller has its error before the line is written

    first, second = [line for line in logs if line["event"] == "call"]
    assert (first["log_level"], second["log_level"]) == ("info", "info")
    assert (first["method"], first["code"], first["request_id"]) == (f"/{LIBRARY}/GetDocument", "OK", "trace-2")
    assert first["ms"] >= 0
    assert "grpc-python" in first["user_agent"]
    assert second["code"] == "NOT_FOUND"
    assert "fine" not in str(first)


async def test_health_answers_for_each_service_and_stays_below_the_limit() -> None:
    servicer = fake_ingest()
    async with (
        serving(servicer, call_limits={Work.READ: 1}) as (server, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        stub: Any = Stubs(channel)
        busy = asyncio.create_task(call(stub, "unary_unary", "slow"))
        await servicer.entered.wait()

        with pytest.raises(OverloadedError) as refused:
            await call(stub, "unary_unary", "fine")
        assert refused.value.retry_after_s == 1.0
        assert refused.value.metadata == {"limit": "1", "work": "read"}

        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", NAME, "liveness", "accepting"):
            answer = await health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        await server.health.set_ready(NAME, ready=False)
        names = (NAME, "", "liveness", "accepting")
        statuses = [(await health.Check(health_pb2.HealthCheckRequest(service=name))).status for name in names]
        assert statuses == [2, 2, 1, 1]

        servicer.release.set()
        await busy
        await call(stub, "unary_unary", "fine")


async def test_health_can_be_watched(stub: Any) -> None:
    async with serving(fake_ingest()) as (server, port), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(service=NAME))

        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING
        await server.health.drain()
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
@pytest.mark.parametrize("switched_on", [True, False])
async def test_reflection_lists_the_services_unless_switched_off(switched_on: bool, version: str) -> None:
    async with (
        serving(fake_ingest(), reflection=switched_on) as (_, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        replies: Any = channel.stream_stream(
            f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
            response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
        )(iter([asked]))
        if switched_on:
            (reply,) = [message async for message in replies]
            assert NAME in {service.name for service in reply.list_services_response.service}
        else:
            with pytest.raises(grpc.aio.AioRpcError):
                _ = [message async for message in replies]


@pytest.mark.parametrize("shape", SHAPES)
async def test_the_server_limits_a_call_without_a_deadline(shape: str) -> None:
    servicer = fake_ingest()
    async with connected(
        servicer, deadlines=DeadlineTable(0.5, dict.fromkeys(["GetDocumentText", "PutChunks", "UploadDocument"], 0.5))
    ) as (_, stub):
        with pytest.raises(DeadlineError, match="the time limit"):
            await call(stub, shape, "slow")

        await asyncio.wait_for(servicer.cancelled.wait(), 10)
        assert servicer.seen[0].budget.remaining_s() == 0.0


async def test_the_deadline_of_the_caller_becomes_the_budget() -> None:
    servicer = fake_ingest()
    async with connected(servicer) as (server, stub):
        with structlog.testing.capture_logs() as logs:
            with pytest.raises(DeadlineError):
                await call(stub, "unary_unary", "slow", timeout=1.0)
            await asyncio.wait_for(servicer.cancelled.wait(), 10)
            await server.admission.idle()

    remaining = servicer.seen[0].budget
    with pytest.raises((DeadlineError, CallCancelledError)):
        remaining.check()
    assert [line["code"] for line in logs if line["event"] == "call"] == ["DEADLINE_EXCEEDED"]


@pytest.mark.parametrize("timeout_s", [None, 60.0])
async def test_a_caller_that_leaves_cancels_the_budget(timeout_s: float | None) -> None:
    servicer = fake_ingest()
    async with connected(servicer) as (server, stub):
        with structlog.testing.capture_logs() as logs:
            leaving = stub.GetDocument(library_pb.GetDocumentRequest(collection="slow"), timeout=timeout_s)
            await servicer.entered.wait()
            leaving.cancel()
            await asyncio.wait_for(servicer.cancelled.wait(), 10)
            await server.admission.idle()

        assert [line["code"] for line in logs if line["event"] == "call"] == ["CANCELLED"]
        with pytest.raises(CallCancelledError):
            servicer.seen[0].budget.check()


@pytest.mark.requirement("T37")
async def test_content_of_four_mebibytes_fits_and_more_is_refused(stub: Any) -> None:
    limit = 4 * 1024 * 1024
    await stub.IngestDocument(pb.IngestDocumentRequest(collection="c", content=bytes(limit)))

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.IngestDocument(pb.IngestDocumentRequest(collection="c", content=bytes(limit + 100_000)))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_metadata_beyond_its_limit_is_refused(stub: Any) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.GetDocument(library_pb.GetDocumentRequest(), metadata=(("x-big", "a" * 20_000),))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.requirement("T22")
async def test_ten_open_streams_leave_room_for_unary_calls(stub: Any) -> None:
    streams = [stub.UploadDocument() for _ in range(10)]
    for stream in streams:
        await stream.write(pb.UploadDocumentRequest(header=pb.UploadHeader(collection="c")))
        assert (await stream.read()).accepted.upload_id == "u1"

    assert len(await call(stub, "unary_unary", "fine")) == 1
    for stream in streams:
        await stream.done_writing()
        assert (await stream.read()).WhichOneof("event") == "result"


async def test_a_port_in_use_is_named() -> None:
    async with serving(fake_ingest()) as (_, port):
        second = GrpcServer(ServerOptions(listen=f"127.0.0.1:{port}"), [])
        with pytest.raises(PreconditionError, match=str(port)):
            await second.start()
        await second.stop(0)
