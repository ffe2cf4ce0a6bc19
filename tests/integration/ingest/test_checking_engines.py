"""The checker on real engines: damage to their files, recall that is not complete, and what nobody knows any more."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from groundwire.ingest.store_check import CheckEvent
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filters import Filter
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.store_findings import FindingKind, StoreFinding
from groundwire.kernel.vector_store import ScoredPoint, VectorStore
from groundwire.vectorstores.chroma.store import ChromaVectorStore
from groundwire.vectorstores.factory import open_vector_store
from tests.conformance.memory_folder import memory_folder
from tests.integration.ingest.harness import Harness

DOCUMENTS = 30


@pytest.fixture
def folder() -> Iterator[Path]:
    with memory_folder() as folder:
        yield folder


def opened(folder: Path, vectors: VectorStore) -> Harness:
    return Harness(folder, vectors).start_without_parser_process()


def fill(harness: Harness, name: str = "tides") -> None:
    harness.create(name)
    for number in range(DOCUMENTS):
        harness.ingest(name, f"{number}.txt", f"Text {number} of the collection {name}.")


def engine_name(harness: Harness, name: str = "tides") -> str:
    return harness.collection(name).engine_name


def check(harness: Harness, *, repair: bool = False) -> list[StoreFinding]:
    told: list[CheckEvent] = []
    harness.service.long_work.check.check(DEFAULT_TENANT, "", Budget(60), told.append, repair=repair)
    return [event for event in told if isinstance(event, StoreFinding)]


class Forgetful(ChromaVectorStore):
    """Chroma whose graph does not lead to some points: only a search among them finds them."""

    unreachable: frozenset[int] = frozenset()

    def search(
        self,
        collection: str,
        vector: Vectors,
        limit: int,
        budget: Budget,
        *,
        where: Filter | None = None,
        within: Sequence[int] | None = None,
    ) -> list[ScoredPoint]:
        hits = super().search(collection, vector, limit, budget, where=where, within=within)
        return hits if within is not None else [hit for hit in hits if hit.number not in self.unreachable]


def test_what_an_approximate_index_misses_is_no_damage(folder: Path) -> None:
    vectors = Forgetful(folder / "vectors")
    harness = opened(folder, vectors)
    fill(harness)
    numbers = sorted(harness.live_numbers("tides"))
    assert len(numbers) == DOCUMENTS
    vectors.unreachable = frozenset(numbers[:3])
    assert check(harness) == []
    vectors.unreachable = frozenset(numbers[:20])
    assert {finding.kind for finding in check(harness)} == {FindingKind.SEARCH_DIFFERS}
    harness.close()
    vectors.close()


@pytest.mark.parametrize("scheme", ["qdrant-edge:", "chroma:"])
def test_a_collection_that_the_catalog_does_not_know_is_told_and_removed(folder: Path, scheme: str) -> None:
    vectors = open_vector_store(scheme, data_dir=folder)
    harness = opened(folder, vectors)
    fill(harness)
    left = engine_name(harness)
    harness.close()
    for file in folder.glob("catalog.db*"):
        file.unlink()
    again = opened(folder, vectors)
    fill(again, "others")
    [finding] = check(again)
    assert (finding.kind, finding.subject, finding.repaired) == (FindingKind.VECTOR_ORPHANED, left, False)
    [removed] = check(again, repair=True)
    assert (removed.kind, removed.subject, removed.repaired) == (FindingKind.VECTOR_ORPHANED, left, True)
    assert vectors.collections(Budget()) == [engine_name(again, "others")]
    assert check(again) == []
    again.close()
    vectors.close()


@pytest.mark.parametrize("repair", [False, True])
def test_a_missing_segment_does_not_end_the_check(folder: Path, repair: bool) -> None:
    vectors = open_vector_store("qdrant-edge:", data_dir=folder)
    harness = opened(folder, vectors)
    fill(harness)
    fill(harness, "others")
    name, numbers = engine_name(harness), harness.live_numbers("tides")
    harness.close()
    vectors.close()
    [segments] = (folder / "vectors" / name).glob("copy-*/segments")
    shutil.rmtree(next(segments.iterdir()))
    vectors = open_vector_store("qdrant-edge:", data_dir=folder)
    again = opened(folder, vectors)
    findings = check(again, repair=repair)
    assert {(finding.kind, finding.collection, finding.repaired) for finding in findings} == {
        (FindingKind.VECTOR_MISSING, "tides", True)
    }
    assert set(vectors.numbers(engine_name(again), Budget())) == set(numbers)
    assert check(again) == []
    again.close()
    vectors.close()
