"""The qdrant-edge store against the specifications."""

from collections.abc import Iterator

import pytest

from groundwire.kernel.filters import Filter
from groundwire.kernel.vector_store import VectorStore
from groundwire.vectorstores.qdrant_edge.store import QdrantEdgeVectorStore
from tests.conformance.durable_vector_store import DurableVectorStoreContract
from tests.conformance.engine_limits import is_unsupported_by_qdrant_edge
from tests.conformance.memory_folder import memory_folder
from tests.conformance.vector_store import VectorStoreContract

pytest.importorskip("qdrant_edge")


@pytest.fixture(scope="module")
def engine() -> Iterator[VectorStore]:
    with memory_folder() as folder:
        store = QdrantEdgeVectorStore(folder)
        yield store
        store.close()


class TestQdrantEdgeStore(VectorStoreContract, DurableVectorStoreContract):
    scheme = "qdrant-edge"

    def is_unsupported(self, clause: Filter) -> bool:
        return is_unsupported_by_qdrant_edge(clause)
