"""The specification of vector stores that keep their points in a folder, beyond that of VectorStore."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import DeadlineError, StoreMismatchError, StoreOwnedError, StoreUnavailableError
from groundwire.kernel.filters import Comparator, Comparison
from groundwire.kernel.vector_store import VectorStore
from groundwire.vectorstores.factory import open_vector_store
from tests.conformance.processes import descendants, engine_pids, freeze
from tests.conformance.vector_store import DIMENSIONS, NAME, batch, found, unit_vectors

WRITER = """
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from groundwire.kernel.budget import Budget
from groundwire.vectorstores.factory import open_vector_store
from tests.conformance.processes import descendants, freeze
from tests.conformance.vector_store import DIMENSIONS, NAME, batch, unit_vectors

store = open_vector_store(sys.argv[1], data_dir=Path())
store.create_collection(NAME, DIMENSIONS, Budget())
vectors = unit_vectors(100_000)
for start in range(1, 100_000, 30):
    numbers = range(start, start + 30)
    store.upsert(NAME, batch(numbers, vectors[start : start + 30]), Budget())
    store.delete(NAME, numbers[:10], Budget())
    print(start, flush=True)
"""


class DurableVectorStoreContract:
    """What engines with a folder promise."""

    scheme: str

    def open(self, folder: Path) -> VectorStore:
        return open_vector_store(f"{self.scheme}:{folder}", data_dir=folder)

    @pytest.mark.requirement("S1-06")
    def test_everything_is_there_after_reopening(self, tmp_path: Path) -> None:
        vectors = unit_vectors(300)
        store = self.open(tmp_path)
        store.create_collection(NAME, DIMENSIONS, Budget())
        store.create_collection("gw-empty", 4, Budget())
        store.create_collection("gw-dropped", 4, Budget())
        store.drop_collection("gw-dropped", Budget())
        store.upsert(NAME, batch(range(1, 301), vectors), Budget())
        store.delete(NAME, [5, 6], Budget())
        before = store.search(NAME, vectors[9], 20, Budget(), where=Comparison("level", Comparator.LTE, 200))
        store.close()
        reopened = self.open(tmp_path)
        assert reopened.collections(Budget()) == ["gw-books", "gw-empty"]
        assert reopened.search(NAME, vectors[9], 20, Budget(), where=Comparison("level", Comparator.LTE, 200)) == before
        assert list(reopened.numbers(NAME, Budget())) == [n for n in range(1, 301) if n not in {5, 6}]
        with pytest.raises(StoreMismatchError):
            reopened.create_collection("gw-empty", 5, Budget())
        reopened.close()
        reopened.close()

    @pytest.mark.requirement("T14")
    def test_a_second_opener_is_refused_with_the_owner_named(self, tmp_path: Path) -> None:
        store = self.open(tmp_path)
        with pytest.raises(StoreOwnedError) as refused:
            self.open(tmp_path)
        assert refused.value.metadata == {"path": str(tmp_path), "owner": str(os.getpid())}
        store.create_collection(NAME, DIMENSIONS, Budget())
        store.close()
        self.open(tmp_path).close()

    def test_a_closed_store_is_unavailable(self, tmp_path: Path) -> None:
        store = self.open(tmp_path)
        store.create_collection(NAME, DIMENSIONS, Budget())
        store.close()
        with pytest.raises(StoreUnavailableError):
            store.count(NAME, Budget())
        with pytest.raises(StoreUnavailableError):
            store.upsert(NAME, batch([1], unit_vectors(1)), Budget())

    def test_an_engine_that_dies_is_replaced_and_has_lost_nothing(self, tmp_path: Path) -> None:
        others = descendants(os.getpid())
        store = self.open(tmp_path)
        store.create_collection(NAME, DIMENSIONS, Budget())
        vectors = unit_vectors(100)
        store.upsert(NAME, batch(range(1, 101), vectors), Budget())
        for pid in sorted(descendants(os.getpid()) - others, reverse=True):
            os.kill(pid, signal.SIGKILL)
        with suppress(StoreUnavailableError):  # the call may meet the end, or come when it has been noticed
            store.count(NAME, Budget())
        assert store.count(NAME, Budget()) == 100
        assert found(store, vectors[9], 1) == [10]
        store.upsert(NAME, batch([101], vectors[:1]), Budget())
        assert list(store.numbers(NAME, Budget())) == list(range(1, 102))
        store.close()

    @pytest.mark.alone
    def test_every_call_ends_with_its_budget_while_the_engine_is_stopped(self, tmp_path: Path) -> None:
        vectors = unit_vectors(100)
        store = self.open(tmp_path)
        store.create_collection(NAME, DIMENSIONS, Budget())
        store.upsert(NAME, batch(range(1, 101), vectors), Budget())
        (engine,) = engine_pids(os.getpid(), tmp_path)
        calls: list[Callable[[Budget], object]] = [
            lambda budget: store.search(NAME, vectors[0], 1, budget),
            lambda budget: store.fetch(NAME, [1], budget),
            lambda budget: store.count(NAME, budget),
            lambda budget: list(store.numbers(NAME, budget)),
            lambda budget: store.create_collection("gw-other", 4, budget),
            # Two writers, so that one waits for the lock of the other.
            lambda budget: store.upsert(NAME, batch([1], vectors[:1]), budget),
            lambda budget: store.upsert(NAME, batch([2], vectors[1:2]), budget),
            lambda budget: store.delete("gw-books", [1000], budget),
        ]

        def outcome(call: Callable[[Budget], object]) -> tuple[float, Exception | None]:
            began_at = time.monotonic()
            try:
                call(Budget(1.0))
            except (DeadlineError, StoreUnavailableError) as error:
                return time.monotonic() - began_at, error
            return 0.0, None

        freeze(engine)
        try:
            with ThreadPoolExecutor(4 * len(calls)) as pool:
                outcomes = list(pool.map(outcome, 4 * calls))
        finally:
            os.kill(engine, signal.SIGCONT)
        assert len(outcomes) == 4 * len(calls)
        assert all(error is not None for _, error in outcomes)
        assert max(elapsed for elapsed, _ in outcomes) < 15.0
        assert [found(store, vectors[n], 1) for n in range(100)] == [[n + 1] for n in range(100)]
        assert store.count(NAME, Budget()) == 100
        store.close()

    def test_a_folder_of_another_engine_is_refused(self, tmp_path: Path) -> None:
        self.open(tmp_path).close()
        other = "chroma" if self.scheme == "qdrant-edge" else "qdrant-edge"
        with pytest.raises(StoreMismatchError) as refused:
            open_vector_store(f"{other}:{tmp_path}", data_dir=tmp_path)
        assert refused.value.metadata["setting"] == "format"
        self.open(tmp_path).close()

    def test_what_was_acknowledged_survives_sigkill_and_what_was_deleted_stays_deleted(self, tmp_path: Path) -> None:
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, f"{self.scheme}:{tmp_path}"],
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert writer.stdout is not None
        acknowledged = [int(writer.stdout.readline()) for _ in range(12)]
        writer.send_signal(signal.SIGKILL)
        acknowledged += [int(line) for line in writer.stdout.readlines()]
        writer.wait()
        writer.stdout.close()
        store = self.open(tmp_path)
        held = set(store.numbers(NAME, Budget()))
        for start in acknowledged:
            assert held.issuperset(range(start + 10, start + 30))
            assert held.isdisjoint(range(start, start + 10))
        assert not {number for number in held if number >= acknowledged[-1] + 60}
        assert set(found(store, unit_vectors(1)[0], 5000)) == held
        store.close()
