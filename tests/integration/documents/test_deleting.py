"""DeleteDocument and RestoreDocument: gone at once, back exactly, and receipts that say what each store removed."""

import random
import threading
import uuid
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from groundwire.api.common.v1 import document_pb2
from groundwire.api.common.v1.chunk_pb2 import ChunkReference
from groundwire.api.ingest.v1 import collection_pb2, deletion_pb2, ingest_result_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1 import record_service_pb2 as records_pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.catalog.database import Database
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import (
    AlreadyExistsError,
    ChunkNotFoundError,
    CollectionNotFoundError,
    ConflictError,
    DataLossError,
    DocumentChangedError,
    DocumentNotFoundError,
    InvalidRequestError,
    PreconditionError,
    RequestIdReusedError,
    StoreUnavailableError,
)
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.vector_store import VectorStore
from tests.integration.documents.store import Store, number, story, text
from tests.integration.ingest.harness import blocking
from tests.integration.records.keeping import MEMORY, record
from tests.manual_clock import ManualClock
from tests.stubs import by_id, by_source

COMPLETE, HIDDEN = deletion_pb2.DELETION_STATE_COMPLETE, deletion_pb2.DELETION_STATE_HIDDEN


def _stores(receipt: deletion_pb2.DeletionReceipt) -> dict[str, tuple[int, int, bool]]:
    return {each.store: (each.removed_count, each.leftover_count, each.complete) for each in receipt.stores}


def _index_rows(store: Store) -> int:
    with store.harness.catalog.read() as connection:
        return int(
            connection.exec_driver_sql("SELECT coalesce(sum(chunk_count), 0) FROM lexical_segments").scalar_one()
        )


def _rows(store: Store, table: str) -> int:
    with store.harness.catalog.read() as connection:
        return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())  # noqa: S608 - our names


@pytest.mark.requirement("C29")
@pytest.mark.requirement("S1-84")
def test_a_permanent_deletion_leaves_nothing_and_says_so(engine_store: Store) -> None:
    kept = engine_store.ingest("b.md", story(random.Random(2)))
    document = engine_store.ingest("a.md", story(random.Random(1)))
    count = len(engine_store.chunks(document.document_id))
    receipt = engine_store.delete(document.document_id)
    assert (receipt.state, receipt.purged) == (COMPLETE, True)
    assert (receipt.document_count, receipt.chunk_count) == (1, count)
    assert receipt.complete_time.ToNanoseconds() >= receipt.hide_time.ToNanoseconds() > 0
    assert _stores(receipt) == {
        "catalog": (1 + count, 0, True),
        "full_text": (count, 0, True),
        "vectors": (count, 0, True),
        "texts": (1, 0, True),
        "embedding_cache": (count, 0, True),
        "sessions": (0, 0, True),
        "records": (0, 0, True),
    }
    others = [chunk.chunk_number for chunk in engine_store.chunks(kept.document_id)]
    assert engine_store.points() == others
    assert _index_rows(engine_store) == len(others) == _rows(engine_store, "embeddings")
    assert _rows(engine_store, "outbox") == 0
    with pytest.raises(DocumentNotFoundError):
        engine_store.restore(document.document_id)


@pytest.mark.requirement("C29")
def test_a_soft_deletion_hides_at_once_and_a_restoration_brings_back_exactly(engine_store: Store) -> None:
    document = engine_store.ingest("a.md", story(random.Random(1)), tags=["x"], metadata={"state": text("new")})
    engine_store.update_chunk(engine_store.chunks(document.document_id)[0].chunk_id, set_metadata={"n": number(1)})
    before = engine_store.chunks(document.document_id, include_embedding=True)
    hits = engine_store.search("tide moon", {"tags": {"$contains": "x"}})
    receipt = engine_store.delete(document.document_id, purge=False)
    assert (receipt.state, receipt.purged, receipt.chunk_count) == (COMPLETE, False, len(before))
    assert _stores(receipt) == {
        "catalog": (0, 0, True),
        "full_text": (len(before), 0, True),
        "vectors": (len(before), 0, True),
        "texts": (0, 0, True),
        "embedding_cache": (0, 0, True),
        "sessions": (0, 0, True),
        "records": (0, 0, True),
    }
    assert (engine_store.points(), _index_rows(engine_store)) == ([], 0)
    assert engine_store.search("tide moon") == []
    assert engine_store.documents() == []
    assert engine_store.chunks() == []
    engine_store.harness.embedder.texts.clear()
    assert engine_store.restore(document.document_id) == engine_store.get(document.document_id) == document
    assert engine_store.harness.embedder.texts == []
    assert engine_store.chunks(document.document_id, include_embedding=True) == before
    assert engine_store.points() == [chunk.chunk_number for chunk in before]
    assert engine_store.search("tide moon", {"tags": {"$contains": "x"}}) == hits
    assert [hit.chunk.chunk_id for hit in engine_store.search("tide", {"n": 1})] == [before[0].chunk_id]
    assert engine_store.restore(document.document_id) == document


def test_no_call_finds_what_was_deleted_softly(store: Store) -> None:
    document = store.ingest("a.md", story(random.Random(1)))
    chunk = store.chunks(document.document_id)[0]
    store.delete(document.document_id, purge=False)
    for call in (
        lambda: store.get(document.document_id),
        lambda: store.update(document.document_id, title="T"),
        lambda: store.chunks(document.document_id),
        lambda: store.delete(document.document_id, purge=False),
        lambda: list(
            store.harness.library.document_text(
                library_pb.GetDocumentTextRequest(
                    collection="docs", reference=by_id(document.document_id), generation=1
                )
            )
        ),
    ):
        with pytest.raises(DocumentNotFoundError):
            call()
    for reference in ({"chunk_id": chunk.chunk_id}, {"chunk_number": chunk.chunk_number}):
        with pytest.raises(ChunkNotFoundError):
            store.harness.library.get_chunk(
                library_pb.GetChunkRequest(collection="docs", reference=ChunkReference(**reference))
            )
    with pytest.raises(ChunkNotFoundError):
        store.update_chunk(chunk.chunk_id, tags=["x"])


def test_listing_shows_soft_deletions_only_when_asked(store: Store) -> None:
    gone, kept = store.ingest("a.md", "Gone. " * 30), store.ingest("b.md", "Kept. " * 30)
    store.delete(gone.document_id, purge=False)
    assert store.documents() == [kept]
    shown = store.documents(include_deleted=True)
    assert [document.source_uri for document in shown] == ["a.md", "b.md"]
    assert shown[0].HasField("delete_time")
    assert not shown[1].HasField("delete_time")
    assert (shown[0].generation, shown[0].fields, shown[0].chunk_count) == (1, gone.fields, gone.chunk_count)
    store.restore(gone.document_id)
    assert store.documents(include_deleted=True) == [gone, kept]


def test_a_soft_deletion_can_be_made_permanent(store: Store) -> None:
    document = store.ingest("a.md", story(random.Random(1)))
    store.delete(document.document_id, purge=False)
    receipt = store.delete(document.document_id, purge=True)
    assert (receipt.state, receipt.purged) == (COMPLETE, True)
    assert _stores(receipt)["texts"] == (1, 0, True)
    assert (_rows(store, "documents"), _rows(store, "chunks"), _rows(store, "text_segments")) == (0, 0, 0)
    with pytest.raises(DocumentNotFoundError):
        store.restore(document.document_id)


@pytest.mark.parametrize("profile", [collection_pb2.PROFILE_DOCUMENTS, collection_pb2.PROFILE_MEMORY])
def test_every_profile_deletes_softly_unless_told_otherwise(
    tmp_path_factory: pytest.TempPathFactory, profile: collection_pb2.Profile.ValueType
) -> None:
    store = Store(tmp_path_factory.mktemp("soft")).create(profile=profile)
    try:
        document = store.ingest("a.md", "A memory of the sea. " * 40)
        request = pb.DeleteDocumentRequest(collection="docs", reference=by_id(document.document_id))
        assert not store.changes.delete_document(request).receipt.purged
        store.restore(document.document_id)
        assert store.delete(document.document_id, purge=True).purged
    finally:
        store.close()


@pytest.mark.parametrize("purge", [True, False])
def test_a_repeated_deletion_gives_the_same_receipt(store: Store, purge: bool) -> None:
    document = store.ingest("a.md", story(random.Random(1)))
    request_id = str(uuid.uuid4())
    receipt = store.delete(document.document_id, purge=purge, request_id=request_id)
    assert receipt.state == COMPLETE
    assert store.delete(document.document_id, purge=purge, request_id=request_id) == receipt
    with pytest.raises(RequestIdReusedError):
        store.delete(document.document_id, purge=not purge, request_id=request_id)


def test_a_repeated_restoration_gives_the_same_answer(store: Store) -> None:
    document = store.ingest("a.md", story(random.Random(1)))
    store.delete(document.document_id, purge=False)
    request_id = str(uuid.uuid4())
    first = store.restore(document.document_id, request_id)
    store.delete(document.document_id, purge=False)
    assert store.restore(document.document_id, request_id) == first
    with pytest.raises(DocumentNotFoundError):
        store.get(document.document_id)


@pytest.mark.parametrize("same", [True, False])
def test_a_new_ingest_of_a_softly_deleted_source_takes_its_place(store: Store, same: bool) -> None:
    before = store.ingest("a.md", story(random.Random(1)), tags=["x"])
    store.delete(before.document_id, purge=False)
    after = store.ingest("a.md", story(random.Random(1 if same else 2)))
    assert (after.document_id, after.generation) == (before.document_id, 2)
    assert (after.ingest_time, list(after.fields.tags)) == (before.ingest_time, [])
    assert store.documents(include_deleted=True) == [after]
    store.harness.sweep()
    assert store.points() == [chunk.chunk_number for chunk in store.chunks(after.document_id)]
    assert _index_rows(store) == after.chunk_count
    assert store.restore(before.document_id) == after


def test_a_source_that_is_taken_cannot_be_brought_back_to(store: Store) -> None:
    before = store.ingest("a.md", story(random.Random(1)))
    store.delete(before.document_id, purge=False)
    other = store.harness.ingest("docs", "a.md", story(random.Random(2)), document_id="other").document
    assert other.document_id == "other"
    with pytest.raises(AlreadyExistsError, match="other"):
        store.restore(before.document_id)
    store.harness.sweep()
    assert store.points() == [chunk.chunk_number for chunk in store.chunks("other")]


def test_a_deletion_that_the_engine_misses_stays_hidden_until_the_sweeper_tells_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = store.ingest("a.md", story(random.Random(1)))

    def broken(*_: object) -> None:
        raise StoreUnavailableError("the engine is down")

    monkeypatch.setattr(type(store.vectors), "delete", broken)
    receipt = store.delete(document.document_id)
    assert (receipt.state, receipt.HasField("complete_time")) == (HIDDEN, False)
    assert _stores(receipt)["vectors"] == (0, document.chunk_count, False)
    assert store.search("tide") == []
    monkeypatch.undo()
    store.harness.sweep()
    assert store.points() == []


@pytest.fixture
def prompt(tmp_path: Path) -> Iterator[Store]:
    """A store whose receipts are completed at once, by hand."""
    running = Store(tmp_path, scrub_after_quiet_s=0).create()
    yield running
    running.close()


def _complete(store: Store) -> int:
    return store.harness.service.housekeeping.run_now(("deletions",), Budget())


def _incomplete(store: Store) -> list[str]:
    return [each.deletion_id for each in store.harness.service.upkeep.catalog.deletions.incomplete(DEFAULT_TENANT, 10)]


@pytest.mark.parametrize("permanent", [False, True])
def test_a_receipt_is_completed_when_the_engine_has_caught_up(
    prompt: Store, monkeypatch: pytest.MonkeyPatch, *, permanent: bool
) -> None:
    document, request_id = prompt.ingest("a.md", story(random.Random(1))), str(uuid.uuid4())

    def broken(*_: object) -> None:
        raise StoreUnavailableError("the engine is down")

    monkeypatch.setattr(type(prompt.vectors), "delete", broken)
    hidden = prompt.delete(document.document_id, purge=permanent, request_id=request_id)
    assert hidden.state == HIDDEN
    assert _complete(prompt) == 0
    monkeypatch.undo()
    assert _complete(prompt) == 0  # the task comes first
    prompt.harness.sweep()
    assert _complete(prompt) == 1
    now = prompt.delete(document.document_id, purge=permanent, request_id=request_id)
    assert (now.receipt_id, now.state) == (hidden.receipt_id, COMPLETE)
    assert _stores(now)["vectors"] == (document.chunk_count, 0, True)
    assert _incomplete(prompt) == []


@pytest.mark.parametrize(("age", "state"), [(timedelta(0), COMPLETE), (timedelta(days=-1), HIDDEN)])
def test_a_vector_without_a_chunk_is_left_of_a_deletion_unless_it_came_later(
    prompt: Store,
    age: timedelta,
    state: deletion_pb2.DeletionState.ValueType,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document, request_id = prompt.ingest("a.md", story(random.Random(1))), str(uuid.uuid4())
    catalog = prompt.harness.service.upkeep.catalog
    serving = catalog.collections.get(DEFAULT_TENANT, "docs")
    with prompt.harness.catalog.read() as connection:
        hashes = connection.exec_driver_sql("SELECT embedding_hash FROM embeddings").scalars().all()
    found = catalog.embeddings.get(serving.identity.digest, hashes)
    built = catalog.index_builds.begin(serving, serving.identity)  # so that the call does not complete it
    receipt = prompt.delete(document.document_id, request_id=request_id)
    assert receipt.state == HIDDEN
    clock = ManualClock(receipt.hide_time.ToDatetime(UTC) + timedelta(seconds=1) + age)
    monkeypatch.setattr(prompt.harness.catalog, "clock", clock)
    catalog.embeddings.put(serving.identity.digest, list(found), np.stack([*found.values()]))
    monkeypatch.undo()
    catalog.index_builds.abandon(built)
    with suppress(DataLossError):  # operators hear of it
        _complete(prompt)
    assert prompt.delete(document.document_id, request_id=request_id).state == state


def test_what_quotes_a_document_that_came_and_went_again_is_not_left_of_its_first_deletion(prompt: Store) -> None:
    catalog, request_id = prompt.harness.service.upkeep.catalog, str(uuid.uuid4())
    for source in ("a.md", "b.md"):
        prompt.changes.ingest_document(
            pb.IngestDocumentRequest(collection="docs", source_uri=source, document_id="again", text=f"Of {source}.")
        )
        if source == "a.md":
            serving = catalog.collections.get(DEFAULT_TENANT, "docs")
            built = catalog.index_builds.begin(serving, serving.identity)  # so that the call does not complete it
            assert prompt.delete("again", request_id=request_id).state == HIDDEN
    quoting = record(MEMORY, "Of b.md, as said.", quoted_document_ids=["again"])
    put = records_pb.BatchUpsertRecordsRequest(collection="docs", records=[quoting])
    blocking(prompt.harness.service.records.BatchUpsertRecords)(put)
    prompt.delete("again", purge=False)
    catalog.index_builds.abandon(built)
    _complete(prompt)
    assert prompt.delete("again", request_id=request_id).state == COMPLETE


def test_a_receipt_waits_for_an_index_that_was_begun_before_the_deletion(prompt: Store) -> None:
    document, request_id = prompt.ingest("a.md", story(random.Random(1))), str(uuid.uuid4())
    catalog = prompt.harness.service.upkeep.catalog
    serving = catalog.collections.get(DEFAULT_TENANT, "docs")
    built = catalog.index_builds.begin(serving, serving.identity)  # it may hold the document by now
    assert prompt.delete(document.document_id, request_id=request_id).state == HIDDEN
    assert _complete(prompt) == 0
    catalog.index_builds.abandon(built)
    assert _complete(prompt) == 1
    assert prompt.delete(document.document_id, request_id=request_id).state == COMPLETE


def test_a_soft_deletion_that_was_undone_is_not_waited_for(prompt: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    document = prompt.ingest("a.md", story(random.Random(1)))

    def broken(*_: object) -> None:
        raise StoreUnavailableError("the engine is down")

    monkeypatch.setattr(type(prompt.vectors), "delete", broken)
    receipt = prompt.delete(document.document_id, purge=False)
    monkeypatch.undo()
    assert _incomplete(prompt) == [receipt.receipt_id]
    prompt.restore(document.document_id)
    prompt.harness.sweep()
    _complete(prompt)
    assert _incomplete(prompt) == []
    assert prompt.points() == [chunk.chunk_number for chunk in prompt.chunks(document.document_id)]


def test_a_deletion_counts_what_a_final_search_still_finds(prompt: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    document = prompt.ingest("a.md", story(random.Random(1)))
    monkeypatch.setattr(type(prompt.vectors), "delete", lambda *_: None)  # an engine that acknowledges and does nothing
    monkeypatch.setattr("groundwire.ingest.upkeep._POINTS_PER_LOOK", 2)  # a large document takes several looks
    receipt = prompt.delete(document.document_id)
    assert receipt.state == HIDDEN
    assert _stores(receipt)["vectors"] == (0, document.chunk_count, False)
    with pytest.raises(DataLossError):
        _complete(prompt)
    assert _incomplete(prompt) == [receipt.receipt_id]


def test_a_receipt_waits_for_whoever_reads_an_earlier_state(prompt: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    document = prompt.ingest("a.md", story(random.Random(1)))
    monkeypatch.setattr(Database, "scrub", lambda *_: False)  # the log holds the text as long as somebody reads it
    receipt = prompt.delete(document.document_id)
    _complete(prompt)
    assert (receipt.state, _incomplete(prompt)) == (HIDDEN, [receipt.receipt_id])
    monkeypatch.undo()
    _complete(prompt)
    assert _incomplete(prompt) == []


def test_a_restoration_that_the_engine_misses_changes_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    document = store.ingest("a.md", story(random.Random(1)))
    store.delete(document.document_id, purge=False)
    upsert = type(store.vectors).upsert

    def broken(self: VectorStore, collection: str, points: object, budget: Budget) -> None:
        upsert(self, collection, points, budget)  # type: ignore[arg-type]  # whatever it is, it is passed on
        raise StoreUnavailableError("the engine went down")

    monkeypatch.setattr(type(store.vectors), "upsert", broken)
    with pytest.raises(StoreUnavailableError):
        store.restore(document.document_id)
    monkeypatch.undo()
    assert store.points() != []
    assert store.documents() == []
    assert store.search("tide") == []
    store.harness.sweep()
    assert store.points() == []
    assert store.restore(document.document_id) == document


def test_a_restored_document_whose_vectors_were_lost_gets_them_anew(store: Store) -> None:
    document = store.ingest("a.md", story(random.Random(1)))
    store.delete(document.document_id, purge=False)
    store.harness.catalog.write(lambda connection: connection.exec_driver_sql("DELETE FROM embeddings"))
    store.harness.embedder.texts.clear()
    store.restore(document.document_id)
    assert len(store.harness.embedder.texts) == len(store.points()) == document.chunk_count


def test_the_outbox_does_not_remove_the_points_of_a_document_that_is_being_restored(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = store.ingest("a.md", story(random.Random(1)))
    with monkeypatch.context() as broken:
        broken.setattr(type(store.vectors), "delete", lambda *_: (_ for _ in ()).throw(StoreUnavailableError("down")))
        assert store.delete(document.document_id, purge=False).state == HIDDEN
    upsert, sweeping = type(store.vectors).upsert, threading.Thread(target=store.harness.sweep)

    def swept_meanwhile(self: VectorStore, collection: str, points: Any, budget: Budget) -> None:
        upsert(self, collection, points, budget)
        if sweeping.ident is None:
            sweeping.start()
            sweeping.join(0.3)

    monkeypatch.setattr(type(store.vectors), "upsert", swept_meanwhile)
    store.restore(document.document_id)
    sweeping.join()
    assert store.points() == [chunk.chunk_number for chunk in store.chunks(document.document_id)]


def test_vectors_that_another_document_needs_stay(store: Store) -> None:
    shared = story(random.Random(1))
    first = store.ingest("a.md", shared)
    second = store.harness.ingest(
        "docs", "b.md", shared, duplicate_policy=ingest_result_pb2.DUPLICATE_POLICY_ALLOW
    ).document
    receipt = store.delete(first.document_id)
    assert _stores(receipt)["embedding_cache"] == (0, 0, True)
    chunk = store.chunks(second.document_id, include_embedding=True)[0]
    assert np.linalg.norm(chunk.embedding) == pytest.approx(1.0)


def test_a_deleted_collection_takes_everything_with_it(engine_store: Store) -> None:
    first = engine_store.ingest("a.md", story(random.Random(1)))
    second = engine_store.ingest("b.md", story(random.Random(2)))
    engine_store.delete(second.document_id, purge=False)
    request = collections_pb.DeleteCollectionRequest(collection="docs", request_id=str(uuid.uuid4()), force=True)
    receipt = engine_store.harness.calls.delete_collection(request).receipt
    assert (receipt.state, receipt.document_count) == (COMPLETE, 2)
    assert receipt.chunk_count == first.chunk_count + second.chunk_count
    assert {each.leftover_count for each in receipt.stores} == {0}
    tables = ["documents", "chunks", "generations", "text_segments", "embeddings", "outbox"]
    tables += ["lexical_segments", "lexical_postings"]
    assert {table: _rows(engine_store, table) for table in tables} == dict.fromkeys(tables, 0)
    assert engine_store.vectors.collections(Budget()) == []
    assert engine_store.harness.calls.delete_collection(request).receipt == receipt


def test_an_id_goes_on_counting_generations_after_its_collection_was_deleted(store: Store) -> None:
    one = store.harness.ingest("docs", "a.md", story(random.Random(1)), document_id="one").document
    store.harness.calls.delete_collection(collections_pb.DeleteCollectionRequest(collection="docs", force=True))
    store.create()
    again = store.harness.ingest("docs", "a.md", story(random.Random(2)), document_id="one").document
    assert (one.generation, again.generation) == (1, 2)


def test_no_repeated_call_tells_of_the_documents_of_a_deleted_collection(store: Store) -> None:
    document, request_id = store.ingest("a.md", story(random.Random(1))), str(uuid.uuid4())
    changed = store.update(document.document_id, "fields.title", title="A secret", request_id=request_id)
    assert store.update(document.document_id, "fields.title", title="A secret", request_id=request_id) == changed
    store.harness.calls.delete_collection(collections_pb.DeleteCollectionRequest(collection="docs", force=True))
    with pytest.raises(DocumentNotFoundError):
        store.update(document.document_id, "fields.title", title="A secret", request_id=request_id)


def test_no_repeated_call_tells_of_a_document_that_it_found_unchanged_before_it_was_purged(store: Store) -> None:
    document = store.ingest("a.md", "# A secret\n\nOf the tides.")
    request = pb.IngestDocumentRequest(
        collection="docs", source_uri="a.md", text="# A secret\n\nOf the tides.", request_id=str(uuid.uuid4())
    )
    for _ in range(2):
        assert store.changes.ingest_document(request).result.document == document
    store.delete(document.document_id)
    with pytest.raises(DocumentNotFoundError):
        store.changes.ingest_document(request)


@pytest.mark.parametrize("purge", [True, False])
def test_a_document_is_deleted_restored_and_changed_by_its_source(store: Store, purge: bool) -> None:
    gone, other = store.ingest("a.md", story(random.Random(1))), store.ingest("b.md", story(random.Random(2)))
    request = pb.DeleteDocumentRequest(collection="docs", reference=by_source("a.md"), purge=purge)
    assert store.changes.delete_document(request).receipt.document_count == 1
    assert store.documents() == [other]
    restore = pb.RestoreDocumentRequest(collection="docs", reference=by_source("a.md"))
    if purge:
        with pytest.raises(DocumentNotFoundError):
            store.changes.restore_document(restore)
        return
    assert store.changes.restore_document(restore).document == gone
    change = pb.UpdateDocumentRequest(collection="docs", reference=by_source("b.md"))
    change.document.fields.title = "By its source"
    changed = store.changes.update_document(change).document
    assert (changed.document_id, changed.fields.title) == (other.document_id, "By its source")
    assert {chunk.document_id for chunk in store.chunks(by_source("a.md"))} == {gone.document_id}


def test_of_several_deleted_documents_of_a_source_one_must_be_named_by_id(store: Store) -> None:
    first = store.harness.ingest("docs", "a.md", story(random.Random(1)), document_id="one").document
    store.delete(first.document_id, purge=False)
    second = store.harness.ingest("docs", "a.md", story(random.Random(2)), document_id="two").document
    store.delete(second.document_id, purge=False)
    restore = pb.RestoreDocumentRequest(collection="docs", reference=by_source("a.md"))
    with pytest.raises(InvalidRequestError, match="one or two") as refused:
        store.changes.restore_document(restore)
    assert [violation.field for violation in refused.value.violations] == ["reference.source_uri"]
    purge = pb.DeleteDocumentRequest(collection="docs", reference=by_source("a.md"), purge=True)
    with pytest.raises(InvalidRequestError, match="one or two"):
        store.changes.delete_document(purge)
    assert store.restore("two").document_id == "two"


@pytest.mark.parametrize("reference", [document_pb2.DocumentReference(), by_id(""), by_source("a\x00b")])
def test_a_document_must_be_named(store: Store, reference: document_pb2.DocumentReference) -> None:
    store.ingest("a.md", story(random.Random(1)))
    with pytest.raises(InvalidRequestError) as refused:
        store.changes.delete_document(pb.DeleteDocumentRequest(collection="docs", reference=reference))
    assert refused.value.violations[0].field.startswith("reference")


@pytest.mark.parametrize("purge", [True, False])
def test_a_document_that_someone_changed_since_is_not_deleted(store: Store, purge: bool) -> None:
    document = store.ingest("a.md", story(random.Random(1)))
    reference = by_id(document.document_id)
    changed = store.update(document.document_id, title="Changed")
    stale = pb.DeleteDocumentRequest(collection="docs", reference=reference, purge=purge, etag=document.etag)
    with pytest.raises(DocumentChangedError):
        store.changes.delete_document(stale)
    assert store.documents() == [changed]
    fresh = pb.DeleteDocumentRequest(collection="docs", reference=reference, purge=purge, etag=changed.etag)
    assert store.changes.delete_document(fresh).receipt.document_count == 1


@pytest.mark.parametrize("purge", [True, False])
def test_in_a_collection_that_is_missing_nothing_is_deleted_or_restored(store: Store, purge: bool) -> None:
    document = store.ingest("a.md", story(random.Random(1)))
    for reference in (by_id(document.document_id), by_source("a.md")):
        deletion = pb.DeleteDocumentRequest(collection="nowhere", reference=reference, purge=purge)
        with pytest.raises(CollectionNotFoundError):
            store.changes.delete_document(deletion)
        with pytest.raises(CollectionNotFoundError):
            store.changes.restore_document(pb.RestoreDocumentRequest(collection="nowhere", reference=reference))
    assert store.documents() == [document]


def test_a_deleted_document_comes_back_only_as_what_the_caller_saw(store: Store) -> None:
    live = store.ingest("a.md", story(random.Random(1)))
    store.delete(live.document_id, purge=False)
    (deleted,) = store.documents(include_deleted=True)
    assert deleted.etag != live.etag
    with pytest.raises(DocumentChangedError):
        store.restore(live.document_id, etag=live.etag)
    assert store.documents() == []
    restored = store.restore(live.document_id, etag=deleted.etag)
    assert (restored, store.documents()) == (live, [live])
    # One that is live is returned as it is, if it is the one.
    with pytest.raises(DocumentChangedError):
        store.restore(live.document_id, etag=deleted.etag)
    assert store.restore(live.document_id, etag=live.etag) == live


def test_a_collection_with_documents_is_deleted_by_force_only(store: Store) -> None:
    delete, calls = collections_pb.DeleteCollectionRequest(collection="docs"), store.harness.calls
    document = store.ingest("a.md", story(random.Random(1)))
    with pytest.raises(PreconditionError, match="1 with"):
        calls.delete_collection(delete)
    store.delete(document.document_id, purge=False)
    with pytest.raises(PreconditionError, match="can be restored"):
        calls.delete_collection(delete)
    assert store.restore(document.document_id) == document
    store.delete(document.document_id, purge=True)
    assert calls.delete_collection(delete).receipt.purged


def test_a_collection_that_someone_changed_since_is_not_deleted(store: Store) -> None:
    calls = store.harness.calls
    read = calls.get_collection(collections_pb.GetCollectionRequest(collection="docs")).collection
    store.ingest("a.md", story(random.Random(1)))
    change = collections_pb.UpdateCollectionRequest(collection=collection_pb2.Collection(name="docs", etag=read.etag))
    change.collection.settings.retrieval.top_k = 7
    changed = calls.update_collection(change).collection
    assert changed.etag != read.etag
    with pytest.raises(ConflictError):
        calls.update_collection(change)
    stale = collections_pb.DeleteCollectionRequest(collection="docs", force=True, etag=read.etag)
    with pytest.raises(ConflictError):
        calls.delete_collection(stale)
    assert store.documents()
    fresh = collections_pb.DeleteCollectionRequest(collection="docs", force=True, etag=changed.etag)
    assert calls.delete_collection(fresh).receipt.document_count == 1
