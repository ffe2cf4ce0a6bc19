"""The Python clients against a real server; every test runs with both."""

import asyncio
import hashlib
import inspect
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pool

from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.answer.v1 import answer_service_pb2_grpc as answer_grpc
from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.client import AsyncGroundwireClient, GroundwireClient
from groundwire.client.contract import Contract, StreamCall, UnaryCall, with_request_id
from groundwire.kernel.errors import (
    CallCancelledError,
    DataLossError,
    DeadlineError,
    DocumentNotFoundError,
    GroundwireError,
    InvalidRequestError,
    OverloadedError,
    StoreUnavailableError,
    UnavailableError,
)
from groundwire.rpc.server import Service
from tests.integration.rpc.fake_ingest import ANSWER, FakeIngest, fake_ingest, serving
from tests.stubs import by_id

TABLE = {name: call for name, call in vars(Contract).items() if isinstance(call, UnaryCall | StreamCall)}


class Subject:
    """Both clients behind one asynchronous face; the blocking one runs in a thread."""

    def __init__(self, servicer: FakeIngest, client: GroundwireClient | AsyncGroundwireClient) -> None:
        self.servicer = servicer
        self.client: Any = client

    async def call(self, name: str, *args: Any, **fields: Any) -> Any:
        method = getattr(self.client, name)
        if isinstance(self.client, GroundwireClient):
            return await asyncio.to_thread(lambda: drained(method(*args, **fields)))
        made = method(*args, **fields)
        return [message async for message in made] if inspect.isasyncgen(made) else await made


def drained(made: Any) -> Any:
    return list(made) if inspect.isgenerator(made) else made


@pytest.fixture(params=[GroundwireClient, AsyncGroundwireClient])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    servicer = fake_ingest()
    async with serving(servicer) as (_, port):
        client = request.param(f"127.0.0.1:{port}")
        yield Subject(servicer, client)
        closing = client.close()
        if closing is not None:
            await closing


async def test_fields_are_keywords_and_responses_are_messages(subject: Subject) -> None:
    response = await subject.call("get_document", collection="fine", reference=by_id("doc_1"))

    assert isinstance(response, library_pb.GetDocumentResponse)
    assert subject.servicer.requests == [library_pb.GetDocumentRequest(collection="fine", reference=by_id("doc_1"))]


async def test_a_stream_yields_its_messages(subject: Subject) -> None:
    parts = await subject.call("document_text", collection="fine")

    assert [part.text for part in parts] == ["part 0", "part 1", "part 2"]


@pytest.mark.parametrize("name", ["get_document", "document_text"])
async def test_errors_are_those_of_the_kernel(subject: Subject, name: str) -> None:
    with pytest.raises(DocumentNotFoundError) as caught:
        await subject.call(name, collection="missing")

    assert caught.value.name == "doc_1"


async def test_a_mutating_call_gets_a_request_id_and_keeps_it_when_it_is_repeated(subject: Subject) -> None:
    with pytest.raises(StoreUnavailableError):
        await subject.call("ingest_document", collection="down", text="t")

    sent = [request.request_id for request in subject.servicer.requests]
    assert 2 <= len(sent) <= 4, "tried again"
    assert len(set(sent)) == 1
    assert len(sent[0]) == 36


async def test_the_request_id_of_the_caller_is_sent(subject: Subject) -> None:
    await subject.call("ingest_document", collection="fine", request_id="mine")

    assert subject.servicer.requests[0].request_id == "mine"


def test_a_request_that_the_caller_keeps_is_not_changed() -> None:
    request = pb.DeleteDocumentRequest(collection="c", purge=True)

    assert with_request_id(request).request_id
    assert request.request_id == ""
    for reading in (library_pb.GetDocumentRequest(), answer_pb.AskRequest(), answer_pb.AskStreamRequest()):
        assert with_request_id(reading) is reading


async def test_a_time_limit_for_one_call(subject: Subject) -> None:
    send = subject.client.get_document.send
    request = library_pb.GetDocumentRequest(collection="slow")
    blocking = isinstance(subject.client, GroundwireClient)
    made = asyncio.to_thread(send, request, timeout_s=0.1) if blocking else send(request, timeout_s=0.1)
    with pytest.raises(DeadlineError):
        await made


async def test_health(subject: Subject) -> None:
    assert (await subject.call("health")).status == 1
    assert (await subject.call("health", service="liveness")).status == 1


async def test_no_server_is_unavailable() -> None:
    def ask() -> None:
        with GroundwireClient("127.0.0.1:1") as client:
            client.list_collections()

    with pytest.raises(UnavailableError):
        await asyncio.to_thread(ask)


@pytest.mark.requirement("T37")
async def test_an_upload_sends_the_file_in_parts_and_reports(subject: Subject, tmp_path: Path) -> None:
    path = tmp_path / "book.md"
    content = bytes(range(256)) * 4096 * 5 + b"tail"
    path.write_bytes(content)
    reports: list[int] = []

    header = pb.UploadHeader(collection="fine", source_uri="book.md")
    result = await subject.call("upload_document", path, header, lambda report: reports.append(report.durable_offset))

    first, *parts = subject.servicer.requests
    assert isinstance(result, ingest_result_pb2.IngestResult)
    assert first.header.total_bytes == len(content)
    assert first.header.source_hash == hashlib.sha256(content).hexdigest()
    assert len(first.header.request_id) == 36
    assert b"".join(part.part.data for part in parts) == content
    assert [part.part.offset for part in parts] == list(range(0, len(content), 1024 * 1024))
    assert reports == [1024 * 1024] * 5 + [4]
    assert header == pb.UploadHeader(collection="fine", source_uri="book.md")


async def test_what_the_caller_says_of_an_upload_is_sent_as_it_is(subject: Subject, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text", encoding="utf-8")
    request_id = "7f0f9d3e-4c7b-4b4e-9a5e-0f7f3f7c5a11"  # as of a retry after a restart of the caller
    header = pb.UploadHeader(collection="fine", request_id=request_id, total_bytes=9, source_hash="0" * 64)
    await subject.call("upload_document", tmp_path / "a.md", header)
    assert subject.servicer.requests[0].header == header


async def test_what_the_caller_says_of_chunks_is_sent_as_it_is(subject: Subject) -> None:
    request_id = "7f0f9d3e-4c7b-4b4e-9a5e-0f7f3f7c5a11"
    header = pb.PutChunksHeader(collection="fine", request_id=request_id, chunk_count=2)
    await subject.call("put_chunks", header, [pb.ReadyChunk(content="One of two.")])
    assert subject.servicer.requests[0].header == header


class Interrupted:
    """An upload endpoint that breaks the first connection in the middle, and keeps what it has."""

    def __init__(self) -> None:
        self.headers: list[pb.UploadHeader] = []
        self.begun: list[float] = []
        self.stored = b""

    async def upload(self, request_iterator: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        async for request in request_iterator:
            if request.HasField("header"):
                self.headers.append(request.header)
                self.begun.append(time.monotonic())
                accepted = pb.UploadAccepted(upload_id="u7", durable_offset=len(self.stored))
                yield pb.UploadDocumentResponse(accepted=accepted)
                continue
            assert request.part.offset == len(self.stored)
            self.stored += request.part.data
            if len(self.headers) == 1 and len(self.stored) > 2_000_000:
                await context.abort(grpc.StatusCode.UNAVAILABLE, "the cable was cut")
        yield pb.UploadDocumentResponse(result=ingest_result_pb2.IngestResult())


@pytest.mark.parametrize("subject", [GroundwireClient, AsyncGroundwireClient], indirect=True)
async def test_an_interrupted_upload_goes_on_where_it_was(subject: Subject, tmp_path: Path) -> None:
    endpoint = Interrupted()
    path = tmp_path / "book.md"
    content = bytes(range(256)) * 4096 * 4
    path.write_bytes(content)
    servicer: Any = fake_ingest()
    servicer.UploadDocument = endpoint.upload

    async with serving(servicer) as (_, port):
        other = Subject(servicer, type(subject.client)(f"127.0.0.1:{port}"))
        await other.call("upload_document", path, pb.UploadHeader(collection="c", source_uri="s"))
        closing = other.client.close()
        if closing is not None:
            await closing

    assert endpoint.stored == content
    assert [header.upload_id for header in endpoint.headers] == ["", "u7"]
    assert endpoint.begun[1] - endpoint.begun[0] > 0.18, "a server that is down gets time to return"
    assert len({header.request_id for header in endpoint.headers}) == 1


async def test_chunks_are_sent_in_messages_that_servers_take_after_their_header(subject: Subject) -> None:
    chunks = [pb.ReadyChunk(content="x" * 300_000, sequence_num=number) for number in range(20)]
    header = pb.PutChunksHeader(collection="fine", source_uri="book.md")

    await subject.call("put_chunks", header, chunks, "ß" * 600_000)

    first, *parts = subject.servicer.requests
    assert (first.header.collection, first.header.source_uri, first.header.chunk_count) == ("fine", "book.md", 20)
    assert first.header.request_id
    assert "".join(message.part.text for message in parts) == "ß" * 600_000
    assert [chunk for message in parts for chunk in message.part.chunks] == chunks
    assert len(parts) > 6
    assert max(message.ByteSize() for message in parts) <= 1 << 20
    assert header == pb.PutChunksHeader(collection="fine", source_uri="book.md")


async def test_small_chunks_share_their_messages(subject: Subject) -> None:
    chunks = [pb.ReadyChunk(content=f"chunk {number}", sequence_num=number) for number in range(1000)]
    await subject.call("put_chunks", pb.PutChunksHeader(collection="fine"), chunks)
    _, *parts = subject.servicer.requests
    assert len(parts) == 1
    assert list(parts[0].part.chunks) == chunks


@pytest.mark.parametrize("kind", [StoreUnavailableError, OverloadedError])
async def test_chunks_are_sent_again_with_the_same_request_id(subject: Subject, kind: type[GroundwireError]) -> None:
    servicer, headers = fake_ingest(), list[pb.PutChunksHeader]()

    async def broken_twice(request_iterator: AsyncIterator[Any], context: Any) -> pb.PutChunksResponse:
        headers.append((await anext(request_iterator)).header)
        if len(headers) < 3:
            error = kind("not now")
            error.retry_after_s = 0.01
            raise error
        servicer.requests += [request async for request in request_iterator]
        return pb.PutChunksResponse()

    vars(servicer)["PutChunks"] = broken_twice
    ready = pb.ReadyChunk(content="A chunk of its own.")
    async with serving(servicer) as (_, port):
        other = Subject(servicer, type(subject.client)(f"127.0.0.1:{port}"))
        await other.call("put_chunks", pb.PutChunksHeader(collection="fine"), [ready])
        closing = other.client.close()
        if closing is not None:
            await closing
    assert len(headers) == 3
    assert len({header.request_id for header in headers}) == 1
    assert [list(request.part.chunks) for request in servicer.requests] == [[ready]]


async def test_refused_chunks_raise_their_error_and_are_not_sent_again(subject: Subject) -> None:
    with pytest.raises(InvalidRequestError):
        await subject.call("put_chunks", pb.PutChunksHeader(collection="invalid"), [])
    assert len([request for request in subject.servicer.requests if request.HasField("header")]) == 1


async def test_chunks_have_the_time_limit_of_their_call_or_else_of_their_client(subject: Subject) -> None:
    header = pb.PutChunksHeader(collection="slow")
    await subject.call("put_chunks", pb.PutChunksHeader(collection="fine"), [], timeout_s=float("inf"))
    async with asyncio.timeout(30):
        with pytest.raises(DeadlineError):
            await subject.call("put_chunks", header, [], timeout_s=0.2)
    async with asyncio.timeout(30), serving(subject.servicer) as (_, port):
        hasty = Subject(subject.servicer, type(subject.client)(f"127.0.0.1:{port}", timeout_s=0.2))
        with pytest.raises(DeadlineError):
            await hasty.call("put_chunks", header, [])
        closing = hasty.client.close()
        if closing is not None:
            await closing


async def test_a_refused_upload_raises_its_error(subject: Subject, tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("x", encoding="utf-8")

    with pytest.raises(DocumentNotFoundError):
        await subject.call("upload_document", path, pb.UploadHeader(collection="missing"))


@pytest.mark.parametrize("call", TABLE.values(), ids=TABLE)
def test_a_line_of_the_table_is_as_the_contract_says(
    call: UnaryCall[..., Any, Any] | StreamCall[..., Any, Any],
) -> None:
    service, method = call.path.strip("/").split("/")
    declared = descriptor_pool.Default().FindServiceByName(service).FindMethodByName(method)

    request: Any = call.request
    assert request.DESCRIPTOR is declared.input_type
    assert call.response.DESCRIPTOR is declared.output_type
    assert declared.server_streaming == isinstance(call, StreamCall)
    assert not declared.client_streaming


async def test_metadata_go_out_with_every_call_and_a_function_is_asked_anew() -> None:
    servicer = fake_ingest()
    asked = iter(range(10))

    def calls(client: GroundwireClient) -> None:
        client.ingest_document(collection="fine", text="t")
        client.collection("fine").ingest_text("t", source="a.md")
        list(client.document_text(collection="fine"))

    async with serving(servicer) as (_, port):
        with GroundwireClient(f"127.0.0.1:{port}", metadata={"X-Request-ID": "fixed"}) as fixed:
            await asyncio.to_thread(calls, fixed)
        with GroundwireClient(f"127.0.0.1:{port}", metadata=lambda: {"x-request-id": f"n{next(asked)}"}) as counting:
            await asyncio.to_thread(calls, counting)
        async with AsyncGroundwireClient(f"127.0.0.1:{port}", metadata={"x-request-id": "awaited"}) as awaited:
            await awaited.collection("fine").ingest_text("t", source="a.md")

    assert [seen.request_id for seen in servicer.seen] == ["fixed"] * 3 + ["n0", "n1", "n2"] + ["awaited"]


@pytest.mark.parametrize("metadata", [{"authorization": "Bearer tok\n"}, {"x": "ü"}, {"a b": "x"}, {"": "x"}])
def test_metadata_that_cannot_be_sent_are_named_without_their_value(metadata: dict[str, str]) -> None:
    (key,) = metadata
    with GroundwireClient("127.0.0.1:1", metadata=metadata) as client:
        for call in (client.list_collections, client.collection("fine").info):
            with pytest.raises(InvalidRequestError, match=f"metadata: {key!r} cannot be sent") as refused:
                call()
            assert "tok" not in refused.value.message


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan")])
def test_a_client_without_time_is_refused(timeout_s: float) -> None:
    with pytest.raises(InvalidRequestError, match="timeout_s: must be above 0"):
        GroundwireClient("127.0.0.1:1", timeout_s=timeout_s)


@pytest.mark.parametrize("timeout_s", [float("inf"), 1e30])
async def test_a_limit_that_no_clock_can_hold_is_none(timeout_s: float) -> None:
    request = pb.IngestDocumentRequest(collection="fine", text="t")
    async with (
        serving(fake_ingest()) as (_, port),
        AsyncGroundwireClient(f"127.0.0.1:{port}", timeout_s=timeout_s) as client,
    ):
        await client.ingest_document.send(request)
        await client.ingest_document.send(request, timeout_s=timeout_s)


async def test_hundreds_of_calls_at_once_on_one_connection_are_answered_or_refused_with_a_reason() -> None:
    async with serving(fake_ingest()) as (_, port), AsyncGroundwireClient(f"127.0.0.1:{port}") as client:
        await client.ingest_document(collection="fine", text="t")
        calls = (client.ingest_document(collection="fine", text="t") for _ in range(500))
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    failed = {repr(each) for each in outcomes if isinstance(each, Exception) and not isinstance(each, OverloadedError)}
    assert failed == set()


async def test_an_answer_that_is_cut_off_is_no_answer(subject: Subject) -> None:
    class CutShort(answer_grpc.AnswerServiceServicer):
        async def AskStream(  # noqa: N802 - the name is the contract's
            self, _request: answer_pb.AskStreamRequest, _context: Any
        ) -> AsyncIterator[answer_pb.AskStreamResponse]:
            yield answer_pb.AskStreamResponse(
                event=answer_pb.AnswerEvent(text_delta=answer_pb.TextDelta(text="The moon"))
            )

    servicer: Any = CutShort()  # type: ignore[abstract]  # nothing else is called
    async with serving([Service(ANSWER, servicer, answer_grpc.add_AnswerServiceServicer_to_server)]) as (_, port):
        client = type(subject.client)(f"127.0.0.1:{port}")

        async def ask() -> list[Any]:
            events: Any = client.collection("sea").ask_stream("Why?")
            if isinstance(client, GroundwireClient):
                return await asyncio.to_thread(list, events)
            return [event async for event in events]

        with pytest.raises(DataLossError, match="the stream ended without an answer"):
            await ask()
        closing = client.close()
        if closing is not None:
            await closing


async def test_an_upload_carries_metadata_too(tmp_path: Path) -> None:
    servicer = fake_ingest()
    (tmp_path / "a.md").write_text("text", encoding="utf-8")
    async with serving(servicer) as (_, port):
        client = AsyncGroundwireClient(f"127.0.0.1:{port}", metadata={"x-request-id": "upload"})
        async with client:
            await client.collection("fine").ingest(tmp_path / "a.md", on_progress=print)
    assert {seen.request_id for seen in servicer.seen} == {"upload"}


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("ingest_document", {"collection": "fine", "text": "t"}),
        ("document_text", {"collection": "fine"}),
        ("verify", {"answer": []}),
        ("collections", {}),
    ],
)
async def test_a_closed_client_says_so(subject: Subject, name: str, fields: dict[str, Any]) -> None:
    closing = subject.client.close()
    if closing is not None:
        await closing
    with pytest.raises(CallCancelledError, match="the client is closed"):
        await subject.call(name, **fields)


async def test_an_upload_of_a_closed_client_says_so(subject: Subject, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("text", encoding="utf-8")
    closing = subject.client.close()
    if closing is not None:
        await closing
    with pytest.raises(CallCancelledError, match="the client is closed"):
        await subject.call("upload_document", tmp_path / "a.md", pb.UploadHeader(collection="fine"))


async def test_a_call_under_way_when_its_client_is_closed_is_cancelled(subject: Subject) -> None:
    call = asyncio.ensure_future(subject.call("ingest_document", collection="slow", text="t"))
    await subject.servicer.entered.wait()
    closing = subject.client.close()
    if closing is not None:
        await closing
    with pytest.raises(CallCancelledError):
        await call


async def test_a_task_that_is_cancelled_is_cancelled() -> None:
    servicer = fake_ingest()
    async with serving(servicer) as (_, port), AsyncGroundwireClient(f"127.0.0.1:{port}") as client:
        call = asyncio.ensure_future(client.ingest_document(collection="slow", text="t"))
        await servicer.entered.wait()
        call.cancel()
        await client.close()
        with pytest.raises(asyncio.CancelledError):
            await call


async def test_a_blocking_client_works_in_the_thread_of_an_event_loop() -> None:
    servicer = fake_ingest()
    async with serving(servicer) as (_, port):

        async def ask() -> None:
            with GroundwireClient(f"127.0.0.1:{port}") as client:
                client.collection("fine").ingest_text("t", source="a.md")

        await asyncio.to_thread(asyncio.run, ask())
    assert len(servicer.requests) == 1


async def test_an_upload_whose_report_fails_ends_on_the_server_too(subject: Subject, tmp_path: Path) -> None:
    (tmp_path / "book.md").write_bytes(b"tides " * 8_000_000)

    def report(_: pb.UploadProgress) -> None:
        raise RuntimeError("no room on the screen")

    with pytest.raises(RuntimeError, match="no room"):
        await subject.call("upload_document", tmp_path / "book.md", pb.UploadHeader(collection="fine"), report)
    await asyncio.wait_for(subject.servicer.upload_ended.wait(), 20)
    assert 1 < len(subject.servicer.requests) < 40, "46 parts and a header are the whole file"
