"""Several callers at once, repeated calls, and callers that leave."""

import threading
import time
import uuid
from dataclasses import replace
from functools import partial

import pytest

from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.catalog.generations import IndexMovedError, PendingGeneration
from groundwire.ingest.ingesting import DuplicatePolicy, IngestRequest, Progress, Stage
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.parsing.parsed_document import Original
from groundwire.ingest.writing import MAX_INDEX_MOVES
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import (
    AlreadyExistsError,
    CallCancelledError,
    ConflictError,
    DeadlineError,
    EmbeddingMismatchError,
    InvalidRequestError,
    OverloadedError,
    RequestIdReusedError,
    StoreUnavailableError,
    UnavailableError,
)
from groundwire.kernel.identifiers import DEFAULT_TENANT
from tests.integration.ingest.harness import Harness, in_threads
from tests.integration.ingest.test_ingest_document import long_text
from tests.stubs import by_id


def assert_clean(harness: Harness, collection: str) -> None:
    harness.sweep()
    assert harness.points(collection) == sorted(harness.live_numbers(collection))


def test_ingests_of_one_source_wait_for_each_other(harness: Harness, collection: str) -> None:
    texts = [long_text(seed, 10) for seed in range(4)]
    results = in_threads(*(partial(harness.ingest, collection, "a.txt", text) for text in texts))
    assert sorted(result.document.generation for result in results) == [1, 2, 3, 4]
    last = next(index for index, result in enumerate(results) if result.document.generation == 4)
    assert harness.text(collection, "a.txt") == texts[last]
    assert harness.sources(collection) == ["a.txt"]
    assert_clean(harness, collection)


def test_equal_bytes_under_new_sources_at_once_make_one_document(harness: Harness, collection: str) -> None:
    text = long_text(1, 10)
    reuse = ingest_result_pb2.DUPLICATE_POLICY_REUSE
    ingest = partial(harness.ingest, collection, duplicate_policy=reuse)
    results = in_threads(*(partial(ingest, f"{name}.txt", text) for name in "abcd"))
    outcomes = sorted(result.outcome for result in results)
    assert outcomes == [ingest_result_pb2.INGEST_OUTCOME_CREATED] + [ingest_result_pb2.INGEST_OUTCOME_REUSED] * 3
    assert len({result.document.document_id for result in results}) == 1
    assert len(harness.sources(collection)) == 1


def test_ingests_of_many_sources_run_at_once(harness: Harness, collection: str) -> None:
    results = in_threads(*(partial(harness.ingest, collection, f"{seed}.txt", long_text(seed, 6)) for seed in range(8)))
    assert {result.outcome for result in results} == {ingest_result_pb2.INGEST_OUTCOME_CREATED}
    assert len(harness.sources(collection)) == 8
    assert_clean(harness, collection)


def _without_token(response: pb.IngestDocumentResponse) -> pb.IngestDocumentResponse:
    """Leave out what is of the moment of the answer."""
    response.result.ClearField("consistency_token")
    return response


def test_a_repeated_request_gets_the_same_answer_and_has_one_effect(harness: Harness, collection: str) -> None:
    request = pb.IngestDocumentRequest(
        collection=collection, source_uri="a.txt", text=long_text(1, 3), request_id=str(uuid.uuid4())
    )
    first = harness.calls.ingest_document(request)
    harness.ingest(collection, "a.txt", "Something else came in between.")
    assert _without_token(harness.calls.ingest_document(request)) == _without_token(first)
    assert harness.text(collection, "a.txt") == "Something else came in between."


def test_a_request_repeated_at_once_has_one_effect(harness: Harness, collection: str) -> None:
    request = pb.IngestDocumentRequest(
        collection=collection, source_uri="a.txt", text=long_text(2, 20), request_id=str(uuid.uuid4())
    )
    answers = in_threads(*(partial(harness.calls.ingest_document, request) for _ in range(4)))
    assert all(_without_token(answer) == _without_token(answers[0]) for answer in answers)
    assert answers[0].result.document.generation == 1
    assert_clean(harness, collection)


def test_a_repeated_answer_may_be_unchanged(harness: Harness, collection: str) -> None:
    harness.ingest(collection, "a.txt", "The same text as before.")
    request = pb.IngestDocumentRequest(
        collection=collection, source_uri="a.txt", text="The same text as before.", request_id=str(uuid.uuid4())
    )
    first = harness.calls.ingest_document(request)
    assert first.result.outcome == ingest_result_pb2.INGEST_OUTCOME_UNCHANGED
    harness.ingest(collection, "a.txt", "Another text came in between.")
    assert _without_token(harness.calls.ingest_document(request)) == _without_token(first)


def test_a_request_id_serves_one_body_only(harness: Harness, collection: str) -> None:
    request = pb.IngestDocumentRequest(
        collection=collection, source_uri="a.txt", text="The first body.", request_id=str(uuid.uuid4())
    )
    harness.calls.ingest_document(request)
    request.text = "The second body."
    with pytest.raises(RequestIdReusedError):
        harness.calls.ingest_document(request)
    with pytest.raises(RequestIdReusedError):
        harness.calls.delete_document(
            pb.DeleteDocumentRequest(
                collection=collection, reference=by_id("x"), request_id=request.request_id, purge=True
            )
        )
    request.request_id = "not a uuid"
    with pytest.raises(InvalidRequestError):
        harness.calls.ingest_document(request)


def test_creating_and_deleting_can_be_repeated(harness: Harness) -> None:
    create = collections_pb.CreateCollectionRequest(collection="again", request_id=str(uuid.uuid4()))
    delete = collections_pb.DeleteCollectionRequest(collection="again", request_id=str(uuid.uuid4()), force=True)
    created = harness.calls.create_collection(create)
    assert harness.calls.create_collection(create) == created
    document = harness.ingest("again", "a.txt", "Text that goes again.").document
    drop = pb.DeleteDocumentRequest(
        collection="again", reference=by_id(document.document_id), request_id=str(uuid.uuid4()), purge=True
    )
    assert harness.calls.delete_document(drop) == harness.calls.delete_document(drop)
    deleted = harness.calls.delete_collection(delete)
    assert harness.calls.delete_collection(delete) == deleted
    assert harness.calls.create_collection(create) == created
    harness.create("again2")
    other = collections_pb.CreateCollectionRequest(collection="again2")
    other.settings.chunking.target_size = 300
    with pytest.raises(AlreadyExistsError):
        harness.calls.create_collection(other)


def request_for(collection: str, source: str) -> IngestRequest:
    return IngestRequest(DEFAULT_TENANT, collection, source, None, None, None, None, DuplicatePolicy.REUSE, "content")


@pytest.mark.parametrize("sections", [5, 400])
def test_a_caller_that_leaves_stops_the_work_up_to_the_last_point(
    harness: Harness, collection: str, sections: int
) -> None:
    budget, seen = Budget(), list[Progress]()
    content = long_text(7, sections).encode()

    def report(progress: Progress) -> None:
        seen.append(progress)
        if progress.stage is Stage.WRITING:
            budget.cancel()

    with pytest.raises(CallCancelledError):
        harness.service.long_work.documents.ingest(
            request_for(collection, "a.txt"), Original(len(content), content), budget, report
        )
    stages = [progress.stage for progress in seen]
    assert list(dict.fromkeys(stages)) == [Stage.PARSING, Stage.CHUNKING, Stage.EMBEDDING, Stage.WRITING]
    assert harness.sources(collection) == []
    harness.sweep()
    assert harness.points(collection) == []


@pytest.mark.parametrize("error", [RuntimeError, StoreUnavailableError])
def test_a_write_that_fails_takes_its_rows_back_at_once_or_leaves_them_to_the_sweeper(
    harness: Harness, collection: str, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def rows() -> int:
        with harness.catalog.read() as connection:
            pending = "SELECT count(*) FROM generations WHERE state = 'PENDING'"
            return int(connection.exec_driver_sql(pending).scalar_one())

    def fail(*_: object) -> None:
        raise error("the engine")

    def is_locked(*_: object) -> None:
        raise UnavailableError("the catalog")

    use = harness.service.long_work.documents
    monkeypatch.setattr(type(harness.vectors), "upsert", fail)
    with pytest.raises(error, match="the engine"):
        use.ingest(request_for(collection, "a.txt"), Original(11, b"Tides rise."), Budget(), lambda _: None)
    assert rows() == 0
    monkeypatch.setattr("groundwire.catalog.documents.take_back_generation", is_locked)
    with pytest.raises(error, match="the engine"):
        use.ingest(request_for(collection, "a.txt"), Original(11, b"Tides rise."), Budget(), lambda _: None)
    assert rows() == 1
    monkeypatch.undo()
    harness.sweep()
    assert rows() == 0


def test_embedding_progress_counts_chunks(harness: Harness, collection: str) -> None:
    seen = list[Progress]()
    content = long_text(8, 200).encode()
    result = harness.service.long_work.documents.ingest(
        request_for(collection, "a.txt"), Original(len(content), content), Budget(), seen.append
    )
    total = result.document.chunk_count
    embedding = [progress.done for progress in seen if progress.stage is Stage.EMBEDDING]
    assert embedding == sorted(embedding)
    assert (embedding[0], embedding[-1]) == (0, total)
    assert len(embedding) > 2
    assert all(progress.total in {1, total} for progress in seen)


def test_a_lock_is_waited_for_no_longer_than_the_budget() -> None:
    locks = KeyedLocks()
    with locks.hold(("a",), Budget()), locks.hold(("b",), Budget()):
        started = time.monotonic()
        with pytest.raises(DeadlineError), locks.hold(("a",), Budget(0.1)):
            pass
        assert time.monotonic() - started < 10
    assert locks._queues == {}


def test_a_lock_is_given_in_order_of_arrival_to_a_bounded_number_of_callers() -> None:
    locks, order = KeyedLocks(max_waiting=3), list[int]()

    def take(number: int) -> None:
        with locks.hold(("a",), Budget()):
            order.append(number)

    with locks.hold(("a",), Budget()):
        waiting = [threading.Thread(target=take, args=(number,)) for number in range(3)]
        for number, thread in enumerate(waiting, start=2):
            thread.start()
            while len(locks._queues["a",]) < number:
                time.sleep(0.01)
        with pytest.raises(OverloadedError) as caught, locks.hold(("a",), Budget()):
            pass
        with locks.hold(("b",), Budget()):
            assert order == []
    for thread in waiting:
        thread.join()
    assert caught.value.metadata == {"limit": "3"}
    assert order == [0, 1, 2]


def test_slots_bound_who_works_and_those_who_wait_leave_with_their_budget() -> None:
    slots, at_work, most = KeyedLocks(holders=2), list[int](), list[int]()

    def work(number: int) -> None:
        with slots.hold(("a",), Budget()):
            at_work.append(number)
            most.append(len(at_work))
            time.sleep(0.02)
            at_work.remove(number)

    in_threads(*(partial(work, number) for number in range(8)))
    assert len(most) == 8
    assert max(most) == 2
    with slots.hold(("a",), Budget()), slots.hold(("a",), Budget()):  # noqa: SIM117 - two hold, a third waits
        with pytest.raises(DeadlineError), slots.hold(("a",), Budget(0.1)):
            pass
    with slots.hold(("a",), Budget(10)), slots.hold(("a",), Budget(10)):
        pass


def test_a_write_follows_a_moving_index_a_bounded_number_of_times(
    harness: Harness, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = harness.service.long_work.documents
    moves = 0

    def moved(pending: PendingGeneration, *_: object) -> None:
        nonlocal moves
        moves += 1
        if moves > 50:
            raise AssertionError("it never ends")
        raise IndexMovedError(pending.collection)

    monkeypatch.setattr(use.catalog.documents, "publish", moved)
    with pytest.raises(ConflictError):
        use.ingest(request_for(collection, "a.txt"), Original(11, b"Tides rise."), Budget(), lambda _: None)
    assert moves == MAX_INDEX_MOVES
    monkeypatch.undo()
    harness.sweep()
    assert harness.points(collection) == []
    assert harness.ingest(collection, "a.txt", "Tides rise.").document.generation >= 1


def test_a_write_is_refused_and_leaves_nothing_when_another_model_has_embedded_the_collection_meanwhile(
    harness: Harness, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use, before = harness.service.long_work.documents, harness.collection(collection).identity

    def moved(pending: PendingGeneration, *_: object) -> None:
        raise IndexMovedError(pending.collection)

    def follow(left: Collection) -> Collection:
        return replace(left, identity=replace(before, model_name="another", probe_digest="0" * 64))

    monkeypatch.setattr(use.catalog.documents, "publish", moved)
    monkeypatch.setattr(use.catalog.index_builds, "follow", follow)
    with pytest.raises(EmbeddingMismatchError) as caught:
        use.ingest(request_for(collection, "a.txt"), Original(11, b"Tides rise."), Budget(), lambda _: None)
    assert caught.value.metadata == {"expected": "another", "got": before.model_name}
    monkeypatch.undo()
    harness.sweep()
    assert harness.points(collection) == []


def test_a_collection_of_another_model_is_refused(
    harness: Harness, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = harness.service.long_work.documents
    found = harness.collection(collection)

    other_model = replace(found.identity, probe_digest="0" * 64)
    monkeypatch.setattr(use.writer.embedder.embedder, "identity", other_model)
    with pytest.raises(EmbeddingMismatchError) as caught:
        use.ingest(request_for(collection, "a.txt"), Original(4, b"text"), Budget(), lambda _: None)
    assert set(caught.value.metadata) == {"expected", "got"}
