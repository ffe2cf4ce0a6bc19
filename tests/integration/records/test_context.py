"""`RetrieveContext`: what an assistant should know, section by section, within one budget."""

import time
from datetime import timedelta
from typing import Any

import pytest

from groundwire.api.common.v1 import record_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1 import record_service_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from tests.integration.records.keeping import (
    ASSISTANT,
    FAQ,
    MEMORY,
    PERSONA,
    START,
    SUMMARY,
    TURN,
    USER,
    Keeping,
    failure,
    memory,
    memory_id,
    record,
    turn,
)

_CONVERSATION = "conv-harbour"


def context(keeping: Keeping, query: str, **request: Any) -> pb.RetrieveContextResponse:
    options = RetrievalOptions(min_relevance=0.0, **request.pop("options", {}))
    sections = [pb.SectionLimit(record_type=kind, top_k=limit) for kind, limit in request.pop("sections", {}).items()]
    return keeping.client.retrieve_context(
        collection=keeping.collection, query=query, options=options, sections=sections, **request
    )


def texts(response: pb.RetrieveContextResponse, record_type: Any) -> list[str]:
    (section,) = [each for each in response.sections if each.record_type == record_type]
    return [entry.record.text for entry in section.entries]


def test_a_turn_is_found_by_the_question_before_it(keeping: Keeping) -> None:
    said = {
        "conv-pets": ("What are the names of your kitties?", "Snow and winter."),
        "conv-weather": ("How was the day?", "Frost and rain."),
        **{f"conv-{n}": (f"Tell me of ships {n}", f"Our ships {n} have names") for n in range(6)},
    }
    for conversation, (question, answer) in said.items():
        both = (turn(USER, question, conversation), turn(ASSISTANT, answer, conversation, seconds=1))
        keeping.put(*both)
    found = context(keeping, "names of the kitties", sections={TURN: 2}, without_documents=True)
    assert texts(found, TURN) == [*said["conv-pets"]]
    for conditions in ({"type": "turn"}, {"type": "turn", "conversation_id": {"$ne": "conv-weather"}}):
        of_turns = to_filter_message(parse_filter(conditions))
        options = RetrievalOptions(filter=of_turns, top_k=2, explain=True)
        searched = keeping.client.retrieve(collection=keeping.collection, query="names of the kitties", options=options)
        assert [hit.chunk.content for hit in searched.results] == [*said["conv-pets"]]
        shares = [
            node.value for stage in searched.explain_plan.stages for node in stage.figures if node.name == "turn_share"
        ]
        assert shares == [0.5]


def test_what_a_question_goes_on_from_finds_documents_and_no_records(keeping: Keeping) -> None:
    keeping.put(memory("Tea is what Ann drinks"), memory("Ferries leave the harbour at noon"))
    for name, text in (("tea.md", "Tea is grown on hills."), ("ferries.md", "Ferries cross the harbour.")):
        keeping.client.ingest_document(collection=keeping.collection, source_uri=name, text=text)

    def scores(said_before: str) -> tuple[dict[str, float], dict[str, float]]:
        response = context(keeping, "tea", sections={MEMORY: 5}, context=said_before)
        (section,) = response.sections
        return (
            {entry.record.text: entry.hit.relevance_score for entry in section.entries},
            {hit.chunk.content: hit.relevance_score for hit in response.document_results},
        )

    (records, documents), (records_then, documents_then) = scores(""), scores("ferries harbour")
    assert len(records) == len(documents) == 2
    assert records_then == pytest.approx(records, abs=0.001)
    assert documents_then["Ferries cross the harbour."] > documents["Ferries cross the harbour."]


def talk(keeping: Keeping, exchanges: int, conversation: str = _CONVERSATION, scope: str = "") -> None:
    """Store the exchanges of a conversation, a minute each, the latest ones first."""
    both = [
        turn(
            role,
            f"{said} {number} about the harbour",
            conversation,
            seconds=60 * number,
            turn_index=number,
            scope=scope,
        )
        for number in range(exchanges, 0, -1)
        for role, said in ((ASSISTANT, "answer"), (USER, "question"))
    ]
    keeping.put(*both)


def summary(text: str, index: int, conversation: str = _CONVERSATION) -> record_pb2.Record:
    details = record_pb2.SummaryDetails(conversation_id=conversation, summary_index=index)
    return record(SUMMARY, text, at=START + timedelta(minutes=index), summary=details)


def persona(text: str, topic: str) -> record_pb2.Record:
    return record(PERSONA, text, persona=record_pb2.PersonaDetails(version="1", topic=topic))


@pytest.mark.requirement("S0-40")
@pytest.mark.requirement("S0-41")
@pytest.mark.requirement("S0-47")
@pytest.mark.requirement("S0-68")
@pytest.mark.requirement("S0-69")
@pytest.mark.requirement("S0-70")
@pytest.mark.requirement("S0-71")
@pytest.mark.requirement("C11")
def test_each_section_has_its_records_in_its_order(keeping: Keeping) -> None:
    talk(keeping, 5)
    talk(keeping, 3, "conv-another")
    keeping.put(*(summary(f"the harbour in part {number}", number) for number in range(1, 4)))
    keeping.put(*(record(FAQ, f"Q: harbour {number}?\nA: harbour") for number in range(4)))
    things = ["crane", "ferry", "quay", "pier", "sail"]
    keeping.put(*(memory(f"the harbour: {thing}", importance=number) for number, thing in enumerate(things, start=1)))
    response = context(keeping, "harbour", conversation_id=_CONVERSATION)
    assert [each.record_type for each in response.sections] == [PERSONA, FAQ, MEMORY, TURN, SUMMARY]
    expected = [f"{said} {number} about the harbour" for number in (4, 5) for said in ("question", "answer")]
    assert texts(response, TURN) == expected
    assert texts(response, SUMMARY) == ["the harbour in part 2", "the harbour in part 3"]
    assert len(texts(response, FAQ)) == 2
    assert texts(response, MEMORY) == ["the harbour: sail", "the harbour: pier", "the harbour: quay"]
    (memories,) = [each for each in response.sections if each.record_type == MEMORY]
    assert [entry.hit.memory_score.importance for entry in memories.entries] == [5, 4, 3]
    assert [entry.hit.rank for entry in memories.entries] == [1, 2, 3]
    assert not response.document_results


def test_limits_of_the_request_choose_sections_and_how_many(keeping: Keeping) -> None:
    talk(keeping, 3)
    keeping.put(*(record(FAQ, f"Q: harbour {number}?\nA: harbour") for number in range(4)))
    response = context(keeping, "harbour", conversation_id=_CONVERSATION, sections={TURN: 1, FAQ: 3})
    assert [each.record_type for each in response.sections] == [FAQ, TURN]
    assert texts(response, TURN) == ["answer 3 about the harbour"]
    assert len(texts(response, FAQ)) == 3


@pytest.mark.requirement("S0-24")
def test_a_filter_holds_for_every_section(keeping: Keeping) -> None:
    about = {"api": 4, "billing": 2}
    for topic, count in about.items():
        details = record_pb2.FaqDetails(topic=topic)
        keeping.put(*(record(FAQ, f"Q: harbour {topic} {number}?", faq=details) for number in range(count)))
    keeping.put(memory("the harbour"))
    where = to_filter_message(parse_filter({"topic": "api"}))
    response = context(keeping, "harbour billing", sections={FAQ: 3, MEMORY: 3}, options={"filter": where})
    assert [each.record.faq.topic for each in response.sections[0].entries] == ["api"] * 3
    assert texts(response, MEMORY) == []


def test_without_a_conversation_turns_are_those_that_fit_best_in_order_of_time(keeping: Keeping) -> None:
    talk(keeping, 3)
    keeping.put(turn(USER, "lunch lunch lunch", "conv-another", seconds=1))
    assert texts(context(keeping, "lunch", sections={TURN: 1}), TURN) == ["lunch lunch lunch"]
    found = texts(context(keeping, "question about the harbour", sections={TURN: 3}), TURN)
    assert found == [f"question {number} about the harbour" for number in (1, 2, 3)]


@pytest.mark.requirement("S0-14")
@pytest.mark.requirement("S0-18")
def test_a_question_about_tone_has_a_persona_and_another_one_has_none(keeping: Keeping) -> None:
    keeping.put(
        persona("my tone is warm", "tone"), persona("my tone is brief", "tone"), persona("tone of my own", "tone")
    )
    response = context(keeping, "what is my tone")
    assert len(texts(response, PERSONA)) == 2
    assert {each.record.persona.topic for each in response.sections[0].entries} == {"tone"}
    assert texts(context(keeping, "harbour berth fee"), PERSONA) == []


@pytest.mark.requirement("S0-11")
@pytest.mark.requirement("S0-32")
@pytest.mark.requirement("C09")
def test_a_context_has_records_of_the_entity_that_is_asked_for_alone(keeping: Keeping) -> None:
    for scope in ("", "entity:alpha", "entity:beta"):
        name = scope or "all"
        keeping.put(memory(f"the berth of {name}", scope=scope), record(FAQ, f"berth {name}", scope=scope))
        talk(keeping, 1, f"conv-{name[-4:]}", scope)
    found = context(keeping, "berth", options={"entity": "alpha"}, conversation_id="conv-beta")
    assert texts(found, MEMORY) == ["the berth of entity:alpha"]
    assert texts(found, FAQ) == ["berth entity:alpha"]
    assert texts(found, TURN) == []
    assert texts(context(keeping, "berth"), MEMORY) == ["the berth of all"]
    both = context(keeping, "berth", options={"entity": "alpha", "include_global": True})
    assert set(texts(both, MEMORY)) == {"the berth of entity:alpha", "the berth of all"}


def test_contradicting_memories_stand_together_the_newest_first(keeping: Keeping) -> None:
    old = memory("the berth of the ferry is berth nine", record_id=memory_id(1))
    new = memory("it moved to twelve", record_id=memory_id(2), seconds=3600)
    keeping.put(old, new, *(memory(f"the ferry has a {thing}", importance=2) for thing in ("crew", "deck", "funnel")))
    link = record_service_pb2.LINK_KIND_CONTRADICTS
    keeping.link(memory_id(2), link, memory_id(1))
    response = context(keeping, "the berth of the ferry is berth nine", sections={MEMORY: 3})
    (section,) = response.sections
    assert [entry.record.record_id for entry in section.entries][:2] == [memory_id(2), memory_id(1)]
    assert [[*entry.contradicts] for entry in section.entries] == [[memory_id(1)], [memory_id(2)], []]
    times = [entry.record.timestamp.ToDatetime(START.tzinfo) for entry in section.entries[:2]]
    assert times == [START + timedelta(hours=1), START]


def test_what_contradicts_a_memory_comes_before_the_next_one_within_the_limit(keeping: Keeping) -> None:
    nine, twelve, ships = "the berth is nine", "the berth is twelve", "the berth has ships"
    keeping.put(
        memory(nine, record_id=memory_id(1), importance=1),
        memory(twelve, record_id=memory_id(2), importance=5, seconds=1),
        memory(ships, record_id=memory_id(3), importance=4),
    )
    for other in (2, 3):
        keeping.link(memory_id(1), record_service_pb2.LINK_KIND_CONTRADICTS, memory_id(other))
    two = [(twelve, [memory_id(1)]), (nine, [memory_id(2)])]
    three = [two[0], (nine, [memory_id(2), memory_id(3)]), (ships, [memory_id(1)])]
    for limit, expected in ((1, [(twelve, [])]), (2, two), (3, three), (4, three)):
        (section,) = context(keeping, "the berth", sections={MEMORY: limit}).sections
        assert [(entry.record.text, [*entry.contradicts]) for entry in section.entries] == expected


def test_a_contradiction_of_another_entity_is_not_told(keeping: Keeping) -> None:
    keeping.put(memory("the berth is nine", record_id=memory_id(1), scope="entity:alpha"))
    keeping.put(memory("the berth is twelve", record_id=memory_id(2)))
    keeping.link(memory_id(1), record_service_pb2.LINK_KIND_CONTRADICTS, memory_id(2))
    (section,) = context(keeping, "berth", sections={MEMORY: 3}).sections
    assert [(entry.record.text, [*entry.contradicts]) for entry in section.entries] == [("the berth is twelve", [])]


def test_a_memory_that_contradicts_one_that_is_found_passes_the_filter_as_well(keeping: Keeping) -> None:
    keeping.put(
        memory("the berth is nine", record_id=memory_id(1), importance=5),
        memory("the berth is twelve", record_id=memory_id(2), importance=1),
    )
    keeping.link(memory_id(1), record_service_pb2.LINK_KIND_CONTRADICTS, memory_id(2))
    condition = to_filter_message(parse_filter({"importance": {"$gte": 5}}))
    (section,) = context(keeping, "berth", sections={MEMORY: 3}, options={"filter": condition}).sections
    assert [(entry.record.text, [*entry.contradicts]) for entry in section.entries] == [("the berth is nine", [])]


def test_the_budget_counts_whole_texts_in_the_stated_order(keeping: Keeping) -> None:
    talk(keeping, 3)
    keeping.put(persona("tone tone", "tone"), memory("tone harbour " * 40))
    keeping.put(record(FAQ, "tone harbour"))
    whole = context(keeping, "tone harbour", conversation_id=_CONVERSATION)
    sizes = {each.record_type: sum(entry.record.token_count for entry in each.entries) for each in whole.sections}
    assert whole.token_count == sum(sizes.values())
    # Room for all but the memory, which comes after persona and turns and is left out whole.
    bound = sizes[PERSONA] + sizes[TURN] + sizes[FAQ]
    response = context(keeping, "tone harbour", conversation_id=_CONVERSATION, max_tokens=bound)
    assert response.token_count == bound
    assert {each.record_type: each.omitted_count for each in response.sections if each.omitted_count} == {MEMORY: 1}
    # Of the turns the newest fit; there is no gap between those that are returned.
    little = sizes[PERSONA] + sizes[TURN] - 1
    turns = texts(context(keeping, "tone harbour", conversation_id=_CONVERSATION, max_tokens=little), TURN)
    assert turns == texts(whole, TURN)[1:]


def test_turns_that_fit_leave_no_gap_and_other_sections_may(keeping: Keeping) -> None:
    for number, text in enumerate(("harbour one", "harbour " * 40, "harbour three")):
        keeping.put(turn(USER, text, _CONVERSATION, seconds=number), record(FAQ, text))
    whole = context(keeping, "harbour", conversation_id=_CONVERSATION, without_documents=True, sections={TURN: 3})
    tokens = {entry.record.text: entry.record.token_count for entry in whole.sections[0].entries}
    bound = tokens["harbour one"] + tokens["harbour three"]
    for kind, expected in ((TURN, ["harbour three"]), (FAQ, ["harbour one", "harbour three"])):
        response = context(
            keeping,
            "harbour",
            conversation_id=_CONVERSATION,
            without_documents=True,
            sections={kind: 3},
            max_tokens=bound,
        )
        assert sorted(texts(response, kind)) == expected
        assert response.sections[0].omitted_count == 3 - len(expected)


def test_documents_that_are_no_records_come_beside_the_sections(keeping: Keeping) -> None:
    keeping.put(memory("the harbour opens at nine"))
    keeping.client.ingest_document(
        collection=keeping.collection, source_uri="crane.txt", content=b"The harbour has a crane."
    )
    response = context(keeping, "harbour crane")
    assert [hit.chunk.content for hit in response.document_results] == ["The harbour has a crane."]
    assert [document.source_uri for document in response.documents] == ["crane.txt"]
    assert not context(keeping, "harbour crane", without_documents=True).document_results


@pytest.mark.requirement("S2-39")
def test_memories_that_are_found_count_as_read(keeping: Keeping) -> None:
    keeping.put(memory("the harbour opens at nine", record_id=memory_id(1)), memory("lunch", record_id=memory_id(2)))
    context(keeping, "harbour", sections={MEMORY: 1})
    assert keeping.found("harbour opens nine")[0] == "the harbour opens at nine"
    deadline = time.monotonic() + 60
    while keeping.get(memory_id(1)).access_count < 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    assert keeping.get(memory_id(1)).access_count == 2
    assert keeping.get(memory_id(1)).HasField("last_accessed_time")


@pytest.mark.parametrize(
    ("request_fields", "field"),
    [
        ({"sections": {TURN: 21}}, "sections[0].top_k"),
        ({"sections": {FAQ: 11}}, "sections[0].top_k"),
        ({"sections": {record_pb2.RECORD_TYPE_UNSPECIFIED: 1}}, "sections[0].record_type"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"conversation_id": "harbour"}, "conversation_id"),
        ({"options": {"top_k": 0}}, "options.top_k"),
    ],
)
def test_a_request_out_of_bounds_is_refused(keeping: Keeping, request_fields: dict[str, Any], field: str) -> None:
    refused = failure(context, keeping, "harbour", **request_fields)
    assert isinstance(refused, InvalidRequestError)
    assert [violation.field for violation in refused.violations] == [field]


def test_a_context_of_records_that_quote_all_they_may_fits_into_a_response(keeping: Keeping) -> None:
    quoted = [f"{number:0128}" for number in range(1000)]
    said = [f"Ship {number} rests." for number in range(20)]
    keeping.put(*(record(MEMORY, text, quoted_document_ids=quoted) for text in said))
    keeping.put(*(turn(ASSISTANT, text, _CONVERSATION, quoted_document_ids=quoted) for text in said))
    found = context(keeping, "ships", sections={MEMORY: 20, TURN: 20}, without_documents=True)
    assert sorted(texts(found, MEMORY)) == sorted(texts(found, TURN)) == sorted(said)
