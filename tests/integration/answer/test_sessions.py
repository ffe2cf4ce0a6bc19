"""Questions of a session: the window, one answer for each message id, heads, expiry, and many at once."""

import asyncio
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration

from groundwire.answer.settings import AnswerSettings, SessionStoreName
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import session_pb2
from groundwire.api.common.v1 import role_pb2
from groundwire.kernel.collection import ProfileName
from groundwire.kernel.errors import (
    AlreadyExistsError,
    CollectionNotFoundError,
    InvalidRequestError,
    RequestIdReusedError,
    SessionExpiredError,
    SessionHeadMovedError,
    SessionNotFoundError,
)
from tests.integration.answer.conftest import MakeRig
from tests.integration.answer.rig import FOXES, Rig, settings_with

_QUESTION = "What do red foxes eat?"
_STATE = session_pb2.SessionState.Name


@pytest.fixture(params=list(SessionStoreName))
def rig(make_rig: MakeRig, request: pytest.FixtureRequest) -> Rig:
    """A rig with each session store in turn."""
    return make_rig(settings=settings_with(min_support=0.1, session_store=request.param))


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
    assert replied.grounded is answer.grounded is True
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


@pytest.mark.requirement("S4-04")
async def test_an_answer_outside_of_the_window_is_given_again(rig: Rig) -> None:
    session_id, message_id = await rig.session(), str(uuid.uuid4())
    first = await rig.ask(_QUESTION, session_id=session_id, message_id=message_id)
    for number in range(6):
        await rig.ask(f"{_QUESTION} {number}", session_id=session_id)
    window = await rig.messages(session_id)
    assert message_id not in {message.message_id for message in window}
    rig.library.put("later.txt", ["Red foxes eat blue berries."])
    assert await rig.ask(_QUESTION, session_id=session_id, message_id=message_id) == first
    assert await rig.messages(session_id) == window
    with pytest.raises(AlreadyExistsError):
        await rig.ask("Another question?", session_id=session_id, message_id=message_id)
    with pytest.raises(AlreadyExistsError):
        await rig.ask(_QUESTION, session_id=session_id, message_id=first.message_id)
    assert (await _get(rig, session_id)).message_count == 14


async def test_a_closed_session_gives_its_answers_again(rig: Rig) -> None:
    session_id, message_id = await rig.session(), str(uuid.uuid4())
    first = await rig.ask(_QUESTION, session_id=session_id, message_id=message_id)
    await rig.stub.EndSession(pb.EndSessionRequest(session_id=session_id))
    assert await rig.ask(_QUESTION, session_id=session_id, message_id=message_id) == first


async def test_all_messages_of_a_session_are_listed_in_pages(rig: Rig) -> None:
    session_id = await rig.session()
    answers = [await rig.ask(f"{_QUESTION} {number}", session_id=session_id) for number in range(7)]
    listed: list[session_pb2.Message] = []
    request = pb.ListMessagesRequest(session_id=session_id, page_size=4)
    sizes: list[int] = []
    while not sizes or request.page_token:
        page = await rig.stub.ListMessages(request)
        sizes.append(len(page.messages))
        listed += page.messages
        request.page_token = page.next_page_token
    assert sizes == [4, 4, 4, 2]
    assert [message.message_id for message in listed[1::2]] == [answer.message_id for answer in answers]
    assert [message.content for message in listed[::2]] == [f"{_QUESTION} {number}" for number in range(7)]
    assert list(listed[-10:]) == list(await rig.messages(session_id))
    assert list(listed[1].citations) == list(answers[0].citations)


@pytest.mark.requirement("S4-03")
async def test_a_question_of_a_session_needs_a_message_id_that_is_a_uuid(rig: Rig) -> None:
    session_id, message_id = await rig.session(), str(uuid.uuid4())
    for wrong in ("", "abc", message_id.replace("-", ""), f"{{{message_id}}}", f"{message_id}0"):
        with pytest.raises(InvalidRequestError) as caught:
            await rig.ask(_QUESTION, session_id=session_id, message_id=wrong)
        assert [violation.field for violation in caught.value.violations] == ["message_id"]
    assert not await rig.messages(session_id)
    await rig.ask(_QUESTION, session_id=session_id, message_id=message_id)
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


async def test_the_idle_time_is_what_the_setting_says_unless_the_session_has_its_own(make_rig: MakeRig) -> None:
    rig = make_rig(settings=AnswerSettings(session_idle_s=90))
    usual, own = (
        await _get(rig, await rig.session()),
        await _get(rig, await rig.session(idle_timeout=Duration(seconds=60))),
    )
    assert (usual.idle_timeout.seconds, own.idle_timeout.seconds) == (90, 60)
    rig.clock.advance(seconds=91)
    assert (await _get(rig, usual.session_id)).state == session_pb2.SESSION_STATE_EXPIRED


async def test_an_ended_session_takes_no_more_questions(rig: Rig) -> None:
    session_id = await rig.session()
    for _ in range(2):
        ended = await rig.stub.EndSession(pb.EndSessionRequest(session_id=session_id))
        assert ended.session.state == session_pb2.SESSION_STATE_ENDED
    with pytest.raises(SessionExpiredError, match="the session is ended; ask in a new one"):
        await rig.ask(_QUESTION, session_id=session_id)


@pytest.mark.requirement("S4-41")
async def test_a_follow_up_looks_for_the_earlier_subject(rig: Rig) -> None:
    session_id = await rig.session()
    await rig.ask("What is the borrow checker?", session_id=session_id)
    answer = await rig.ask("Tell me more about it", session_id=session_id)
    assert answer.search_text == "borrow checker: Tell me more about it"
    assert any("compiler" in citation.quote or "scopes" in citation.quote for citation in answer.citations)
    alone = await rig.ask("Tell me more about it")
    assert alone.search_text == "Tell me more about it"


@pytest.mark.requirement("S4-41")
async def test_a_follow_up_that_does_not_show_it_goes_on_from_what_was_asked(rig: Rig) -> None:
    session_id = await rig.session()
    await rig.ask("What is the borrow checker?", session_id=session_id)
    asked = pb.AskRequest(question="Which rules hold at compile time?", session_id=session_id, include_hits=True)
    answer = await rig.ask(asked.question, session_id=session_id, include_hits=True)
    assert (answer.search_text, answer.search_context) == (asked.question, "borrow checker")
    alone = await rig.ask(asked.question, include_hits=True)
    assert alone.search_context == ""
    scores = [[hit.relevance_score for hit in each.hits] for each in (answer, alone)]
    assert scores[0] != scores[1], "the search itself goes on from it"


@pytest.mark.requirement("S4-35")
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
        ({"user_id": "u" * 257}, InvalidRequestError),
        ({"user_id": "a\nb"}, InvalidRequestError),
        ({"labels": {f"l{number}": "" for number in range(17)}}, InvalidRequestError),
        ({"labels": {"": "x"}}, InvalidRequestError),
        ({"labels": {"Team": "x"}}, InvalidRequestError),
        ({"labels": {"t" * 64: "x"}}, InvalidRequestError),
        ({"labels": {"team": "x" * 257}}, InvalidRequestError),
        ({"labels": {"team": "\0"}}, InvalidRequestError),
    ],
)
async def test_sessions_that_cannot_be_made(rig: Rig, fields: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        await rig.stub.CreateSession(pb.CreateSessionRequest(**({"collection": "docs"} | fields)))


async def test_sessions_are_deleted_with_their_messages(rig: Rig) -> None:
    gone, kept = await rig.session(), await rig.session()
    for session_id in (gone, kept):
        await rig.ask(_QUESTION, session_id=session_id)
    response = await rig.stub.DeleteSession(pb.DeleteSessionRequest(session_id=gone))
    assert response.deleted_message_count == 2
    for call in (
        rig.messages(gone),
        rig.ask(_QUESTION, session_id=gone),
        rig.stub.ListMessages(pb.ListMessagesRequest(session_id=gone)),
        rig.stub.EndSession(pb.EndSessionRequest(session_id=gone)),
        rig.stub.DeleteSession(pb.DeleteSessionRequest(session_id=gone)),
    ):
        with pytest.raises(SessionNotFoundError):
            await call
    assert len(await rig.messages(kept)) == 2


async def test_all_sessions_of_a_user_are_deleted_and_nobody_is_not_everybody(rig: Rig) -> None:
    rig.library.create("book", profile=ProfileName.BOOK)  # whose sessions are kept in memory
    for user_id, collection in (("ann", "docs"), ("bob", "docs"), ("ann", "book"), ("", "book")):
        await rig.session(collection, user_id=user_id)
    with pytest.raises(InvalidRequestError) as caught:
        await rig.stub.DeleteSessions(pb.DeleteSessionsRequest())
    assert [violation.field for violation in caught.value.violations] == ["user_id"]
    request = pb.DeleteSessionsRequest(user_id="ann", request_id=str(uuid.uuid4()))
    for repeated, count in ((request, 2), (request, 2), (pb.DeleteSessionsRequest(user_id="ann"), 0)):
        assert (await rig.stub.DeleteSessions(repeated)).deleted_session_count == count
    left = await rig.stub.ListSessions(pb.ListSessionsRequest())
    assert sorted(session.user_id for session in left.sessions) == ["", "bob"]


@dataclass(frozen=True)
class _Change:
    """A call that changes sessions, and another with the same request id and another body."""

    name: str
    request: Any
    other: Any

    async def send(self, rig: Rig) -> Any:
        return await getattr(rig.stub, self.name)(self.request)

    async def assert_repeated(self, rig: Rig, answer: Any) -> None:
        assert await self.send(rig) == answer
        with pytest.raises(RequestIdReusedError):
            await getattr(rig.stub, self.name)(self.other)


_CHANGES = ["CreateSession", "EndSession", "DeleteSession", "DeleteSessions"]


async def _change(rig: Rig, name: str) -> _Change:
    """Return one of the calls; both bodies would have an effect."""
    one, two = await rig.session(user_id="ann"), await rig.session(user_id="bob")
    await rig.ask(_QUESTION, session_id=one)
    id_ = {"request_id": str(uuid.uuid4())}
    match name:
        case "CreateSession":
            request = pb.CreateSessionRequest(collection="docs", user_id="carl", labels={"c": "3", "a": "1", "b": "2"})
            request.request_id = id_["request_id"]
            other = pb.CreateSessionRequest(collection="docs", user_id="carl", request_id=request.request_id)
            return _Change(name, request, other)
        case "DeleteSessions":
            return _Change(
                name, pb.DeleteSessionsRequest(user_id="ann", **id_), pb.DeleteSessionsRequest(user_id="bob", **id_)
            )
        case _:
            kind = getattr(pb, f"{name}Request")
            return _Change(name, kind(session_id=one, **id_), kind(session_id=two, **id_))


async def _listed(rig: Rig) -> list[tuple[str, str, int]]:
    page = await rig.stub.ListSessions(pb.ListSessionsRequest())
    return [(session.session_id, session.user_id, session.state) for session in page.sessions]


async def test_a_repeated_deletion_of_nothing_has_the_same_answer(rig: Rig) -> None:
    empty = await rig.session(user_id="ann")
    one = pb.DeleteSessionRequest(session_id=empty, request_id=str(uuid.uuid4()))
    of_user = pb.DeleteSessionsRequest(user_id="ann", request_id=str(uuid.uuid4()))
    for _ in range(2):
        assert (await rig.stub.DeleteSession(one)).deleted_message_count == 0
        assert (await rig.stub.DeleteSessions(of_user)).deleted_session_count == 0


@pytest.mark.parametrize("name", _CHANGES)
async def test_a_repeated_change_of_sessions_has_one_effect_and_one_answer(rig: Rig, name: str) -> None:
    change = await _change(rig, name)
    answer = await change.send(rig)
    assert answer.ByteSize()
    await rig.ask(_QUESTION, session_id=await rig.session(user_id="ann"))
    before = await _listed(rig)
    assert before
    await change.assert_repeated(rig, answer)
    assert await _listed(rig) == before


async def test_repeated_changes_at_the_same_time_have_one_effect(rig: Rig) -> None:
    request = pb.CreateSessionRequest(collection="docs", request_id=str(uuid.uuid4()))
    made = await asyncio.gather(*(rig.stub.CreateSession(request) for _ in range(8)))
    assert len({response.session.session_id for response in made}) == 1
    assert len(await _listed(rig)) == 1


async def test_changes_and_answers_are_repeated_after_a_restart(tmp_path: Path) -> None:
    settings = AnswerSettings(min_support=0.1, session_store=SessionStoreName.CATALOG)
    rig = Rig(tmp_path, settings=settings)
    rig.library.put("foxes.txt", FOXES)
    session_id, message_id = await rig.session(), str(uuid.uuid4())
    answer = await rig.ask(_QUESTION, session_id=session_id, message_id=message_id)
    for number in range(5):
        await rig.ask(f"{_QUESTION} {number}", session_id=session_id)
    changes = [await _change(rig, name) for name in _CHANGES]
    answers = [await change.send(rig) for change in changes[:-1]]
    answers.append(await changes[-1].send(rig))
    before = await _listed(rig)
    rig.close()
    again = Rig(tmp_path, settings=settings)
    try:
        assert await again.ask(_QUESTION, session_id=session_id, message_id=message_id) == answer
        with pytest.raises(AlreadyExistsError):
            await again.ask("Another question?", session_id=session_id, message_id=message_id)
        # The session that was ended is one of those that were deleted with their user, and its answer with it.
        with pytest.raises(SessionNotFoundError):
            await changes[1].send(again)
        for index in (0, 2, 3):
            await changes[index].assert_repeated(again, answers[index])
        assert await _listed(again) == before
    finally:
        again.close()


async def test_unknown_and_malformed_sessions(rig: Rig) -> None:
    with pytest.raises(SessionNotFoundError):
        await rig.ask(_QUESTION, session_id=str(uuid.uuid4()))
    with pytest.raises(SessionNotFoundError):
        await rig.messages(str(uuid.uuid4()))
    with pytest.raises(InvalidRequestError):
        await rig.messages("abc")


async def test_sessions_are_listed_by_activity_in_pages(rig: Rig) -> None:
    rig.library.create("book", profile=ProfileName.BOOK)  # whose sessions are kept in memory
    made = []
    for number in range(5):
        rig.clock.advance(seconds=1)
        made.append(await rig.session(collection="book" if number % 2 else "docs"))
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
    rig.library.create("other")
    assert not (await rig.stub.ListSessions(pb.ListSessionsRequest(collection="other"))).sessions


async def test_a_list_about_a_collection_that_does_not_exist_says_so(rig: Rig) -> None:
    for name, error in (("nowhere", CollectionNotFoundError), ("Nowhere", InvalidRequestError)):
        with pytest.raises(error):
            await rig.stub.ListSessions(pb.ListSessionsRequest(collection=name))
        with pytest.raises(error):
            await rig.stub.ListAnswers(pb.ListAnswersRequest(collection=name, stale=True))


@pytest.mark.parametrize(
    ("fields", "names"),
    [
        ({"user_id": "ann"}, {"red", "blue"}),
        ({"labels": {"team": "red"}}, {"red", "bob"}),
        ({"labels": {"team": "red"}, "user_id": "ann"}, {"red"}),
        ({"labels": {"team": "red", "language": "de"}}, {"red"}),
        ({"labels": {"team": "green"}}, set()),
        ({"labels": {"language": "red"}}, set()),
        ({"user_id": "an"}, set()),
    ],
)
async def test_sessions_are_listed_by_user_and_labels(rig: Rig, fields: dict[str, Any], names: set[str]) -> None:
    made = {
        "red": await rig.session(user_id="ann", labels={"team": "red", "language": "de"}),
        "blue": await rig.session(user_id="ann", labels={"team": "blue", "language": "de"}),
        "bob": await rig.session(user_id="bob", labels={"team": "red"}),
        "nobody": await rig.session(),
    }
    page = await rig.stub.ListSessions(pb.ListSessionsRequest(**fields))
    assert {session.session_id for session in page.sessions} == {made[name] for name in names}
    session = await _get(rig, made["red"])
    assert (session.user_id, dict(session.labels)) == ("ann", {"team": "red", "language": "de"})
