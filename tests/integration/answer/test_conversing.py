"""Conversations on one stream: questions in order, errors and cancellations as events, many streams at once."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2

from groundwire.answer.evidence import Passage, Source, Statement
from groundwire.answer.settings import AnswerSettings
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import answer_service_pb2_grpc as pb_grpc
from groundwire.api.answer.v1 import session_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    InvalidRequestError,
    SessionExpiredError,
    SessionNotFoundError,
)
from groundwire.rpc.error_status import from_status
from groundwire.rpc.server import GrpcServer, ServerOptions
from tests.integration.answer.conftest import MakeRig
from tests.integration.answer.rig import Rig, make_ask

_QUESTION = "What do red foxes eat?"
_CREATE = pb.ConverseOpening(create=pb.CreateSessionRequest(collection="docs"))


class _Talk:
    """The client's side of a stream."""

    def __init__(self, stub: Any, opening: pb.ConverseOpening = _CREATE) -> None:
        self._requests: asyncio.Queue[pb.ConverseRequest | None] = asyncio.Queue()
        self._responses: Any = aiter(stub.Converse(self._sent()))
        self.send(opening=opening)
        self.session_id = ""

    async def _sent(self) -> AsyncIterator[pb.ConverseRequest]:
        while (request := await self._requests.get()) is not None:
            yield request

    def send(self, **fields: Any) -> None:
        self._requests.put_nowait(pb.ConverseRequest(**fields))

    def ask(self, question: str, **fields: Any) -> str:
        """Send a question and return its id."""
        fields.setdefault("message_id", str(uuid.uuid4()))
        self.send(ask=pb.AskRequest(question=question, **fields))
        message_id: str = fields["message_id"]
        return message_id

    def close(self) -> None:
        """End the client's side."""
        self._requests.put_nowait(None)

    async def opened(self) -> session_pb2.Session:
        first = await self.next()
        assert first.HasField("session")
        self.session_id = first.session.session_id
        return first.session

    async def next(self) -> pb.ConverseResponse:
        """Return the next response, heartbeats of the stream apart."""
        while (response := await anext(self._responses)).HasField("heartbeat"):
            pass
        return response  # type: ignore[no-any-return]

    async def until_end_of(self, message_id: str) -> list[pb.ConverseResponse]:
        """Return all responses up to the last one about a question."""
        responses = []
        while True:
            responses.append(await self.next())
            last = responses[-1]
            is_final = last.answer_event.HasField("final") or last.HasField("error") or last.HasField("cancelled")
            if last.message_id == message_id and is_final:
                return responses

    async def leave(self) -> None:
        await self._responses.aclose()

    async def rest(self) -> list[pb.ConverseResponse]:
        return [each async for each in self._responses if not each.HasField("heartbeat")]


class _Held:
    """Quotes the first passage, and begins only when it may."""

    name = "held"

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.is_waiting = asyncio.Event()
        self.has_ended = asyncio.Event()
        self.is_broken = False

    async def draft(
        self, question: str, passages: Sequence[Passage], strictness: float | None = None, context: str = ""
    ) -> AsyncGenerator[Sequence[Statement], None]:
        assert question
        if self.is_broken:
            raise RuntimeError("a secret")
        passage = passages[0]
        try:
            self.is_waiting.set()
            await self.goes_on.wait()
            yield [Statement(passage.content, (Source(passage, passage.span, passage.content),))]
        finally:
            self.has_ended.set()


@pytest.fixture
def generator() -> _Held:
    return _Held()


@pytest.fixture
def held(make_rig: MakeRig, generator: _Held) -> Rig:
    return make_rig(generator=generator)


@pytest.mark.requirement("S4-39")
@pytest.mark.requirement("S4-42")
async def test_a_stream_makes_a_session_answers_in_it_and_leaves_it(rig: Rig) -> None:
    rig.library.put("book.md", ["Red foxes eat blue berries. They sleep all night."], places=[("Two", None)])
    talk = _Talk(rig.stub)
    session = await talk.opened()
    assert (session.collection, session.state) == ("docs", session_pb2.SESSION_STATE_CREATED)
    asked = talk.ask(_QUESTION, selected_text="They sleep all night.")
    responses = await talk.until_end_of(asked)
    assert {response.message_id for response in responses} == {asked}
    events = [response.answer_event for response in responses]
    answer = events[-1].final.answer
    assert answer.session_id == talk.session_id
    assert {citation.source_uri for citation in answer.citations} == {"book.md"}
    assert "".join(event.text_delta.text for event in events) == answer.content
    assert [event.citation.citation for event in events if event.HasField("citation")] == list(answer.citations)
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    question, reply = await rig.messages(talk.session_id)
    assert (question.message_id, reply.message_id) == (asked, answer.message_id)
    talk.close()
    assert await talk.rest() == []
    again = _Talk(rig.stub, pb.ConverseOpening(session_id=talk.session_id, end_session_on_close=True))
    assert (await again.opened()).state == session_pb2.SESSION_STATE_ACTIVE
    (*_, follow_up) = await again.until_end_of(again.ask("Tell me more about it"))
    assert "foxes" in follow_up.answer_event.final.answer.search_text
    again.close()
    assert await again.rest() == []
    ended = (await rig.stub.GetSession(pb.GetSessionRequest(session_id=talk.session_id))).session
    assert (ended.state, len(ended.messages)) == (session_pb2.SESSION_STATE_ENDED, 4)


@pytest.mark.requirement("C20")
async def test_questions_are_answered_in_their_order_and_events_do_not_mix(rig: Rig) -> None:
    talk = _Talk(rig.stub)
    asked = [talk.ask(f"{_QUESTION} {number}") for number in range(4)]
    talk.close()
    await talk.opened()
    order = [response.message_id for response in await talk.rest()]
    assert list(dict.fromkeys(order)) == asked
    assert order == sorted(order, key=asked.index)
    messages = await rig.messages(talk.session_id)
    assert [message.message_id for message in messages[::2]] == asked


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        ({"ask": pb.AskRequest(question="x" * 9000, message_id=str(uuid.UUID(int=10)).upper())}, "ask.question"),
        ({"ask": pb.AskRequest(question=_QUESTION)}, "ask.message_id"),
        ({"ask": pb.AskRequest(question=_QUESTION, session_id=str(uuid.UUID(int=2)))}, "ask.session_id"),
        (
            {"ask": make_ask(_QUESTION, message_id=str(uuid.UUID(int=11)), options=RetrievalOptions(top_k=0))},
            "ask.options.top_k",
        ),
        ({"opening": _CREATE}, "opening"),
        ({}, "request"),
    ],
)
async def test_what_breaks_a_rule_is_an_event_and_the_stream_goes_on(
    rig: Rig, request_: dict[str, Any], field: str
) -> None:
    talk = _Talk(rig.stub)
    await talk.opened()
    talk.send(**request_)
    asked = talk.ask(_QUESTION)
    refused, *rest = await talk.until_end_of(asked)
    assert refused.error.code == code_pb2.INVALID_ARGUMENT
    error = from_status(refused.error)
    assert isinstance(error, InvalidRequestError)
    assert [violation.field for violation in error.violations] == [field]
    # As the ids of all other events are written.
    assert refused.message_id == (request_["ask"].message_id.lower() if "ask" in request_ else "")
    assert rest[-1].answer_event.final.answer.citations
    await talk.leave()


async def test_an_answer_that_fails_is_an_event_without_its_secrets(held: Rig, generator: _Held) -> None:
    generator.goes_on.set()
    generator.is_broken = True
    talk = _Talk(held.stub)
    await talk.opened()
    *_, failed = await talk.until_end_of(talk.ask(_QUESTION))
    assert failed.error.code == code_pb2.INTERNAL
    assert "secret" not in str(failed)
    generator.is_broken = False
    *_, last = await talk.until_end_of(talk.ask(_QUESTION))
    assert last.answer_event.final.answer.citations
    await talk.leave()


async def test_a_question_is_cancelled_wherever_it_is(held: Rig, generator: _Held) -> None:
    talk = _Talk(held.stub)
    await talk.opened()
    running, waiting, stays = (talk.ask(f"{_QUESTION} {number}") for number in range(3))
    await generator.is_waiting.wait()
    for each in (str(uuid.uuid4()), waiting, running):
        talk.send(cancel=pb.CancelQuestion(message_id=each))
    cancelled = {running, waiting}
    while cancelled:
        response = await talk.next()
        if response.HasField("cancelled"):
            cancelled.remove(response.message_id)
    assert generator.has_ended.is_set()
    generator.goes_on.set()
    *_, last = await talk.until_end_of(stays)
    assert last.answer_event.final.answer.citations
    talk.send(cancel=pb.CancelQuestion(message_id=stays))  # it crosses with the answer
    talk.close()
    assert await talk.rest() == []
    messages = await held.messages(talk.session_id)
    assert [message.message_id for message in messages[::2]] == [running, stays]
    assert messages[1].state == session_pb2.MESSAGE_STATE_ABANDONED


async def test_more_questions_than_may_wait_are_refused(held: Rig, generator: _Held) -> None:
    talk = _Talk(held.stub)
    await talk.opened()
    first = talk.ask(_QUESTION)
    await generator.is_waiting.wait()
    waiting = [talk.ask(f"{_QUESTION} {number}") for number in range(17)]
    assert (await talk.next()).message_id == first
    refused = await talk.next()
    assert (refused.message_id, refused.error.code) == (waiting[-1], code_pb2.RESOURCE_EXHAUSTED)
    generator.goes_on.set()
    *_, last = await talk.until_end_of(waiting[-2])
    assert last.answer_event.final.answer.citations
    await talk.leave()


async def test_who_leaves_stops_the_work(held: Rig, generator: _Held) -> None:
    talk = _Talk(held.stub)
    await talk.opened()
    talk.ask(_QUESTION)
    await generator.is_waiting.wait()
    await talk.leave()
    assert generator.has_ended.is_set()
    assert [message.state for message in await held.messages(talk.session_id)] == [
        session_pb2.MESSAGE_STATE_COMPLETE,
        session_pb2.MESSAGE_STATE_ABANDONED,
    ]


@pytest.mark.requirement("S4-37")
@pytest.mark.parametrize("way", ["expired", "ended", "deleted"])
async def test_a_stream_ends_soon_after_its_session(make_rig: MakeRig, way: str) -> None:
    rig = make_rig(settings=AnswerSettings(heartbeat_s=0.02))
    talk = _Talk(rig.stub)
    await talk.opened()
    await talk.until_end_of(talk.ask(_QUESTION))
    match way:
        case "expired":
            rig.clock.advance(minutes=31)
        case "ended":
            await rig.stub.EndSession(pb.EndSessionRequest(session_id=talk.session_id))
        case "deleted":
            await rig.stub.DeleteSession(pb.DeleteSessionRequest(session_id=talk.session_id))
    with pytest.raises(SessionNotFoundError if way == "deleted" else SessionExpiredError):
        await talk.next()


@pytest.mark.parametrize(
    ("opening", "error"),
    [
        (pb.ConverseOpening(), InvalidRequestError),
        (pb.ConverseOpening(session_id="abc"), InvalidRequestError),
        (pb.ConverseOpening(session_id=str(uuid.UUID(int=3))), SessionNotFoundError),
        (pb.ConverseOpening(create=pb.CreateSessionRequest(collection="nowhere")), CollectionNotFoundError),
        (None, InvalidRequestError),
    ],
)
async def test_streams_that_do_not_open(rig: Rig, opening: pb.ConverseOpening | None, error: type[Exception]) -> None:
    async def sent() -> AsyncIterator[pb.ConverseRequest]:
        yield pb.ConverseRequest(ask=make_ask(_QUESTION)) if opening is None else pb.ConverseRequest(opening=opening)

    with pytest.raises(error):
        await anext(aiter(rig.stub.Converse(sent())))


async def test_fields_of_a_session_to_open_are_named_below_it(rig: Rig) -> None:
    opening = pb.ConverseOpening(create=pb.CreateSessionRequest(collection="docs", scope="global"))
    with pytest.raises(InvalidRequestError) as caught:
        await _Talk(rig.stub, opening).opened()
    assert [violation.field for violation in caught.value.violations] == ["opening.create.scope"]


@asynccontextmanager
async def _served(rig: Rig, **options: Any) -> AsyncIterator[Any]:
    server = GrpcServer(ServerOptions(listen="127.0.0.1:0", **options), rig.service.services())
    port = await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield pb_grpc.AnswerServiceStub(channel)
    finally:
        await server.stop(0)


@pytest.mark.requirement("S4-40")
@pytest.mark.requirement("T22")
async def test_streams_at_once_do_not_mix(rig: Rig) -> None:
    count = 10
    rig.library.put("numbers.txt", [f"Planet{number} orbits star{number}." for number in range(count)])

    async def talk(stub: Any, number: int) -> str:
        talk = _Talk(stub)
        await talk.opened()
        asked = [talk.ask(f"What orbits star{number}? planet{number} star{number}") for _ in range(2)]
        talk.close()
        responses = await talk.rest()
        assert {response.message_id for response in responses} == set(asked)
        answers = [each.answer_event.final.answer for each in responses if each.answer_event.HasField("final")]
        assert [answer.citations[0].quote for answer in answers] == [f"Planet{number} orbits star{number}."] * 2
        assert {answer.session_id for answer in answers} == {talk.session_id}
        return talk.session_id

    async with _served(rig) as stub:
        sessions = await asyncio.gather(*(talk(stub, number) for number in range(count)))
    assert len(set(sessions)) == count


async def test_a_silent_stream_stays_open_and_gets_heartbeats(make_rig: MakeRig) -> None:
    rig = make_rig(settings=AnswerSettings(heartbeat_s=0.05))
    async with _served(rig, stream_idle_s=0.1) as stub:
        requests: asyncio.Queue[pb.ConverseRequest] = asyncio.Queue()
        requests.put_nowait(pb.ConverseRequest(opening=_CREATE))

        async def sent() -> AsyncIterator[pb.ConverseRequest]:
            while True:
                yield await requests.get()

        call = stub.Converse(sent())
        heartbeats = 0
        async for response in call:
            heartbeats += response.HasField("heartbeat")
            if heartbeats == 10:
                ask = pb.AskRequest(question=_QUESTION, message_id=str(uuid.uuid4()))
                requests.put_nowait(pb.ConverseRequest(ask=ask))
            if response.answer_event.HasField("final"):
                break
        assert heartbeats >= 10
        call.cancel()
