"""Records over gRPC: changing, deleting, restoring, linking, listing and counting them."""

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.timestamp_pb2 import Timestamp

from groundwire.api.common.v1 import record_pb2
from groundwire.api.common.v1.metadata_value_pb2 import MetadataValue
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1 import deletion_pb2
from groundwire.api.ingest.v1 import record_service_pb2 as pb
from groundwire.client import GroundwireClient
from groundwire.kernel import records
from tests.e2e.server import ServerProcess
from tests.integration.ingest.harness import Harness
from tests.integration.records.keeping import (
    ASSISTANT,
    FAQ,
    PERSONA,
    START,
    SUMMARY,
    USER,
    Keeping,
    failure,
    memory,
    memory_id,
    record,
    turn,
)
from tests.integration.rpc.fake_ingest import connected

CONVERSATION = "conv-abc123"


@pytest.mark.requirement("S2-30")
def test_only_what_the_mask_names_is_changed(keeping: Keeping) -> None:
    name = keeping.put(memory("The sky is blue.", tags=["sky"], importance=4))[0].record_id
    before = keeping.get(name)
    result = keeping.change(
        name, "memory.confidence", memory=record_pb2.MemoryDetails(confidence=0.25, importance=1), text="Ignored."
    )
    assert (result.outcome, result.embedded) == (pb.RECORD_OUTCOME_REPLACED, False)
    after = keeping.get(name)
    assert (after.memory.confidence, after.memory.importance, list(after.memory.tags)) == (0.25, 4, ["sky"])
    assert (after.text, after.timestamp, after.create_time) == (before.text, before.timestamp, before.create_time)
    assert keeping.change(name, "text", "memory.tags", text="The sky is grey.").embedded
    assert (keeping.get(name).text, list(keeping.get(name).memory.tags)) == ("The sky is grey.", [])
    assert keeping.found("sky") == ["The sky is grey."]


def test_details_that_the_mask_names_as_a_whole_are_replaced_as_a_whole(keeping: Keeping) -> None:
    name = keeping.put(memory("The sky is blue.", tags=["sky"], importance=5))[0].record_id
    keeping.change(name, "memory", memory=record_pb2.MemoryDetails(confidence=0.25, tags=["blue"]))
    after = keeping.get(name).memory
    assert (after.confidence, after.importance, list(after.tags)) == (0.25, 3, ["blue"])


async def test_a_memory_of_an_earlier_version_keeps_an_id_that_is_refused_today(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = memory("The sky is blue.", record_id="chunk-2026-02-30-a1b2c3d4")
    storing = pb.BatchUpsertRecordsRequest(collection="ada", records=[old])
    changing = pb.UpdateRecordRequest(collection="ada", update_mask=FieldMask(paths=["text"]))
    changing.record.CopyFrom(memory("The sky is grey.", record_id=old.record_id))
    harness = Harness(tmp_path).without_housekeeping()
    try:
        harness.create("ada")
        async with connected(harness.services()) as (_, stubs):
            with monkeypatch.context() as earlier:  # version 0.1.0 took dates that no calendar has
                earlier.setattr(records, "is_memory_id", lambda _: True)
                await stubs.BatchUpsertRecords(storing)
            changed = await stubs.UpdateRecord(changing)
            assert (changed.result.record_id, changed.result.generation) == (old.record_id, 2)
            with pytest.raises(grpc.aio.AioRpcError, match="record_id: must be 'chunk-', a date"):
                await stubs.BatchUpsertRecords(storing)
    finally:
        harness.close()


def test_a_change_names_at_least_one_field(keeping: Keeping) -> None:
    name = keeping.put(memory("A note."))[0].record_id
    error = failure(keeping.change, name, text="Another note.")
    assert (error.reason, "update_mask" in error.message) == ("INVALID_FIELD", True)
    assert keeping.get(name).text == "A note."


def test_keys_of_the_caller_are_changed_one_by_one(keeping: Keeping) -> None:
    room, open_ = MetadataValue(int64_value=12), MetadataValue(bool_value=True)
    note = memory("A note.")
    note.metadata["room"].CopyFrom(room)
    name = keeping.put(note)[0].record_id
    keeping.change(name, "metadata.open", "metadata._x.y", metadata={"open": open_, "_x.y": room, "other": room})
    assert dict(keeping.get(name).metadata) == {"room": room, "open": open_, "_x.y": room}
    keeping.change(name, "metadata.room", "metadata.missing", "memory.importance")
    assert dict(keeping.get(name).metadata) == {"open": open_, "_x.y": room}
    assert keeping.texts({"open": True}) == ["A note."]
    error = failure(keeping.change, name, "metadata.scope", metadata={"scope": room})
    assert "'scope' is the name of a field of records" in error.message


@pytest.mark.requirement("S2-30")
@pytest.mark.parametrize("path", ["record_id", "create_time", "record_type", "access_count", "nonsense", "turn.role"])
def test_what_cannot_be_changed_is_named(keeping: Keeping, path: str) -> None:
    name = keeping.put(memory("A note."))[0].record_id
    error = failure(keeping.change, name, "text", path)
    assert error.reason == "INVALID_FIELD"
    assert f"{path!r} is not a field" in error.message


@pytest.mark.requirement("S0-29")
def test_the_entity_follows_a_new_scope(keeping: Keeping) -> None:
    name = keeping.put(memory("A note.", scope="entity:ann"))[0].record_id
    keeping.change(name, "scope", scope="entity:ben")
    assert (keeping.get(name).scope, keeping.get(name).memory.entity) == ("entity:ben", "ben")
    assert keeping.texts({"entity": "ann"}) == []
    keeping.change(name, "scope", scope="global")
    assert keeping.get(name).memory.entity == ""


def test_a_change_keeps_the_rules_and_the_etag(keeping: Keeping) -> None:
    kept = keeping.one(memory("A note."))
    details = record_pb2.MemoryDetails(confidence=1.5)
    assert failure(keeping.change, kept.record_id, "memory.confidence", memory=details).reason == "INVALID_FIELD"
    keeping.change(kept.record_id, "text", text="Another note.", etag=kept.etag)
    late = failure(keeping.change, kept.record_id, "text", text="A late note.", etag=kept.etag)
    assert late.reason == "DOCUMENT_CHANGED"
    assert failure(keeping.change, memory_id(1), "text", text="x").reason == "RECORD_NOT_FOUND"


@pytest.mark.requirement("S2-29")
def test_a_missing_record_is_not_found(keeping: Keeping) -> None:
    assert failure(keeping.get, memory_id(1)).reason == "RECORD_NOT_FOUND"


@pytest.mark.requirement("S2-31")
@pytest.mark.requirement("S2-38")
def test_a_soft_deletion_can_be_undone(keeping: Keeping) -> None:
    gone, stays = keeping.put(memory("The tide is high.", tags=["tide"]), memory("The tide is low.", tags=["tide"]))
    before = keeping.get(gone.record_id)
    deleted = keeping.delete(gone.record_id)
    assert (deleted.receipt.document_count, deleted.receipt.purged) == (1, False)
    assert keeping.texts() == keeping.found("tide") == ["The tide is low."]
    assert failure(keeping.get, gone.record_id).reason == "RECORD_NOT_FOUND"
    assert failure(keeping.delete, gone.record_id).reason == "RECORD_NOT_FOUND"
    assert list(keeping.get(stays.record_id).links.related_to) == []
    assert keeping.get(gone.record_id, include_deleted=True).HasField("delete_time")
    assert len(keeping.texts(include_deleted=True)) == 2
    (restored,) = keeping.restore(gone.record_id)
    assert restored.outcome == pb.RECORD_OUTCOME_CREATED
    assert keeping.get(gone.record_id) == before
    assert sorted(keeping.found("tide")) == ["The tide is high.", "The tide is low."]
    assert list(keeping.get(stays.record_id).links.related_to) == [gone.record_id]
    assert keeping.restore(gone.record_id)[0].outcome == pb.RECORD_OUTCOME_UNCHANGED


def test_a_deleted_record_comes_back_when_it_is_stored_again(keeping: Keeping) -> None:
    name = memory_id(7)
    first = keeping.put(memory("Old words.", record_id=name))[0]
    keeping.delete(name)
    again = keeping.put(memory("New words.", record_id=name))[0]
    assert (again.outcome, again.document_id) == (pb.RECORD_OUTCOME_CREATED, first.document_id)
    assert keeping.texts(include_deleted=True) == ["New words."]


@pytest.mark.requirement("S2-32")
def test_a_permanent_deletion_leaves_nothing(keeping: Keeping) -> None:
    hidden, live, other = keeping.put(memory("Secret one."), memory("Secret two."), memory("Public."))
    keeping.link(other.record_id, pb.LINK_KIND_SUPPORTS, live.record_id)
    keeping.delete(hidden.record_id)
    receipt = keeping.delete(hidden.record_id, live.record_id, permanent=True).receipt
    assert (receipt.document_count, receipt.chunk_count, receipt.purged) == (2, 2, True)
    assert {store.store: store.leftover_count for store in receipt.stores}["vectors"] == 0
    assert keeping.texts(include_deleted=True) == ["Public."]
    assert list(keeping.get(other.record_id).links.supports) == []
    for each in (hidden, live):
        assert failure(keeping.restore, each.record_id).reason == "RECORD_NOT_FOUND"
        assert failure(keeping.get, each.record_id, include_deleted=True).reason == "RECORD_NOT_FOUND"


def test_an_unknown_id_deletes_nothing(keeping: Keeping) -> None:
    kept = keeping.put(memory("A note."))[0]
    assert failure(keeping.delete, kept.record_id, memory_id(5)).reason == "RECORD_NOT_FOUND"
    assert failure(keeping.restore, kept.record_id, memory_id(5)).reason == "RECORD_NOT_FOUND"
    assert keeping.texts() == ["A note."]
    assert failure(keeping.client.delete_records, collection=keeping.collection).reason == "INVALID_FIELD"
    keeping.collection = "unknown"
    assert failure(keeping.restore, kept.record_id).reason == "COLLECTION_NOT_FOUND"


@pytest.mark.parametrize("where", [{}, {"$and": [{}]}, {"$not": {}}])
def test_a_filter_without_a_condition_deletes_nothing(keeping: Keeping, where: dict[str, Any]) -> None:
    keeping.put(memory("A note."))
    error = failure(keeping.delete_where, where)
    assert (error.reason, str(error).partition(":")[0]) == ("INVALID_FIELD", "filter")
    assert keeping.texts() == ["A note."]


def test_deleting_a_person_deletes_all_that_is_kept_of_it(keeping: Keeping) -> None:
    scope, in_short = "entity:ann", record_pb2.SummaryDetails(conversation_id=CONVERSATION)
    stays = keeping.put(memory("Of everybody."), memory("Of Ben.", scope="entity:ben"))
    keeping.put(
        memory("Of Ann.", scope=scope),
        memory("About Ann, for everybody.", entity="ann"),
        turn(USER, "I am Ann.", CONVERSATION, scope=scope),
        turn(ASSISTANT, "Hello Ann.", CONVERSATION, scope=scope),
        record(SUMMARY, "Ann was there.", scope=scope, summary=in_short),
    )
    receipt = keeping.delete_where({"entity": "ann"}, permanent=True).receipt
    assert receipt.document_count == 5
    assert sorted(keeping.texts(include_deleted=True)) == ["Of Ben.", "Of everybody."]
    assert keeping.get(stays[0].record_id).text == "Of everybody."
    assert keeping.delete_where({"entity": "ann"}).receipt.document_count == 0


@pytest.mark.requirement("S2-33")
def test_memories_are_listed_by_conversation_and_tag(keeping: Keeping) -> None:
    keeping.put(
        memory("Neither."),
        memory("Conversation.", seconds=1, conversation_id=CONVERSATION),
        memory("Tag.", seconds=2, tags=["blue"]),
        memory("Both.", seconds=3, conversation_id=CONVERSATION, tags=["blue", "red"]),
    )
    assert keeping.texts() == ["Both.", "Tag.", "Conversation.", "Neither."]
    assert keeping.texts({"conversation_id": CONVERSATION}) == ["Both.", "Conversation."]
    assert keeping.texts({"tags": {"$contains": "blue"}}) == ["Both.", "Tag."]
    assert keeping.texts({"conversation_id": CONVERSATION, "tags": {"$contains": "blue"}}) == ["Both."]


def test_listings_have_four_orders_and_pages(keeping: Keeping) -> None:
    keeping.put(
        memory("minor", seconds=3, importance=1),
        memory("major", seconds=1, importance=5),
        memory("also major", seconds=2, importance=5),
        turn(USER, "second", CONVERSATION, seconds=9, turn_index=2),
        turn(ASSISTANT, "first", CONVERSATION, seconds=8, turn_index=1),
    )
    by_age = ["major", "also major", "minor", "first", "second"]
    assert keeping.texts(order_by=pb.RECORD_ORDER_TIMESTAMP_ASC) == by_age
    assert keeping.texts(order_by=pb.RECORD_ORDER_TIMESTAMP_DESC) == by_age[::-1]
    assert keeping.texts({"type": "memory"}, order_by=pb.RECORD_ORDER_IMPORTANCE_DESC) == [
        "major",
        "also major",
        "minor",
    ]
    assert keeping.texts({"type": "turn"}, order_by=pb.RECORD_ORDER_TURN_ASC) == ["first", "second"]
    for order in (pb.RECORD_ORDER_IMPORTANCE_DESC, pb.RECORD_ORDER_TIMESTAMP_ASC):
        paged, token = list[str](), ""
        while True:
            page = keeping.client.list_records(
                collection=keeping.collection, order_by=order, page_size=2, page_token=token
            )
            paged += [each.text for each in page.records]
            token = page.next_page_token
            if not token:
                break
        assert paged == keeping.texts(order_by=order)
        assert len(paged) == 5
    assert failure(keeping.texts, page_size=-1).reason == "INVALID_FIELD"
    assert failure(keeping.texts, order_by=99).reason == "INVALID_FIELD"


@pytest.mark.requirement("S2-14")
@pytest.mark.requirement("S2-15")
@pytest.mark.requirement("S2-06")
def test_a_memory_follows_the_one_before_it_of_its_conversation(keeping: Keeping) -> None:
    at: dict[str, Any] = {"conversation_id": CONVERSATION}
    zero, five, later, edge = keeping.put(
        memory("Zero.", **at),
        memory("Five seconds.", seconds=5, **at),
        memory("Beyond.", seconds=5 + 301, **at),
        memory("At the edge.", seconds=5 + 301 + 300, **at),
    )
    elsewhere = keeping.put(memory("Elsewhere.", seconds=6, conversation_id="conv-other"), memory("None.", seconds=6))
    links = {each.record_id: keeping.get(each.record_id).links for each in (zero, five, later, edge, *elsewhere)}
    assert [list(links[each.record_id].follows) for each in (zero, five, later, edge)] == [
        [],
        [zero.record_id],
        [],
        [later.record_id],
    ]
    assert list(links[zero.record_id].context_of) == [CONVERSATION]
    assert [list(links[each.record_id].follows) for each in elsewhere] == [[], []]
    assert list(links[elsewhere[1].record_id].context_of) == []
    keeping.change(edge.record_id, "timestamp", timestamp=_after(5))
    assert list(keeping.get(edge.record_id).links.follows) == [five.record_id]
    keeping.delete(five.record_id)
    assert list(keeping.get(edge.record_id).links.follows) == [zero.record_id]


def test_memories_of_one_moment_follow_one_another_in_the_order_in_which_they_were_stored(keeping: Keeping) -> None:
    names = [each.record_id for each in keeping.put(*(memory(f"{n}.", conversation_id=CONVERSATION) for n in range(3)))]
    assert [list(keeping.get(each).links.follows) for each in names] == [[], names[:1], names[1:2]]


@pytest.mark.requirement("S2-16")
@pytest.mark.requirement("C18")
def test_memories_that_share_tags_are_related_both_ways(keeping: Keeping) -> None:
    one, two, both, none = keeping.put(
        memory("One.", tags=["a", "b"]),
        memory("Two.", tags=["b"], seconds=1),
        memory("Both.", tags=["a", "b", "c"], seconds=2),
        memory("None.", tags=["d"]),
    )

    def related(result: pb.RecordResult) -> list[str]:
        return list(keeping.get(result.record_id).links.related_to)

    assert related(one) == [both.record_id, two.record_id], "what shares most tags comes first"
    assert related(two) == [both.record_id, one.record_id], "then the newest"
    assert (sorted(related(both)), related(none)) == (sorted([one.record_id, two.record_id]), [])
    keeping.change(none.record_id, "memory.tags", memory=record_pb2.MemoryDetails(tags=["c"]))
    assert (related(none), none.record_id in related(both)) == ([both.record_id], True)
    keeping.put(*(memory(f"Another {number}.", tags=["b"], seconds=number) for number in range(30)))
    assert len(related(two)) == 20


@pytest.mark.requirement("S2-17")
@pytest.mark.requirement("S2-18")
@pytest.mark.requirement("S2-19")
def test_other_links_are_added_by_hand(keeping: Keeping) -> None:
    one, two = keeping.put(memory("It is hot.", tags=["t"]), memory("It is cold.", tags=["t"]))
    assert not keeping.get(one.record_id).links.supports
    assert not keeping.get(one.record_id).links.contradicts
    assert list(keeping.link(one.record_id, pb.LINK_KIND_CONTRADICTS, two.record_id).contradicts) == [two.record_id]
    keeping.link(one.record_id, pb.LINK_KIND_SUPPORTS, two.record_id)
    keeping.link(one.record_id, pb.LINK_KIND_SUGGESTED_CONTRADICTS, two.record_id)
    links = keeping.get(one.record_id).links
    assert (list(links.supports), list(links.contradicts)) == ([two.record_id], [two.record_id])
    assert list(links.suggested_contradicts) == [two.record_id]
    back = keeping.get(two.record_id).links
    assert (list(back.supports), list(back.contradicts)) == ([], [])
    assert list(back.suggested_contradicts) == [one.record_id], "a suggestion concerns both"
    assert failure(keeping.link, one.record_id, pb.LINK_KIND_SUPPORTS, one.record_id).reason == "INVALID_FIELD"
    assert failure(keeping.link, one.record_id, 0, two.record_id).reason == "INVALID_FIELD"
    for pair in ((one.record_id, memory_id(1)), (memory_id(1), one.record_id)):
        assert failure(keeping.link, pair[0], pb.LINK_KIND_SUPPORTS, pair[1]).reason == "RECORD_NOT_FOUND"
    keeping.put(memory("It is hot indeed.", record_id=one.record_id))
    assert list(keeping.get(one.record_id).links.supports) == [two.record_id], "links outlive a new text"
    gone = [pb.RecordLink(kind=pb.LINK_KIND_SUPPORTS, target_record_id=two.record_id)]
    removed = keeping.client.remove_links(collection=keeping.collection, record_id=one.record_id, links=gone).links
    assert (list(removed.supports), list(removed.contradicts)) == ([], [two.record_id])


def test_links_do_not_tell_of_records_of_another_scope(keeping: Keeping) -> None:
    ann, ben, everybody = keeping.put(
        memory("Of Ann.", scope="entity:ann", tags=["x"], conversation_id=CONVERSATION),
        memory("Of Ben.", scope="entity:ben", tags=["x"], conversation_id=CONVERSATION, seconds=1),
        memory("Of everybody.", tags=["x"], conversation_id=CONVERSATION, seconds=2),
    )
    for each in (ann, ben, everybody):
        links = keeping.get(each.record_id).links
        assert (list(links.follows), list(links.related_to)) == ([], [])
    for source, target in ((ann, ben), (everybody, ann)):
        refused = failure(keeping.link, source.record_id, pb.LINK_KIND_SUPPORTS, target.record_id)
        assert refused.reason == "INVALID_FIELD"
    assert keeping.link(ann.record_id, pb.LINK_KIND_SUPPORTS, everybody.record_id).supports == [everybody.record_id]


@pytest.mark.requirement("S2-12")
@pytest.mark.requirement("S2-13")
def test_reads_are_counted_where_that_is_asked_for(keeping: Keeping) -> None:
    name = keeping.put(memory("A note."))[0].record_id
    assert keeping.get(name).access_count == 0
    assert [keeping.get(name, count_access=True).access_count for _ in range(3)] == [1, 2, 3]
    first = keeping.get(name)
    assert first.HasField("last_accessed_time")
    assert keeping.get(name, count_access=True).last_accessed_time.ToDatetime() > first.last_accessed_time.ToDatetime()
    assert keeping.get(name).etag == first.etag, "being read is no change"


@pytest.mark.requirement("S0-25")
@pytest.mark.requirement("S2-12")
@pytest.mark.requirement("S2-13")
def test_records_and_their_counts_survive_a_restart(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data")
    with GroundwireClient(server.address) as client:
        keeping = Keeping(client)
        name = keeping.put(memory("A lasting note.", importance=5))[0].record_id
        keeping.get(name, count_access=True)
        kept = keeping.get(name)
        collection = keeping.collection
    assert server.stop() == 0
    server = ServerProcess(tmp_path / "data")
    with GroundwireClient(server.address) as client:
        assert client.get_record(collection=collection, record_id=name).record == kept
        assert client.get_record(collection=collection, record_id=name).record.access_count == 1
    server.stop()


def test_exchanges_that_come_at_the_same_time_have_numbers_of_their_own(keeping: Keeping) -> None:
    numbers: list[list[int]] = []

    def say(who: int) -> None:
        for each in range(3):
            said = (turn(USER, f"Question {who}.{each}", CONVERSATION), turn(ASSISTANT, f"Answer {who}", CONVERSATION))
            numbers.append([result.turn_index for result in keeping.put(*said)])

    threads = [threading.Thread(target=say, args=(who,)) for who in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == [[number, number] for number in range(1, 37)]


@pytest.mark.requirement("S0-19")
@pytest.mark.requirement("S0-20")
@pytest.mark.requirement("S0-40")
@pytest.mark.requirement("S0-56")
@pytest.mark.requirement("S0-57")
@pytest.mark.requirement("S0-58")
@pytest.mark.requirement("S0-59")
@pytest.mark.requirement("S0-60")
@pytest.mark.requirement("S0-61")
@pytest.mark.requirement("C21")
def test_searches_and_listings_filter_by_the_fields_of_records(keeping: Keeping) -> None:
    alpha = "entity:project-alpha"
    keeping.put(
        record(PERSONA, "note: calm", persona=record_pb2.PersonaDetails(version="1", topic="tone")),
        record(FAQ, "note: ask ocr", faq=record_pb2.FaqDetails(topic="specialists")),
        record(FAQ, "note: ask us", faq=record_pb2.FaqDetails(topic="billing")),
        memory("note: alpha", scope=alpha, importance=5, tags=["critical", "deadline"], seconds=3600),
        memory("note: beta", scope="entity:project-beta", importance=4, tags=["crit"]),
        memory("note: all", importance=3, tags=["critical"], kind=record_pb2.MEMORY_KIND_FACT, confidence=0.5),
        turn(USER, "note: mine", CONVERSATION),
        turn(USER, "note: other", "conv-other"),
    )
    keeping.client.ingest_document(
        collection=keeping.collection, source_uri="a.txt", text="note: a document of its own"
    )
    everything = {"scope": {"$in": ["global", alpha, "entity:project-beta"]}}
    cases: list[tuple[dict[str, Any], list[str]]] = [
        ({"type": "faq"}, ["ask ocr", "ask us"]),
        ({"record_type": "faq", "topic": "specialists"}, ["ask ocr"]),
        ({"type": "memory", "importance": {"$gte": 4}, **everything}, ["alpha", "beta"]),
        ({"scope": alpha}, ["alpha"]),
        ({"$and": [{"type": "memory"}, {"scope": alpha}, {"importance": {"$gte": 4}}]}, ["alpha"]),
        ({"tags": {"$contains": "critical"}, **everything}, ["all", "alpha"]),
        ({"conversation_id": CONVERSATION, "type": "turn"}, ["mine"]),
        ({"role": "user", "turn_index": 1}, ["mine", "other"]),
        ({"entity": "project-alpha", "scope": alpha}, ["alpha"]),
        ({"memory_kind": "fact", "confidence": {"$lt": 0.6}}, ["all"]),
        ({"timestamp": {"$gt": (START + timedelta(minutes=1)).isoformat()}, "scope": alpha}, ["alpha"]),
        ({"version": "1", "origin": "system"}, ["calm"]),
    ]
    for where, expected in cases:
        assert sorted(text.removeprefix("note: ") for text in keeping.texts(where)) == expected, where
        assert sorted(text.removeprefix("note: ") for text in keeping.found("note", where)) == expected, where
    assert keeping.found("note", {"record_type": {"$exists": False}}) == ["note: a document of its own"]
    assert failure(keeping.texts, {"importanc": 3}).reason == "INVALID_FILTER"
    assert failure(keeping.found, "note", {"importanc": 3}).reason == "INVALID_FILTER"


@pytest.mark.requirement("S0-24")
def test_three_faqs_on_a_topic_are_found(keeping: Keeping) -> None:
    details = record_pb2.FaqDetails(topic="api")
    keeping.put(*(record(FAQ, f"Q: How is call {number} made?", faq=details) for number in range(4)))
    keeping.put(record(FAQ, "Q: How is a call made elsewhere?", faq=record_pb2.FaqDetails(topic="other")))
    options = RetrievalOptions(top_k=3, min_relevance=0.0)
    options.filter.json = '{"type": "faq", "topic": "api"}'
    found = keeping.client.retrieve(collection=keeping.collection, query="call made", options=options).results
    assert len(found) == 3
    assert all("elsewhere" not in hit.chunk.content for hit in found)


def _after(seconds: float) -> Timestamp:
    changed = record_pb2.Record()
    changed.timestamp.FromDatetime(START + timedelta(seconds=seconds))
    return changed.timestamp


def test_the_receipt_of_a_deletion_is_complete_in_the_end(keeping: Keeping) -> None:
    name = keeping.put(memory("A note."))[0].record_id
    key = "11111111-2222-4333-8444-555555555555"
    receipt = keeping.delete(name, permanent=True, request_id=key).receipt
    assert receipt.receipt_id == keeping.delete(name, permanent=True, request_id=key).receipt.receipt_id
    assert receipt.state in {deletion_pb2.DELETION_STATE_HIDDEN, deletion_pb2.DELETION_STATE_COMPLETE}
