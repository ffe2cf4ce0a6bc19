"""Engines that notice what happened to their files while nobody had them open: the port `Recoverable`."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CollectionNotFoundError, StoreUnavailableError
from groundwire.kernel.vector_store import Recoverable
from groundwire.vectorstores.factory import open_vector_store
from tests.conformance.memory_folder import memory_folder
from tests.conformance.processes import engine_pids
from tests.conformance.vector_store import DIMENSIONS, NAME, batch, unit_vectors

COUNT = 1500
"""More than Chroma keeps in its log: the vectors of the first thousand are nowhere but in its graph."""
VECTORS = unit_vectors(COUNT)
OTHER = "gw-other"


@pytest.fixture(scope="module", params=["qdrant-edge", "chroma"])
def scheme(request: pytest.FixtureRequest) -> str:
    pytest.importorskip({"qdrant-edge": "qdrant_edge", "chroma": "chromadb"}[request.param])
    return str(request.param)


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as folder:
        yield folder


def opened(scheme: str, folder: Path) -> Recoverable:
    store = open_vector_store(f"{scheme}:{folder}", data_dir=folder)
    assert isinstance(store, Recoverable)
    return store


def fill(store: Recoverable, name: str = NAME) -> None:
    """Write what the catalog would have; parts of a hundred, as documents come."""
    for start in range(0, COUNT, 100):
        numbers = range(start + 1, start + 101)
        store.upsert(name, batch(numbers, VECTORS[start : start + 100]), Budget())


@pytest.fixture(scope="module")
def closed_store(scheme: str) -> Iterator[Path]:
    """What a store leaves that was closed: one large collection and a small one."""
    with memory_folder() as folder:
        store = opened(scheme, folder)
        store.create_collection(NAME, DIMENSIONS, Budget())
        store.create_collection(OTHER, DIMENSIONS, Budget())
        fill(store)
        store.upsert(OTHER, batch([1, 2, 3], VECTORS[:3]), Budget())
        store.close()
        yield folder


@pytest.fixture
def closed(closed_store: Path, folder: Path) -> Path:
    """A copy of it."""
    subprocess.run(["cp", "-r", "--sparse=always", f"{closed_store}/.", str(folder)], check=True)
    return folder


def found(store: Recoverable, name: str = NAME) -> set[int]:
    """Return the numbers of all points, and see that each of some is found by its own vector."""
    numbers = set(store.numbers(name, Budget()))
    for number in sorted(numbers)[::100]:
        assert store.search(name, VECTORS[number - 1], 1, Budget())[0].number == number
    return numbers


def vectors_of(scheme: str, folder: Path) -> Path:
    """Return the file that holds the vectors of the large collection."""
    if scheme == "qdrant-edge":
        (path,) = (folder / NAME).rglob("chunk_0.mmap")
        return path
    return max(folder.rglob("data_level0.bin"), key=lambda path: path.stat().st_size)


def _zero(path: Path) -> None:
    size = path.stat().st_size
    os.truncate(path, 0)
    os.truncate(path, size)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "cut": lambda path: os.truncate(path, path.stat().st_size // 2),
    "zeroed": _zero,
}


def test_what_was_closed_is_trusted(scheme: str, closed: Path) -> None:
    store = opened(scheme, closed)
    assert store.unverified() == []
    assert found(store) == set(range(1, COUNT + 1))
    store.close()


def test_what_nobody_closed_is_searched_but_not_trusted(scheme: str, closed: Path) -> None:
    for seal in closed.rglob("*.seal"):
        seal.unlink()
    store = opened(scheme, closed)
    assert store.unverified() == sorted([NAME, OTHER])
    assert found(store) == set(range(1, COUNT + 1))
    for name in (NAME, OTHER):
        store.mark_verified(name, Budget())
    assert store.unverified() == []
    store.close()


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_vectors_are_never_searched(scheme: str, closed: Path, damage: str) -> None:
    DAMAGES[damage](vectors_of(scheme, closed))
    store = opened(scheme, closed)
    for _ in range(2):
        with pytest.raises(StoreUnavailableError, match="filled from the catalog"):
            store.search(NAME, VECTORS[0], 1, Budget())
    assert store.unverified() == [NAME]
    assert found(store, OTHER) == {1, 2, 3}
    fill(store)
    with pytest.raises(StoreUnavailableError):
        store.search(NAME, VECTORS[0], 1, Budget())
    store.mark_verified(NAME, Budget())
    assert found(store) == set(range(1, COUNT + 1))
    store.close()
    reopened = opened(scheme, closed)
    assert reopened.unverified() == []
    assert found(reopened) == set(range(1, COUNT + 1))
    reopened.close()


@pytest.mark.parametrize("damage", ["deleted", "cut"])
def test_damage_to_what_nobody_closed_shows_when_it_is_read(scheme: str, closed: Path, damage: str) -> None:
    for seal in closed.rglob("*.seal"):
        seal.unlink()
    DAMAGES[damage](vectors_of(scheme, closed))
    store = opened(scheme, closed)
    assert NAME in store.unverified()
    try:
        points = store.fetch(NAME, range(1, COUNT + 1), Budget())
    except StoreUnavailableError:
        with pytest.raises(StoreUnavailableError, match="filled from the catalog"):
            store.search(NAME, VECTORS[0], 1, Budget())
        assert not list(store.numbers(NAME, Budget()))
    else:
        # qdrant-edge made the file as long as it was again: only the second half was cut off, where nothing stood.
        assert scheme == "qdrant-edge"
        assert np.allclose(points.vectors, VECTORS, atol=1e-6)
    fill(store)
    store.mark_verified(NAME, Budget())
    assert found(store) == set(range(1, COUNT + 1))
    store.close()


def test_a_collection_that_is_lost_is_not_searched_before_it_is_whole(scheme: str, folder: Path) -> None:
    store = opened(scheme, folder)
    store.distrust([NAME])
    assert store.unverified() == [NAME]
    with pytest.raises(CollectionNotFoundError):
        store.search(NAME, VECTORS[0], 1, Budget())
    store.create_collection(NAME, DIMENSIONS, Budget())
    store.upsert(NAME, batch([1], VECTORS[:1]), Budget())
    with pytest.raises(StoreUnavailableError):
        store.search(NAME, VECTORS[0], 1, Budget())
    store.close()
    again = opened(scheme, folder)
    assert again.unverified() == [NAME]
    with pytest.raises(StoreUnavailableError):
        again.search(NAME, VECTORS[0], 1, Budget())
    again.mark_verified(NAME, Budget())
    assert found(again) == {1}
    again.distrust([NAME])
    assert found(again) == {1}
    again.close()


def test_a_collection_that_is_dropped_is_no_longer_doubted(scheme: str, folder: Path) -> None:
    store = opened(scheme, folder)
    store.distrust([NAME])
    store.mark_verified(NAME, Budget())
    assert store.unverified() == []
    store.create_collection(NAME, DIMENSIONS, Budget())
    store.distrust([NAME])
    store.drop_collection(NAME, Budget())
    assert store.unverified() == []
    store.create_collection(NAME, DIMENSIONS, Budget())
    assert found(store) == set()
    assert store.search(NAME, VECTORS[0], 1, Budget()) == []
    store.close()


def test_other_calls_go_on_while_one_looks_for_damage(scheme: str, closed: Path) -> None:
    store = opened(scheme, closed)
    (pid,) = engine_pids(os.getpid(), closed)
    with ThreadPoolExecutor(2) as pool:
        # Both fail with the engine; what they look for then takes until there is a new one.
        os.kill(pid, signal.SIGKILL)
        failing = [pool.submit(store.count, NAME, Budget(60)) for _ in range(2)]
        longest_s, waits, began = 0.0, 0, time.monotonic()
        while not all(each.done() for each in failing):
            began_at = time.monotonic()
            assert store.collections(Budget(5)) == sorted([NAME, OTHER])
            store.unverified()
            longest_s, waits = max(longest_s, time.monotonic() - began_at), waits + 1
            time.sleep(0.01)
        took_s = time.monotonic() - began
        for each in failing:
            with suppress(StoreUnavailableError):
                each.result()
    assert waits > 1
    assert longest_s < max(0.5, 0.8 * took_s)  # who waited for the new engine would have waited for nearly all of it
    assert found(store) == set(range(1, COUNT + 1))
    store.close()
