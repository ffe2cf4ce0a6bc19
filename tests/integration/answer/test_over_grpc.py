"""The service behind a real server that reaches retrieve over a real channel."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeAlias

import grpc
import pytest

from groundwire.answer.bootstrap import build
from groundwire.answer.settings import AnswerSettings
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import answer_service_pb2_grpc as pb_grpc
from groundwire.api.retrieve.v1 import retrieve_service_pb2_grpc
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    InvalidRequestError,
    SessionNotFoundError,
)
from groundwire.rpc.channels import open_channel
from groundwire.rpc.error_status import from_rpc_error
from groundwire.rpc.server import GrpcServer, ServerOptions, Service
from tests.integration.answer.rig import Rig, make_ask

if TYPE_CHECKING:
    Stub: TypeAlias = pb_grpc.AnswerServiceAsyncStub  # exists for type checkers only

_QUESTION = "What do red foxes eat?"


async def _serve(services: list[Service]) -> tuple[GrpcServer, str]:
    server = GrpcServer(ServerOptions(listen="127.0.0.1:0"), services)
    return server, f"127.0.0.1:{await server.start()}"


@pytest.fixture
async def stub(rig: Rig) -> "AsyncIterator[Stub]":
    """Two servers: answer calls retrieve through a channel, as in a split deployment."""
    retrieve, retrieve_address = await _serve(rig.library.service.services())
    async with open_channel(retrieve_address, user_agent="answer") as to_retrieve:
        service = build(
            catalog=rig.library.database,
            embedder=rig.library.embedder,
            retriever_stub=retrieve_service_pb2_grpc.RetrieveServiceStub(to_retrieve),
            settings=AnswerSettings(min_support=0.3),
            workers=rig.library.workers,
        )
        answer, address = await _serve(service.services())
        async with grpc.aio.insecure_channel(address) as channel:
            yield pb_grpc.AnswerServiceStub(channel)
        await answer.stop(0)
    await retrieve.stop(0)


async def test_an_answer_over_two_hops_verifies(stub: "Stub") -> None:
    answer = (await stub.Ask(make_ask(_QUESTION))).answer
    assert answer.grounded
    assert (await stub.VerifyCitations(pb.VerifyCitationsRequest(citations=answer.citations))).all_verified


@pytest.mark.requirement("S4-40")
@pytest.mark.requirement("T22")
async def test_ten_streams_at_once_are_all_answered(stub: "Stub") -> None:
    async def talk() -> str:
        session = (await stub.CreateSession(pb.CreateSessionRequest(collection="docs"))).session.session_id
        request = pb.AskStreamRequest(ask=make_ask(_QUESTION, session_id=session))
        events = [message.event async for message in stub.AskStream(request)]
        assert events[-1].final.answer.session_id == session
        return session

    sessions = await asyncio.gather(*(talk() for _ in range(10)))
    assert len(set(sessions)) == 10


@pytest.mark.parametrize(
    ("request_", "error", "code"),
    [
        (make_ask(""), InvalidRequestError, grpc.StatusCode.INVALID_ARGUMENT),
        (make_ask(_QUESTION, collection="nowhere"), CollectionNotFoundError, grpc.StatusCode.NOT_FOUND),
        (make_ask(_QUESTION, session_id=str(uuid.UUID(int=7))), SessionNotFoundError, grpc.StatusCode.NOT_FOUND),
    ],
)
async def test_errors_carry_code_and_reason(
    stub: "Stub", request_: pb.AskRequest, error: type[Exception], code: grpc.StatusCode
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Ask(request_)
    assert caught.value.code() is code
    assert type(from_rpc_error(caught.value)) is error


async def test_a_deadline_ends_the_question(stub: "Stub") -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.Ask(make_ask(_QUESTION), timeout=0.001)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
