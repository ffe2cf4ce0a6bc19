"""Sessions that are recorded: turns, summaries and memories of a conversation, over a real server."""

import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from groundwire.api.answer.v1 import answer_pb2, session_pb2
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.common.v1 import record_pb2, role_pb2
from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import record_service_pb2 as records_pb
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import AlreadyExistsError, InvalidRequestError, PreconditionError, SessionNotFoundError
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from tests.e2e.server import ServerProcess
from tests.e2e.split import Deployment, start_services

NAME = "handbook"
TIDES = "# Tides\n\nThe moon causes the tides of the sea. A spring tide is the highest tide.\n"
EVERY = 2
SAID = (
    "I live in Bonn and I work at Globex.",
    "What causes the tides of the sea?",
    "I prefer short answers.",
    "What is the highest tide?",
    "The launch of Atlas is on 3 March 2026.",
)
LIMIT_S = 60
RECORDING_WAIT_S = 0.5
"""How long an answer waits for what was just said."""
SETTINGS = {"RAG_SUMMARY_EVERY_N_TURNS": str(EVERY), "GROUNDWIRE_ANSWER_CONSOLIDATE": "true"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess | Deployment]:
    running = start_services(tmp_path_factory.mktemp("talk"), **SETTINGS)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def client(server: ServerProcess) -> Iterator[GroundwireClient]:
    with GroundwireClient(server.address) as made:
        made.create_collection(collection=NAME)
        made.ingest_document(collection=NAME, source_uri="tides.md", text=TIDES)
        yield made


def ask(
    client: GroundwireClient,
    session: session_pb2.Session,
    question: str,
    message_id: str = "",
    strictness: float = 0.0,
) -> answer_pb2.Answer:
    """Ask, however little the model of the tests sees that an answer fits."""
    asked = pb.AskRequest(
        question=question,
        session_id=session.session_id,
        message_id=message_id or str(uuid.uuid4()),
        strictness=strictness,
    )
    return client.ask.send(asked).answer


def wait_until_recorded(client: GroundwireClient, session: session_pb2.Session) -> None:
    deadline = time.monotonic() + LIMIT_S
    while client.get_session(session_id=session.session_id).session.unrecorded_exchange_count:
        assert time.monotonic() < deadline, "the exchanges are not recorded"
        time.sleep(0.05)


def records(client: GroundwireClient, **where: object) -> list[record_pb2.Record]:
    """Return the records with these fields by their turn."""
    conditions = to_filter_message(parse_filter(where))
    return list(
        client.list_records(
            collection=NAME, filter=conditions, order_by=records_pb.RECORD_ORDER_TURN_ASC, page_size=100
        ).records
    )


@pytest.fixture(scope="module")
def talk(client: GroundwireClient) -> tuple[session_pb2.Session, list[answer_pb2.Answer]]:
    """Return a session of a new conversation, recorded, and its answers."""
    session = client.create_session(collection=NAME, user_id="ada", new_conversation=True).session
    answers = [ask(client, session, said) for said in SAID]
    wait_until_recorded(client, session)
    return session, answers


def test_what_was_just_said_can_be_asked_for_at_once(client: GroundwireClient) -> None:
    session = client.create_session(collection=NAME, user_id="pia", new_conversation=True).session
    heard = []
    for animal, name in (("cat", "Tom"), ("dog", "Rex"), ("horse", "Ida"), ("hen", "Uma"), ("goat", "Max")):
        ask(client, session, f"My {animal} is called {name}.")
        asked = time.monotonic()
        answer = ask(client, session, f"What is my {animal} called?")
        heard.append(f"My {animal} is called {name}." in {citation.quote for citation in answer.citations})
        # On a busy machine a turn may be recorded later than an answer waits for it.
        assert heard[-1] or time.monotonic() - asked >= RECORDING_WAIT_S
    assert any(heard)


@pytest.mark.requirement("C04")
@pytest.mark.requirement("S0-35")
@pytest.mark.requirement("S0-38")
def test_both_sides_of_each_exchange_become_turns(
    client: GroundwireClient, talk: tuple[session_pb2.Session, list[answer_pb2.Answer]]
) -> None:
    session, answers = talk
    assert uuid.UUID(session.conversation_id.removeprefix("conv-")).version == 4
    assert session.scope == "entity:ada"
    turns = records(client, record_type="turn", conversation_id=session.conversation_id)
    user, assistant = turns[::2], turns[1::2]
    assert [each.text for each in user] == list(SAID)
    assert [each.text for each in assistant] == [answer.content for answer in answers]
    assert [each.turn.turn_index for each in turns] == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5]
    assert {(each.scope, each.origin) for each in turns} == {("entity:ada", record_pb2.RECORD_ORIGIN_CHAT)}
    messages = client.list_messages(session_id=session.session_id).messages
    assert [each.timestamp.ToMilliseconds() for each in turns] == [m.message_time.ToMilliseconds() for m in messages]


@pytest.mark.requirement("S0-42")
@pytest.mark.requirement("S0-44")
@pytest.mark.requirement("S0-46")
def test_every_so_many_exchanges_there_is_a_summary(
    client: GroundwireClient, talk: tuple[session_pb2.Session, list[answer_pb2.Answer]]
) -> None:
    summaries = records(client, record_type="summary", conversation_id=talk[0].conversation_id)
    summaries.sort(key=lambda each: each.summary.summary_index)
    assert [(each.summary.summary_index, each.summary.turn_range) for each in summaries] == [(1, "1-2"), (2, "3-4")]
    assert {(each.origin, each.scope) for each in summaries} == {(record_pb2.RECORD_ORIGIN_SYSTEM, "entity:ada")}
    assert SAID[0] in summaries[0].text
    assert "The moon causes the tides of the sea." in summaries[0].text
    assert SAID[2] in summaries[1].text


@pytest.mark.requirement("S0-73")
def test_memories_are_derived_with_each_summary_and_linked_to_what_was_said(
    client: GroundwireClient, talk: tuple[session_pb2.Session, list[answer_pb2.Answer]]
) -> None:
    session, _ = talk
    memories = records(client, record_type="memory", entity="ada")
    assert {each.text for each in memories} == {SAID[0], SAID[2]}  # the fifth exchange has no summary yet
    assert {each.origin for each in memories} == {record_pb2.RECORD_ORIGIN_DERIVED}
    assert {each.memory.conversation_id for each in memories} == {session.conversation_id}
    preference = next(each for each in memories if each.text == SAID[2])
    assert preference.memory.kind == record_pb2.MEMORY_KIND_PREFERENCE
    turns = records(client, record_type="turn", conversation_id=session.conversation_id)
    assert [each.text for each in turns if preference.record_id in each.links.supports] == [SAID[2]]


def test_consolidating_again_changes_nothing_but_what_is_new(
    client: GroundwireClient, talk: tuple[session_pb2.Session, list[answer_pb2.Answer]]
) -> None:
    session, _ = talk
    conversation: dict[str, Any] = {
        "collection": NAME,
        "conversation_id": session.conversation_id,
        "scope": session.scope,
    }
    before = {each.record_id: each.memory.confidence for each in records(client, record_type="memory", entity="ada")}
    first = client.consolidate_conversation(**conversation).memories
    assert [(each.text, each.created) for each in first] == [(SAID[0], False), (SAID[2], False), (SAID[4], True)]
    again = client.consolidate_conversation(**conversation).memories
    assert [(each.record_id, each.created) for each in again] == [(each.record_id, False) for each in first]
    part = client.consolidate_conversation(**conversation, first_turn_index=3, last_turn_index=3).memories
    assert [each.text for each in part] == [SAID[2]]
    after = {each.record_id: each.memory.confidence for each in records(client, record_type="memory", entity="ada")}
    assert {key: after[key] for key in before} == before
    with pytest.raises(InvalidRequestError, match="last_turn_index"):
        client.consolidate_conversation(**conversation, first_turn_index=3, last_turn_index=2)


def test_what_is_said_again_confirms_a_memory(client: GroundwireClient) -> None:
    session = client.create_session(collection=NAME, user_id="ben", new_conversation=True).session
    for said in ("I prefer tea.", "What is the highest tide?", "I really prefer tea!", "What causes the tides?"):
        ask(client, session, said)
    wait_until_recorded(client, session)
    (memory,) = records(client, record_type="memory", entity="ben")
    assert memory.text == "I prefer tea."
    assert memory.memory.confidence == pytest.approx(0.9)
    turns = records(client, record_type="turn", conversation_id=session.conversation_id)
    supporting = [each.text for each in turns if memory.record_id in each.links.supports]
    assert supporting == ["I prefer tea.", "I really prefer tea!"]


def test_what_is_derived_several_times_at_once_confirms_a_memory_once(client: GroundwireClient) -> None:
    session = client.create_session(collection=NAME, user_id="dora", new_conversation=True).session
    for said in ("I prefer tea.", "What is the highest tide?", "I really prefer tea!"):
        ask(client, session, said)
    wait_until_recorded(client, session)
    together = Barrier(4)

    def consolidate(_: int) -> None:
        together.wait()
        conversation_id = session.conversation_id
        client.consolidate_conversation(collection=NAME, conversation_id=conversation_id, scope=session.scope)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(consolidate, range(4)))
    (memory,) = records(client, record_type="memory", entity="dora")
    assert memory.memory.confidence == pytest.approx(0.9)


@pytest.mark.requirement("C17")
def test_a_session_without_a_conversation_records_nothing(client: GroundwireClient) -> None:
    before = len(records(client, scope="entity:carl"))
    session = client.create_session(collection=NAME, user_id="carl").session
    for said in SAID[:EVERY]:
        ask(client, session, said)
    # What is recorded keeps its order, so that nothing can still be on its way when this is there.
    recorded = client.create_session(collection=NAME, user_id="carl", new_conversation=True).session
    ask(client, recorded, SAID[0])
    wait_until_recorded(client, recorded)
    there = records(client, scope="entity:carl")
    assert before == 0
    assert {each.turn.conversation_id for each in there} == {recorded.conversation_id}


def test_a_question_that_is_sent_again_is_recorded_once(client: GroundwireClient) -> None:
    session = client.create_session(collection=NAME, conversation_id="conv-again", scope="entity:dora").session
    message_id = str(uuid.uuid4())
    first = ask(client, session, SAID[1], message_id)
    assert ask(client, session, SAID[1], message_id) == first
    with pytest.raises(AlreadyExistsError):
        ask(client, session, SAID[3], message_id)
    wait_until_recorded(client, session)
    assert [each.text for each in records(client, conversation_id="conv-again")] == [SAID[1], first.content]


def test_a_conversation_goes_on_in_a_new_session_with_the_next_number(client: GroundwireClient) -> None:
    for said in SAID[:3]:
        session = client.create_session(collection=NAME, conversation_id="conv-long", user_id="eva").session
        assert client.get_session(session_id=session.session_id).session.message_count == 0
        ask(client, session, said)
        wait_until_recorded(client, session)
    turns = records(client, record_type="turn", conversation_id="conv-long", role="user")
    assert [(each.turn.turn_index, each.text) for each in turns] == list(enumerate(SAID[:3], start=1))
    (summary,) = records(client, record_type="summary", conversation_id="conv-long")
    assert summary.summary.turn_range == "1-2"


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"conversation_id": "talk-1"}, "conversation_id"),
        ({"conversation_id": "conv-1", "new_conversation": True}, "new_conversation"),
        ({"conversation_id": "conv-1", "scope": "team:x"}, "scope"),
        ({"scope": "entity:ada"}, "scope"),
    ],
)
def test_what_does_not_name_a_conversation_is_refused(
    client: GroundwireClient, given: dict[str, Any], field: str
) -> None:
    with pytest.raises(InvalidRequestError, match=field):
        client.create_session(collection=NAME, **given)


def test_a_session_in_memory_is_not_recorded(client: GroundwireClient) -> None:
    client.collection("novel").create(profile="book")
    with pytest.raises(PreconditionError):
        client.create_session(collection="novel", new_conversation=True)


def test_what_a_killed_server_had_not_recorded_is_recorded_by_the_next(tmp_path: Path) -> None:
    data = tmp_path / "data"
    server = ServerProcess(data, **SETTINGS)
    try:
        with GroundwireClient(server.address) as client:
            client.create_collection(collection=NAME)
            client.ingest_document(collection=NAME, source_uri="tides.md", text=TIDES)
            session = client.create_session(collection=NAME, conversation_id="conv-killed").session
            for said in SAID:
                ask(client, session, said)
    finally:
        server.kill()
    server = ServerProcess(data, **SETTINGS)
    try:
        with GroundwireClient(server.address) as client:
            wait_until_recorded(client, session)
            turns = records(client, record_type="turn", conversation_id="conv-killed", role="user")
            assert [(each.turn.turn_index, each.text) for each in turns] == list(enumerate(SAID, start=1))
            assert len(records(client, record_type="turn", conversation_id="conv-killed")) == 2 * len(SAID)
            ranges = [each.summary.turn_range for each in records(client, record_type="summary")]
            assert sorted(ranges) == ["1-2", "3-4"]
    finally:
        server.stop()


def test_a_new_session_of_the_conversation_answers_from_what_was_said(
    client: GroundwireClient, talk: tuple[session_pb2.Session, list[answer_pb2.Answer]]
) -> None:
    old, _ = talk
    new = client.create_session(collection=NAME, user_id="ada", conversation_id=old.conversation_id).session
    answer = ask(client, new, "Where do I live?")
    assert answer.grounded
    assert "I live in Bonn" in answer.content
    cited = {citation.source_uri.removeprefix("record:") for citation in answer.citations}
    assert cited <= {record.record_id for record in answer.records}
    assert client.verify_citations(citations=answer.citations).all_verified
    kinds = {record.record_type for record in answer.records}
    assert {record_pb2.RECORD_TYPE_MEMORY, record_pb2.RECORD_TYPE_SUMMARY, record_pb2.RECORD_TYPE_TURN} <= kinds
    # Documents are searched as well, and what the assistant said is no source.
    assert ask(client, new, SAID[1]).citations[0].source_uri == "tides.md"
    stranger = client.create_session(collection=NAME, user_id="zoe", new_conversation=True).session
    unrecorded = client.create_session(collection=NAME, user_id="ada").session
    for session in (stranger, unrecorded):
        other = ask(client, session, "Where do I live?")
        assert not other.records
        assert "Bonn" not in other.content
        assert {citation.source_uri for citation in other.citations} <= {"tides.md"}


TEN_TURNS = (
    "I live in Bremen and my boat lies in Cuxhaven.",
    "What causes the tides of the sea?",
    "I prefer black tea.",
    "What is the highest tide?",
    "My boat needs two metres of water.",
    "Hello again!",
    "We sail to Helgoland on 14 July 2026.",
    "What causes the tides?",
    "I am allergic to shellfish.",
    "I sold my car.",
)


def test_what_ten_turns_said_is_found_from_a_new_session(client: GroundwireClient) -> None:
    session = client.create_session(collection=NAME, user_id="rosa", new_conversation=True).session
    for said in TEN_TURNS:
        ask(client, session, said)
    wait_until_recorded(client, session)
    conversation = {"conversation_id": session.conversation_id}
    summaries = records(client, record_type="summary", **conversation)
    assert sorted(each.summary.turn_range for each in summaries) == ["1-2", "3-4", "5-6", "7-8", "9-10"]
    assert {each.summary.writer for each in summaries} == {"extractive"}
    turns = {each.record_id: each.text for each in records(client, record_type="turn", **conversation)}
    memories = records(client, record_type="memory", **conversation)
    stated = {said for said in TEN_TURNS if not said.endswith(("?", "!"))}
    assert {each.text for each in memories} == stated
    supported = {
        target: turn for turn in records(client, record_type="turn", **conversation) for target in turn.links.supports
    }
    assert {supported[each.record_id].text for each in memories} == stated
    new = client.create_session(collection=NAME, user_id="rosa", conversation_id=session.conversation_id).session
    answer = ask(client, new, "Where does my boat lie?")
    assert "Cuxhaven" in answer.content
    assert client.verify_citations(citations=answer.citations).all_verified
    used = {each.record_type for each in answer.records}
    assert {record_pb2.RECORD_TYPE_MEMORY, record_pb2.RECORD_TYPE_SUMMARY} <= used
    assert "shellfish" in ask(client, new, "What am I allergic to?").content
    for each in answer.citations:
        if (source := each.source_uri.removeprefix("record:")) in turns:
            assert turns[source] in stated


def test_memories_that_contradict_one_another_are_named_newest_first(client: GroundwireClient) -> None:
    session = client.create_session(collection=NAME, user_id="mia", new_conversation=True).session
    for said in ("I live in Berlin.", "What is the highest tide?", "I moved to Hamburg.", "What causes the tides?"):
        ask(client, session, said)
    wait_until_recorded(client, session)
    answer = ask(client, session, "Where do I live?")
    memories = [each for each in answer.records if each.record_type == record_pb2.RECORD_TYPE_MEMORY]
    newer, older = memories[:2]
    assert newer.timestamp.ToNanoseconds() > older.timestamp.ToNanoseconds()
    assert (list(newer.contradicts), list(older.contradicts)) == ([older.record_id], [newer.record_id])


def test_a_turn_that_is_longer_than_a_record_is_recorded_in_short(client: GroundwireClient) -> None:
    limits = collection_pb2.CollectionLimits(max_query_chars=8192)
    client.create_collection(collection="letters", settings=collection_pb2.CollectionSettings(limits=limits))
    client.ingest_document(collection="letters", source_uri="tides.md", text=TIDES)
    session = client.create_session(collection="letters", user_id="tom", new_conversation=True).session
    pasted = " ".join(f"The harbour has {number} boats and some ropes." for number in range(160))
    ask(client, session, f"I live in Bonn. {pasted}")
    ask(client, session, "What is the highest tide?")
    wait_until_recorded(client, session)
    recorded = client.list_records(
        collection="letters", order_by=records_pb.RECORD_ORDER_TURN_ASC, page_size=100
    ).records
    turns = [each for each in recorded if each.record_type == record_pb2.RECORD_TYPE_TURN]
    assert [each.turn.turn_index for each in turns] == [1, 1, 2, 2]
    assert "The harbour has" in turns[0].text
    assert len(turns[0].text) < len(pasted)
    assert turns[2].text == "What is the highest tide?"


def test_what_was_just_said_is_recorded_before_it_is_consolidated(client: GroundwireClient) -> None:
    session = client.create_session(collection=NAME, user_id="noa", new_conversation=True).session
    ask(client, session, "I prefer tea.")
    (memory,) = client.consolidate_conversation(
        collection=NAME, conversation_id=session.conversation_id, scope="entity:noa"
    ).memories
    assert (memory.text, memory.created) == ("I prefer tea.", True)
    wait_until_recorded(client, session)
    assert len(records(client, record_type="turn", entity="noa")) == 2


@pytest.mark.requirement("S0-12")
def test_a_persona_is_at_hand_when_it_is_asked_for(client: GroundwireClient) -> None:
    persona = record_pb2.Record(
        record_id="persona-tone",
        record_type=record_pb2.RECORD_TYPE_PERSONA,
        text="My tone is friendly, and I speak in short sentences.",
        persona=record_pb2.PersonaDetails(version="1", topic="tone"),
    )
    persona.timestamp.GetCurrentTime()
    client.batch_upsert_records(collection=NAME, records=[persona])
    session = client.create_session(collection=NAME, user_id="ida", new_conversation=True).session
    answer = ask(client, session, "What is your tone?")
    assert [each.record_id for each in answer.records if each.record_type == record_pb2.RECORD_TYPE_PERSONA] == [
        "persona-tone"
    ]
    assert answer.citations[0].source_uri == "record:persona-tone"
    other = ask(client, session, SAID[1])
    assert record_pb2.RECORD_TYPE_PERSONA not in {each.record_type for each in other.records}


def test_a_summary_of_exchanges_that_there_are_not_holds_up_nothing(client: GroundwireClient) -> None:
    session = client.create_session(collection=NAME, user_id="eve", new_conversation=True).session
    far = 900_000
    details = record_pb2.SummaryDetails(
        conversation_id=session.conversation_id, turn_range=f"{far}-{far}", summary_index=far
    )
    made_up = record_pb2.Record(
        record_type=record_pb2.RECORD_TYPE_SUMMARY, text="It will be a long talk.", scope="entity:eve", summary=details
    )
    made_up.timestamp.GetCurrentTime()
    client.batch_upsert_records(collection=NAME, records=[made_up])
    for said in SAID[:EVERY]:
        ask(client, session, said)
    wait_until_recorded(client, session)
    summaries = records(client, conversation_id=session.conversation_id, record_type="summary")
    assert sorted(each.summary.turn_range for each in summaries) == ["1-2", f"{far}-{far}"]


def test_what_a_purged_document_said_leaves_the_conversation(client: GroundwireClient) -> None:
    whales = client.ingest_document(collection=NAME, source_uri="whales.md", text="Whales sing in the deep sea.")
    session = client.create_session(collection=NAME, user_id="lara", new_conversation=True).session
    for said in ("I live in Lund.", "Where do whales sing?", SAID[1]):
        ask(client, session, said)
    ask(client, session, SAID[2], strictness=1.0)  # answered by nothing, not by the summary of what was said before
    wait_until_recorded(client, session)

    def told() -> dict[int, list[str]]:
        """Return what the summaries and the answers say, summaries under the negative of their number."""
        said: dict[int, list[str]] = {}
        for each in records(client, conversation_id=session.conversation_id):
            if each.record_type == record_pb2.RECORD_TYPE_SUMMARY:
                said.setdefault(-each.summary.summary_index, []).append(each.text)
            elif each.turn.role == role_pb2.ROLE_ASSISTANT:
                said.setdefault(each.turn.turn_index, []).append(each.text)
        return said

    before = told()
    assert "deep sea" in before[2][0]
    assert "deep sea" in before[-1][0]
    assert "deep sea" not in before[-2][0]
    reference = DocumentReference(document_id=whales.result.document.document_id)
    client.delete_document(collection=NAME, reference=reference, purge=True)
    assert "deep sea" not in str(told())
    assert (told()[3], told()[-2]) == (before[3], before[-2])
    # The summary that quoted it is made again with the next exchange, of what is left, and keeps its place.
    ask(client, session, SAID[3])
    wait_until_recorded(client, session)
    (summary,) = told()[-1]
    assert "I live in Lund." in summary
    assert "deep sea" not in summary
    ranges = {
        each.summary.summary_index: each.summary.turn_range
        for each in records(client, conversation_id=session.conversation_id, record_type="summary")
    }
    assert ranges == {1: "1-2", 2: "3-4"}
    memories = records(client, record_type="memory", entity="lara")
    assert {each.text for each in memories} == {"I live in Lund.", SAID[2]}


def test_a_person_is_forgotten(client: GroundwireClient) -> None:
    own = client.create_session(collection=NAME, user_id="kim", new_conversation=True).session
    about = client.create_session(collection=NAME, user_id="agent", scope="entity:kim", new_conversation=True).session
    others = client.create_session(collection=NAME, user_id="agent", scope="entity:leo", new_conversation=True).session
    for session in (own, about, others):
        ask(client, session, "I live in Kiel.")
        ask(client, session, SAID[1])
        wait_until_recorded(client, session)
    assert {each.record_type for each in records(client, entity="kim")} == {
        record_pb2.RECORD_TYPE_TURN,
        record_pb2.RECORD_TYPE_SUMMARY,
        record_pb2.RECORD_TYPE_MEMORY,
    }
    count = len(records(client, entity="kim"))
    assert client.delete_sessions(user_id="kim").deleted_session_count == 2
    of_kim = to_filter_message(parse_filter({"entity": "kim"}))
    receipt = client.delete_records(collection=NAME, filter=of_kim, permanent=True).receipt
    assert (receipt.document_count, receipt.purged) == (count, True)
    assert records(client, entity="kim") == []
    for session in (own, about):
        with pytest.raises(SessionNotFoundError):
            client.get_session(session_id=session.session_id)
    assert client.get_session(session_id=others.session_id).session.message_count == 4
    assert records(client, entity="leo")
