"""The specification of vector stores that several processes share, beyond that of VectorStore."""

from collections.abc import Callable

import pytest

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
        books.upsert(NAME, batch(range(1, 31), vectors))
        assert other.collections() == [NAME]
        assert found(other, vectors[4], 1) == [5]
        assert found(other, vectors[4], where=Comparison("level", Comparator.LTE, 3)) == found(
            books, vectors[4], where=Comparison("level", Comparator.LTE, 3)
        )
        other.delete(NAME, [5])
        assert books.count(NAME) == 29

    def test_creating_what_another_client_made_is_no_error_and_its_dimensions_count(
        self, books: VectorStore, other: VectorStore
    ) -> None:
        other.create_collection(NAME, DIMENSIONS)
        with pytest.raises(StoreMismatchError):
            other.create_collection(NAME, DIMENSIONS + 1)

    def test_a_collection_that_another_client_dropped_is_not_found_and_may_come_back(
        self, books: VectorStore, other: VectorStore
    ) -> None:
        vectors = unit_vectors(2)
        books.upsert(NAME, batch([1], vectors[:1]))
        assert other.count(NAME) == 1
        books.drop_collection(NAME)
        for call in (
            lambda: other.count(NAME),
            lambda: other.search(NAME, vectors[0], 1),
            lambda: other.upsert(NAME, batch([1], vectors[:1])),
            lambda: other.delete(NAME, [1]),
            lambda: other.fetch(NAME, [1]),
        ):
            with pytest.raises(CollectionNotFoundError):
                call()
        books.create_collection(NAME, DIMENSIONS)
        other.upsert(NAME, batch([2], vectors[1:]))
        assert list(books.numbers(NAME)) == [2]
