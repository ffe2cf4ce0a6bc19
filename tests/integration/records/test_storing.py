"""Records over gRPC: what is stored, what is refused, and what comes back."""

import re
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from groundwire.api.common.v1 import metadata_value_pb2, record_pb2
from groundwire.api.ingest.v1 import collection_pb2, ingest_result_pb2
from groundwire.api.ingest.v1 import record_service_pb2 as pb
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import EmbeddingMismatchError
from tests.e2e.server import ServerProcess
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

CONVERSATION = "conv-abc123"
VERSION = "2025-12-14T20:12:53.986582Z"


def one_of_each() -> list[record_pb2.Record]:
    return [
        record(PERSONA, "You are calm.", persona=record_pb2.PersonaDetails(version=VERSION, topic="tone")),
        record(FAQ, "Q: Who?\nA: Us.", faq=record_pb2.FaqDetails(topic="specialists", specialist_name="web_search")),
        memory("The deadline is in May.", importance=4, tags=["deadline"]),
        turn(USER, "When is it?", CONVERSATION),
        record(
            SUMMARY,
            "They spoke of dates.",
            summary=record_pb2.SummaryDetails(conversation_id=CONVERSATION, turn_range="1-8", summary_index=1),
        ),
    ]


@pytest.mark.requirement("S0-01")
@pytest.mark.requirement("S0-05")
@pytest.mark.requirement("S0-52")
def test_every_type_comes_back_as_it_was_given(keeping: Keeping) -> None:
    given = one_of_each()
    for sent, result in zip(given, keeping.put(*given), strict=True):
        assert result.outcome == pb.RECORD_OUTCOME_CREATED
        stored = keeping.get(result.record_id)
        details = str(sent.WhichOneof("details"))
        assert (stored.text, stored.record_type) == (sent.text, sent.record_type)
        assert stored.timestamp == sent.timestamp
        assert stored.WhichOneof("details") == details
        for field, value in getattr(sent, details).ListFields():
            assert getattr(getattr(stored, details), field.name) == value, field.name
        assert (stored.scope, stored.origin) == ("global", record_pb2.RECORD_ORIGIN_SYSTEM)
        assert stored.token_count == result.token_count > 0
        vector = keeping.client.get_record(
            collection=keeping.collection, record_id=result.record_id, with_embedding=True
        ).embedding
        assert len(vector) == 256
        assert sum(number * number for number in vector) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.requirement("S0-02")
@pytest.mark.requirement("S2-01")
@pytest.mark.requirement("C03")
def test_new_ids_have_the_form_of_their_type(keeping: Keeping) -> None:
    before = datetime.now(UTC).date()
    persona, faq, remembered, said, summary = (result.record_id for result in keeping.put(*one_of_each()))
    after = datetime.now(UTC).date()
    uuid_form = r"doc-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    assert [re.fullmatch(uuid_form, each) is not None for each in (persona, faq, said, summary)] == [True] * 4
    found = re.fullmatch(r"chunk-(\d{4}-\d{2}-\d{2})-[0-9a-f]{8}", remembered)
    assert found is not None
    assert str(before) <= found.group(1) <= str(after)
    assert keeping.get(remembered).create_time.ToDatetime().date().isoformat() == found.group(1)


@pytest.mark.requirement("T17")
@pytest.mark.requirement("S2-34")
@pytest.mark.parametrize(
    "record_id",
    [
        "../../x",
        "a/b",
        "a\\b",
        "a\x00b",
        "a..b",
        "%2e%2e",
        "chunk-2026-02-10-zz",
        "chunk-1",
        "chunk-2024-13-45-a1b2c3d4",
    ],
)
def test_an_id_that_could_leave_its_folder_is_refused(keeping: Keeping, record_id: str) -> None:
    assert "record_id" in keeping.refused(memory("A note.", record_id=record_id))
    if not record_id.startswith("chunk"):
        assert failure(keeping.get, record_id).reason == "INVALID_FIELD"


@pytest.mark.requirement("S0-06")
@pytest.mark.requirement("S0-07")
@pytest.mark.requirement("S0-15")
def test_the_type_is_one_of_five_and_has_details_of_its_own(keeping: Keeping) -> None:
    assert "record_type" in keeping.refused(record(99, "x"))
    assert "record_type" in keeping.refused(record(0, "x"))
    assert "faq" in keeping.refused(record(PERSONA, "x", faq=record_pb2.FaqDetails(topic="tone")))


@pytest.mark.parametrize("count", [-1, 2**53, 2**63 - 1])
def test_a_record_from_elsewhere_was_read_so_often_that_reading_it_can_be_counted(keeping: Keeping, count: int) -> None:
    assert "access_count" in keeping.refused(record(FAQ, "x", access_count=count), keep_history=True)


@pytest.mark.requirement("S0-08")
@pytest.mark.requirement("S0-16")
@pytest.mark.requirement("S0-36")
@pytest.mark.requirement("S0-37")
@pytest.mark.requirement("S0-43")
@pytest.mark.requirement("S2-02")
@pytest.mark.requirement("S0-53")
def test_everything_that_is_missing_is_said_at_once(keeping: Keeping) -> None:
    assert keeping.refused(record(PERSONA, " ", at=None)).keys() == {"text", "timestamp", "persona.version"}
    assert keeping.refused(record(TURN, "Hi", at=None)).keys() == {"timestamp", "turn.conversation_id", "turn.role"}
    assert keeping.refused(record(SUMMARY, "Hi")).keys() == {"summary.conversation_id"}
    assert keeping.refused(memory("", importance=10)).keys() == {"text", "memory.importance"}
    keyed = memory("Hi", record_id="mine")
    keyed.metadata["a b"].SetInParent()
    assert keeping.refused(keyed).keys() == {"record_id", "metadata['a b']"}


@pytest.mark.parametrize(
    ("details", "field", "said"),
    [
        pytest.param({"importance": 10}, "importance", "between 1 and 5", marks=pytest.mark.requirement("S0-27")),
        pytest.param({"importance": 0}, "importance", "between 1 and 5", marks=pytest.mark.requirement("S0-26")),
        pytest.param({"confidence": 1.01}, "confidence", "less than", marks=pytest.mark.requirement("S2-11")),
        pytest.param({"confidence": float("nan")}, "confidence", "", marks=pytest.mark.requirement("S2-11")),
        pytest.param({"kind": 99}, "kind", "fact", marks=pytest.mark.requirement("S2-04")),
        pytest.param({"tags": ["a,b"]}, "tags", "comma", marks=pytest.mark.requirement("S0-28")),
        pytest.param({"conversation_id": "abc"}, "conversation_id", "conv-", marks=pytest.mark.requirement("S0-30")),
    ],
)
def test_a_memory_that_breaks_a_rule_is_refused(
    keeping: Keeping, details: dict[str, Any], field: str, said: str
) -> None:
    refused = keeping.refused(memory("A note.", **details))
    assert refused.keys() == {f"memory.{field}"}
    assert said in refused[f"memory.{field}"]


@pytest.mark.requirement("C08")
@pytest.mark.requirement("S0-09")
@pytest.mark.requirement("S2-10")
def test_only_memories_come_from_interactions_or_other_records(keeping: Keeping) -> None:
    derived = record_pb2.RECORD_ORIGIN_DERIVED
    assert "origin" in keeping.refused(record(FAQ, "x", origin=derived))
    assert "origin" in keeping.refused(record(FAQ, "x", origin=99))
    assert keeping.one(record(MEMORY, "x", origin=derived)).origin == derived


@pytest.mark.requirement("S0-10")
@pytest.mark.requirement("S0-29")
def test_the_entity_follows_from_the_scope_and_agrees_with_it(keeping: Keeping) -> None:
    assert keeping.one(memory("A.", scope="entity:project-alpha")).memory.entity == "project-alpha"
    assert keeping.refused(memory("A.", scope="entity:alpha", entity="beta")).keys() == {"memory.entity"}
    for scope in ("entity:", "team:x"):
        assert "scope" in keeping.refused(memory("A.", scope=scope))


@pytest.mark.requirement("S0-31")
def test_a_memory_is_stored_with_what_the_source_design_names(keeping: Keeping) -> None:
    chat = record_pb2.RECORD_ORIGIN_CHAT
    given = memory("Ship on Friday.", scope="entity:project-alpha", importance=5, tags=["deadline", "critical"])
    given.origin = chat
    stored = keeping.one(given)
    assert (stored.text, stored.scope, stored.origin) == ("Ship on Friday.", "entity:project-alpha", chat)
    assert (stored.memory.importance, list(stored.memory.tags)) == (5, ["deadline", "critical"])
    assert stored.timestamp == given.timestamp


@pytest.mark.requirement("C23")
@pytest.mark.requirement("S0-22")
@pytest.mark.requirement("S0-26")
@pytest.mark.requirement("S2-11")
@pytest.mark.requirement("S2-12")
def test_defaults_are_filled_in(keeping: Keeping) -> None:
    stored = keeping.one(record(MEMORY, "A note."))
    assert (stored.memory.importance, stored.memory.confidence) == (3, 1.0)
    assert stored.memory.kind == record_pb2.MEMORY_KIND_NOTE
    assert (stored.access_count, stored.HasField("last_accessed_time")) == (0, False)
    assert keeping.one(record(FAQ, "A.")).faq.version == "auto"


@pytest.mark.requirement("S0-44")
@pytest.mark.requirement("S0-45")
@pytest.mark.parametrize("details", [{"turn_range": "8-1"}, {"turn_range": "a-b"}, {"summary_index": 0}])
def test_a_summary_says_which_turns_it_covers(keeping: Keeping, details: dict[str, object]) -> None:
    given = record_pb2.SummaryDetails(conversation_id=CONVERSATION, **details)  # type: ignore[arg-type]
    assert keeping.refused(record(SUMMARY, "x", summary=given)).keys() == {f"summary.{next(iter(details))}"}


@pytest.mark.requirement("S0-23")
@pytest.mark.requirement("S0-21")
def test_text_and_keys_with_an_underscore_survive(keeping: Keeping) -> None:
    text = 'Q: "How?"\r\nA: {"specialist": "ocr", "args": {\'x\': [1]}}\n\n  ~é\u0301 👩‍👧 \t end \n'
    own = {"_internal": metadata_value_pb2.MetadataValue(string_value="kept")}
    details = record_pb2.FaqDetails(specialist_name="ocr", version="2")
    result = keeping.put(record(FAQ, text, faq=details, metadata=own))[0]
    stored = keeping.get(result.record_id)
    assert stored.text.encode() == text.encode()
    assert stored.faq == details
    assert dict(stored.metadata) == own
    assert keeping.texts({"_specialist_name": "ocr", "_version": "2", "_internal": "kept"}) == [text]
    assert keeping.found("How?", {"_specialist_name": "ocr"}) == [text]


@pytest.mark.requirement("S0-58")
def test_a_key_of_the_caller_cannot_stand_in_for_a_field_of_records(keeping: Keeping) -> None:
    for key in ("scope", "importance", "type", "record_type"):
        own = {key: metadata_value_pb2.MetadataValue(string_value="x")}
        assert any(key in said for said in keeping.refused(record(FAQ, "x", metadata=own)).values()) or any(
            key in field for field in keeping.refused(record(FAQ, "x", metadata=own))
        )


@pytest.mark.requirement("S2-03")
@pytest.mark.requirement("S2-28")
def test_a_text_has_at_most_800_tokens_and_at_least_100_on_demand(keeping: Keeping) -> None:
    assert keeping.one(memory("A note of a few words.")).token_count < 100
    assert "100 to 800" in keeping.refused(memory("A note of a few words."), strict_tokens=True)["text"]
    assert "1 to 800" in keeping.refused(memory("word " * 900))["text"]
    assert keeping.put(memory("word " * 400), strict_tokens=True)[0].token_count >= 100


@pytest.mark.requirement("S0-54")
@pytest.mark.requirement("S2-08")
def test_the_same_id_replaces_and_only_a_new_text_is_embedded(keeping: Keeping) -> None:
    name = memory_id(1)
    first = keeping.put(memory("The launch is in May.", record_id=name))[0]
    created = keeping.get(name)
    again = keeping.put(memory("The launch is in May.", record_id=name))[0]
    assert (again.outcome, again.embedded, again.etag) == (pb.RECORD_OUTCOME_UNCHANGED, False, first.etag)
    rated = keeping.put(memory("The launch is in May.", record_id=name, importance=5))[0]
    assert (rated.outcome, rated.embedded, rated.generation) == (pb.RECORD_OUTCOME_REPLACED, False, first.generation)
    moved = keeping.put(memory("The launch is in June.", record_id=name, importance=5))[0]
    assert (moved.outcome, moved.embedded, moved.generation) == (pb.RECORD_OUTCOME_REPLACED, True, 2)
    assert keeping.texts() == keeping.found("launch") == ["The launch is in June."]
    stored = keeping.get(name)
    assert stored.memory.importance == 5
    assert stored.create_time == created.create_time
    assert stored.update_time.ToDatetime() > created.update_time.ToDatetime()


def test_a_batch_is_all_or_nothing_unless_it_may_be_partial(keeping: Keeping) -> None:
    good, bad = memory("A good note."), memory("A bad note.", importance=9)
    assert failure(keeping.put, good, bad).reason == "INVALID_FIELD"
    assert keeping.texts() == []
    response = keeping.client.batch_upsert_records(
        collection=keeping.collection, records=[bad, good, memory("Late.", record_id=memory_id(2))], allow_partial=True
    )
    assert [outcome.WhichOneof("outcome") for outcome in response.outcomes] == ["error", "result", "result"]
    assert sorted(keeping.texts()) == ["A good note.", "Late."]
    stale = memory("Later.", record_id=memory_id(2))
    stale.etag = "0" * 24
    assert failure(keeping.put, memory("Another note."), stale).reason == "DOCUMENT_CHANGED"
    assert len(keeping.texts()) == 2
    response = keeping.client.batch_upsert_records(
        collection=keeping.collection, records=[memory("Another note."), stale], allow_partial=True
    )
    assert [outcome.WhichOneof("outcome") for outcome in response.outcomes] == ["result", "error"]
    assert len(keeping.texts()) == 3


def test_a_batch_has_1_to_100_records_of_different_ids(keeping: Keeping) -> None:
    assert failure(keeping.put).reason == "INVALID_FIELD"
    assert failure(keeping.put, *(memory(f"Note {number}") for number in range(101))).reason == "INVALID_FIELD"
    twice = [memory("One.", record_id=memory_id(3)), memory("Two.", record_id=memory_id(3))]
    assert failure(keeping.put, *twice).reason == "INVALID_FIELD"
    assert len(keeping.put(*(memory(f"Note {number}") for number in range(100)))) == 100


def test_a_repeated_request_has_one_effect_and_one_answer(keeping: Keeping) -> None:
    key = str(uuid.uuid4())
    first = keeping.put(memory("Once."), turn(USER, "Hello.", CONVERSATION), request_id=key)
    assert keeping.put(memory("Once."), turn(USER, "Hello.", CONVERSATION), request_id=key) == first
    assert failure(keeping.put, memory("Twice."), request_id=key).reason == "REQUEST_ID_REUSED"
    assert sorted(keeping.texts()) == ["Hello.", "Once."]


@pytest.mark.requirement("S0-38")
@pytest.mark.requirement("S0-39")
@pytest.mark.requirement("S0-35")
def test_both_sides_of_an_exchange_share_the_next_number(keeping: Keeping) -> None:
    for number in (1, 2):
        said = keeping.put(
            turn(USER, f"Question {number}", CONVERSATION, seconds=number * 60),
            turn(ASSISTANT, f"Answer {number}", CONVERSATION, seconds=number * 60 + 1.5),
        )
        assert [result.turn_index for result in said] == [number, number]
        stored = [keeping.get(result.record_id) for result in said]
        assert [each.turn.role for each in stored] == [USER, ASSISTANT]
        assert (stored[1].timestamp.ToDatetime() - stored[0].timestamp.ToDatetime()).total_seconds() == 1.5
    assert keeping.put(turn(USER, "Elsewhere", "conv-other"))[0].turn_index == 1
    # A batch with several exchanges numbers them one after the other.
    several = [turn(role, f"{role}", "conv-third") for role in (USER, ASSISTANT, USER, ASSISTANT)]
    assert [result.turn_index for result in keeping.put(*several)] == [1, 1, 2, 2]
    assert keeping.put(turn(USER, "Jump", CONVERSATION, turn_index=9))[0].turn_index == 9
    assert keeping.put(turn(USER, "Next", CONVERSATION))[0].turn_index == 10
    # One that is stored again keeps its number.
    assert keeping.put(turn(USER, "Anew", CONVERSATION, record_id=stored[0].record_id))[0].turn_index == 2


def test_a_record_is_not_replaced_by_one_of_another_type(keeping: Keeping) -> None:
    persona = record_pb2.PersonaDetails(version="1", topic="tone")
    keeping.put(record(PERSONA, "Calm.", record_id="tone", persona=persona))
    refused = keeping.refused(record(FAQ, "Ask us.", record_id="tone"))
    assert refused == {"record_type": "the record is of the type persona"}


@pytest.mark.requirement("S0-46")
def test_a_summary_is_of_the_system(keeping: Keeping) -> None:
    given = record_pb2.SummaryDetails(conversation_id=CONVERSATION)
    assert keeping.one(record(SUMMARY, "In short.", summary=given)).origin == record_pb2.RECORD_ORIGIN_SYSTEM


@pytest.mark.requirement("S0-04")
def test_one_collection_holds_all_types(keeping: Keeping) -> None:
    keeping.put(*one_of_each())
    keeping.client.ingest_document(collection=keeping.collection, source_uri="a.md", text="# A\n\nNo record.")
    (stats,) = keeping.client.list_stats(collection=keeping.collection).stats
    assert stats.document_count == 6
    types = ("faq", "memory", "persona", "summary", "turn")
    assert {each.key: each.count for each in stats.by_record_type} == dict.fromkeys(types, 1)
    assert {each.key: each.count for each in stats.by_format} == {"markdown": 1}
    assert {each.key: each.count for each in stats.by_project} == {"": 1}
    found = keeping.client.get_collection(collection=keeping.collection).collection
    assert (found.document_count, found.record_count) == (6, 5)


def test_documents_and_records_leave_each_other_alone(keeping: Keeping) -> None:
    kept = keeping.one(memory("A note."))
    error = failure(
        keeping.client.ingest_document,
        collection=keeping.collection,
        source_uri=f"record:{kept.record_id}",
        text="Overwritten.",
    )
    assert error.reason == "INVALID_FIELD"
    assert keeping.get(kept.record_id) == kept
    assert kept.timestamp.ToDatetime(UTC) == START


def test_a_document_with_the_words_of_a_record_is_one_of_its_own(keeping: Keeping) -> None:
    keeping.put(memory("I live in Kiel.", scope="entity:ada", record_id=memory_id(1)))
    request: dict[str, Any] = {"collection": keeping.collection, "source_uri": "kiel.txt", "text": "I live in Kiel."}
    reuse = ingest_result_pb2.DUPLICATE_POLICY_REUSE
    assert (
        keeping.client.ingest_document(**request, duplicate_policy=reuse).result.outcome
        == ingest_result_pb2.INGEST_OUTCOME_CREATED
    )
    assert keeping.found("Kiel") == ["I live in Kiel."]
    keeping.delete(memory_id(1), permanent=True)
    assert keeping.found("Kiel") == ["I live in Kiel."]


def test_records_of_another_model_stay_as_they_are(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", ("--embedder", "hashing:64")) as old, GroundwireClient(old.address) as client:
        keeping = Keeping(client)
        name = keeping.put(memory("The deadline is in May.", importance=3))[0].record_id
        stored = keeping.get(name)
    with ServerProcess(tmp_path / "data", ("--embedder", "hashing:96")) as new, GroundwireClient(new.address) as client:
        keeping.client = client
        changed = memory("The deadline is in May.", record_id=name, importance=4)
        for given in (changed, memory("The deadline is in June.", record_id=name), memory("A new one.")):
            assert isinstance(failure(keeping.put, given), EmbeddingMismatchError)
        assert isinstance(
            failure(keeping.change, name, "memory.importance", memory=changed.memory), EmbeddingMismatchError
        )
        assert keeping.get(name) == stored
        assert keeping.texts() == [stored.text]


def test_where_equal_texts_are_indexed_once_records_are_found_in_each_scope(keeping: Keeping) -> None:
    once = collection_pb2.DUPLICATE_CHUNK_POLICY_SKIP_IN_COLLECTION
    keeping.client.update_collection(
        collection=collection_pb2.Collection(
            name=keeping.collection, settings=collection_pb2.CollectionSettings(duplicate_chunk_policy=once)
        ),
        update_mask=FieldMask(paths=["settings.duplicate_chunk_policy"]),
    )
    scopes = ("entity:ada", "entity:ben")
    keeping.put(*(memory("I live in Kiel.", scope=each) for each in scopes))
    keeping.client.ingest_document(collection=keeping.collection, source_uri="kiel.txt", text="I live in Kiel.")
    keeping.put(memory("I live in Kiel.", scope="entity:cleo"))
    assert keeping.found("Kiel") == ["I live in Kiel."]
    for scope in (*scopes, "entity:cleo"):
        assert keeping.found("Kiel", {"scope": scope}) == ["I live in Kiel."]
