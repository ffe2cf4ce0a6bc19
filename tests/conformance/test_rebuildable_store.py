"""Rebuilding the index of a qdrant-edge collection beside the serving one."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CallCancelledError, CollectionNotFoundError, StoreUnavailableError
from groundwire.kernel.filters import Comparator, Comparison
from groundwire.kernel.vector_store import PointBatch, Rebuildable, VectorStore
from groundwire.vectorstores.factory import open_vector_store
from groundwire.vectorstores.qdrant_edge.store import QdrantEdgeVectorStore
from tests.conformance.memory_folder import memory_folder
from tests.conformance.processes import descendants, is_running
from tests.conformance.vector_store import DIMENSIONS, NAME, batch, unit_vectors

pytest.importorskip("qdrant_edge")

COUNT = 600
VECTORS = unit_vectors(COUNT + 100)
QUERIES = unit_vectors(10, seed=5)

INTERRUPTED = """
import sys, time
from pathlib import Path
from groundwire.kernel.budget import Budget
from groundwire.vectorstores.qdrant_edge.store import QdrantEdgeVectorStore
from tests.conformance.test_rebuildable_store import points
from tests.conformance.vector_store import NAME

store = QdrantEdgeVectorStore(Path(sys.argv[1]))

def slowly():
    for part in points():
        yield part
        print("building", flush=True)
        time.sleep(0.05)
    print("optimising", flush=True)

store.rebuild(NAME, slowly, Budget())
print("rebuilt", flush=True)
time.sleep(60)
"""


def points() -> Iterator[PointBatch]:
    """Yield the points of the collection as a catalog would."""
    for start in range(0, COUNT, 100):
        numbers = range(start + 1, start + 101)
        yield batch(numbers, VECTORS[start : start + 100])


def results(store: VectorStore) -> list[list[tuple[int, float]]]:
    """Return what the queries find, with and without a filter."""
    where = Comparison("level", Comparator.LTE, 400)
    return [
        [(hit.number, round(hit.similarity, 5)) for hit in store.search(NAME, query, 10, Budget(), where=condition)]
        for query in QUERIES
        for condition in (None, where)
    ]


def copies(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / NAME).iterdir() if path.is_dir())


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as folder:
        yield folder


@pytest.fixture
def store(folder: Path) -> Iterator[QdrantEdgeVectorStore]:
    store = QdrantEdgeVectorStore(folder, rebuild_after=500, rebuild_growth=0.5)
    store.create_collection(NAME, DIMENSIONS, Budget())
    for part in points():
        store.upsert(NAME, part, Budget())
    yield store
    store.close()


def test_only_qdrant_edge_needs_rebuilding(store: VectorStore, folder: Path) -> None:
    assert isinstance(store, Rebuildable)
    assert not isinstance(open_vector_store("memory:", data_dir=folder), Rebuildable)


def test_a_rebuild_changes_no_result_and_leaves_one_copy(store: QdrantEdgeVectorStore, folder: Path) -> None:
    before, old = results(store), copies(folder)
    store.rebuild(NAME, points, Budget())
    assert results(store) == before
    assert len(copies(folder)) == 1
    assert copies(folder) != old
    store.close()
    reopened = open_vector_store(f"qdrant-edge:{folder}", data_dir=folder)
    assert results(reopened) == before
    reopened.close()


def test_a_rebuild_pays_for_many_points_outside_the_index_that_are_a_good_part_of_all(
    store: QdrantEdgeVectorStore,
) -> None:
    assert store.needs_rebuild(NAME, Budget())
    store.rebuild(NAME, points, Budget())
    assert not store.needs_rebuild(NAME, Budget())
    store._rebuild_after = 40
    store.upsert(NAME, batch(range(1000, 1100), unit_vectors(100, seed=2)), Budget())
    assert not store.needs_rebuild(NAME, Budget())
    store._rebuild_growth = 0.1
    assert store.needs_rebuild(NAME, Budget())


def test_filters_count_as_slow_from_when_indexes_of_fields_are_missed_until_they_are_built(
    store: QdrantEdgeVectorStore,
) -> None:
    store._index_fields_after = COUNT
    store.needs_rebuild(NAME, Budget())
    assert store.filters_by_index(NAME), "so few points are filtered fast without"
    store._index_fields_after = COUNT - 1
    assert store.needs_rebuild(NAME, Budget())
    assert not store.filters_by_index(NAME)
    store.rebuild(NAME, points, Budget())
    assert store.filters_by_index(NAME)
    assert not store.needs_rebuild(NAME, Budget())
    assert store.filters_by_index(NAME)


def test_writes_during_a_build_survive_it(store: QdrantEdgeVectorStore) -> None:
    replaced, added = unit_vectors(1, seed=8), unit_vectors(40, seed=9)
    store.upsert(NAME, batch([900], unit_vectors(1, seed=7)), Budget())

    def while_writing() -> Iterator[PointBatch]:
        for step, part in enumerate(points()):
            yield part
            if step == 2:
                store.upsert(NAME, batch([7], replaced), Budget())
                store.delete(NAME, [8, 599], Budget())
                store.upsert(NAME, batch(range(1000, 1040), added), Budget())

    store.rebuild(NAME, while_writing, Budget())
    numbers = list(store.numbers(NAME, Budget()))
    assert numbers == [*(n for n in range(1, COUNT + 1) if n not in {8, 599}), 900, *range(1000, 1040)]
    assert store.count(NAME, Budget()) == len(numbers)
    assert store.search(NAME, replaced[0], 1, Budget())[0].number == 7
    assert store.search(NAME, added[39], 1, Budget(), where=Comparison("level", Comparator.EQ, 1039))[0].number == 1039


def test_a_rebuild_repairs_what_the_catalog_has_and_the_engine_lacks(store: QdrantEdgeVectorStore) -> None:
    before = results(store)
    store.delete(NAME, range(1, 300), Budget())
    store.rebuild(NAME, points, Budget())
    assert results(store) == before


def test_searches_and_writes_go_on_while_a_rebuild_runs(store: QdrantEdgeVectorStore) -> None:
    before = results(store)
    building = threading.Thread(target=store.rebuild, args=(NAME, points, Budget()))
    building.start()
    rounds = 0
    while building.is_alive():
        assert results(store) == before
        number = 2000 + rounds
        store.upsert(NAME, batch([number], -VECTORS[:1]), Budget())
        rounds += 1
    building.join()
    assert rounds > 2
    assert set(store.numbers(NAME, Budget())) == {*range(1, COUNT + 1), *range(2000, 2000 + rounds)}


def test_a_rebuild_that_is_stopped_leaves_everything_as_it_was(store: QdrantEdgeVectorStore, folder: Path) -> None:
    before, old = results(store), copies(folder)
    yielded: list[PointBatch] = []
    budget = Budget()

    def counted() -> Iterator[PointBatch]:
        for part in points():
            yielded.append(part)
            if len(yielded) == 2:
                budget.cancel()
            yield part

    with pytest.raises(CallCancelledError):
        store.rebuild(NAME, counted, budget)
    assert len(yielded) == 2
    assert copies(folder) == old
    assert results(store) == before
    assert store.needs_rebuild(NAME, Budget())


def test_a_failing_source_leaves_everything_as_it_was(store: QdrantEdgeVectorStore, folder: Path) -> None:
    old = copies(folder)

    def broken() -> Iterator[PointBatch]:
        yield next(points())
        raise StoreUnavailableError("the catalog is away")

    with pytest.raises(StoreUnavailableError, match="catalog"):
        store.rebuild(NAME, broken, Budget())
    assert copies(folder) == old
    assert store.count(NAME, Budget()) == COUNT


def test_dropping_a_collection_ends_its_rebuild(store: QdrantEdgeVectorStore, folder: Path) -> None:
    is_building = threading.Event()

    def slowly() -> Iterator[PointBatch]:
        for part in points():
            yield part
            is_building.set()
            time.sleep(0.05)

    with ThreadPoolExecutor(1) as pool:
        building = pool.submit(store.rebuild, NAME, slowly, Budget())
        assert is_building.wait(30)
        store.drop_collection(NAME, Budget())
        with pytest.raises(CollectionNotFoundError):
            building.result(30)
    assert not (folder / NAME).exists()
    with pytest.raises(CollectionNotFoundError):
        store.rebuild(NAME, points, Budget())


@pytest.mark.parametrize("moment", ["building", "optimising", "rebuilt"])
def test_killing_the_owner_leaves_one_whole_copy_and_no_process(
    store: QdrantEdgeVectorStore, folder: Path, moment: str
) -> None:
    before = results(store)
    store.close()
    owner = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert owner.stdout is not None
    while owner.stdout.readline().strip() != moment:
        assert owner.poll() is None
    time.sleep(random.Random(moment).random() * 0.05)
    helpers = descendants(owner.pid)
    assert helpers
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    reopened = open_vector_store(f"qdrant-edge:{folder}", data_dir=folder)
    assert results(reopened) == before
    assert list(reopened.numbers(NAME, Budget())) == list(range(1, COUNT + 1))
    assert len(copies(folder)) == 1
    reopened.close()
    deadline = time.monotonic() + 30
    while any(map(is_running, helpers)) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not [pid for pid in helpers if is_running(pid)]
