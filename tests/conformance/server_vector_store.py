"""The specification of vector stores that several processes share, beyond that of VectorStore."""

from collections.abc import Callable

import pytest

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CollectionNotFoundError, StoreMismatchError
from groundwire.kernel.filters import Comparator, Comparison
from groundwire.kernel.vector_store import VectorStore
from tests.conformance.vector_store import DIMENSIONS, NAME, batch, found, unit_vectors


class ServerVectorStoreContract:
    """What adapters of servers promise; `other` opens the same server once more, as another process does."""

    @pytest.fixture
    def other(self, store: VectorStore, open_again: Callable[[], VectorStore]) -> VectorStore:
        return open_again()

    def test_what_one_client_writes_another_finds(self, books: VectorStore, other: VectorStore) -> None:
        vectors = unit_vectors(30)
        books.upsert(NAME, batch(range(1, 31), vectors), Budget())
        assert other.collections(Budget()) == [NAME]
        assert found(other, vectors[4], 1) == [5]
        assert found(other, vectors[4], where=Comparison("level", Comparator.LTE, 3)) == found(
            books, vectors[4], where=Comparison("level", Comparator.LTE, 3)
        )
        other.delete(NAME, [5], Budget())
        assert books.count(NAME, Budget()) == 29

    def test_creating_what_another_client_made_is_no_error_and_its_dimensions_count(
        self, books: VectorStore, other: VectorStore
    ) -> None:
        other.create_collection(NAME, DIMENSIONS, Budget())
        with pytest.raises(StoreMismatchError):
            other.create_collection(NAME, DIMENSIONS + 1, Budget())

    def test_a_collection_that_another_client_dropped_is_not_found_and_may_come_back(
        self, books: VectorStore, other: VectorStore
    ) -> None:
        vectors = unit_vectors(2)
        books.upsert(NAME, batch([1], vectors[:1]), Budget())
        assert other.count(NAME, Budget()) == 1
        books.drop_collection(NAME, Budget())
        for call in (
            lambda: other.count(NAME, Budget()),
            lambda: other.search(NAME, vectors[0], 1, Budget()),
            lambda: other.upsert(NAME, batch([1], vectors[:1]), Budget()),
            lambda: other.delete(NAME, [1], Budget()),
            lambda: other.fetch(NAME, [1], Budget()),
        ):
            with pytest.raises(CollectionNotFoundError):
                call()
        books.create_collection(NAME, DIMENSIONS, Budget())
        other.upsert(NAME, batch([2], vectors[1:]), Budget())
        assert list(books.numbers(NAME, Budget())) == [2]
