"""Reindex and Reembed: built beside the serving index, moved to in one step, joined, cancelled, resumed."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from sqlalchemy import Connection, text

from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.catalog import index_builds
from groundwire.catalog.index_builds import IndexBuilds, LivePoints
from groundwire.catalog.lexical_index import LexicalCheck
from groundwire.ingest.index_builds import IndexBuilt
from groundwire.ingest.ingesting import Progress, Stage
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import (
    CallCancelledError,
    CollectionNotFoundError,
    ConflictError,
    DataLossError,
    EmbeddingMismatchError,
    StoreUnavailableError,
)
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.store_findings import FindingKind
from groundwire.kernel.vector_store import PointBatch
from groundwire.vectorstores.memory import MemoryVectorStore
from tests.integration.ingest.harness import DIMENSIONS, CountingEmbedder, Harness
from tests.integration.ingest.test_ingest_document import long_text
from tests.stubs import by_id

OTHER_DIMENSIONS = 48


def collection_of(harness: Harness, name: str = "tides") -> Collection:
    return harness.collection(name)


def reindex(harness: Harness, report: Callable[[Progress], None] = lambda _: None, **options: Any) -> IndexBuilt:
    budget = options.get("budget", Budget(60))
    return harness.service.long_work.builder.rebuild(DEFAULT_TENANT, "tides", budget, report)


def reembed(harness: Harness, report: Callable[[Progress], None] = lambda _: None, **options: Any) -> IndexBuilt:
    budget = options.get("budget", Budget(60))
    return harness.service.long_work.builder.rebuild(DEFAULT_TENANT, "tides", budget, report, reembeds=True)


def fill(harness: Harness, documents: int = 3) -> None:
    harness.create("tides")
    for number in range(documents):
        harness.ingest("tides", f"{number}.md", f"# Tides {number}\n\n" + long_text(number, 12))


def indexed(harness: Harness) -> list[int]:
    """Return the numbers of the live chunks that searches find."""
    statement = (
        "SELECT chunk_number FROM chunks JOIN generations USING (generation_key) WHERE state = 'LIVE' AND indexed"
    )
    with harness.catalog.read() as connection:
        return sorted(connection.exec_driver_sql(statement).scalars())


def assert_sound(harness: Harness) -> None:
    """Both stores agree, and nothing of a build is left."""
    harness.sweep()
    found: list[object] = []
    check = harness.service.long_work.check.check
    report = check(DEFAULT_TENANT, "", Budget(60), found.append, repair=False)
    assert report.findings == 0, [each for each in found if not isinstance(each, Progress)]
    assert harness.points("tides") == indexed(harness)
    assert harness.vectors.collections(Budget()) == [collection_of(harness).engine_name]
    with harness.catalog.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM index_builds").scalar() == 0


class Gate:
    """Holds a build up between its batches."""

    def __init__(self) -> None:
        self.is_reached, self.is_open = threading.Event(), threading.Event()

    def __call__(self, _: Progress) -> None:
        self.is_reached.set()
        assert self.is_open.wait(30)


class SlowStore(MemoryVectorStore):
    """Stops at the first write to an engine collection that is none of those known."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[str] = set()
        self.writes_to_new = 0
        self.at_new: Callable[[], None] = lambda: None

    def upsert(self, collection: str, points: PointBatch, budget: Budget) -> None:
        if self.known and collection not in self.known:
            self.writes_to_new += 1
            self.at_new()
        super().upsert(collection, points, budget)


def test_a_reindexed_collection_answers_as_before(process: Callable[..., Harness]) -> None:
    harness = process()
    fill(harness)
    before, numbers = collection_of(harness), harness.points("tides")
    harness.embedder.texts.clear()
    stages: list[Progress] = []
    built = reindex(harness, stages.append)
    after = collection_of(harness)
    assert built == IndexBuilt(len(numbers), 0, before.identity)
    assert (after.uid, after.identity) == (before.uid, before.identity)
    assert after.engine_name != before.engine_name
    assert harness.embedder.texts == []
    assert [progress.stage for progress in stages] == sorted((p.stage for p in stages), key=list(Stage).index)
    assert_sound(harness)
    assert harness.points("tides") == numbers


def test_reindexing_mends_both_indexes(process: Callable[..., Harness]) -> None:
    harness = process()
    fill(harness)
    engine_name = collection_of(harness).engine_name
    harness.vectors.delete(engine_name, harness.points("tides")[:3], Budget())
    harness.vectors.upsert(
        engine_name, PointBatch([2**50], harness.embedder.embed_documents(["moon"], Budget()), [{}]), Budget()
    )
    harness.catalog.write(lambda c: c.exec_driver_sql("DELETE FROM lexical_postings"))
    reindex(harness)
    assert_sound(harness)


def test_what_is_written_meanwhile_is_not_lost(process: Callable[..., Harness]) -> None:
    store = SlowStore()
    harness = process(store)
    fill(harness)
    store.known = set(store.collections(Budget()))
    document = harness.ingest("tides", "1.md", "# Tides 1\n\n" + long_text(1, 12)).document

    def meanwhile() -> None:
        if store.writes_to_new == 1:
            harness.ingest("tides", "new.md", "# New\n\n" + long_text(50, 8))
            harness.ingest("tides", "0.md", "# Changed\n\n" + long_text(51, 8))
            harness.delete("tides", document.document_id)

    store.at_new = meanwhile
    reindex(harness)
    assert harness.sources("tides") == ["0.md", "2.md", "new.md"]
    assert_sound(harness)


def test_a_collection_of_the_same_name_that_came_meanwhile_is_left_alone(
    process: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = process()
    fill(harness)

    def another(*_: object) -> None:
        harness.calls.delete_collection(collections_pb.DeleteCollectionRequest(collection="tides", force=True))
        fill(harness, 1)

    monkeypatch.setattr(LexicalCheck, "rebuild", another)
    with pytest.raises(CollectionNotFoundError):
        reindex(harness)
    monkeypatch.undo()
    assert harness.sources("tides") == ["0.md"]
    assert_sound(harness)


def test_a_document_that_is_replaced_just_before_the_move_leaves_no_points_in_the_new_index(
    process: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its replaced generation is kept for searches of the past, which ask no engine for it."""
    harness = process()
    create_with(harness, generation_retention=Duration(seconds=3600))
    harness.ingest("tides", "0.md", "# Tides\n\n" + long_text(0, 12))
    monkeypatch.setattr(LexicalCheck, "rebuild", lambda *_: harness.ingest("tides", "0.md", "# Changed\n\nMoon."))
    reindex(harness)
    monkeypatch.undo()
    assert_sound(harness)


def test_filter_keys_that_change_meanwhile_are_those_of_the_new_index(
    process: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = process()
    fill(harness)
    page = harness.library.list_documents(library_pb.ListDocumentsRequest(collection="tides"))
    update = pb.UpdateDocumentRequest(collection="tides", reference=by_id(page.documents[0].document_id))
    update.document.fields.project = "moon"
    update.update_mask.paths.append("fields.project")
    monkeypatch.setattr(LexicalCheck, "rebuild", lambda *_: harness.calls.update_document(update))
    reindex(harness)
    monkeypatch.undo()
    assert_sound(harness)
    engine_name, where = collection_of(harness).engine_name, parse_filter({"project": "moon"})
    vector = harness.embedder.embed_query("tides", Budget())
    found = harness.vectors.search(engine_name, vector, 100, Budget(), where=where)
    assert len(found) == page.documents[0].chunk_count


@contextmanager
def moved_during(harness: Harness) -> Iterator[None]:
    """Move the index right behind the first points that are written to the engine collection of before."""
    upsert, moved = harness.vectors.upsert, threading.Event()

    def upsert_then_move(collection: str, points: PointBatch, budget: Budget) -> None:
        upsert(collection, points, budget)
        if not moved.is_set():
            moved.set()
            reindex(harness)

    object.__setattr__(harness.vectors, "upsert", upsert_then_move)
    yield
    object.__setattr__(harness.vectors, "upsert", upsert)
    assert moved.is_set()


def test_a_document_that_was_being_written_during_the_move_gets_its_points(process: Callable[..., Harness]) -> None:
    """Its points went to the old engine collection; publishing it notices that."""
    harness = process()
    fill(harness)
    with moved_during(harness):
        harness.ingest("tides", "late.md", "# Late\n\n" + long_text(60, 8))
    assert "late.md" in harness.sources("tides")
    assert_sound(harness)


def test_a_document_that_was_being_restored_during_the_move_gets_its_points(process: Callable[..., Harness]) -> None:
    harness = process()
    fill(harness)
    reference = by_id(harness.ingest("tides", "late.md", "# Late\n\n" + long_text(60, 8)).document.document_id)
    harness.calls.delete_document(pb.DeleteDocumentRequest(collection="tides", reference=reference))
    with moved_during(harness):
        harness.calls.restore_document(pb.RestoreDocumentRequest(collection="tides", reference=reference))
    assert "late.md" in harness.sources("tides")
    assert_sound(harness)


def test_readers_and_writers_go_on_until_the_end(process: Callable[..., Harness]) -> None:
    harness, is_over = process(), threading.Event()
    fill(harness)
    failures: list[Exception] = []

    def write(worker: int) -> None:
        round_ = 0
        try:
            while not is_over.wait(0.01):  # or the writers take all of the processor, and the end comes later
                round_ += 1
                text = f"# {worker} {round_}\n\n" + long_text(worker * 100 + round_, 4)
                harness.ingest("tides", f"w{worker}-{round_ % 4}.md", text)
        except Exception as error:  # noqa: BLE001 - any failure fails the test
            failures.append(error)

    writers = [threading.Thread(target=write, args=(worker,)) for worker in range(3)]
    for writer in writers:
        writer.start()
    for _ in range(5):
        reindex(harness)
    is_over.set()
    for writer in writers:
        writer.join()
    assert failures == []
    assert_sound(harness)


def wait_for_runs(harness: Harness) -> None:
    """Wait for the runs whose last callers have left: they end just after them."""
    ends_at = time.monotonic() + 30
    while harness.service.long_work.builder.runs._runs:
        assert time.monotonic() < ends_at
        time.sleep(0.01)


def test_cancelled_nothing_has_changed(process: Callable[..., Harness]) -> None:
    store = SlowStore()
    harness = process(store)
    fill(harness)
    before = collection_of(harness)
    store.known = set(store.collections(Budget()))
    budget = Budget()
    store.at_new = budget.cancel
    with pytest.raises(CallCancelledError):
        reindex(harness, budget=budget)
    assert collection_of(harness) == before
    wait_for_runs(harness)
    assert_sound(harness)


def test_a_store_that_fails_leaves_the_old_index_serving(process: Callable[..., Harness]) -> None:
    store = SlowStore()
    harness = process(store)
    fill(harness)
    before = collection_of(harness)
    store.known = set(store.collections(Budget()))

    def fail() -> None:
        raise StoreUnavailableError("the store is down", engine="memory")

    store.at_new = fail
    with pytest.raises(StoreUnavailableError):
        reindex(harness)
    assert collection_of(harness) == before
    assert_sound(harness)


def test_a_killed_build_leaves_the_old_index_and_is_swept_at_the_next_start(process: Callable[..., Harness]) -> None:
    store = MemoryVectorStore()
    harness = process(store)
    fill(harness)
    before = collection_of(harness)
    builds = harness.service.long_work.parts.catalog.index_builds
    half_built = builds.begin(before, before.identity)
    store.create_collection(half_built.engine_name, DIMENSIONS, Budget())
    store.upsert(
        half_built.engine_name, PointBatch([1], harness.embedder.embed_documents(["moon"], Budget()), [{}]), Budget()
    )
    harness = process(store)
    assert collection_of(harness) == before
    assert_sound(harness)


def test_the_same_request_joins_a_run_that_is_going_on(process: Callable[..., Harness]) -> None:
    store, gate = SlowStore(), Gate()
    harness = process(store)
    fill(harness)
    store.known = set(store.collections(Budget()))
    store.at_new = lambda: gate(Progress(Stage.WRITING, 0, 1))
    results: list[IndexBuilt] = []
    callers = [threading.Thread(target=lambda: results.append(reindex(harness))) for _ in range(3)]
    for caller in callers:
        caller.start()
    assert gate.is_reached.wait(10)
    with pytest.raises(ConflictError):
        reembed(harness)
    gate.is_open.set()
    for caller in callers:
        caller.join()
    assert len(set(results)) == 1
    assert len(results) == 3
    assert_sound(harness)


def test_a_collection_without_a_vector_in_the_catalog_is_told(process: Callable[..., Harness]) -> None:
    harness = process()
    fill(harness)
    before = collection_of(harness)
    harness.catalog.write(lambda connection: connection.exec_driver_sql("DELETE FROM embeddings"))
    with pytest.raises(DataLossError):
        reindex(harness)
    assert collection_of(harness) == before
    assert reembed(harness).embedded > 0
    assert_sound(harness)


@pytest.mark.requirement("S1-92")
@pytest.mark.requirement("C01")
def test_a_server_with_another_model_refuses_writes_until_the_collection_was_embedded_anew(
    process: Callable[..., Harness],
) -> None:
    store = MemoryVectorStore()
    fill(process(store))
    harness = process(store, CountingEmbedder(OTHER_DIMENSIONS))
    old, count = collection_of(harness), len(harness.live_numbers("tides"))
    with pytest.raises(EmbeddingMismatchError):
        harness.ingest("tides", "new.md", "# New\n\nMoon.")
    harness.embedder.texts.clear()
    built = reembed(harness)
    new = collection_of(harness)
    assert built == IndexBuilt(count, len(set(harness.embedder.texts)), harness.embedder.identity)
    assert (old.identity.dimensions, new.identity.dimensions) == (DIMENSIONS, OTHER_DIMENSIONS)
    assert new.engine_name != old.engine_name
    assert_sound(harness)
    assert harness.ingest("tides", "new.md", "# New\n\nMoon.").counts.embedded_count == 1


@pytest.mark.requirement("S1-113")
@pytest.mark.requirement("S1-78")
@pytest.mark.requirement("S1-92")
def test_every_chunk_and_document_names_the_new_model(process: Callable[..., Harness]) -> None:
    store = MemoryVectorStore()
    first = process(store)
    fill(first)
    before = first.library.list_chunks(library_pb.ListChunksRequest(collection="tides", page_size=1000)).chunks
    harness = process(store, CountingEmbedder(OTHER_DIMENSIONS))
    time.sleep(0.01)
    reembed(harness)
    request = library_pb.ListChunksRequest(collection="tides", page_size=1000, include_embedding=True)
    chunks = harness.library.list_chunks(request).chunks
    assert {chunk.embedding_model for chunk in chunks} == {harness.embedder.identity.model_name}
    assert {len(chunk.embedding) for chunk in chunks} == {OTHER_DIMENSIONS}
    assert [chunk.chunk_id for chunk in chunks] == [chunk.chunk_id for chunk in before]
    assert [chunk.content for chunk in chunks] == [chunk.content for chunk in before]
    documents = harness.library.list_documents(library_pb.ListDocumentsRequest(collection="tides")).documents
    assert {document.embedding_model for document in documents} == {harness.embedder.identity.model_name}
    for now, then in zip(chunks, before, strict=True):
        assert now.embed_time.ToNanoseconds() > then.embed_time.ToNanoseconds()
        assert now.create_time == then.create_time


def test_a_build_reports_every_vector_and_every_point_and_wakes_housekeeping(
    process: Callable[..., Harness], woken: list[bool]
) -> None:
    store = MemoryVectorStore()
    fill(process(store))
    harness = process(store, CountingEmbedder(OTHER_DIMENSIONS))
    count, reported = len(harness.live_numbers("tides")), list[Progress]()
    woken.clear()
    reembed(harness, reported.append)
    assert {each.stage: each for each in reported} == {
        Stage.EMBEDDING: Progress(Stage.EMBEDDING, count, count),
        Stage.WRITING: Progress(Stage.WRITING, count, count),
    }
    assert woken == [True]


def test_an_interrupted_embedding_goes_on_where_it_was(process: Callable[..., Harness]) -> None:
    store = MemoryVectorStore()
    fill(process(store, embed_batch_tokens=1), documents=8)
    embedder = CountingEmbedder(OTHER_DIMENSIONS)
    harness = process(store, embedder, embed_batch_tokens=1)
    budget, has_left = Budget(), threading.Event()

    def stop_after_some() -> None:
        if len(embedder.texts) >= 3:
            budget.cancel()
            assert has_left.wait(30)

    embedder.texts.clear()
    embedder.before_embedding = stop_after_some
    with pytest.raises(CallCancelledError):
        reembed(harness, budget=budget)
    has_left.set()
    wait_for_runs(harness)
    made = list(embedder.texts)
    assert 3 <= len(made) < len(harness.live_numbers("tides"))
    assert collection_of(harness).identity.dimensions == DIMENSIONS

    again = CountingEmbedder(OTHER_DIMENSIONS)
    harness = process(store, again, embed_batch_tokens=1)
    again.texts.clear()
    harness.forget()
    reembed(harness)
    assert not set(made) & set(again.texts)
    assert_sound(harness)


def test_documents_deleted_during_the_embedding_stay_deleted(process: Callable[..., Harness]) -> None:
    store = MemoryVectorStore()
    first = process(store)
    fill(first)
    documents = first.library.list_documents(library_pb.ListDocumentsRequest(collection="tides")).documents
    embedder = CountingEmbedder(OTHER_DIMENSIONS)
    harness = process(store, embedder)
    gone = [documents[0].document_id]

    def delete_one() -> None:
        if gone:
            harness.delete("tides", gone.pop())

    embedder.before_embedding = delete_one
    built = reembed(harness)
    assert harness.sources("tides") == ["1.md", "2.md"]
    assert built.vectors == len(harness.live_numbers("tides"))
    assert_sound(harness)


def test_the_vectors_of_the_old_model_are_forgotten_later(process: Callable[..., Harness]) -> None:
    store = MemoryVectorStore()
    fill(process(store))
    harness = process(store, CountingEmbedder(OTHER_DIMENSIONS))
    reembed(harness)
    harness.catalog.write(
        lambda connection: connection.exec_driver_sql("UPDATE embeddings SET create_steady = -1000000000000")
    )
    harness.forget()
    with harness.catalog.read() as connection:
        sizes = connection.exec_driver_sql("SELECT DISTINCT length(vector) FROM embeddings").scalars().all()
    assert sizes == [4 * OTHER_DIMENSIONS]
    assert_sound(harness)


def test_embedding_again_with_the_same_model_embeds_nothing(process: Callable[..., Harness]) -> None:
    harness = process()
    fill(harness)
    assert reembed(harness).embedded == 0
    assert_sound(harness)


class FailingEmbedder(CountingEmbedder):
    """Does not answer after some texts."""

    limit = 10**9

    def embed_documents(self, texts: Sequence[str], budget: Budget, *, urgent: bool = False) -> Vectors:
        if len(self.texts) >= self.limit:
            raise StoreUnavailableError("the model does not answer", engine="model")
        return super().embed_documents(texts, budget, urgent=urgent)


def test_a_model_that_fails_leaves_the_old_vectors_serving(process: Callable[..., Harness]) -> None:
    store = MemoryVectorStore()
    fill(process(store), documents=8)
    embedder = FailingEmbedder(OTHER_DIMENSIONS)
    harness = process(store, embedder, embed_batch_tokens=1)
    before = collection_of(harness)
    embedder.limit = len(embedder.texts) + 5
    with pytest.raises(StoreUnavailableError):
        reembed(harness)
    assert collection_of(harness) == before
    embedder.limit = 10**9
    assert reembed(harness).embedded < len(harness.live_numbers("tides"))
    assert_sound(harness)


LEVELS = collection_pb2.ChunkingPolicy(chunker=collection_pb2.CHUNKER_HIERARCHY, min_chars=1, minimum_size=1)
SENTENCES = collection_pb2.ChunkingPolicy(chunker=collection_pb2.CHUNKER_SENTENCE)


def test_a_write_to_an_index_that_a_server_lost_has_it_built_whole(process: Callable[..., Harness]) -> None:
    store = SlowStore()
    harness = process(store)
    fill(harness)
    lost = collection_of(harness).engine_name
    store.drop_collection(lost, Budget())
    store.known, holds_part = {lost}, list[bool]()
    store.at_new = lambda: holds_part.append(lost in store.collections(Budget()))
    harness.create("tides")
    harness.ingest("tides", "late.md", "# Late\n\n" + long_text(9, 12))
    until = time.monotonic() + 30
    while collection_of(harness).engine_name == lost:
        assert time.monotonic() < until
        time.sleep(0.02)
    # Under the name that searches use until then, a part would pass for the whole.
    assert holds_part
    assert not any(holds_part)
    assert "late.md" in harness.sources("tides")
    assert_sound(harness)


def test_a_collection_whose_index_was_never_made_gets_it_with_its_first_write(process: Callable[..., Harness]) -> None:
    harness = process()
    harness.create("tides")
    engine_name = collection_of(harness).engine_name
    harness.vectors.drop_collection(engine_name, Budget())
    harness.ingest("tides", "0.md", "# Tides\n\n" + long_text(0, 12))
    assert collection_of(harness).engine_name == engine_name
    assert_sound(harness)


def create_with(harness: Harness, **settings: Any) -> None:
    request = collections_pb.CreateCollectionRequest(
        collection="tides", settings=collection_pb2.CollectionSettings(**settings)
    )
    harness.calls.create_collection(request)


def lacking(harness: Harness) -> int:
    """Return how many chunks have no vector of the model of the collection, whatever they are for."""
    statement = text(
        "SELECT count(*) FROM chunks WHERE embedding_hash NOT IN "
        "(SELECT embedding_hash FROM embeddings WHERE identity_digest = :model)"
    )
    model = collection_of(harness).identity.digest
    with harness.catalog.read() as connection:
        return int(connection.execute(statement, {"model": model}).scalar_one())


def test_sections_keep_their_vectors_when_a_collection_moves_to_another_model(process: Callable[..., Harness]) -> None:
    store = MemoryVectorStore()
    first = process(store)
    create_with(first, chunking=LEVELS)
    first.ingest("tides", "a.md", "# Moon\n\nIt pulls.\n\n## Spring\n\nHigh water.\n\n## Neap\n\nLow water.")
    harness = process(store, CountingEmbedder(OTHER_DIMENSIONS))
    harness.embedder.texts.clear()
    built = reembed(harness)
    document = harness.library.list_documents(library_pb.ListDocumentsRequest(collection="tides")).documents[0]
    with harness.catalog.read() as connection:
        uppers = connection.exec_driver_sql("SELECT count(*) FROM chunks WHERE upper").scalar()
    assert uppers == 4
    assert built.vectors == document.chunk_count
    assert built.embedded == len(set(harness.embedder.texts)) > document.chunk_count
    assert lacking(harness) == 0
    assert_sound(harness)


def test_a_repeated_chunk_is_found_after_its_double_went_under_another_model(process: Callable[..., Harness]) -> None:
    store = MemoryVectorStore()
    first = process(store)
    create_with(
        first, chunking=SENTENCES, duplicate_chunk_policy=collection_pb2.DUPLICATE_CHUNK_POLICY_SKIP_IN_COLLECTION
    )
    # Headings are embedded with the content, so that the repeated chunk has a vector of its own.
    double = first.ingest("tides", "a.md", "# Tides\n\nWater rises twice. The moon pulls the sea.").document
    first.ingest("tides", "b.md", "# Oceans\n\nOther words begin. The moon pulls the sea.")
    points = first.points("tides")
    assert len(points) < len(first.live_numbers("tides"))
    harness = process(store, CountingEmbedder(OTHER_DIMENSIONS))
    reembed(harness)
    harness.delete("tides", double.document_id)
    harness.sweep()
    assert harness.sources("tides") == ["b.md"]
    assert harness.points("tides") == indexed(harness) != []
    assert_sound(harness)


def test_a_document_deleted_softly_comes_back_under_another_model(process: Callable[..., Harness]) -> None:
    """With its sections, which no point of the engine stands for."""
    store = MemoryVectorStore()
    first = process(store)
    create_with(first, chunking=LEVELS)
    document = first.ingest("tides", "a.md", "# Moon\n\nIt pulls.\n\n## Spring\n\nHigh water.").document
    hide = pb.DeleteDocumentRequest(collection="tides", reference=by_id(document.document_id), purge=False)
    first.calls.delete_document(hide)
    harness = process(store, CountingEmbedder(OTHER_DIMENSIONS))
    assert reembed(harness).embedded > 0
    harness.embedder.texts.clear()
    harness.calls.restore_document(pb.RestoreDocumentRequest(collection="tides", reference=by_id(document.document_id)))
    assert harness.embedder.texts == []
    assert harness.points("tides") == indexed(harness) != []
    assert lacking(harness) == 0
    assert_sound(harness)


def test_a_server_with_another_model_restores_nothing_and_makes_no_vectors_for_it(
    process: Callable[..., Harness],
) -> None:
    store = MemoryVectorStore()
    first = process(store)
    fill(first)
    reference = by_id(first.ingest("tides", "late.md", "# Late\n\nMoon.").document.document_id)
    first.calls.delete_document(pb.DeleteDocumentRequest(collection="tides", reference=reference))
    first.catalog.write(lambda connection: connection.exec_driver_sql("DELETE FROM embeddings"))
    harness = process(store, CountingEmbedder(OTHER_DIMENSIONS))
    restore = pb.RestoreDocumentRequest(collection="tides", reference=reference)
    with pytest.raises(EmbeddingMismatchError):
        harness.calls.restore_document(restore)
    assert harness.embedder.texts == []
    reembed(harness)
    harness.calls.restore_document(restore)
    assert "late.md" in harness.sources("tides")
    assert_sound(harness)


def test_a_lost_vector_of_a_section_is_reported_and_made_again(process: Callable[..., Harness]) -> None:
    harness = process()
    create_with(harness, chunking=LEVELS)
    harness.ingest("tides", "a.md", "# Moon\n\nIt pulls.\n\n## Spring\n\nHigh water.")
    lose = "DELETE FROM embeddings WHERE embedding_hash NOT IN (SELECT embedding_hash FROM chunks WHERE indexed)"
    harness.catalog.write(lambda connection: connection.exec_driver_sql(lose))
    lost = lacking(harness)
    assert lost > 0
    check, found = harness.service.long_work.check.check, list[Any]()
    assert check(DEFAULT_TENANT, "", Budget(60), found.append, repair=True).findings == lost
    findings = [each for each in found if not isinstance(each, Progress)]
    assert {each.kind for each in findings} == {FindingKind.EMBEDDING_MISSING}
    assert all(each.repaired for each in findings)
    assert lacking(harness) == 0
    assert_sound(harness)


@pytest.mark.parametrize("is_rewritten", [False, True], ids=["published", "rewritten"])
def test_writers_do_not_wait_for_a_whole_collection_to_be_read(
    process: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch, is_rewritten: bool
) -> None:
    """What was written during a build is read before the move, and of what came since only that."""
    harness = process()
    fill(harness)
    read_while_writers_wait: list[bool] = []
    original, write = index_builds._live_points, harness.catalog.write
    writing = threading.local()

    def live_points(connection: Connection, collection: Collection) -> LivePoints:
        read_while_writers_wait.append(getattr(writing, "now", False))
        return original(connection, collection)

    def marked_write(work: Callable[[Connection], Any], **options: Any) -> Any:
        def marked(connection: Connection) -> Any:
            writing.now = True
            try:
                return work(connection)
            finally:
                writing.now = False

        return write(marked, **options)

    def after_the_first_comparison(*_: object) -> None:
        harness.ingest("tides", "new.md", "# New\n\nA tide that nobody had seen.")
        if is_rewritten:
            page = harness.library.list_documents(library_pb.ListDocumentsRequest(collection="tides"))
            harness.delete("tides", next(each.document_id for each in page.documents if each.source_uri == "0.md"))

    monkeypatch.setattr(index_builds, "_live_points", live_points)
    monkeypatch.setattr(harness.catalog, "write", marked_write)
    monkeypatch.setattr(LexicalCheck, "rebuild", after_the_first_comparison)
    reindex(harness)
    assert read_while_writers_wait == [False] * (2 if is_rewritten else 1)
    monkeypatch.undo()
    assert "new.md" in harness.sources("tides")
    assert ("0.md" in harness.sources("tides")) is not is_rewritten
    assert_sound(harness)


@pytest.mark.parametrize(("most", "moves"), [(1, [True]), (0, [False, True])])
def test_writers_wait_for_a_few_points_only(
    process: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch, most: int, moves: list[bool]
) -> None:
    harness = process()
    fill(harness)
    move, attempts = IndexBuilds.move, list[bool]()

    def counted(self: IndexBuilds, *args: Any, **options: Any) -> bool:
        attempts.append(move(self, *args, **options))
        return attempts[-1]

    monkeypatch.setattr(IndexBuilds, "move", counted)
    monkeypatch.setattr("groundwire.ingest.index_builds._POINTS_WHILE_WRITERS_WAIT", most)
    new = "# New\n\nA tide that nobody had seen."
    monkeypatch.setattr(LexicalCheck, "rebuild", lambda *_: harness.ingest("tides", "new.md", new))
    reindex(harness)
    monkeypatch.undo()
    assert attempts == moves
    assert_sound(harness)
