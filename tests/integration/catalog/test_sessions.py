"""Sessions: at most ten messages, pruned in pairs, moved by compare-and-set, expired by the clock."""

import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from groundwire.answer.adapters.catalog_sessions import redact_purged
from groundwire.catalog.inspection import read_backlog
from groundwire.catalog.sessions import MessageState, NewMessage, Session, Sessions
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import (
    AlreadyExistsError,
    SessionExpiredError,
    SessionHeadMovedError,
    SessionNotFoundError,
)
from groundwire.kernel.session import Role, SessionState
from tests.catalogs import open_database
from tests.integration.catalog.drafts import (
    NOON,
    TENANT,
    Catalog,
    make_draft,
    new_session,
    open_catalog,
    receipt,
    request_key,
)
from tests.manual_clock import ManualClock

ID = "11111111-1111-4111-8111-111111111111"
IDLE = timedelta(minutes=30)


def _new(catalog: Catalog, session_id: str = ID, **fields: Any) -> Session:
    return new_session(session_id, catalog.clock.now(), IDLE, **fields)


@pytest.fixture
def session(catalog: Catalog) -> Session:
    return catalog.sessions.create(TENANT, _new(catalog))


def _exchange(catalog: Catalog, number: int) -> list[NewMessage]:
    now = catalog.clock.now()
    question = NewMessage(f"q{number}", Role.USER, f"question {number}", now)
    answer = NewMessage(f"a{number}", Role.ASSISTANT, f"answer {number}", now, f"q{number}", answer=b"snapshot")
    return [question, answer]


def _ask(catalog: Catalog, number: int) -> Session:
    head = catalog.sessions.get(TENANT, ID).head
    return catalog.sessions.append(TENANT, ID, head, _exchange(catalog, number))


@pytest.mark.requirement("S4-28")
def test_a_session_comes_back_as_it_was_created(catalog: Catalog) -> None:
    made = catalog.sessions.create(TENANT, _new(catalog), receipt())
    assert catalog.sessions.get(TENANT, ID) == made
    assert (made.state, made.head, made.message_count) == (SessionState.CREATED, "", 0)
    assert (made.create_time, made.last_activity, made.expire_time) == (NOON, NOON, NOON + IDLE)
    assert catalog.ledger.find(TENANT, request_key()) == b"answer"
    with pytest.raises(AlreadyExistsError):
        catalog.sessions.create(TENANT, _new(catalog))


@pytest.mark.requirement("S4-29")
@pytest.mark.requirement("S4-34")
def test_messages_keep_role_time_and_answer(catalog: Catalog, session: Session) -> None:
    catalog.clock.advance(minutes=1)
    after = _ask(catalog, 1)
    question, answer = catalog.sessions.messages(TENANT, ID)
    assert (question.role, question.content, question.message_id) == (Role.USER, "question 1", "q1")
    assert (answer.role, answer.answer, answer.related_message_id) == (Role.ASSISTANT, b"snapshot", "q1")
    assert (question.sequence, answer.sequence, answer.state) == (1, 2, MessageState.COMPLETE)
    assert (after.state, after.head, after.message_count) == (SessionState.ACTIVE, "a1", 2)
    assert after.last_activity == NOON + timedelta(minutes=1)


@pytest.mark.requirement("S4-30")
@pytest.mark.requirement("S4-31")
@pytest.mark.requirement("S4-32")
@pytest.mark.requirement("T42")
def test_the_oldest_pair_leaves_before_there_are_more_than_ten(catalog: Catalog, session: Session) -> None:
    for number in range(1, 9):
        after = _ask(catalog, number)
        held = catalog.sessions.messages(TENANT, ID)
        first = max(1, number - 4)
        assert [message.message_id for message in held] == [
            f"{role}{each}" for each in range(first, number + 1) for role in "qa"
        ]
        assert after.message_count == 2 * number
    assert [message.sequence for message in held] == list(range(7, 17))


@pytest.mark.requirement("T42")
def test_a_question_alone_also_makes_room_for_a_whole_pair(catalog: Catalog, session: Session) -> None:
    for number in range(1, 6):
        _ask(catalog, number)
    question, answer = _exchange(catalog, 6)
    catalog.sessions.append(TENANT, ID, "a5", [question])
    assert len(catalog.sessions.messages(TENANT, ID)) == 9
    catalog.sessions.append(TENANT, ID, "q6", [answer])
    held = catalog.sessions.messages(TENANT, ID)
    assert (len(held), held[0].message_id) == (10, "q2")


@pytest.mark.requirement("S4-36")
@pytest.mark.requirement("S4-37")
def test_the_states_it_went_through_are_listed(catalog: Catalog, session: Session) -> None:
    for number in range(1, 7):
        _ask(catalog, number)
    ended = catalog.sessions.end(TENANT, ID)
    assert [each.after for each in ended.transitions] == [
        SessionState.CREATED,
        SessionState.ACTIVE,
        SessionState.PRUNING,
        SessionState.ACTIVE,
        SessionState.ENDED,
    ]
    assert [each.before for each in ended.transitions] == [None, *(each.after for each in ended.transitions[:-1])]
    assert catalog.sessions.end(TENANT, ID) == ended
    assert catalog.sessions.get(TENANT, ID) == ended


def test_only_the_newest_fifty_transitions_are_kept(catalog: Catalog, session: Session) -> None:
    for number in range(40):
        _ask(catalog, number)
    assert len(catalog.sessions.get(TENANT, ID).transitions) == 50


def test_a_moved_head_is_a_conflict_and_changes_nothing(catalog: Catalog, session: Session) -> None:
    _ask(catalog, 1)
    before = catalog.sessions.messages(TENANT, ID)
    with pytest.raises(SessionHeadMovedError) as raised:
        catalog.sessions.append(TENANT, ID, "", _exchange(catalog, 2))
    assert raised.value.metadata == {"expected_head": "", "head": "a1"}
    assert catalog.sessions.messages(TENANT, ID) == before


def test_a_repeated_question_finds_its_answer(catalog: Catalog, session: Session) -> None:
    for number in range(1, 8):
        _ask(catalog, number)
    question, answer = catalog.sessions.exchange(TENANT, ID, "q1")
    assert (question.message_id, answer.message_id, answer.answer) == ("q1", "a1", b"snapshot")
    assert catalog.sessions.messages(TENANT, ID)[0].message_id == "q3"
    assert [each.message_id for each in catalog.sessions.exchange(TENANT, ID, "a7")] == ["a7"]
    assert catalog.sessions.exchange(TENANT, ID, "q8") == []


def test_all_messages_are_read_in_pages(catalog: Catalog, session: Session) -> None:
    for number in range(1, 8):
        _ask(catalog, number)
    seen: list[str] = []
    while page := catalog.sessions.history(TENANT, ID, len(seen), 4):
        seen += [message.message_id for message in page]
    assert seen == [f"{role}{number}" for number in range(1, 8) for role in "qa"]


def test_deleting_a_session_leaves_nothing_of_it_and_nothing_else_goes(catalog: Catalog, session: Session) -> None:
    _ask(catalog, 1)
    other = "22222222-2222-4222-8222-222222222222"
    catalog.sessions.create(TENANT, _new(catalog, other, user_id="ann"))
    assert catalog.sessions.delete(TENANT, ID) == 2
    with catalog.database.read() as connection:
        assert connection.exec_driver_sql("SELECT session_id FROM sessions").scalars().all() == [other]
        assert connection.exec_driver_sql("SELECT count(*) FROM messages").scalar() == 0
    with pytest.raises(SessionNotFoundError):
        catalog.sessions.delete(TENANT, ID)


def test_all_sessions_of_a_user_go_and_those_of_others_stay(catalog: Catalog) -> None:
    for number in range(210):
        user = "ann" if number % 2 else "bob"
        session_id = str(uuid.UUID(int=number))
        catalog.sessions.create(TENANT, _new(catalog, session_id, user_id=user, labels={"n": str(number)}))
    catalog.sessions.create("other", _new(catalog, user_id="ann"))
    recorded = _new(catalog, user_id="a-helper", scope="entity:ann")
    catalog.sessions.create(TENANT, recorded)  # whoever began it
    assert catalog.sessions.delete_of_user(TENANT, "ann") == 106
    left = catalog.sessions.page(TENANT, None, 1000)
    assert len(left) == 105
    assert {each.user_id for each in left} == {"bob"}
    assert [each.labels for each in left][-1] == {"n": "0"}
    assert catalog.sessions.delete_of_user(TENANT, "ann") == 0
    assert catalog.sessions.get("other", ID).user_id == "ann"


def test_an_id_that_is_used_twice_at_once_is_refused_by_its_name_and_nothing_is_stored(
    catalog: Catalog, session: Session
) -> None:
    _ask(catalog, 1)
    question, answer = _exchange(catalog, 2)
    taken = _exchange(catalog, 1)[1]
    for new, name in [([question, question], "q2"), ([question, taken], "a1")]:
        with pytest.raises(AlreadyExistsError) as refused:
            catalog.sessions.append(TENANT, ID, "a1", new)
        assert refused.value.metadata["message_id"] == name
    assert [message.message_id for message in catalog.sessions.messages(TENANT, ID)] == ["q1", "a1"]
    assert catalog.sessions.append(TENANT, ID, "a1", [question, answer]).head == "a2"


def test_a_message_that_lost_its_text_holds_none_of_the_other_documents_either(
    catalog: Catalog, session: Session
) -> None:
    question, answer = _exchange(catalog, 1)
    answer = replace(answer, cited=("tides", "moons"), shown=("winds",), found=b"hits")
    catalog.sessions.append(TENANT, ID, "", [question, answer])
    assert catalog.sessions.documents(("", ""), 9) == [(TENANT, each) for each in ("moons", "tides", "winds")]
    assert catalog.sessions.redact("other", ["tides"]) == 0
    assert catalog.sessions.redact(TENANT, ["winds"]) == 1
    (_, kept) = catalog.sessions.messages(TENANT, ID)
    assert (kept.content, kept.answer, kept.found) == ("answer 1", b"snapshot", None)
    assert catalog.sessions.documents(("", ""), 9) == [(TENANT, "moons"), (TENANT, "tides")]
    assert catalog.sessions.redact(TENANT, ["winds"]) == 0
    assert catalog.sessions.redact(TENANT, ["tides"]) == 1
    (_, emptied) = catalog.sessions.messages(TENANT, ID)
    assert (emptied.content, emptied.answer, emptied.state) == ("", None, MessageState.REDACTED)
    assert catalog.sessions.documents(("", ""), 9) == []
    assert catalog.sessions.redact(TENANT, ["moons"]) == 0


def test_an_answer_from_a_deleted_document_loses_its_text_while_the_document_is_being_written_anew(
    catalog: Catalog, session: Session, docs: Collection
) -> None:
    catalog.put(docs, make_draft("one", document_id="doc-1"))
    catalog.documents.delete(TENANT, "docs", "doc-1")
    pending = catalog.begin(docs, make_draft("two", document_id="doc-1"))
    question, answer = _exchange(catalog, 1)
    catalog.sessions.append(TENANT, ID, "", [question, replace(answer, cited=("doc-1",))])
    (_, emptied) = catalog.sessions.messages(TENANT, ID)
    assert (emptied.content, emptied.state) == ("", MessageState.REDACTED)
    catalog.documents.publish(pending)
    question, answer = _exchange(catalog, 2)
    catalog.sessions.append(TENANT, ID, "a1", [question, replace(answer, cited=("doc-1",))])
    assert catalog.sessions.messages(TENANT, ID)[-1].content == "answer 2"


def test_documents_of_messages_are_gone_through_in_pages_of_all_tenants(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groundwire.answer.adapters.catalog_sessions._DOCUMENTS_AT_A_TIME", 2)
    asked: list[tuple[str, list[str]]] = []
    for tenant in ("acme", "globex"):
        catalog.sessions.create(tenant, _new(catalog))
        # The first document in the last message: the order is not that in which they were stored.
        head = ""
        for number, cited in enumerate([("c", "b"), ("b",), ("a",)]):
            question, answer = _exchange(catalog, number)
            catalog.sessions.append(tenant, ID, head, [question, replace(answer, cited=cited)])
            head = answer.message_id

    def purged(tenant: str, documents: Sequence[str]) -> frozenset[str]:
        asked.append((tenant, list(documents)))
        return frozenset({"a"} & set(documents)) if tenant == "acme" else frozenset()

    redact_purged(catalog.sessions, purged)
    assert asked == [("acme", ["a", "b"]), ("acme", ["c"]), ("globex", ["a"]), ("globex", ["b", "c"])]
    states = {
        tenant: [each.state for each in catalog.sessions.messages(tenant, ID)[1::2]] for tenant in ("acme", "globex")
    }
    complete = MessageState.COMPLETE
    assert states == {"acme": [complete, complete, MessageState.REDACTED], "globex": [complete] * 3}


@pytest.mark.sqlite
def test_sessions_of_a_user_are_found_by_an_index(catalog: Catalog) -> None:
    plan = """EXPLAIN QUERY PLAN SELECT * FROM sessions WHERE tenant = 't' AND user_id = 'ann'
        ORDER BY last_activity DESC, session_id DESC LIMIT 10"""
    with catalog.database.read() as connection:
        steps = [row[3] for row in connection.exec_driver_sql(plan)]
    assert len(steps) == 1, steps
    assert "USING INDEX sessions_user (tenant=? AND user_id=?)" in steps[0]


def test_parallel_turns_are_neither_lost_nor_swapped(catalog: Catalog, session: Session) -> None:
    start = threading.Barrier(10)

    def turn(number: int) -> int:
        start.wait()
        for attempt in range(200):
            try:
                _ask(catalog, number)
            except SessionHeadMovedError:
                continue
            return attempt
        raise AssertionError("never got through")

    with ThreadPoolExecutor(10) as threads:
        list(threads.map(turn, range(10)))
    held = catalog.sessions.messages(TENANT, ID)
    assert len(held) == 10
    assert [message.sequence for message in held] == list(range(11, 21))
    assert [(q.role, a.related_message_id) for q, a in zip(held[::2], held[1::2], strict=True)] == [
        (Role.USER, q.message_id) for q in held[::2]
    ]


@pytest.mark.requirement("S4-37")
def test_an_idle_session_expires_and_is_removed_a_day_later(catalog: Catalog, session: Session) -> None:
    catalog.clock.advance(minutes=29, seconds=59)
    assert catalog.sessions.get(TENANT, ID).state is SessionState.CREATED
    catalog.clock.advance(seconds=1)
    expired = catalog.sessions.get(TENANT, ID)
    assert (expired.state, expired.transitions[-1].time) == (SessionState.EXPIRED, NOON + IDLE)
    with pytest.raises(SessionExpiredError):
        catalog.sessions.append(TENANT, ID, "", _exchange(catalog, 1))
    catalog.clock.advance(hours=23, minutes=59)
    assert catalog.sessions.expire() == 0
    catalog.clock.advance(minutes=1, seconds=1)
    assert catalog.sessions.expire() == 1
    with pytest.raises(SessionNotFoundError):
        catalog.sessions.get(TENANT, ID)


def test_a_session_that_expired_while_no_server_ran_is_not_counted_as_open(tmp_path: Path) -> None:
    catalog = open_catalog(tmp_path / "catalog.db")
    catalog.sessions.create(TENANT, _new(catalog))
    assert read_backlog(catalog.database).sessions == 1
    catalog.database.close()
    later = ManualClock(NOON)
    later.advance(hours=1)
    database = open_database(tmp_path / "catalog.db", later)
    assert Sessions(database).get(TENANT, ID).state is SessionState.EXPIRED
    assert read_backlog(database).sessions == 0
    database.close()


def test_activity_puts_off_the_expiry(catalog: Catalog, session: Session) -> None:
    catalog.clock.advance(minutes=29)
    _ask(catalog, 1)
    catalog.clock.advance(minutes=29)
    assert _ask(catalog, 2).state is SessionState.ACTIVE


def test_an_ended_session_takes_no_messages_and_does_not_expire(catalog: Catalog, session: Session) -> None:
    catalog.sessions.end(TENANT, ID)
    with pytest.raises(SessionExpiredError):
        catalog.sessions.append(TENANT, ID, "", _exchange(catalog, 1))
    catalog.clock.advance(hours=1)
    assert catalog.sessions.get(TENANT, ID).state is SessionState.ENDED


def test_sessions_are_listed_by_last_activity(catalog: Catalog) -> None:
    ids = sorted(str(uuid.UUID(int=number)) for number in range(5))
    for number, each in enumerate(ids):
        catalog.sessions.create(TENANT, new_session(each, catalog.clock.now(), timedelta(days=1)))
        if number % 2:
            catalog.clock.advance(seconds=1)
    seen, after = [], None
    while page := catalog.sessions.page(TENANT, after, 2):
        seen += page
        after = (page[-1].last_activity, page[-1].session_id)
    assert [each.session_id for each in seen] == [ids[4], ids[3], ids[2], ids[1], ids[0]]


def test_unknown_sessions_are_not_found(catalog: Catalog) -> None:
    for call in (
        lambda: catalog.sessions.get(TENANT, ID),
        lambda: catalog.sessions.messages(TENANT, ID),
        lambda: catalog.sessions.history(TENANT, ID, 0, 1),
        lambda: catalog.sessions.exchange(TENANT, ID, "q"),
        lambda: catalog.sessions.delete(TENANT, ID),
        lambda: catalog.sessions.append(TENANT, ID, "", []),
        lambda: catalog.sessions.end(TENANT, ID),
    ):
        with pytest.raises(SessionNotFoundError):
            call()


def test_whole_answers_of_a_conversation_wait_in_order_until_they_are_recorded(catalog: Catalog) -> None:
    other = str(uuid.uuid4())
    for session_id, conversation_id in ((ID, "conv-1"), (other, "")):
        catalog.sessions.create(TENANT, _new(catalog, session_id, conversation_id=conversation_id, scope="global"))
        for number in (1, 2, 3):
            question, answer = _exchange(catalog, number)
            head = catalog.sessions.get(TENANT, session_id).head
            catalog.sessions.append(TENANT, session_id, head, [question])
            catalog.sessions.reply(TENANT, session_id, answer, is_whole=number != 2)
    waiting = catalog.sessions.unrecorded(0, 10)
    assert [(each.question.content, each.answer.content) for each in waiting] == [
        ("question 1", "answer 1"),
        ("question 3", "answer 3"),
    ]
    assert {each.session.conversation_id for each in waiting} == {"conv-1"}
    assert [each.number for each in catalog.sessions.unrecorded(waiting[0].number, 10)] == [waiting[1].number]
    catalog.clock.advance(days=3)
    catalog.sessions.expire()
    counted = [(TENANT, ID), (TENANT, other), ("other", ID)]
    assert [catalog.sessions.count_unrecorded(*each) for each in counted] == [2, 0, 0]
    catalog.sessions.recorded(waiting[0].number)
    assert catalog.sessions.count_unrecorded(TENANT, ID) == 1
    for each in waiting:
        catalog.sessions.recorded(each.number)
    assert catalog.sessions.unrecorded(0, 10) == []
    catalog.sessions.expire()
    with pytest.raises(SessionNotFoundError):
        catalog.sessions.get(TENANT, ID)
