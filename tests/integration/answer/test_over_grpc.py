"""The service behind a real server that reaches retrieve over a real channel."""

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, TypeAlias

import grpc
import pytest

from groundwire.answer.settings import AnswerSettings
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import answer_service_pb2_grpc as pb_grpc
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    InvalidRequestError,
    SessionNotFoundError,
)
from groundwire.rpc.error_status import from_rpc_error
from tests.integration.answer.rig import Rig, make_ask, split

if TYPE_CHECKING:
    Stub: TypeAlias = pb_grpc.AnswerServiceAsyncStub  # exists for type checkers only

_QUESTION = "What do red foxes eat?"


@pytest.fixture
async def stub(rig: Rig) -> "AsyncIterator[Stub]":
    async with split(rig, AnswerSettings(min_support=0.3)) as stub:
        yield stub


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
