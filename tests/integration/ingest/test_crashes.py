"""A process that dies between two durable steps: the old text keeps serving, and nothing is left over."""

import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import pytest

from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import StoreUnavailableError
from groundwire.vectorstores.memory import MemoryVectorStore
from tests.integration.ingest.harness import CountingEmbedder, Harness
from tests.integration.ingest.test_ingest_document import long_text
from tests.stubs import by_id

OLD, NEW = "# Old\n\n" + long_text(1, 20), "# New\n\n" + long_text(2, 20)
STEPS = [
    ("documents.begin", "before"),
    ("documents.begin", "after"),
    ("cache.put", "before"),
    ("cache.put", "after"),
    ("vectors.upsert", "before"),
    ("vectors.upsert", "after"),
    ("documents.publish", "before"),
    ("documents.publish", "after"),
]


class Died(BaseException):
    """The process is gone."""


class Fuse:
    """Ends the process before or after one step; nothing works afterwards, not even cleaning up."""

    def __init__(self, step: str, moment: str) -> None:
        self.step, self.moment, self.blown = step, moment, False

    def wrap(self, name: str, target: Any) -> Any:
        return Fused(self, name, target)

    def call(self, step: str, method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self.blown:
            raise Died
        if (step, "before") == (self.step, self.moment):
            self.blown = True
            raise Died
        result = method(*args, **kwargs)
        if (step, "after") == (self.step, self.moment):
            self.blown = True
            raise Died
        return result


class Fused:
    def __init__(self, fuse: Fuse, name: str, target: Any) -> None:
        self._fuse, self._name, self._target = fuse, name, target

    def __getattr__(self, attribute: str) -> Any:
        method = getattr(self._target, attribute)
        return lambda *args, **kwargs: self._fuse.call(f"{self._name}.{attribute}", method, *args, **kwargs)


def mine(harness: Harness, fuse: Fuse) -> None:
    """Put the fuse between the ingest use case and everything durable; each batch has one chunk."""
    ingest = harness.service.long_work.documents
    writer = ingest.writer
    catalog = copy(writer.catalog)
    catalog.documents = fuse.wrap("documents", catalog.documents)
    cache = fuse.wrap("cache", writer.embedder.cache)
    embedder = replace(writer.embedder, cache=cache, tokens_per_batch=1)
    writer = replace(writer, catalog=catalog, vectors=fuse.wrap("vectors", writer.vectors), embedder=embedder)
    object.__setattr__(ingest, "writer", writer)
    object.__setattr__(ingest, "catalog", catalog)
    object.__setattr__(ingest, "after_write", lambda *_: None)


@pytest.mark.requirement("S4-27")
@pytest.mark.parametrize(("step", "moment"), STEPS)
@pytest.mark.parametrize("is_update", [False, True], ids=["new", "update"])
def test_a_crash_leaves_the_old_text_or_the_new_one_whole(
    process: Callable[..., Harness], step: str, moment: str, is_update: bool
) -> None:
    vectors = MemoryVectorStore()
    dying = process(vectors)
    dying.create("tides")
    before = dying.ingest("tides", "a.md", OLD).document.generation if is_update else 0
    mine(dying, Fuse(step, moment))
    with pytest.raises(Died):
        dying.ingest("tides", "a.md", NEW)

    is_written = (step, moment) == ("documents.publish", "after")
    harness = process(vectors)
    if is_written or is_update:
        assert harness.text("tides", "a.md") == (NEW if is_written else OLD)
    else:
        assert harness.sources("tides") == []
    harness.sweep()
    assert harness.points("tides") == sorted(harness.live_numbers("tides"))
    again = harness.ingest("tides", "a.md", NEW).document
    assert again.generation > before
    assert harness.text("tides", "a.md") == NEW
    harness.sweep()
    assert harness.points("tides") == sorted(harness.live_numbers("tides"))
    assert len(harness.live_numbers("tides")) == again.chunk_count


def test_only_the_last_batch_of_vectors_is_made_again_after_a_crash(process: Callable[..., Harness]) -> None:
    vectors, embedder = MemoryVectorStore(), CountingEmbedder()
    dying = process(vectors)
    dying.create("tides")
    mine(dying, Fuse("vectors.upsert", "before"))
    with pytest.raises(Died):
        dying.ingest("tides", "a.md", NEW)
    result = process(vectors, embedder).ingest("tides", "a.md", NEW)
    assert result.counts.chunk_count > 2
    assert (result.counts.embedded_count, len(embedder.texts)) == (result.counts.chunk_count, 1)


class DownStore(MemoryVectorStore):
    """Fails on demand."""

    is_down = False

    def upsert(self, collection: str, points: Any, budget: Budget) -> None:
        if self.is_down:
            raise StoreUnavailableError("the store is down", engine="memory")
        super().upsert(collection, points, budget)

    def delete(self, collection: str, numbers: Any, budget: Budget) -> None:
        if self.is_down:
            raise StoreUnavailableError("the store is down", engine="memory")
        super().delete(collection, numbers, budget)


def test_a_store_that_fails_is_told_and_swept_once_it_is_back(process: Callable[..., Harness]) -> None:
    vectors = DownStore()
    harness = process(vectors)
    harness.create("tides")
    harness.ingest("tides", "a.md", OLD)
    vectors.is_down = True
    with pytest.raises(StoreUnavailableError):
        harness.ingest("tides", "a.md", NEW)
    assert harness.text("tides", "a.md") == OLD
    vectors.is_down = False
    assert harness.ingest("tides", "a.md", NEW).document.generation == 2
    harness.sweep()
    assert harness.points("tides") == sorted(harness.live_numbers("tides"))


def test_deleted_points_leave_the_store_without_being_asked_for(process: Callable[..., Harness]) -> None:
    harness = process()
    harness.create("tides")
    document = harness.ingest("tides", "a.md", OLD).document
    receipt = harness.calls.delete_document(
        pb.DeleteDocumentRequest(collection="tides", reference=by_id(document.document_id), purge=True)
    ).receipt
    assert (receipt.document_count, receipt.chunk_count) == (1, document.chunk_count)
    assert harness.sources("tides") == []
    deadline = time.monotonic() + 30
    while harness.points("tides") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert harness.points("tides") == []


def test_a_deleted_collection_leaves_the_store(process: Callable[..., Harness]) -> None:
    harness = process()
    harness.create("tides")
    harness.ingest("tides", "a.md", OLD)
    harness.calls.delete_collection(collections_pb.DeleteCollectionRequest(collection="tides", force=True))
    harness.sweep()
    assert harness.vectors.collections(Budget()) == []
    harness.create("tides")
    assert harness.sources("tides") == []
