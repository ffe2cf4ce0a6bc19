"""Equal bytes under several sources, sources that are deleted, and versions that sources have."""

import random
import uuid
from typing import Any

import pytest

from groundwire.api.common.v1 import document_format_pb2, document_pb2
from groundwire.api.ingest.v1 import collection_pb2, deletion_pb2, ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.kernel.errors import (
    DocumentChangedError,
    DocumentNotFoundError,
    DuplicateDocumentError,
    StaleSourceVersionError,
)
from tests.integration.documents.store import Store, story
from tests.stubs import by_id, by_source

TEXT = story(random.Random(1))
PLAIN = "The moon pulls the tide. " * 30
REUSE = ingest_result_pb2.DUPLICATE_POLICY_REUSE
REUSED, UNCHANGED = ingest_result_pb2.INGEST_OUTCOME_REUSED, ingest_result_pb2.INGEST_OUTCOME_UNCHANGED


def ingest(store: Store, source: str, text: str = TEXT, **said: Any) -> ingest_result_pb2.IngestResult:
    return store.harness.ingest("docs", source, text, **said)


def delete(store: Store, reference: document_pb2.DocumentReference, **said: Any) -> deletion_pb2.DeletionReceipt:
    request = pb.DeleteDocumentRequest(collection="docs", reference=reference, **said)
    return store.changes.delete_document(request).receipt


@pytest.mark.requirement("C06")
def test_equal_bytes_are_two_documents_and_embedded_once(store: Store) -> None:
    first = ingest(store, "a.md", fields=document_pb2.DocumentFields(title="First")).document
    store.harness.embedder.texts.clear()
    second = ingest(store, "b.md", fields=document_pb2.DocumentFields(title="Second"))
    assert second.outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED
    assert second.document.document_id != first.document_id
    assert store.harness.embedder.texts == []
    assert [document.fields.title for document in store.documents()] == ["First", "Second"]
    delete(store, by_source("a.md"))
    assert store.documents() == [second.document]
    assert {hit.chunk.document_id for hit in store.search("tide")} == {second.document.document_id}


def test_a_document_that_becomes_equal_to_another_stays_one_of_its_own(store: Store) -> None:
    first = ingest(store, "a.md").document
    second = ingest(store, "b.md", PLAIN).document
    equal = ingest(store, "b.md", duplicate_policy=REUSE)
    assert equal.outcome == ingest_result_pb2.INGEST_OUTCOME_REPLACED
    assert [each.document_id for each in store.documents()] == [first.document_id, second.document_id]
    assert store.get(first.document_id).alias_count == 0


@pytest.mark.requirement("C06")
def test_a_reused_document_lists_its_aliases_and_names_what_had_no_effect(store: Store) -> None:
    first = ingest(store, "b.md").document
    assert ingest(store, "c.md", duplicate_policy=REUSE).warnings == []
    fields = document_pb2.DocumentFields(title="Ignored")
    reused = ingest(store, "a.md", duplicate_policy=REUSE, fields=fields, document_id="mine", source_version=3)
    assert (reused.outcome, reused.document.document_id) == (REUSED, first.document_id)
    assert (list(reused.document.alias_uris), reused.document.alias_count) == (["a.md", "c.md"], 2)
    assert reused.document.fields.title == ""
    [warning] = reused.warnings
    assert (warning.kind, warning.occurrence_count) == (ingest_result_pb2.INGEST_WARNING_KIND_FIELD_IGNORED, 3)
    assert "fields, document_id, source_version" in warning.message
    assert store.documents() == [reused.document]
    assert ingest(store, "a.md", duplicate_policy=REUSE).outcome == REUSED
    assert ingest(store, "a.md").outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED
    left = store.get(first.document_id)
    assert (list(left.alias_uris), left.alias_count) == (["c.md"], 1)
    assert left.etag != reused.document.etag


def test_settings_that_a_reused_document_has_anyway_are_not_told_to_be_without_effect(store: Store) -> None:
    fields = document_pb2.DocumentFields(title="Same")
    first = ingest(store, "a.md", fields=fields).document
    same: dict[str, Any] = {"fields": fields, "document_id": first.document_id, "format": first.format}
    reused = ingest(store, "b.md", duplicate_policy=REUSE, **same)
    assert (reused.outcome, list(reused.warnings)) == (REUSED, [])
    other: dict[str, Any] = {
        "format": document_format_pb2.DOCUMENT_FORMAT_TEXT,
        "chunking": collection_pb2.ChunkingPolicy(target_size=300),
    }
    [warning] = ingest(store, "c.md", duplicate_policy=REUSE, **other).warnings
    assert "format, chunking" in warning.message


def test_a_source_of_a_document_that_someone_changed_since_is_not_deleted(store: Store) -> None:
    read = ingest(store, "a.md").document
    changed = ingest(store, "b.md", duplicate_policy=REUSE).document
    with pytest.raises(DocumentChangedError):
        delete(store, by_source("b.md"), etag=read.etag)
    assert store.documents() == [changed]
    delete(store, by_source("b.md"), etag=changed.etag)
    assert [list(each.alias_uris) for each in store.documents()] == [[]]


@pytest.mark.parametrize("purge", [False, True])
def test_a_document_stays_under_its_next_source(engine_store: Store, purge: bool) -> None:
    first = ingest(engine_store, "a.md", PLAIN).document
    for source in ("c.md", "b.md"):
        ingest(engine_store, source, PLAIN, duplicate_policy=REUSE)
    other = engine_store.ingest("other.md", TEXT)
    receipt = delete(engine_store, by_source("a.md"), purge=purge)
    assert (receipt.document_count, receipt.chunk_count) == (0, 0)
    assert receipt.state == deletion_pb2.DELETION_STATE_COMPLETE
    removed = {each.store: each.removed_count for each in receipt.stores}
    stores = ("catalog", "full_text", "vectors", "texts", "embedding_cache", "sessions", "records")
    assert removed == dict.fromkeys(stores, 0)
    stays = engine_store.get(first.document_id)
    assert (stays.source_uri, list(stays.alias_uris), stays.alias_count) == ("b.md", ["c.md"], 1)
    assert stays.etag != first.etag
    [chunk] = engine_store.chunks(by_source("c.md"))
    assert (chunk.source_uri, chunk.chapter) == ("b.md", "b.md")
    assert engine_store.search("tide", {"source": "a.md"}) == []
    assert {hit.chunk.document_id for hit in engine_store.search("tide", {"source": "b.md"})} == {first.document_id}
    assert engine_store.points() == sorted(engine_store.harness.live_numbers("docs"))
    with pytest.raises(DocumentNotFoundError):
        delete(engine_store, by_source("a.md"))
    delete(engine_store, by_source("c.md"), purge=purge)
    assert list(engine_store.get(first.document_id).alias_uris) == []
    assert delete(engine_store, by_source("b.md"), purge=purge).document_count == 1
    assert engine_store.documents() == [other]


def test_a_document_deleted_by_id_goes_with_all_its_sources(store: Store) -> None:
    first = ingest(store, "a.md").document
    ingest(store, "b.md", duplicate_policy=REUSE)
    assert delete(store, by_id(first.document_id)).document_count == 1
    assert store.documents() == []
    restore = pb.RestoreDocumentRequest(collection="docs", reference=by_source("b.md"))
    assert store.changes.restore_document(restore).document.document_id == first.document_id
    assert list(store.get(first.document_id).alias_uris) == ["b.md"]


def test_a_source_is_dropped_once_for_a_repeated_request(store: Store) -> None:
    first = ingest(store, "a.md").document
    for source in ("b.md", "c.md"):
        ingest(store, source, duplicate_policy=REUSE)
    request_id = str(uuid.uuid4())
    receipt = delete(store, by_source("a.md"), request_id=request_id)
    assert delete(store, by_source("a.md"), request_id=request_id) == receipt
    stays = store.get(first.document_id)
    assert (stays.source_uri, list(stays.alias_uris), stays.alias_count) == ("b.md", ["c.md"], 1)


def test_a_late_event_never_overwrites_a_newer_one(store: Store) -> None:
    new = ingest(store, "a.md", "The seventh version.", source_version=7).document
    assert new.source_version == 7
    late = str(uuid.uuid4())
    with pytest.raises(StaleSourceVersionError) as refused:
        ingest(store, "a.md", "The sixth version.", source_version=6, request_id=late)
    assert refused.value.metadata == {
        "document_id": new.document_id,
        "source_version": "6",
        "stored_source_version": "7",
    }
    assert store.documents() == [new]
    same = ingest(store, "a.md", "The seventh, corrected.", source_version=7).document
    assert (same.generation, same.source_version) == (2, 7)
    unversioned = ingest(store, "a.md", "Without a version.").document
    assert (unversioned.generation, unversioned.source_version) == (3, 7)
    assert ingest(store, "b.md", "The sixth version.", source_version=0).document.source_version == 0


def test_an_unchanged_document_takes_the_later_version(store: Store) -> None:
    ingest(store, "a.md", source_version=1)
    unchanged = ingest(store, "a.md", source_version=5)
    assert (unchanged.outcome, unchanged.document.source_version) == (UNCHANGED, 5)
    assert store.get(unchanged.document.document_id).source_version == 5
    with pytest.raises(StaleSourceVersionError):
        ingest(store, "a.md", "An event of version 3.", source_version=3)


@pytest.mark.parametrize("purge", [False, True])
def test_a_late_event_does_not_bring_a_deleted_document_back_unless_it_was_purged(store: Store, purge: bool) -> None:
    gone = ingest(store, "a.md", source_version=7).document
    delete(store, by_id(gone.document_id), purge=purge)
    if purge:
        assert ingest(store, "a.md", source_version=6).document.source_version == 6
        return
    with pytest.raises(StaleSourceVersionError):
        ingest(store, "a.md", "An event of version 6.", source_version=6)
    assert store.documents() == []
    back = ingest(store, "a.md", "An event of version 8.", source_version=8)
    assert back.outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED, "there was none to be replaced"
    assert (back.document.document_id, back.document.source_version) == (gone.document_id, 8)


def test_plans_and_ready_chunks_are_held_against_the_version_too(store: Store) -> None:
    ingest(store, "a.md", source_version=7)
    plan = pb.PlanIngestRequest(collection="docs", source_uri="a.md", text="Late.", source_version=6)
    with pytest.raises(StaleSourceVersionError):
        store.changes.plan_ingest(plan)
    chunk = pb.ReadyChunk(content="The moon pulls the sea and the tide follows it.")
    with pytest.raises(StaleSourceVersionError):
        store.harness.put_chunks("docs", "a.md", chunk, source_version=6)
    assert store.harness.put_chunks("docs", "a.md", chunk, source_version=8).document.source_version == 8


def test_rejecting_names_the_document_that_has_the_bytes(store: Store) -> None:
    first = ingest(store, "a.md").document
    with pytest.raises(DuplicateDocumentError) as refused:
        ingest(store, "b.md", duplicate_policy=ingest_result_pb2.DUPLICATE_POLICY_REJECT)
    assert refused.value.metadata == {"document_id": first.document_id, "source_uri": "a.md"}
    assert store.documents() == [first]
