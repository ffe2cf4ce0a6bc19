"""What runs behind the calls: sweeping again after a failure, rebuilding stale indexes, forgetting the old."""

import time
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.sweep_leftovers import SweepLeftovers
from groundwire.kernel.budget import Budget
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.vector_store import PointBatch
from groundwire.vectorstores.memory import MemoryVectorStore
from tests.integration.ingest.harness import Harness
from tests.integration.ingest.test_crashes import DownStore


def eventually(is_true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if is_true():
            return True
        time.sleep(0.02)
    return False


class RebuildableStore(MemoryVectorStore):
    """Wants a rebuild once, and remembers what it was given."""

    def __init__(self) -> None:
        super().__init__()
        self.rebuilt: list[int] = []
        self.is_stale = False

    def needs_rebuild(self, collection: str, budget: Budget) -> bool:
        return self.is_stale

    def rebuild(self, collection: str, points: Callable[[], Iterable[PointBatch]], budget: Budget) -> None:
        assert budget.remaining_s() is not None
        self.rebuilt = [number for batch in points() for number in batch.numbers]
        self.is_stale = False


def test_a_stale_index_is_rebuilt_from_the_catalog(process: Callable[..., Harness]) -> None:
    store = RebuildableStore()
    harness = process(store)
    harness.create("tides")
    harness.ingest("tides", "a.txt", "The first text of all.")
    harness.ingest("tides", "b.txt", "The second text of all.")
    assert store.rebuilt == []
    store.is_stale = True
    harness.service.housekeeping.wrote(harness.collection_calls.use.get(DEFAULT_TENANT, "tides").collection)
    assert eventually(lambda: not store.is_stale)
    assert store.rebuilt == harness.live_numbers("tides")


def test_a_failed_sweep_is_tried_again(process: Callable[..., Harness]) -> None:
    store = DownStore()
    harness = process(store)
    harness.create("tides")
    document = harness.ingest("tides", "a.txt", "A text to be deleted.").document
    store.is_down = True
    harness.calls.delete_document(pb.DeleteDocumentRequest(collection="tides", document_id=document.document_id))
    time.sleep(0.2)
    assert harness.points("tides")
    store.is_down = False
    assert eventually(lambda: harness.points("tides") == [])


class Later:
    """A clock that is ahead."""

    def __init__(self, ahead: timedelta) -> None:
        self.ahead = ahead

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead


def test_answers_are_forgotten_after_a_day(tmp_path: Path) -> None:
    harness = Harness(tmp_path, clock=Later(timedelta(0))).start_without_parser_process()
    request = pb.CreateCollectionRequest(collection="tides", request_id=str(uuid.uuid4()))
    first = harness.collection_calls.create(request)
    harness.close()
    harness = Harness(tmp_path, clock=Later(timedelta(hours=25))).start_without_parser_process()
    sweep = harness.service.housekeeping._sweep
    assert isinstance(sweep, SweepLeftovers)
    sweep.forget()
    request.profile = collection_pb2.PROFILE_BOOK
    with pytest.raises(Exception, match="exists with other settings"):
        harness.collection_calls.create(request)
    request.profile = collection_pb2.PROFILE_DOCUMENTS
    assert harness.collection_calls.create(request).collection.created_time == first.collection.created_time
    harness.close()
