"""A stub in the process behaves as one over a channel: the same tests run against both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import grpc
import pytest
import structlog

from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import (
    CallCancelledError,
    DeadlineError,
    DocumentNotFoundError,
    InternalError,
    InvalidRequestError,
    NotAvailableError,
    StoreUnavailableError,
)
from groundwire.rpc import request_context
from groundwire.rpc.channels import open_channel
from groundwire.rpc.error_status import from_rpc_error
from groundwire.rpc.in_process import InProcessStub
from groundwire.rpc.request_context import RequestContext
from tests.integration.rpc.fake_ingest import FakeIngest, fake_ingest, serving
from tests.stubs import Stubs


class Peer:
    """A servicer with a stub for it; errors come as the caller's adapter would pass them on."""

    def __init__(self, servicer: FakeIngest, stub: Any) -> None:
        self.servicer = servicer
        self.stub = stub

    async def get(self, collection: str, **options: Any) -> str:
        try:
            response = await self.stub.GetDocument(pb.GetDocumentRequest(collection=collection), **options)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        return str(response.text)

    async def texts(self, collection: str, **options: Any) -> list[str]:
        try:
            stream = self.stub.GetDocumentText(pb.GetDocumentTextRequest(collection=collection), **options)
            return [message.text async for message in stream]
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error

    async def unwritten(self) -> None:
        try:
            await self.stub.ListStats(pb.ListStatsRequest())
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error


@asynccontextmanager
async def over_the_wire() -> AsyncIterator[Peer]:
    servicer = fake_ingest()
    async with serving(servicer) as (_, port), open_channel(f"127.0.0.1:{port}", user_agent="test") as channel:
        yield Peer(servicer, Stubs(channel))


@asynccontextmanager
async def in_process() -> AsyncIterator[Peer]:
    servicer = fake_ingest()
    yield Peer(servicer, InProcessStub(servicer))


@pytest.fixture(params=[over_the_wire, in_process])
async def peer(request: pytest.FixtureRequest) -> AsyncIterator[Peer]:
    async with request.param() as made:
        yield made


async def test_unary_and_streamed_responses_arrive(peer: Peer) -> None:
    assert await peer.get("fine", metadata=(("x-request-id", "id-1"),)) == "id-1"
    assert await peer.texts("fine") == ["part 0", "part 1", "part 2"]


@pytest.mark.parametrize("method", ["get", "texts"])
async def test_errors_keep_class_message_and_facts(peer: Peer, method: str) -> None:
    calls = getattr(peer, method)
    with pytest.raises(DocumentNotFoundError, match="document 'doc_1' does not exist") as missing:
        await calls("missing")
    with pytest.raises(InvalidRequestError, match="collection: must be nice") as invalid:
        await calls("invalid")
    with pytest.raises(StoreUnavailableError) as down:
        await calls("down", metadata=())

    assert missing.value.metadata == {"resource": "doc_1"}
    assert (invalid.value.metadata, invalid.value.violations[0].field) == ({"limit": "3"}, "collection")
    assert (down.value.metadata, down.value.retry_after_s) == ({"engine": "memory"}, 0.1)


@pytest.mark.parametrize("method", ["get", "texts"])
async def test_a_defect_is_logged_and_hidden(peer: Peer, method: str) -> None:
    with structlog.testing.capture_logs() as logs, pytest.raises(InternalError, match=r"^internal error$") as caught:
        await getattr(peer, method)("bug")

    assert caught.value.metadata["error_id"] in {line.get("error_id") for line in logs}


@pytest.mark.parametrize("method", ["get", "texts"])
async def test_an_abort_of_the_method_keeps_code_and_message(peer: Peer, method: str) -> None:
    with pytest.raises(InvalidRequestError, match="the method's own"):
        await getattr(peer, method)("abort")


async def test_a_method_nobody_wrote_is_not_available(peer: Peer) -> None:
    with pytest.raises(NotAvailableError) as caught:
        await peer.unwritten()

    assert caught.value.metadata == {"feature": "ListStats"}


@pytest.mark.parametrize("method", ["get", "texts"])
async def test_a_timeout_ends_the_call_and_its_budget(peer: Peer, method: str) -> None:
    with pytest.raises(DeadlineError):
        await getattr(peer, method)("slow", timeout=0.5)

    await asyncio.wait_for(peer.servicer.cancelled.wait(), 10)
    with pytest.raises((DeadlineError, CallCancelledError)):
        peer.servicer.seen[0].budget.check()


@pytest.mark.alone
async def test_deadline_and_request_id_of_the_current_call_are_passed_on(peer: Peer) -> None:
    request_context.bind(RequestContext(request_id="outer", budget=Budget(5.0)))

    assert await peer.get("fine", timeout=60) == "outer"

    remaining_s = peer.servicer.seen[0].budget.remaining_s()
    assert remaining_s is not None
    assert 3.0 < remaining_s <= 4.95, "the caller's time minus the margin"
    assert request_context.current().request_id == "outer"


async def test_a_call_without_time_left_is_not_made(peer: Peer) -> None:
    request_context.bind(RequestContext(request_id="outer", budget=Budget(0.0)))

    with pytest.raises(DeadlineError):
        await peer.get("fine")
    assert peer.servicer.seen == []


async def test_cancelling_the_caller_cancels_the_callee(peer: Peer) -> None:
    caller = asyncio.create_task(peer.get("slow"))
    await peer.servicer.entered.wait()
    caller.cancel()

    with pytest.raises(asyncio.CancelledError):
        await caller
    await asyncio.wait_for(peer.servicer.cancelled.wait(), 10)

    async def look() -> None:
        while True:
            peer.servicer.seen[0].budget.check()
            await asyncio.sleep(0.01)

    with pytest.raises(CallCancelledError):
        await asyncio.wait_for(look(), 10)


async def test_the_callee_cannot_change_the_context_of_the_caller() -> None:
    request_context.bind(RequestContext(request_id="outer"))
    async with in_process() as peer:
        assert await peer.get("fine", metadata=(("x-request-id", "inner"),)) == "inner"

    assert request_context.current().request_id == "outer"


async def test_leaving_a_stream_early_ends_the_callee() -> None:
    async with in_process() as peer:
        stream = peer.stub.GetDocumentText(pb.GetDocumentTextRequest(collection="slow"))
        async with aclosing(aiter(stream)) as messages:
            assert (await anext(messages)).text == "part 0"
            await asyncio.wait_for(peer.servicer.entered.wait(), 10)

        assert peer.servicer.cancelled.is_set()


async def test_a_slow_reader_holds_the_writer_back() -> None:
    written = 0

    class Endless:
        async def Stream(self, _request: Any, _context: Any) -> AsyncIterator[int]:  # noqa: N802 - as a method of the contract
            nonlocal written
            while True:
                written += 1
                yield written

    async with aclosing(aiter(InProcessStub(Endless()).Stream(None))) as messages:
        assert await anext(messages) == 1
        await asyncio.sleep(0.02)

        assert written <= 20
