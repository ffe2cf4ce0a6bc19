"""What runs behind the calls: sweeping again after a failure, rebuilding stale indexes, forgetting the old."""

import asyncio
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import Connection
from structlog.testing import capture_logs

from groundwire.api.common.v1 import error_reason_pb2
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1 import maintenance_service_pb2 as maintenance_pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.catalog.outbox import OutboxKind, queue_points
from groundwire.ingest.housekeeping import Housekeeping, Job, Subject
from groundwire.ingest.upkeep import OUTBOX
from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import SystemClock
from groundwire.kernel.errors import StoreUnavailableError
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.vector_store import PointBatch
from groundwire.vectorstores.memory import MemoryVectorStore
from tests.integration.catalog.drafts import make_draft
from tests.integration.ingest.harness import Harness
from tests.integration.ingest.test_crashes import DownStore
from tests.manual_clock import LaterClock
from tests.stubs import by_id, by_source


def eventually(is_true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if is_true():
            return True
        time.sleep(0.02)
    return False


class RebuildableStore(MemoryVectorStore):
    """Wants a rebuild once, and remembers what it was given."""

    rebuilt_above = 0

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
    assert eventually(lambda: harness.service.housekeeping.figures()["rebuild"].runs == 1)
    assert store.rebuilt == []
    store.is_stale = True
    harness.ingest("tides", "b.txt", "The second text of all.")
    assert eventually(lambda: not store.is_stale)
    assert store.rebuilt == harness.live_numbers("tides")


def test_a_failed_sweep_is_tried_again(process: Callable[..., Harness]) -> None:
    store = DownStore()
    harness = process(store)
    harness.create("tides")
    document = harness.ingest("tides", "a.txt", "A text to be deleted.").document
    store.is_down = True
    harness.calls.delete_document(
        pb.DeleteDocumentRequest(collection="tides", reference=by_id(document.document_id), purge=True)
    )
    time.sleep(0.2)
    assert harness.points("tides")
    store.is_down = False
    assert eventually(lambda: harness.points("tides") == [])


def test_answers_are_forgotten_after_a_day(tmp_path: Path) -> None:
    clock = LaterClock()
    harness = Harness(tmp_path, clock=clock).start_without_parser_process()
    request = collections_pb.CreateCollectionRequest(collection="tides", request_id=str(uuid.uuid4()))
    first = harness.calls.create_collection(request)
    clock.ahead = timedelta(hours=25)
    harness.forget()
    request.profile = collection_pb2.PROFILE_BOOK
    with pytest.raises(Exception, match="exists with other settings"):
        harness.calls.create_collection(request)
    request.profile = collection_pb2.PROFILE_GENERAL
    assert harness.calls.create_collection(request).collection.create_time == first.collection.create_time
    harness.close()


@pytest.mark.parametrize("hours", [25, -25])
def test_a_repeated_request_has_one_effect_however_the_clock_is_set(tmp_path: Path, hours: int) -> None:
    """While the process runs, and for the next one."""
    clock = LaterClock()
    harness = Harness(tmp_path, clock=clock).start_without_parser_process()
    harness.create("tides")
    request_id = str(uuid.uuid4())
    harness.ingest("tides", "a.txt", "The old text.", request_id=request_id)
    harness.ingest("tides", "a.txt", "The new text.")
    for start in (False, True):
        if start:
            harness.close()
            harness = Harness(tmp_path, harness.vectors, clock=clock).start_without_parser_process()
        clock.jumped += timedelta(hours=hours)
        harness.forget()
        harness.ingest("tides", "a.txt", "The old text.", request_id=request_id)
        assert harness.text("tides", "a.txt") == "The new text."
    harness.close()


@pytest.mark.parametrize("hours", [25, -25])
def test_a_past_that_is_kept_for_an_hour_goes_after_an_hour_however_the_clock_is_set(
    tmp_path: Path, hours: int
) -> None:
    clock = LaterClock()
    harness = Harness(tmp_path, clock=clock).without_housekeeping()
    settings = collection_pb2.CollectionSettings()
    settings.generation_retention.FromSeconds(3600)
    harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection="tides", settings=settings))
    harness.ingest("tides", "a.txt", "The old text.")
    harness.ingest("tides", "a.txt", "The new text.")
    clock.jumped += timedelta(hours=hours)
    assert harness.service.housekeeping.run_now(("retention",), Budget(60)) == 0
    clock.ahead += timedelta(minutes=61)
    assert harness.service.housekeeping.run_now(("retention",), Budget(60)) == 1
    harness.close()


def test_of_many_failures_the_first_are_told_and_long_messages_are_cut(tmp_path: Path) -> None:
    """120 collections whose index cannot be built, each with a message of 10 kB."""

    def fails(subject: Subject, _budget: Budget) -> int:
        raise StoreUnavailableError(f"{subject.collection} " + "ß" * 5000)

    subjects = [Subject(f"{number}", "default", f"c{number:04}") for number in range(120)]
    failing = Housekeeping(SystemClock(), 60.0)
    failing.add([Job("rebuild", fails, lambda: subjects)])
    with capture_logs(), pytest.raises(StoreUnavailableError):  # to print so many takes a minute
        failing.run_now(("rebuild",), Budget(60))
    harness = Harness(tmp_path).without_housekeeping()
    servicer = replace(harness.service.maintenance, housekeeping=failing)
    told = asyncio.run(servicer.GetHousekeeping(maintenance_pb.GetHousekeepingRequest(), None))
    assert [each.collection for each in told.failures] == [f"c{number:04}" for number in range(100)]
    assert {len(each.message) for each in told.failures} == {2000}
    assert told.jobs[0].failure_count == 120
    assert told.ByteSize() < 1 << 20
    harness.close()


def test_damage_in_one_collection_is_told_and_stops_nothing_else(process: Callable[..., Harness]) -> None:
    harness = process()
    settings = collection_pb2.CollectionSettings(
        chunking=collection_pb2.ChunkingPolicy(chunker=collection_pb2.CHUNKER_SENTENCE),
        duplicate_chunk_policy=collection_pb2.DUPLICATE_CHUNK_POLICY_SKIP_IN_COLLECTION,
    )
    for name in ("tides", "moons"):
        harness.calls.create_collection(collections_pb.CreateCollectionRequest(collection=name, settings=settings))
        harness.ingest(name, "a.md", "# Tides\n\nWater rises twice. The moon pulls the sea.")
        harness.ingest(name, "b.md", "# Oceans\n\nOther words begin. The moon pulls the sea.")
    lose = """DELETE FROM embeddings WHERE embedding_hash IN (SELECT embedding_hash FROM chunks JOIN documents
        USING (document_key) WHERE NOT indexed AND collection_key = (SELECT min(collection_key) FROM collections))"""
    harness.catalog.write(lambda connection: connection.exec_driver_sql(lose))
    # The other collection has the same texts, and with them the same vectors.
    harness.ingest("moons", "b.md", "# Seas\n\nOther words begin. The moon pulls the sea.")
    for name in ("tides", "moons"):
        double = harness.library.get_document(
            library_pb.GetDocumentRequest(collection=name, reference=by_source("a.md"))
        ).document
        harness.delete(name, double.document_id)
    assert eventually(lambda: len(harness.housekeeping_state().failures) == 1)
    (failure,) = harness.housekeeping_state().failures
    assert (failure.job, failure.collection) == ("repeated_chunks", "tides")
    assert failure.reason == error_reason_pb2.ERROR_REASON_DATA_LOSS
    assert failure.failure_count >= 1
    assert failure.HasField("start_time")
    assert eventually(lambda: harness.points("moons") == harness.live_numbers("moons"))
    assert {job.name for job in harness.housekeeping_state().jobs if job.HasField("last_success_time")} >= {
        *("outbox", "repeated_chunks", "unfinished", "requests", "uploads", "vectors")
    }

    repaired = harness.service.long_work.check.check(DEFAULT_TENANT, "tides", Budget(60), lambda _: None, repair=True)
    assert (repaired.findings, repaired.repaired) == (1, 1)
    assert eventually(lambda: not harness.housekeeping_state().failures)
    assert harness.points("tides") == harness.live_numbers("tides")


def test_a_write_that_leaves_nothing_to_do_wakes_nobody(
    process: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch, woken: list[bool]
) -> None:
    harness = process()
    harness.create("tides")
    woken.clear()
    harness.ingest("tides", "a.txt", "Water rises.")
    assert not woken
    harness.ingest("tides", "a.txt", "Water falls.")  # the points of the text before are left
    assert len(woken) == 1
    monkeypatch.setattr(MemoryVectorStore, "upsert", lambda *_: (_ for _ in ()).throw(StoreUnavailableError("down")))
    with pytest.raises(StoreUnavailableError):
        harness.ingest("tides", "b.txt", "Moons pull.")
    assert len(woken) == 2


def test_a_deletion_and_a_restoration_that_fails_wake_housekeeping(
    process: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch, woken: list[bool]
) -> None:
    harness = process()
    harness.create("tides")
    reference = by_id(harness.ingest("tides", "a.txt", "Water rises.").document.document_id)
    woken.clear()
    harness.calls.delete_document(pb.DeleteDocumentRequest(collection="tides", reference=reference))
    assert len(woken) == 1
    monkeypatch.setattr(MemoryVectorStore, "upsert", lambda *_: (_ for _ in ()).throw(StoreUnavailableError("down")))
    with pytest.raises(StoreUnavailableError):
        harness.calls.restore_document(pb.RestoreDocumentRequest(collection="tides", reference=reference))
    assert len(woken) == 2


def test_what_a_dead_process_left_is_counted_and_taken_back(tmp_path: Path) -> None:
    """Half a document and half an index; the rest of the catalog is left alone."""
    store = MemoryVectorStore()
    harness = Harness(tmp_path, store).without_housekeeping()
    assert harness.service.upkeep.recover() == 0
    harness.create("tides")
    harness.ingest("tides", "a.txt", "A text that stays.")
    collection = harness.collection("tides")
    for source in ("b.txt", "c.txt"):
        harness.service.upkeep.catalog.documents.begin(collection, [make_draft("A text", source=source)])
    assert harness.service.housekeeping.run_now(("unfinished",), Budget(60)) == 0, "they are being written"
    harness.service.upkeep.catalog.index_builds.begin(collection, collection.identity)
    harness.close()
    harness = Harness(tmp_path, store).without_housekeeping()
    assert harness.service.upkeep.recover() == 3
    assert harness.service.upkeep.recover() == 0
    assert harness.sources("tides") == ["a.txt"]
    harness.close()


def test_a_generation_that_is_being_written_is_left_alone_whatever_the_clock_says(tmp_path: Path) -> None:
    clock = LaterClock()
    harness = Harness(tmp_path, clock=clock).without_housekeeping()
    harness.create("tides")
    collection = harness.collection("tides")
    documents = harness.service.upkeep.catalog.documents
    (pending,) = documents.begin(collection, [make_draft("A text", source="b.txt")])
    clock.jumped = timedelta(hours=25)
    assert harness.service.housekeeping.run_now(("unfinished",), Budget(60)) == 0
    documents._under_way.clear()  # as if whoever wrote it had gone without taking it back
    clock.jumped = timedelta(hours=-25)
    assert harness.service.housekeeping.run_now(("unfinished",), Budget(60)) == 1
    assert pending.key not in {each.key for each in harness.service.upkeep.catalog.documents.leftovers()}
    harness.close()


def test_one_turn_does_all_tasks_of_all_engine_collections(tmp_path: Path) -> None:
    harness = Harness(tmp_path).without_housekeeping()
    collections = []
    for name in ("tides", "moons"):
        harness.create(name)
        harness.ingest(name, "a.txt", "A text that stays.")
        collections.append(harness.collection(name))

    def queue(connection: Connection) -> None:
        for number in range(45):
            engine_name = collections[number % 2].engine_name
            queue_points(connection, OutboxKind.DELETE_POINTS, DEFAULT_TENANT, engine_name, [10_000 + number])

    harness.catalog.write(queue)
    assert harness.service.housekeeping.run_now((OUTBOX,), Budget(60)) == 45
    assert harness.service.upkeep.catalog.outbox.pending(1) == []
    assert len(harness.points("tides")) == len(harness.points("moons")) == 1
    harness.close()


def test_forgetting_removes_old_answers_and_no_others(tmp_path: Path) -> None:
    clock = LaterClock()
    harness = Harness(tmp_path, clock=clock).without_housekeeping()
    harness.create("tides")
    old, new = str(uuid.uuid4()), str(uuid.uuid4())
    harness.ingest("tides", "a.txt", "The first text.", request_id=old)
    clock.ahead = timedelta(hours=25)
    harness.ingest("tides", "b.txt", "The second text.", request_id=new)
    harness.forget()
    with harness.catalog.read() as connection:
        assert connection.exec_driver_sql("SELECT request_id FROM requests").scalars().all() == [new]
    harness.close()
