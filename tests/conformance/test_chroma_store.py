"""The embedded Chroma store against the specifications."""

from collections.abc import Iterator

import pytest

from groundwire.kernel.filter_fields import BUILT_IN_FIELDS, FieldKind
from groundwire.kernel.filters import And, Comparator, Comparison, Containment, Exists, Filter, Like, Not, Or
from groundwire.kernel.vector_store import VectorStore
from groundwire.vectorstores.chroma.store import ChromaVectorStore
from tests.conformance.durable_vector_store import DurableVectorStoreContract
from tests.conformance.filters import orders_what_engines_cannot
from tests.conformance.vector_store import VectorStoreContract

pytest.importorskip("chromadb")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VectorStore]:
    store = ChromaVectorStore(tmp_path_factory.mktemp("chroma"))
    yield store
    store.close()


class TestChromaStore(VectorStoreContract, DurableVectorStoreContract):
    scheme = "chroma"

    def is_unsupported(self, clause: Filter) -> bool:
        match clause:
            case Like() | Exists():
                return True
            case Comparison(field, Comparator.GT | Comparator.GTE | Comparator.LT | Comparator.LTE, value):
                is_list = BUILT_IN_FIELDS.get(field) is FieldKind.INTEGER_LIST
                return is_list or orders_what_engines_cannot(field, value)
            case Containment(field):
                return BUILT_IN_FIELDS.get(field) in {None, FieldKind.TEXT}
            case _:
                return False

    def is_unsupported_filter(self, condition: Filter) -> bool:
        return super().is_unsupported_filter(condition) or orders_under_negation(condition)


def orders_under_negation(condition: Filter, *, negated: bool = False) -> bool:
    """Tell whether an ordering stands under an odd number of negations."""
    match condition:
        case And(parts) | Or(parts):
            return any(orders_under_negation(part, negated=negated) for part in parts)
        case Not(part):
            return orders_under_negation(part, negated=not negated)
        case Comparison(_, comparator, _):
            return negated and comparator not in {Comparator.EQ, Comparator.NE}
        case _:
            return False
