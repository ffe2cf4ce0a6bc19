"""Indexes that the process before did not get to rebuild are rebuilt after a start, with nobody writing."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groundwire.kernel.budget import Budget
from groundwire.vectorstores.qdrant_edge.store import QdrantEdgeVectorStore
from tests.conformance.memory_folder import memory_folder
from tests.integration.ingest.harness import Harness
from tests.integration.ingest.test_housekeeping import eventually

pytest.importorskip("qdrant_edge")

LARGE, SMALL = 6, 2


@pytest.fixture
def open_store() -> Iterator[Callable[[], QdrantEdgeVectorStore]]:
    """Open the folder of the engine again; five points make a collection large."""
    with memory_folder() as folder:
        opened: list[QdrantEdgeVectorStore] = []

        def open_again() -> QdrantEdgeVectorStore:
            for store in opened:
                store.close()
            opened.append(QdrantEdgeVectorStore(folder / "vectors", index_fields_after=4))
            return opened[-1]

        yield open_again
        for store in opened:
            store.close()


def fill(harness: Harness) -> None:
    """Make a large and a small collection, of documents with one chunk."""
    for name, count in (("tides", LARGE), ("moons", SMALL)):
        harness.create(name)
        for number in range(count):
            harness.ingest(name, f"{number}.txt", f"The moon moves the sea for the {number}th time.")


def looked_at(harness: Harness) -> int:
    return harness.service.housekeeping.figures()["rebuild"].runs


def test_a_stop_before_the_rebuild_only_delays_it(
    tmp_path: Path, open_store: Callable[[], QdrantEdgeVectorStore]
) -> None:
    before = Harness(tmp_path, open_store()).without_housekeeping()
    fill(before)
    tides = before.collection("tides").engine_name
    assert before.vectors.count(tides, Budget()) == LARGE
    before.close()

    store = open_store()
    assert store.needs_rebuild(tides, Budget())
    after = Harness(tmp_path, store).start_without_parser_process()
    try:
        assert eventually(lambda: not store.needs_rebuild(tides, Budget()))
        assert list(store.numbers(tides, Budget())) == after.live_numbers("tides")
        assert eventually(lambda: looked_at(after) == 1), "once, and never at the small collection"
    finally:
        after.close()


def test_a_start_with_nothing_to_rebuild_rebuilds_nothing(
    tmp_path: Path, open_store: Callable[[], QdrantEdgeVectorStore]
) -> None:
    store = open_store()
    before = Harness(tmp_path, store).start_without_parser_process()
    fill(before)
    tides = before.collection("tides").engine_name
    assert eventually(lambda: not store.needs_rebuild(tides, Budget()))
    before.close()

    store = open_store()
    served = (store._folder / tides / "CURRENT").read_text()
    after = Harness(tmp_path, store).start_without_parser_process()
    try:
        assert eventually(lambda: looked_at(after) == 1)
        assert after.service.housekeeping.figures()["rebuild"].done == 0
        assert (store._folder / tides / "CURRENT").read_text() == served
    finally:
        after.close()


def test_an_index_that_was_lost_is_filled_and_then_rebuilt(
    tmp_path: Path, open_store: Callable[[], QdrantEdgeVectorStore]
) -> None:
    store = open_store()
    before = Harness(tmp_path, store).without_housekeeping()
    fill(before)
    tides = before.collection("tides").engine_name
    before.close()
    store.close()
    shutil.rmtree(store._folder / tides)

    store = open_store()
    after = Harness(tmp_path, store).start_without_parser_process()
    try:
        assert eventually(lambda: not store.unverified())
        assert eventually(lambda: not store.needs_rebuild(tides, Budget()))
        assert list(store.numbers(tides, Budget())) == after.live_numbers("tides")
    finally:
        after.close()
