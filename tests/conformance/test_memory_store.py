"""The memory store against the specification."""

from collections.abc import Iterator

import pytest

from groundwire.kernel.filters import Filter
from groundwire.kernel.vector_store import VectorStore
from groundwire.vectorstores.memory import MemoryVectorStore
from tests.conformance.vector_store import VectorStoreContract


@pytest.fixture(scope="module")
def engine() -> Iterator[VectorStore]:
    store = MemoryVectorStore()
    yield store
    store.close()


class TestMemoryStore(VectorStoreContract):
    def is_unsupported(self, clause: Filter) -> bool:
        return False
