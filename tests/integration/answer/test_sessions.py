"""Questions of a session: the window, one answer for each message id, heads, expiry, and many at once."""

import asyncio
import uuid
from collections.abc import Sequence
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from groundwire.answer.domain.draft import Statement
from groundwire.answer.domain.passage import Passage
from groundwire.answer.settings import AnswerSettings, SessionStoreName
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import session_pb2
from groundwire.api.common.v1 import role_pb2
from groundwire.kernel.errors import (
    AlreadyExistsError,
    CollectionNotFoundError,
    InternalError,
    InvalidRequestError,
    RequestIdReusedError,
    SessionExpiredError,
    SessionHeadMovedError,
    SessionNotFoundError,
)
from tests.integration.answer.conftest import MakeRig
from tests.integration.answer.rig import Rig, ScriptedGenerator

_QUESTION = "What do red foxes eat?"
_STATE = session_pb2.SessionState.Name


@pytest.fixture(params=list(SessionStoreName))
def rig(make_rig: MakeRig, request: pytest.FixtureRequest) -> Rig:
    """A rig with each session store in turn."""
    return make_rig(settings=AnswerSettings(min_support=0.3, session_store=request.param))


async def _get(rig: Rig, session_id: str) -> session_pb2.Session:
    response: pb.GetSessionResponse = await rig.stub.GetSession(pb.GetSessionRequest(session_id=session_id))
    return response.session


@pytest.mark.requirement("S4-28")
@pytest.mark.requirement("S4-29")
@pytest.mark.requirement("S4-34")
async def test_an_exchange_is_two_messages_with_citations(rig: Rig) -> None:
    session_id = await rig.session()
    assert str(uuid.UUID(session_id)) == session_id
    message_id = str(uuid.uuid4())
    answer = await rig.ask(_QUESTION, session_id=session_id, message_id=message_id)
    session = await _get(rig, session_id)
    asked, replied = session.messages
    assert (asked.role, asked.content, asked.message_id) == (role_pb2.ROLE_USER, _QUESTION, message_id)
    assert (replied.role, replied.content) == (role_pb2.ROLE_ASSISTANT, answer.content)
    assert replied.related_message_id == message_id
    assert list(replied.citations) == list(answer.citations)
    assert replied.is_from_book
    assert replied.confidence == pytest.approx(answer.confidence)
    assert (session.head, session.message_count) == (answer.message_id, 2)
    assert answer.session_id == session_id
    assert answer.collection == session.collection == "docs"


@pytest.mark.requirement("S4-30")
@pytest.mark.requirement("S4-31")
@pytest.mark.requirement("S4-32")
@pytest.mark.requirement("S4-36")
async def test_the_window_never_holds_more_than_ten_and_loses_the_oldest_pair(rig: Rig) -> None:
    session_id = await rig.session()
    for number in range(6):
        rig.clock.advance(seconds=1)
        await rig.ask(f"{_QUESTION} {number}", session_id=session_id)
        assert len(await rig.messages(session_id)) == min(10, 2 * (number + 1))
    session = await _get(rig, session_id)
    assert session.messages[0].content == f"{_QUESTION} 1"
    assert session.message_count == 12
    times = [message.message_time.ToNanoseconds() for message in session.messages]
    assert times == sorted(times)
    states = [_STATE(transition.to_state).removeprefix("SESSION_STATE_") for transition in session.transitions]
    assert states == ["CREATED", "ACTIVE", "PRUNING", "ACTIVE"]


@pytest.mark.requirement("S4-04")
async def test_the_same_message_id_gets_the_same_answer_once(rig: Rig) -> None:
    session_id, message_id = await rig.session(), str(uuid.uuid4())
    first = await rig.ask(_QUESTION, session_id=session_id, message_id=message_id)
    rig.library.put("later.txt", ["Red foxes eat blue berries."])
    again = await rig.ask(_QUESTION, session_id=session_id, message_id=message_id)
    assert again == first
    assert len(await rig.messages(session_id)) == 2
    events = await rig.stream(_QUESTION, session_id=session_id, message_id=message_id)
    assert events[-1].final.answer == first
    assert "".join(event.text_delta.text for event in events) == first.content
    with pytest.raises(AlreadyExistsError):
        await rig.ask("Another question?", session_id=session_id, message_id=message_id)


@pytest.mark.requirement("S4-03")
async def test_a_question_of_a_session_needs_a_message_id_that_is_a_uuid(rig: Rig) -> None:
    session_id, message_id = await rig.session(), str(uuid.uuid4())
    for wrong in ("", "abc", message_id.replace("-", ""), f"{{{message_id}}}", f"{message_id}0"):
        with pytest.raises(InvalidRequestError) as caught:
            await rig.ask(_QUESTION, session_id=session_id, message_id=wrong)
        assert [violation.field for violation in caught.value.violations] == ["message_id"]
    assert not await rig.messages(session_id)
    assert (await rig.ask(_QUESTION, session_id=session_id, message_id=message_id)).related_message_id == message_id
    assert (await rig.messages(session_id))[0].message_id == message_id


async def test_a_retry_that_overtakes_waits_for_the_same_answer(rig: Rig) -> None:
    session_id, message_id = await rig.session(), str(uuid.uuid4())
    first, second = await asyncio.gather(
        *(rig.ask(_QUESTION, session_id=session_id, message_id=message_id) for _ in range(2))
    )
    assert first == second
    assert len(await rig.messages(session_id)) == 2


async def test_the_expected_head_must_be_the_newest_message(rig: Rig) -> None:
    session_id = await rig.session()
    first = await rig.ask(_QUESTION, session_id=session_id, expected_head="")
    with pytest.raises(SessionHeadMovedError) as caught:
        await rig.ask("And then what?", session_id=session_id, expected_head="")
    assert caught.value.metadata == {"expected_head": "", "head": first.message_id}
    assert len(await rig.messages(session_id)) == 2
    await rig.ask("And then what?", session_id=session_id, expected_head=first.message_id)


async def test_of_two_questions_with_one_head_only_one_is_answered(rig: Rig) -> None:
    session_id = await rig.session()
    results = await asyncio.gather(
        *(rig.ask(f"{_QUESTION} {number}", session_id=session_id, expected_head="") for number in range(2)),
        return_exceptions=True,
    )
    assert sorted(type(result).__name__ for result in results) == ["Answer", "SessionHeadMovedError"]
    assert len(await rig.messages(session_id)) == 2


@pytest.mark.requirement("T22")
async def test_parallel_questions_of_a_session_are_answered_one_after_the_other(rig: Rig) -> None:
    session_id = await rig.session()
    answers = await asyncio.gather(*(rig.ask(f"{_QUESTION} {number}", session_id=session_id) for number in range(5)))
    messages = await rig.messages(session_id)
    assert len(messages) == 10
    assert {answer.message_id for answer in answers} == {message.message_id for message in messages[1::2]}
    pairs = zip(messages[::2], messages[1::2], strict=True)
    assert all(reply.related_message_id == asked.message_id for asked, reply in pairs)


@pytest.mark.requirement("S4-40")
async def test_ten_sessions_at_once_do_not_mix(rig: Rig) -> None:
    rig.library.put("numbers.txt", [f"Planet{number} orbits star{number}." for number in range(10)])
    sessions = [await rig.session() for _ in range(10)]

    async def talk(number: int, session_id: str) -> None:
        for _ in range(2):
            answer = await rig.ask(f"What orbits star{number}? planet{number} star{number}", session_id=session_id)
            assert answer.citations[0].quote == f"Planet{number} orbits star{number}."
            assert answer.session_id == session_id

    await asyncio.gather(*(talk(number, session_id) for number, session_id in enumerate(sessions)))
    for number, session_id in enumerate(sessions):
        messages = await rig.messages(session_id)
        assert len(messages) == 4
        assert all(f"star{number}" in message.content for message in messages)


@pytest.mark.requirement("S4-37")
async def test_an_idle_session_expires_and_takes_no_more_questions(rig: Rig) -> None:
    session_id = await rig.session(idle_timeout=Duration(seconds=60))
    await rig.ask(_QUESTION, session_id=session_id)
    rig.clock.advance(seconds=59)
    await rig.ask(f"{_QUESTION} again", session_id=session_id)
    rig.clock.advance(seconds=61)
    session = await _get(rig, session_id)
    assert session.state == session_pb2.SESSION_STATE_EXPIRED
    assert len(session.messages) == 4
    with pytest.raises(SessionExpiredError):
        await rig.ask(_QUESTION, session_id=session_id)
    assert len(await rig.messages(session_id)) == 4


async def test_the_default_idle_time_is_thirty_minutes(rig: Rig) -> None:
    session = await _get(rig, await rig.session())
    assert session.idle_timeout.seconds == 1800
    assert session.expire_time.seconds - session.last_activity_time.seconds == 1800
    assert session.state == session_pb2.SESSION_STATE_CREATED


async def test_an_ended_session_takes_no_more_questions(rig: Rig) -> None:
    session_id = await rig.session()
    for _ in range(2):
        ended = await rig.stub.EndSession(pb.EndSessionRequest(session_id=session_id))
        assert ended.session.state == session_pb2.SESSION_STATE_ENDED
    with pytest.raises(SessionExpiredError):
        await rig.ask(_QUESTION, session_id=session_id)


@pytest.mark.requirement("S4-33")
async def test_a_failed_generation_leaves_no_message(make_rig: MakeRig) -> None:
    def fail(_passages: Sequence[Passage]) -> Sequence[Sequence[Statement]]:
        raise RuntimeError("broken")

    rig = make_rig(generator=ScriptedGenerator(fail))
    session_id = await rig.session()
    with pytest.raises(InternalError):
        await rig.ask(_QUESTION, session_id=session_id)
    session = await _get(rig, session_id)
    assert not session.messages
    assert session.head == ""


@pytest.mark.requirement("S4-41")
async def test_a_follow_up_looks_for_the_earlier_subject(rig: Rig) -> None:
    session_id = await rig.session()
    await rig.ask("What is the borrow checker?", session_id=session_id)
    answer = await rig.ask("Tell me more about it", session_id=session_id)
    assert answer.search_text == "borrow checker Tell me more about it"
    assert any("compiler" in citation.quote or "scopes" in citation.quote for citation in answer.citations)
    alone = await rig.ask("Tell me more about it")
    assert alone.search_text == "Tell me more about it"


async def test_a_change_of_topic_is_reported(rig: Rig) -> None:
    session_id = await rig.session()
    assert not (await rig.ask(_QUESTION, session_id=session_id)).topic_shift
    assert (await rig.ask("How is bread made?", session_id=session_id)).topic_shift


async def test_the_collection_of_a_question_is_that_of_the_session(rig: Rig) -> None:
    session_id = await rig.session()
    rig.library.create("other")
    with pytest.raises(InvalidRequestError) as caught:
        await rig.ask(_QUESTION, session_id=session_id, collection="other")
    assert caught.value.violations[0].field == "collection"
    assert (await rig.ask(_QUESTION, session_id=session_id, collection="docs")).grounded


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"collection": "nowhere"}, CollectionNotFoundError),
        ({"collection": "No"}, InvalidRequestError),
        ({"idle_timeout": Duration(nanos=1)}, InvalidRequestError),
        ({"idle_timeout": Duration(seconds=31 * 86_400)}, InvalidRequestError),
        ({"request_id": "abc"}, InvalidRequestError),
    ],
)
async def test_sessions_that_cannot_be_made(rig: Rig, fields: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        await rig.stub.CreateSession(pb.CreateSessionRequest(**({"collection": "docs"} | fields)))


async def test_the_same_request_id_makes_one_session(rig: Rig) -> None:
    request_id = str(uuid.uuid4())
    first, second = [await rig.session(request_id=request_id) for _ in range(2)]
    assert first == second
    assert await rig.session() != first
    with pytest.raises(RequestIdReusedError):
        await rig.session(request_id=request_id, idle_timeout=Duration(seconds=7))


async def test_unknown_and_malformed_sessions(rig: Rig) -> None:
    with pytest.raises(SessionNotFoundError):
        await rig.ask(_QUESTION, session_id=str(uuid.uuid4()))
    with pytest.raises(SessionNotFoundError):
        await rig.messages(str(uuid.uuid4()))
    with pytest.raises(InvalidRequestError):
        await rig.messages("abc")


async def test_sessions_are_listed_by_activity_in_pages(rig: Rig) -> None:
    made = []
    for _ in range(5):
        rig.clock.advance(seconds=1)
        made.append(await rig.session())
    rig.clock.advance(seconds=1)
    await rig.ask(_QUESTION, session_id=made[0])
    listed, token = [], ""
    while True:
        page = await rig.stub.ListSessions(pb.ListSessionsRequest(page_size=2, page_token=token))
        assert all(not session.messages for session in page.sessions)
        listed += [session.session_id for session in page.sessions]
        token = page.next_page_token
        if not token:
            break
    assert listed == [made[0], *reversed(made[1:])]
    active = pb.ListSessionsRequest(state=session_pb2.SESSION_STATE_ACTIVE)
    assert [each.session_id for each in (await rig.stub.ListSessions(active)).sessions] == [made[0]]
    assert not (await rig.stub.ListSessions(pb.ListSessionsRequest(collection="other"))).sessions
