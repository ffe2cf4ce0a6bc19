"""Many records at once: they take hardly more statements than few, and another call may be faster."""

import contextvars
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask
from sqlalchemy import event
from sqlalchemy.engine import Engine

from groundwire.api.common.v1 import record_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import record_service_pb2 as pb
from groundwire.catalog import sqlite
from groundwire.catalog.deletions import Deleted
from groundwire.catalog.documents import Documents
from groundwire.catalog.records import Records
from groundwire.ingest import records as ingest_records
from groundwire.ingest.changes import DocumentUpkeep
from groundwire.kernel.budget import Budget
from groundwire.kernel.document import Document
from groundwire.kernel.errors import (
    CallCancelledError,
    DocumentChangedError,
    PermissionDeniedError,
    StoreUnavailableError,
)
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.identity import Identity
from groundwire.kernel.records import StoredRecord
from groundwire.rpc import request_context
from groundwire.rpc.filter_messages import to_filter_message
from tests.integration.ingest.harness import Harness, blocking
from tests.integration.records.keeping import FAQ, memory, memory_id, record

_FEW, _MANY = 3, 60
_SLACK = 20
"""Rows are inserted some dozens at a time, and small parts of the full-text index are merged now and then."""


@contextmanager
def statements() -> Iterator[list[str]]:
    """Note the statements of all threads inside the block, those that go past SQLAlchemy as well.

    Not the switch between synced and other transactions, which a catalog on a server does not have.
    """
    noted: list[str] = []
    driver_rows = sqlite.driver_rows

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        noted.append(statement)

    def note_and_run(connection: Any, statement: str, *given: Any) -> list[Any]:
        if not statement.startswith("PRAGMA synchronous"):
            noted.append(statement)
        return driver_rows(connection, statement, *given)

    event.listen(Engine, "before_cursor_execute", note)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(sqlite, "driver_rows", note_and_run)
        try:
            yield noted
        finally:
            event.remove(Engine, "before_cursor_execute", note)


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    opened = Harness(Path(tmp_path_factory.mktemp("cost"))).without_housekeeping()
    yield opened
    opened.close()


def put(harness: Harness, collection: str, count: int) -> int:
    """Store records of one scope for a person, and return how many statements it took."""
    texts = [record(FAQ, f"Q: {number}?\nA: {number}", scope="entity:ada") for number in range(count)]
    with statements() as noted:
        response = blocking(harness.service.records.BatchUpsertRecords)(
            pb.BatchUpsertRecordsRequest(collection=collection, records=texts)
        )
    assert [each.result.outcome for each in response.outcomes] == [pb.RECORD_OUTCOME_CREATED] * count
    return len(noted)


def delete(harness: Harness, collection: str, *, purge: bool) -> tuple[int, int]:
    """Delete the records of the person; return how many there were, and how many statements it took."""
    selected = to_filter_message(parse_filter({"entity": "ada"}))
    request = pb.DeleteRecordsRequest(collection=collection, filter=selected, permanent=purge)
    with statements() as noted:
        response = blocking(harness.service.records.DeleteRecords)(request)
    return response.receipt.document_count, len(noted)


def _restored(harness: Harness, collection: str, count: int) -> int:
    _deleted(harness, collection, count, purge=False)
    listing = pb.ListRecordsRequest(collection=collection, include_deleted=True, page_size=100)
    hidden = [each.record_id for each in blocking(harness.service.records.ListRecords)(listing).records]
    with statements() as noted:
        response = blocking(harness.service.records.RestoreRecords)(
            pb.RestoreRecordsRequest(collection=collection, record_ids=hidden)
        )
    assert [each.outcome for each in response.results] == [pb.RECORD_OUTCOME_CREATED] * count
    return len(noted)


def _deleted(harness: Harness, collection: str, count: int, *, purge: bool) -> int:
    put(harness, collection, count)
    deleted, needed = delete(harness, collection, purge=purge)
    assert deleted == count
    return needed


@pytest.mark.parametrize(
    "cost",
    [
        pytest.param(put, id="written"),
        pytest.param(lambda *given: _deleted(*given, purge=False), id="deleted"),
        pytest.param(lambda *given: _deleted(*given, purge=True), id="purged"),
        pytest.param(_restored, id="restored"),
    ],
)
def test_many_records_need_hardly_more_statements_than_few(
    harness: Harness, request: pytest.FixtureRequest, cost: Callable[[Harness, str, int], int]
) -> None:
    needed = {}
    for count in (_FEW, _MANY):
        name = f"{request.node.callspec.id}-{count}"
        harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection=name))
        needed[count] = cost(harness, name, count)
    assert needed[_FEW] > 0
    assert needed[_MANY] <= needed[_FEW] + _SLACK


def test_a_record_is_written_with_few_statements(harness: Harness) -> None:
    harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection="single"))
    put(harness, "single", 1)
    # Each costs a round trip to a catalog on a server, and a tenth of a millisecond where it is a file. Once a second a
    # write also stores the time, with two more.
    assert min(put(harness, "single", 1) for _ in range(3)) <= 25


def test_records_that_another_call_restores_first_are_told_as_they_are_then(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection="twice"))
    put(harness, "twice", 2)
    delete(harness, "twice", purge=False)
    records, restore_all = harness.service.records, DocumentUpkeep.restore_all
    hidden = blocking(records.ListRecords)(pb.ListRecordsRequest(collection="twice", include_deleted=True)).records

    def behind_another(self: DocumentUpkeep, tenant: str, name: str, ids: list[str], *given: Any) -> list[Document]:
        restore_all(self, tenant, name, ids[:1], *given)
        return restore_all(self, tenant, name, ids, *given)

    monkeypatch.setattr(DocumentUpkeep, "restore_all", behind_another)
    request = pb.RestoreRecordsRequest(collection="twice", record_ids=[each.record_id for each in hidden])
    results = blocking(records.RestoreRecords)(request).results
    assert [each.outcome for each in results] == [pb.RECORD_OUTCOME_UNCHANGED, pb.RECORD_OUTCOME_CREATED]
    live = blocking(records.ListRecords)(pb.ListRecordsRequest(collection="twice")).records
    assert {each.record_id: each.etag for each in results} == {each.record_id: each.etag for each in live}


def test_restored_records_are_told_as_they_are_now(harness: Harness) -> None:
    harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection="back"))
    put(harness, "back", 2)
    delete(harness, "back", purge=False)
    records, listing = harness.service.records, pb.ListRecordsRequest(collection="back", include_deleted=True)
    ids = [each.record_id for each in blocking(records.ListRecords)(listing).records]
    results = blocking(records.RestoreRecords)(pb.RestoreRecordsRequest(collection="back", record_ids=ids)).results
    assert [each.outcome for each in results] == [pb.RECORD_OUTCOME_CREATED] * 2
    live = {each.record_id: each.etag for each in blocking(records.ListRecords)(listing).records}
    assert {each.record_id: each.etag for each in results} == live


@pytest.mark.parametrize("has_etag", [False, True])
def test_a_change_undoes_nothing_that_another_call_changes_meanwhile(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, *, has_etag: bool
) -> None:
    name, get, is_first = f"raced-{has_etag}".lower(), Records.get, [True]
    harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection=name))
    request = pb.BatchUpsertRecordsRequest(collection=name, records=[memory("The berth is nine.", importance=1)])
    stored = blocking(harness.service.records.BatchUpsertRecords)(request).outcomes[0].result

    def change(path: str, changed: record_pb2.Record) -> None:
        changed.record_id = stored.record_id
        update = pb.UpdateRecordRequest(collection=name, record=changed, update_mask=FieldMask(paths=[path]))
        blocking(harness.service.records.UpdateRecord)(update)

    def before_another(self: Records, *given: Any, **named: Any) -> StoredRecord:
        found = get(self, *given, **named)
        if is_first:
            is_first.clear()
            change("text", record_pb2.Record(text="The berth is twelve."))
        return found

    more = record_pb2.Record(memory=record_pb2.MemoryDetails(importance=5), etag=stored.etag if has_etag else "")
    with monkeypatch.context() as patched:
        patched.setattr(Records, "get", before_another)
        if has_etag:
            with pytest.raises(DocumentChangedError):
                change("memory.importance", more)
        else:
            change("memory.importance", more)
    (left,) = blocking(harness.service.records.ListRecords)(pb.ListRecordsRequest(collection=name)).records
    assert (left.text, left.memory.importance) == ("The berth is twelve.", 1 if has_etag else 5)


@pytest.fixture
def _two_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groundwire.ingest.records._DELETED_AT_ONCE", 2)


@pytest.mark.usefixtures("_two_at_once")
@pytest.mark.parametrize("purge", [False, True], ids=["deleted", "purged"])
def test_others_write_between_two_steps_of_a_deletion(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, *, purge: bool
) -> None:
    name = f"between-{purge}".lower()
    harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection=name))
    put(harness, name, 5)
    delete_all, counts = Documents.delete_all, list[int]()

    def with_a_write_behind(self: Documents, *given: Any, **named: Any) -> Deleted:
        deleted = delete_all(self, *given, **named)
        put(harness, name, 1)  # it would wait for ever for a transaction that is still open
        counts.append(deleted.deletion.documents)
        return deleted

    monkeypatch.setattr(Documents, "delete_all", with_a_write_behind)
    assert delete(harness, name, purge=purge)[0] == 5
    assert counts == [2, 4, 5]
    assert len(blocking(harness.service.records.ListRecords)(pb.ListRecordsRequest(collection=name)).records) == 3


def stop_after_two(harness: Harness, monkeypatch: pytest.MonkeyPatch, request: pb.DeleteRecordsRequest) -> None:
    """Begin a deletion that fails after its first two records."""
    delete_all, left = Documents.delete_all, [1]

    def once(self: Documents, *given: Any, **named: Any) -> Deleted:
        if not left:
            raise StoreUnavailableError("the disk is gone", engine="catalog")
        left.pop()
        return delete_all(self, *given, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Documents, "delete_all", once)
        with pytest.raises(StoreUnavailableError):
            blocking(harness.service.records.DeleteRecords)(request)


@pytest.mark.usefixtures("_two_at_once")
@pytest.mark.parametrize("is_recreated", [False, True], ids=["another body", "another collection"])
def test_a_deletion_that_stopped_is_no_part_of_another_one(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, *, is_recreated: bool
) -> None:
    name = f"another-{is_recreated}".lower()
    ids = [memory_id(number) for number in range(1, 6)]

    def fill() -> None:
        harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection=name))
        given = [memory(f"The berth is {each}.", record_id=each) for each in ids]
        blocking(harness.service.records.BatchUpsertRecords)(
            pb.BatchUpsertRecordsRequest(collection=name, records=given)
        )

    fill()
    request = pb.DeleteRecordsRequest(collection=name, request_id=str(uuid.uuid4()), ids=pb.RecordIds(record_ids=ids))
    stop_after_two(harness, monkeypatch, request)
    if is_recreated:
        harness.calls.delete_collection(collections_pb.DeleteCollectionRequest(collection=name, force=True))
        fill()
    else:
        del request.ids.record_ids[:-1]
    receipt = blocking(harness.service.records.DeleteRecords)(request).receipt
    assert receipt.document_count == len(request.ids.record_ids)


@pytest.mark.usefixtures("_two_at_once")
@pytest.mark.parametrize("purge", [False, True], ids=["deleted", "purged"])
def test_a_deletion_that_stopped_goes_on_when_its_request_comes_again(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, *, purge: bool
) -> None:
    name = f"stopped-{purge}".lower()
    harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection=name))
    put(harness, name, 5)
    records = blocking(harness.service.records.ListRecords)(pb.ListRecordsRequest(collection=name)).records
    request = pb.DeleteRecordsRequest(collection=name, permanent=purge, request_id=str(uuid.uuid4()))
    request.ids.record_ids.extend(each.record_id for each in records)
    stop_after_two(harness, monkeypatch, request)
    listing = pb.ListRecordsRequest(collection=name, include_deleted=True)
    assert (
        sum(not each.HasField("delete_time") for each in blocking(harness.service.records.ListRecords)(listing).records)
        == 3
    )
    first, second = (blocking(harness.service.records.DeleteRecords)(request).receipt for _ in range(2))
    assert (first.document_count, first.chunk_count) == (5, 5)
    assert second.receipt_id == first.receipt_id
    assert not blocking(harness.service.records.ListRecords)(pb.ListRecordsRequest(collection=name)).records
    # The final search looks for what every step deleted.
    (stored,) = harness.service.records.parts.catalog.deletions.ready_of_engine(harness.collection(name).engine_name)
    assert len(set(stored.traces.document_ids)) == len(set(stored.traces.numbers)) == 5
    assert not any(harness.service.records.parts.catalog.deletions.left_of(stored).values())


@pytest.mark.usefixtures("_two_at_once")
def test_a_deletion_whose_caller_has_left_stops_between_two_steps(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection="left"))
    put(harness, "left", 5)
    listing = pb.ListRecordsRequest(collection="left")
    ids = [each.record_id for each in blocking(harness.service.records.ListRecords)(listing).records]
    budget, delete_all = Budget(), Documents.delete_all

    def cancelled_meanwhile(self: Documents, *given: Any, **named: Any) -> Deleted:
        budget.cancel()
        return delete_all(self, *given, **named)

    monkeypatch.setattr(Documents, "delete_all", cancelled_meanwhile)
    with pytest.raises(CallCancelledError):
        harness.service.records.records.delete(Identity(), "left", ids, budget, permanent=False)
    assert len(blocking(harness.service.records.ListRecords)(listing).records) == 3


@pytest.mark.usefixtures("_two_at_once")
def test_nothing_is_purged_where_the_last_step_would_be_refused(harness: Harness) -> None:
    harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection="refused"))
    put(harness, "refused", 5)
    records = blocking(harness.service.records.ListRecords)(pb.ListRecordsRequest(collection="refused")).records
    last = records[-1].document_id
    quoting = record(FAQ, "Q: Who?\nA: Ada.", scope="entity:bob", quoted_document_ids=[last])
    request = pb.BatchUpsertRecordsRequest(collection="refused", records=[quoting])
    blocking(harness.service.records.BatchUpsertRecords)(request)

    def purge() -> None:
        request_context.bind_identity(Identity(scopes=("entity:ada",)))
        delete(harness, "refused", purge=True)

    with pytest.raises(PermissionDeniedError):
        contextvars.copy_context().run(purge)
    left = blocking(harness.service.records.ListRecords)(pb.ListRecordsRequest(collection="refused")).records
    assert len(left) == 6


def test_a_made_id_that_is_taken_is_made_again(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [f"chunk-2026-02-10-0000000{end}" for end in "112"]
    monkeypatch.setattr(ingest_records, "new_record_id", lambda *_: ids.pop(0))
    harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection="docs"))
    results = [
        blocking(harness.service.records.BatchUpsertRecords)(
            pb.BatchUpsertRecordsRequest(collection="docs", records=[memory(text)])
        )
        .outcomes[0]
        .result
        for text in ("The deadline is in May.", "The office is in Bonn.")
    ]
    assert [each.record_id[-1] for each in results] == ["1", "2"]
    assert [each.outcome for each in results] == [pb.RECORD_OUTCOME_CREATED] * 2
