"""Long work as operations: it goes on without its caller, survives the process, and is stopped when told to."""

import asyncio
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.longrunning import operations_pb2
from google.protobuf.duration_pb2 import Duration

from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb
from groundwire.catalog.operations import Operations
from groundwire.client.long_running import metadata_of, response_of
from groundwire.ingest.index_builds import IndexBuilder
from groundwire.ingest.servicer.operations import MAX_FINDINGS, OperationRunner
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import (
    CallCancelledError,
    CollectionNotFoundError,
    ConflictError,
    ExhaustedError,
    GroundwireError,
    OperationNotFoundError,
    PreconditionError,
    RequestIdReusedError,
    StoreUnavailableError,
)
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.vector_store import PointBatch
from tests.integration.ingest.harness import Harness
from tests.integration.ingest.test_reindexing import Gate, SlowStore, assert_sound, collection_of, fill
from tests.manual_clock import ManualClock

Process = Callable[..., Harness]


class Held(SlowStore):
    """Holds builds up before their first write until the gate is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate()

    def hold(self, harness: Harness) -> None:
        self.known = {collection_of(harness).engine_name}
        self.at_new = lambda: self.gate(None)  # type: ignore[arg-type] # it hears nothing


@pytest.fixture
def store() -> Held:
    return Held()


@pytest.fixture
def harness(process: Process, store: Held) -> Harness:
    """A process with a full collection, in which builds wait for the gate."""
    harness = process(vectors=store)
    fill(harness, documents=2)
    store.hold(harness)
    return harness


def calls_of(harness: Harness) -> OperationRunner:
    return harness.service.operations.operations


def reindex(harness: Harness, **fields: str) -> operations_pb2.Operation:
    return harness.calls.reindex(pb.ReindexRequest(collection="tides", **fields))


def ended(harness: Harness, name: str) -> operations_pb2.Operation:
    """Wait for the end of an operation and return it."""
    until = time.monotonic() + 100
    while not (operation := calls_of(harness).get(name)).done:
        assert time.monotonic() < until
        time.sleep(0.02)
    return operation


def test_work_goes_on_after_the_call_that_began_it(harness: Harness, store: Held) -> None:
    before = collection_of(harness).engine_name
    begun = reindex(harness)
    assert not begun.done
    assert store.gate.is_reached.wait(30)
    metadata = metadata_of(calls_of(harness).get(begun.name))
    assert (metadata.method, metadata.collection, metadata.cancel_requested) == ("Reindex", "tides", False)
    assert not metadata.HasField("end_time")
    store.gate.is_open.set()
    operation = ended(harness, begun.name)
    result = response_of(operation, pb.IndexBuildResult)
    assert result.vector_count == len(harness.points("tides")) > 0
    assert metadata_of(operation).HasField("end_time")
    assert collection_of(harness).engine_name != before


def test_a_cancelled_operation_changes_nothing(harness: Harness, store: Held) -> None:
    before = collection_of(harness).engine_name
    begun = reindex(harness)
    assert store.gate.is_reached.wait(30)
    with pytest.raises(PreconditionError):
        calls_of(harness).delete(begun.name)
    calls_of(harness).cancel(begun.name)
    operation = ended(harness, begun.name)
    with pytest.raises(CallCancelledError):
        response_of(operation, pb.IndexBuildResult)
    assert metadata_of(operation).cancel_requested
    store.gate.is_open.set()
    assert collection_of(harness).engine_name == before
    calls_of(harness).cancel(begun.name)
    assert calls_of(harness).get(begun.name) == operation
    calls_of(harness).delete(begun.name)
    with pytest.raises(OperationNotFoundError):
        calls_of(harness).get(begun.name)


def test_the_next_process_goes_on_with_what_was_cut_off(process: Process, harness: Harness, store: Held) -> None:
    before = collection_of(harness).engine_name
    begun = reindex(harness)
    assert store.gate.is_reached.wait(30)
    closing = threading.Thread(target=calls_of(harness).close)
    closing.start()
    while not calls_of(harness)._pool._shutdown:  # before that it is told to stop
        time.sleep(0.01)
    store.gate.is_open.set()
    closing.join(30)
    assert not calls_of(harness).get(begun.name).done
    assert collection_of(harness).engine_name == before
    again = process(vectors=store)
    calls_of(again).resume()
    result = response_of(ended(again, begun.name), pb.IndexBuildResult)
    assert result.vector_count == len(again.points("tides")) > 0
    assert_sound(again)


def test_what_is_done_when_a_process_stops_is_not_done_again(
    harness: Harness, store: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    reindexed, is_done, may_return = IndexBuilder.rebuild, threading.Event(), threading.Event()

    def held_at_its_end(*arguments: Any, **options: Any) -> Any:
        built = reindexed(*arguments, **options)
        is_done.set()
        assert may_return.wait(30)
        return built

    monkeypatch.setattr(IndexBuilder, "rebuild", held_at_its_end)
    store.gate.is_open.set()
    begun = reindex(harness)
    assert is_done.wait(30)
    closing = threading.Thread(target=calls_of(harness).close)
    closing.start()
    while not calls_of(harness)._pool._shutdown:  # before that it is told to stop
        time.sleep(0.01)
    may_return.set()
    closing.join(30)
    assert response_of(calls_of(harness).get(begun.name), pb.IndexBuildResult).vector_count > 0


def test_what_is_begun_while_a_process_stops_is_left_to_the_next_one(
    process: Process, harness: Harness, store: Held
) -> None:
    store.gate.is_open.set()
    calls_of(harness).close()
    begun = reindex(harness)
    assert not calls_of(harness).get(begun.name).done
    again = process(vectors=store)
    calls_of(again).resume()
    assert response_of(ended(again, begun.name), pb.IndexBuildResult).vector_count > 0


def test_what_this_process_works_on_is_not_taken_up_as_left_behind(harness: Harness, store: Held) -> None:
    begun = reindex(harness)
    assert store.gate.is_reached.wait(30)
    assert calls_of(harness).resume(at_start=False) == 0
    store.gate.is_open.set()
    assert response_of(ended(harness, begun.name), pb.IndexBuildResult).vector_count > 0


def failing_catalog(monkeypatch: pytest.MonkeyPatch, failures: Iterator[GroundwireError]) -> threading.Event:
    """Let the catalog store no end of an operation while there are failures; return what is set by the first."""
    finish, has_failed = Operations.finish, threading.Event()

    def store_end(*arguments: Any) -> None:
        for failure in failures:
            has_failed.set()
            raise failure
        finish(*arguments)

    monkeypatch.setattr(Operations, "finish", store_end)
    return has_failed


@pytest.mark.parametrize("failure", [StoreUnavailableError("it is down"), ExhaustedError("no space", what="disk")])
def test_an_end_that_the_catalog_cannot_store_is_stored_when_it_works_again(
    harness: Harness, store: Held, monkeypatch: pytest.MonkeyPatch, failure: GroundwireError
) -> None:
    has_failed = failing_catalog(monkeypatch, iter([failure]))
    begun = reindex(harness)
    store.gate.is_open.set()
    assert has_failed.wait(30)
    assert response_of(ended(harness, begun.name), pb.IndexBuildResult).vector_count > 0


def test_a_process_stops_although_the_catalog_cannot_store_an_end_and_the_next_one_repeats_the_work(
    process: Process, harness: Harness, store: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as while_it_fails:
        has_failed = failing_catalog(while_it_fails, repeat(StoreUnavailableError("it is down")))
        begun = reindex(harness)
        store.gate.is_open.set()
        assert has_failed.wait(30)
        calls_of(harness).close()
        assert not calls_of(harness).get(begun.name).done
    again = process(vectors=store)
    calls_of(again).resume()
    assert response_of(ended(again, begun.name), pb.IndexBuildResult).vector_count > 0


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_a_starting_service_takes_up_what_a_killed_one_left(tmp_path: Path, is_cancelled: bool) -> None:
    killed = Harness(tmp_path)
    killed.create("tides")
    left = Operations(killed.catalog)
    body = pb.CheckStoreRequest(collection="tides").SerializeToString()
    row = left.begin(DEFAULT_TENANT, str(uuid.uuid4()), "CheckStore", "tides", body)
    if is_cancelled:
        left.request_cancel(DEFAULT_TENANT, row.operation_id)
    killed.close()
    started = Harness(tmp_path).start()
    operation = ended(started, f"operations/{row.operation_id}")
    if is_cancelled:
        with pytest.raises(CallCancelledError):
            response_of(operation, pb.StoreReport)
    else:
        assert operation.HasField("response")
    started.close()


def test_different_work_on_one_collection_at_a_time_is_aborted(harness: Harness, store: Held) -> None:
    first, joined = reindex(harness), reindex(harness)
    assert first.name != joined.name
    assert store.gate.is_reached.wait(30)
    other = harness.calls.reembed(pb.ReembedRequest(collection="tides"))
    with pytest.raises(ConflictError):
        response_of(ended(harness, other.name), pb.IndexBuildResult)
    calls_of(harness).cancel(first.name)
    assert not calls_of(harness).get(joined.name).done
    store.gate.is_open.set()
    assert response_of(ended(harness, joined.name), pb.IndexBuildResult).vector_count > 0
    assert store.writes_to_new == 1


def test_a_request_id_names_one_operation_for_good(process: Process, harness: Harness, store: Held) -> None:
    store.gate.is_open.set()
    request_id = str(uuid.uuid4())
    begun = reindex(harness, request_id=request_id)
    operation = ended(harness, begun.name)
    assert reindex(harness, request_id=request_id) == operation
    again = process(vectors=store)
    assert reindex(again, request_id=request_id) == operation
    with pytest.raises(RequestIdReusedError):
        again.calls.check_store(pb.CheckStoreRequest(collection="tides", request_id=request_id))
    found = calls_of(again).page(None, 10)
    assert [each.name for each, _ in found] == [begun.name]


def test_a_report_shows_a_thousand_findings_and_counts_all(harness: Harness) -> None:
    count = MAX_FINDINGS + 7
    vectors = np.ones((count, harness.embedder.identity.dimensions), dtype=np.float32)
    orphans = PointBatch([2**50 + number for number in range(count)], vectors, [{}] * count)
    harness.vectors.upsert(collection_of(harness).engine_name, orphans, Budget())
    begun = harness.calls.check_store(pb.CheckStoreRequest(collection="tides"))
    report = response_of(ended(harness, begun.name), pb.StoreReport)
    assert (len(report.findings), report.finding_count >= count, report.consistent) == (MAX_FINDINGS, True, False)


def test_work_on_a_collection_that_is_not_there_is_no_operation(harness: Harness) -> None:
    with pytest.raises(CollectionNotFoundError):
        harness.calls.reindex(pb.ReindexRequest(collection="none"))
    assert calls_of(harness).page(None, 10) == []


def test_operations_are_forgotten_a_week_after_their_end(process: Process) -> None:
    clock = ManualClock()
    harness = process(clock=clock)
    harness.create("tides")
    old = harness.calls.check_store(pb.CheckStoreRequest(collection="tides")).name
    ended(harness, old)
    clock.advance(days=6)
    ended(harness, harness.calls.check_store(pb.CheckStoreRequest(collection="tides")).name)
    assert calls_of(harness).get(old).done
    clock.advance(days=2)
    new = harness.calls.check_store(pb.CheckStoreRequest(collection="tides")).name
    with pytest.raises(OperationNotFoundError):
        calls_of(harness).get(old)
    assert ended(harness, new).done


async def test_waiting_ends_with_the_work_or_the_time_and_holds_no_thread(harness: Harness, store: Held) -> None:
    servicer = harness.service.operations
    begun = await asyncio.to_thread(reindex, harness)

    def wait(seconds: float) -> operations_pb2.WaitOperationRequest:
        limit = Duration()
        limit.FromNanoseconds(int(seconds * 1e9))
        return operations_pb2.WaitOperationRequest(name=begun.name, timeout=limit)

    assert not (await servicer.WaitOperation(wait(0.1), None)).done
    no_time = operations_pb2.WaitOperationRequest(name=begun.name, timeout=Duration(seconds=-(2**62)))
    assert not (await servicer.WaitOperation(no_time, None)).done
    # More than there are threads for reads: others are answered all the same.
    watchers = [asyncio.create_task(servicer.WaitOperation(wait(30), None)) for _ in range(12)]
    endless = operations_pb2.WaitOperationRequest(name=begun.name, timeout=Duration(seconds=2**62))
    watchers.append(asyncio.create_task(servicer.WaitOperation(endless, None)))
    await asyncio.sleep(0.2)
    async with asyncio.timeout(5):
        looked = await servicer.GetOperation(operations_pb2.GetOperationRequest(name=begun.name), None)
    assert not looked.done
    store.gate.is_open.set()
    assert [operation.done for operation in await asyncio.gather(*watchers)] == [True] * 13


async def test_pages_of_operations_end_at_three_mebibytes_and_lose_none(harness: Harness) -> None:
    """A response of a purge names up to a hundred sources of a kilobyte each, and more."""
    stored = Operations(harness.catalog)
    sample = [f"{'x' * 20_000}{number}" for number in range(100)]
    for _ in range(5):
        row = stored.begin(DEFAULT_TENANT, str(uuid.uuid4()), "PurgeDocuments", "tides", b"")
        outcome = operations_pb2.Operation(name=f"operations/{row.operation_id}", done=True)
        outcome.response.Pack(ingest_pb.PurgeDocumentsResponse(purge_sample=sample))
        stored.finish(DEFAULT_TENANT, row.operation_id, outcome.SerializeToString())
    request, names, sizes = operations_pb2.ListOperationsRequest(name="operations", page_size=1000), [], []
    while True:
        page = await harness.service.operations.ListOperations(request, None)
        names += [each.name for each in page.operations]
        sizes.append(page.ByteSize())
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert len(set(names)) == len(names) == 5
    assert len(sizes) == 5
    assert max(sizes) < 3 << 20
