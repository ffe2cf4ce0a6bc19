"""The qdrant-edge store whose collections have indexes of fields, as large ones do: filters mean the same."""

from collections.abc import Iterator

import pytest

from groundwire.kernel.filters import Filter
from groundwire.kernel.vector_store import VectorStore
from groundwire.vectorstores.qdrant_edge.store import QdrantEdgeVectorStore
from tests.conformance.engine_limits import is_unsupported_by_qdrant_edge
from tests.conformance.memory_folder import memory_folder
from tests.conformance.vector_store import FilteringContract

pytest.importorskip("qdrant_edge")


@pytest.fixture(scope="module")
def engine() -> Iterator[VectorStore]:
    with memory_folder() as folder:
        store = QdrantEdgeVectorStore(folder, index_fields_after=0)
        yield store
        store.close()


class TestQdrantEdgeStoreWithFieldIndexes(FilteringContract):
    def is_unsupported(self, clause: Filter) -> bool:
        return is_unsupported_by_qdrant_edge(clause)
