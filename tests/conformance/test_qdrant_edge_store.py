"""The qdrant-edge store against the specifications."""

from collections.abc import Iterator

import pytest

from groundwire.kernel.filter_fields import BUILT_IN_FIELDS
from groundwire.kernel.filters import Comparator, Comparison, Containment, Filter, Like
from groundwire.kernel.vector_store import VectorStore
from groundwire.vectorstores.qdrant_edge.store import QdrantEdgeVectorStore
from tests.conformance.durable_vector_store import DurableVectorStoreContract
from tests.conformance.filters import orders_what_engines_cannot
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
        match clause:
            case Like():
                return True
            case Comparison(field, Comparator.GT | Comparator.GTE | Comparator.LT | Comparator.LTE, value):
                return orders_what_engines_cannot(field, value)
            case Containment(field):
                return field not in BUILT_IN_FIELDS
            case _:
                return False
