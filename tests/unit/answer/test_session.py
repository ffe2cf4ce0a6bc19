"""The window of a session and its states."""

from datetime import UTC, datetime, timedelta

import pytest

from groundwire.answer.sessions import (
    Message,
    NewSession,
    Session,
    aged,
    start_session,
    with_answer,
    with_question,
    without_found,
)
from groundwire.api.answer.v1 import answer_pb2
from groundwire.api.common.v1 import document_pb2, explain_plan_pb2, hit_pb2
from groundwire.kernel.session import MAX_TRANSITIONS, Role, SessionState, moved

_START = datetime(2026, 1, 1, tzinfo=UTC)


def _session(exchanges: int = 0) -> Session:
    session = start_session("s", NewSession("docs"), timedelta(minutes=30), _START)
    for number in range(exchanges):
        question, answer = _exchange(number)
        session = with_answer(with_question(session, question), answer)
    return session


def _exchange(number: int) -> tuple[Message, Message]:
    moment = _START + timedelta(seconds=number)
    question = Message(f"q{number}", Role.USER, f"question {number}", moment)
    return question, Message(f"a{number}", Role.ASSISTANT, f"answer {number}", moment, f"q{number}")


def test_an_answer_that_took_long_makes_a_session_no_older() -> None:
    question, answer = _exchange(0)
    later = with_question(with_question(_session(), question), _exchange(9)[0])
    assert with_answer(later, answer).last_activity == _START + timedelta(seconds=9)


@pytest.mark.requirement("S4-30")
@pytest.mark.requirement("S4-31")
@pytest.mark.requirement("T42")
def test_the_oldest_pair_leaves_when_the_sixth_comes() -> None:
    assert len(_session(5).messages) == 10
    session = _session(6)
    assert [message.message_id for message in session.messages][:2] == ["q1", "a1"]
    assert len(session.messages) == 10
    assert session.message_count == 12
    assert session.head == "a5"


@pytest.mark.requirement("S4-32")
def test_messages_are_in_order_of_time() -> None:
    times = [message.time for message in _session(8).messages]
    assert times == sorted(times)


@pytest.mark.requirement("S4-36")
def test_states_are_created_active_pruning_active_and_expired() -> None:
    session = aged(_session(6), timedelta(hours=2))
    states = [transition.after for transition in session.transitions]
    assert states == [
        SessionState.CREATED,
        SessionState.ACTIVE,
        SessionState.PRUNING,
        SessionState.ACTIVE,
        SessionState.EXPIRED,
    ]
    assert [transition.before for transition in session.transitions] == [None, *states[:-1]]
    assert session.transitions[-1].time == session.expire_time == session.last_activity + session.idle_timeout


@pytest.mark.requirement("S4-37")
def test_it_expires_at_its_idle_time_and_not_before() -> None:
    session = _session(1)
    assert aged(session, session.idle_timeout - timedelta(milliseconds=1)) is session
    assert aged(session, session.idle_timeout).state is SessionState.EXPIRED
    assert aged(session, session.idle_timeout).is_closed


def test_an_ended_session_does_not_expire() -> None:
    ended = moved(_session(1), SessionState.ENDED, _START)
    assert aged(ended, timedelta(days=9)) is ended


def test_transitions_are_bounded() -> None:
    assert len(_session(60).transitions) == MAX_TRANSITIONS


def test_what_is_kept_of_an_answer_tells_of_no_document_that_it_does_not_quote() -> None:
    answer = answer_pb2.Answer(
        content="The moon does.",
        hits=[hit_pb2.Hit(rank=1)],
        documents=[document_pb2.Document(document_id="tides")],
        explain_plan=explain_plan_pb2.ExplainPlan(candidate_count=1),
    )
    assert without_found(answer) == answer_pb2.Answer(content="The moon does.")
    assert answer.hits


def test_an_answer_loses_its_text_with_each_document_that_it_quotes_or_names() -> None:
    quoting = answer_pb2.Answer(content="The moon does [1].")
    quoting.citations.add(document_id="tides")
    answer = Message("a", Role.ASSISTANT, quoting.content, _START, "q", answer=quoting, named=frozenset({"named"}))
    for gone in ("tides", "named"):
        left = answer.without({gone, "another"})
        assert (left.content, left.answer, left.redacted) == ("", None, True)
    assert answer.without({"another"}) is answer


def test_a_question_and_its_answer_leave_together_where_another_question_has_none() -> None:
    session = with_question(_session(4), _exchange(4)[0])
    session = with_question(session, _exchange(5)[0])
    names = [message.message_id for message in session.messages]
    assert names == ["q1", "a1", "q2", "a2", "q3", "a3", "q4", "q5"]
    assert SessionState.PRUNING in {transition.after for transition in session.transitions}
