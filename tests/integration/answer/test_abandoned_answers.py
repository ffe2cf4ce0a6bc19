"""Answers that end before their time: what is kept of them, how they are made anew, and how a stream goes on."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing

import pytest

from groundwire.answer.evidence import Passage, Source, Statement
from groundwire.answer.settings import SessionStoreName
from groundwire.api.answer.v1 import answer_pb2, session_pb2
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.common.v1 import role_pb2
from groundwire.catalog.sessions import NewMessage, Sessions
from groundwire.kernel.errors import (
    ChunkNotFoundError,
    InternalError,
    InvalidRequestError,
    NotFoundError,
    SessionExpiredError,
)
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.session import Role
from tests.integration.answer.conftest import MakeRig
from tests.integration.answer.rig import Rig, make_ask, settings_with

_QUESTION = "What do red foxes eat?"
_ABANDONED, _COMPLETE = session_pb2.MESSAGE_STATE_ABANDONED, session_pb2.MESSAGE_STATE_COMPLETE


class _Scripted:
    """Hands in the two sentences of the first passage, and does between them what the test says."""

    name = "scripted"

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.goes_on.set()
        self.is_waiting = asyncio.Event()
        self.error: Exception | None = None

    async def draft(
        self, question: str, passages: Sequence[Passage], strictness: float | None = None, context: str = ""
    ) -> AsyncGenerator[Sequence[Statement], None]:
        assert question
        passage = passages[0]
        first, second = _sentences(passage)
        yield [first]
        self.is_waiting.set()
        await self.goes_on.wait()
        if self.error is not None:
            raise self.error
        yield [second]


def _sentences(passage: Passage) -> Iterator[Statement]:
    middle = passage.content.index(". ") + 1
    for start, end in ((0, middle), (middle + 1, len(passage.content))):
        text = passage.content[start:end]
        yield Statement(text, (Source(passage, passage.span_of(start, end), text),))


@pytest.fixture
def generator() -> _Scripted:
    return _Scripted()


@pytest.fixture(params=[SessionStoreName.CATALOG, SessionStoreName.MEMORY])
def rig(make_rig: MakeRig, generator: _Scripted, request: pytest.FixtureRequest) -> Rig:
    return make_rig(generator=generator, settings=settings_with(session_store=request.param))


@pytest.mark.requirement("S4-33")
async def test_an_answer_that_fails_is_kept_as_far_as_it_is_and_made_when_asked_again(
    rig: Rig, generator: _Scripted
) -> None:
    session, asked = await rig.session(), str(uuid.uuid4())
    generator.error = RuntimeError("broken")
    with pytest.raises(InternalError):
        await rig.ask(_QUESTION, session_id=session, message_id=asked)
    question, partial = await rig.messages(session)
    assert (question.message_id, question.state) == (asked, _COMPLETE)
    assert (partial.state, partial.related_message_id, len(partial.citations)) == (_ABANDONED, asked, 1)
    assert partial.content == f"{partial.citations[0].quote} [1]"
    with pytest.raises(InternalError):  # of several attempts, the last one is kept
        await rig.ask(_QUESTION, session_id=session, message_id=asked)
    generator.error = None
    rig.clock.advance(seconds=5)
    other = await rig.ask(
        "How is bread made?", session_id=session, expected_head=(await rig.messages(session))[-1].message_id
    )
    answer = await rig.ask(_QUESTION, session_id=session, message_id=asked, expected_head="")
    assert answer.content.startswith(partial.content)
    assert answer.finish_reason == answer_pb2.FINISH_REASON_COMPLETE
    assert len(answer.citations) == 2
    messages = await rig.messages(session)
    assert [message.state for message in messages] == [_COMPLETE] * 4
    assert [message.message_id for message in messages[1::2]] == [answer.message_id, other.message_id]
    times = [message.message_time.ToNanoseconds() for message in messages]
    assert times == sorted(times)
    assert await rig.ask(_QUESTION, session_id=session, message_id=asked) == answer


async def test_a_question_is_kept_before_anything_is_written(rig: Rig, generator: _Scripted) -> None:
    session = await rig.session()
    generator.goes_on.clear()
    asking = asyncio.ensure_future(rig.ask(_QUESTION, session_id=session))
    await generator.is_waiting.wait()
    (question,) = await rig.messages(session)
    assert (question.role, question.content) == (role_pb2.ROLE_USER, _QUESTION)
    with pytest.raises(NotFoundError, match="answer"):
        await rig.stub.GetAnswer(pb.GetAnswerRequest(session_id=session, answer_id=question.message_id))
    generator.goes_on.set()
    answer = await asking
    assert [message.message_id for message in await rig.messages(session)][1] == answer.message_id


async def test_an_answer_that_is_cancelled_is_kept_as_far_as_it_is(rig: Rig, generator: _Scripted) -> None:
    session = await rig.session()
    generator.goes_on.clear()
    asking = asyncio.ensure_future(rig.ask(_QUESTION, session_id=session))
    await generator.is_waiting.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    generator.goes_on.set()
    # The next question waits until the abandoned answer is stored.
    await rig.ask("How is bread made?", session_id=session)
    states = [message.state for message in await rig.messages(session)]
    assert states == [_COMPLETE, _ABANDONED, _COMPLETE, _COMPLETE]


async def test_a_request_that_is_refused_leaves_nothing(rig: Rig) -> None:
    session = await rig.session()
    with pytest.raises(ChunkNotFoundError):
        await rig.ask(_QUESTION, session_id=session, chunk_ids=["doc_x#chunk_000"])
    assert not await rig.messages(session)


async def test_an_abandoned_answer_of_a_closed_session_stays_as_it_is(rig: Rig, generator: _Scripted) -> None:
    session, asked = await rig.session(), str(uuid.uuid4())
    generator.error = RuntimeError("broken")
    with pytest.raises(InternalError):
        await rig.ask(_QUESTION, session_id=session, message_id=asked)
    await rig.stub.EndSession(pb.EndSessionRequest(session_id=session))
    with pytest.raises(SessionExpiredError):
        await rig.ask(_QUESTION, session_id=session, message_id=asked)
    assert [message.state for message in await rig.messages(session)] == [_COMPLETE, _ABANDONED]


async def test_a_question_that_a_crash_left_alone_gets_its_answer_or_an_empty_one(
    make_rig: MakeRig, generator: _Scripted
) -> None:
    rig = make_rig(generator=generator, settings=settings_with(session_store=SessionStoreName.CATALOG))
    stored = Sessions(rig.library.database)
    asked_again, given_up = await rig.session(), await rig.session()
    for session in (asked_again, given_up):
        alone = NewMessage(str(uuid.UUID(int=7)), Role.USER, _QUESTION, rig.clock.now())
        stored.append(DEFAULT_TENANT, session, "", [alone])
    answer = await rig.ask(_QUESTION, session_id=asked_again, message_id=str(uuid.UUID(int=7)), expected_head="")
    assert [message.message_id for message in await rig.messages(asked_again)] == [
        str(uuid.UUID(int=7)),
        answer.message_id,
    ]
    await rig.ask("How is bread made?", session_id=given_up)
    messages = await rig.messages(given_up)
    assert [message.state for message in messages] == [_COMPLETE, _ABANDONED, _COMPLETE, _COMPLETE]
    assert (messages[1].content, messages[1].grounded, list(messages[1].citations)) == ("", False, [])


async def _resumed(rig: Rig, after: int, **fields: str) -> list[pb.AnswerEvent]:
    request = pb.AskStreamRequest(ask=make_ask(_QUESTION, **fields), after_sequence=after)
    return [message.event async for message in rig.stub.AskStream(request)]


async def test_a_stream_goes_on_behind_any_event(rig: Rig) -> None:
    fields = {"session_id": await rig.session(), "message_id": str(uuid.uuid4())}
    events = await rig.stream(_QUESTION, **fields)
    kinds = ["retrieved", "text_delta", "citation", "text_delta", "citation", "final"]
    assert [event.WhichOneof("event") for event in events] == kinds
    for after in range(len(events) + 1):
        assert await _resumed(rig, after, **fields) == events[after:]
    with pytest.raises(InvalidRequestError) as caught:
        await _resumed(rig, len(events) + 1, **fields)
    assert caught.value.violations[0].field == "after_sequence"


@pytest.mark.parametrize("after", [-1, 1])
async def test_only_an_answer_that_is_kept_can_go_on(rig: Rig, after: int) -> None:
    session, asked = await rig.session(), str(uuid.uuid4())
    for fields in ({}, {"session_id": session, "message_id": asked}):
        with pytest.raises(InvalidRequestError) as caught:
            await _resumed(rig, after, **fields)
        assert [violation.field for violation in caught.value.violations] == ["after_sequence"]
    assert not await rig.messages(session)


async def test_a_broken_stream_ends_with_the_text_that_was_sent_or_begins_anew(rig: Rig, generator: _Scripted) -> None:
    fields = {"session_id": await rig.session(), "message_id": str(uuid.uuid4())}
    generator.goes_on.clear()
    received = []
    request = pb.AskStreamRequest(ask=make_ask(_QUESTION, **fields))
    async with aclosing(aiter(rig.stub.AskStream(request))) as messages:
        async for message in messages:
            received.append(message.event)
            if message.event.HasField("citation"):
                break
    generator.goes_on.set()
    (final,) = await _resumed(rig, len(received), **fields)
    answer = final.final.answer
    assert final.sequence == len(received) + 1
    assert answer.finish_reason == answer_pb2.FINISH_REASON_ABANDONED
    assert answer.content == "".join(event.text_delta.text for event in received)
    assert list(answer.citations) == [event.citation.citation for event in received if event.HasField("citation")]
    whole = (await rig.stream(_QUESTION, **fields))[-1].final.answer
    assert whole.finish_reason == answer_pb2.FINISH_REASON_COMPLETE
    assert len(whole.citations) == 2
