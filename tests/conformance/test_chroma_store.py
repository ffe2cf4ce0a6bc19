"""The embedded Chroma store against the specifications."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwire.kernel.budget import Budget
from groundwire.kernel.filters import Filter
from groundwire.kernel.vector_store import VectorStore
from groundwire.vectorstores.chroma.store import ChromaVectorStore
from tests.conformance.durable_vector_store import DurableVectorStoreContract
from tests.conformance.engine_limits import is_unsupported_by_chroma, orders_under_negation
from tests.conformance.vector_store import DIMENSIONS, NAME, VectorStoreContract
from tests.packages import requires

pytestmark = requires("chromadb")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VectorStore]:
    store = ChromaVectorStore(tmp_path_factory.mktemp("chroma"))
    yield store
    store.close()


class TestChromaStore(VectorStoreContract, DurableVectorStoreContract):
    scheme = "chroma"

    def is_unsupported(self, clause: Filter) -> bool:
        return is_unsupported_by_chroma(clause)

    def is_unsupported_filter(self, condition: Filter) -> bool:
        return super().is_unsupported_filter(condition) or orders_under_negation(condition)


def test_what_is_written_after_a_scrub_is_not_remembered(tmp_path: Path) -> None:
    store = ChromaVectorStore(tmp_path)
    store.create_collection(NAME, DIMENSIONS, Budget())
    assert store.scrub(NAME, Budget())
    tracemalloc.start()
    store.delete(NAME, range(20_000), Budget())
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held < 500_000
    store.close()
