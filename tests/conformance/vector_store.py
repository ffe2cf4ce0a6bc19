"""The specification of VectorStore: one test per promise of the port.

A subject is a subclass, beside a module-scoped fixture `engine`; each test finds the engine without collections.
Data are seeded; vectors are of 16 dimensions.
"""

import random
import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest

from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import same_filter_keys
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import (
    CallCancelledError,
    CollectionNotFoundError,
    DeadlineError,
    DimensionMismatchError,
    InvalidRequestError,
    StoreMismatchError,
    UnsupportedFilterError,
)
from groundwire.kernel.filters import And, Comparator, Comparison, Filter, Membership, Payload, matches
from groundwire.kernel.vector_store import PointBatch, VectorStore
from tests.conformance.filters import clauses_of, random_filter, random_payload

DIMENSIONS = 16
NAME = "gw-books"
FILTERS = 300


def unit_vectors(count: int, seed: int = 0, dimensions: int = DIMENSIONS) -> Vectors:
    """Return random directions: float32 of shape (count, dimensions), rows L2-normalised."""
    vectors = np.random.default_rng(seed).normal(size=(count, dimensions)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def batch(numbers: Sequence[int], vectors: Vectors, payloads: Sequence[Payload] | None = None) -> PointBatch:
    """Make a batch; without payloads every point is `{"level": number}`."""
    return PointBatch(numbers, vectors, payloads or [{"level": number} for number in numbers])


def found(store: VectorStore, vector: Vectors, limit: int = 10_000, **selection: object) -> list[int]:
    """Return the numbers a search finds, best first."""
    return [point.number for point in store.search(NAME, vector, limit, Budget(), **selection)]  # type: ignore[arg-type] # passed on as given


class FilteringContract:
    """What every engine promises of the payloads of points, by which searches are filtered."""

    def is_unsupported(self, clause: Filter) -> bool:
        """Tell whether the engine declares that it cannot evaluate this leaf."""
        raise NotImplementedError

    def is_unsupported_filter(self, condition: Filter) -> bool:
        """Tell whether a whole filter must be refused."""
        return any(self.is_unsupported(clause) for clause in clauses_of(condition))

    @pytest.fixture
    def store(self, engine: VectorStore) -> Iterator[VectorStore]:
        yield engine
        for name in engine.collections(Budget()):
            engine.drop_collection(name, Budget())

    @pytest.fixture
    def books(self, store: VectorStore) -> VectorStore:
        store.create_collection(NAME, DIMENSIONS, Budget())
        return store

    def test_nothing_of_a_dropped_collection_shows_in_a_later_one(self, books: VectorStore) -> None:
        vectors = unit_vectors(20)
        tagged: list[Payload] = [{"tags": ("old",), "size": 5}] * 20
        books.upsert(NAME, batch(range(1, 21), vectors, tagged), Budget())
        books.drop_collection(NAME, Budget())
        books.create_collection(NAME, DIMENSIONS, Budget())
        books.upsert(NAME, batch(range(1, 21), vectors), Budget())
        assert found(books, vectors[0], where=Comparison("tags", Comparator.EQ, "old")) == []
        assert found(books, vectors[0], where=Comparison("size", Comparator.EQ, 5)) == []

    @pytest.mark.requirement("T26")
    @pytest.mark.requirement("T28")
    def test_writing_a_number_again_replaces_vector_and_payload(self, books: VectorStore) -> None:
        vectors = unit_vectors(3)
        books.upsert(NAME, batch([1], vectors[:1], [{"title": "old", "chapter": "one", "size": 1}]), Budget())
        books.upsert(NAME, batch([1], vectors[1:2], [{"title": "new"}]), Budget())
        assert books.count(NAME, Budget()) == 1
        assert books.search(NAME, vectors[1], 1, Budget())[0].similarity == pytest.approx(1.0, abs=1e-6)
        for old in (("title", "old"), ("chapter", "one"), ("size", 1)):
            assert found(books, vectors[1], where=Comparison(old[0], Comparator.EQ, old[1])) == []
        assert found(books, vectors[1], where=Comparison("title", Comparator.EQ, "new")) == [1]
        books.upsert(NAME, batch([1], vectors[1:2], [{}]), Budget())
        assert found(books, vectors[1], where=Comparison("title", Comparator.EQ, "new")) == []
        assert found(books, vectors[1]) == [1]

    @pytest.mark.requirement("T28")
    def test_deleting_removes_and_ignores_unknown_numbers(self, books: VectorStore) -> None:
        vectors = unit_vectors(5)
        books.upsert(NAME, batch(range(1, 6), vectors), Budget())
        books.delete(NAME, [2, 4, 77], Budget())
        books.delete(NAME, [2, 4, 77], Budget())
        books.delete(NAME, [], Budget())
        assert sorted(found(books, vectors[0])) == [1, 3, 5]
        assert list(books.numbers(NAME, Budget())) == [1, 3, 5]

    def test_all_of_many_equal_vectors_are_there(self, books: VectorStore) -> None:
        """No walk through a graph reaches all of them."""
        vectors = unit_vectors(2)
        books.upsert(NAME, batch(range(1, 601), np.repeat(vectors[:1], 600, axis=0)), Budget())
        books.upsert(NAME, batch([601], vectors[1:]), Budget())
        everything = list(range(1, 602))
        assert found(books, vectors[0], 700) == everything
        assert found(books, vectors[0], 20) == everything[:20]
        assert found(books, vectors[0], 700, within=everything) == everything
        where = Comparison("level", Comparator.GTE, 300)
        assert found(books, vectors[0], 700, where=where) == everything[299:]
        assert found(books, vectors[0], 700, where=where, within=everything[:500]) == everything[299:500]

    def test_vectors_without_a_direction_are_like_nothing_and_hide_no_others(self, books: VectorStore) -> None:
        rows, numbers = np.zeros((600, DIMENSIONS), dtype=np.float32), list(range(1, 601))
        rows[5::60] = near = unit_vectors(10)
        books.upsert(NAME, batch(numbers, rows), Budget())
        query = near.sum(axis=0)
        best = sorted(range(10), key=lambda row: -float(near[row] @ query))
        hits = books.search(NAME, query, 500, Budget())
        assert [hit.number for hit in hits[:3]] == [6 + 60 * row for row in best[:3]]
        assert [hit.similarity for hit in hits[10:]] == [0.0] * 490

    @pytest.mark.requirement("S0-57")
    def test_within_and_a_filter_must_both_hold(self, books: VectorStore) -> None:
        vectors = unit_vectors(50)
        books.upsert(NAME, batch(range(1, 51), vectors), Budget())
        where = And((Comparison("level", Comparator.GTE, 9), Comparison("level", Comparator.LT, 45)))
        assert sorted(found(books, vectors[0], where=where, within=[3, 9, 44, 45])) == [9, 44]
        assert found(books, vectors[0], where=where, within=[1, 2]) == []

    @pytest.mark.parametrize("field", ["level", "size", "tags"])
    @pytest.mark.parametrize("count", [500, 4096])
    @pytest.mark.parametrize("is_negated", [False, True])
    def test_as_many_values_as_a_filter_may_have_are_evaluated_or_declared(
        self, books: VectorStore, field: str, count: int, is_negated: bool
    ) -> None:
        payloads: list[Payload] = [{"level": n, "size": n, "tags": (str(n), "x")} for n in (1, 2, 5000)]
        books.upsert(NAME, batch([1, 2, 3], unit_vectors(3), payloads), Budget())
        values = range(2, 2 + count)
        where = Membership(field, tuple(map(str, values)) if field == "tags" else tuple(values), is_negated)
        if self.is_unsupported(where):
            with pytest.raises(UnsupportedFilterError):
                books.search(NAME, unit_vectors(1)[0], 3, Budget(), where=where)
        else:
            assert sorted(found(books, unit_vectors(1)[0], where=where)) == ([1, 3] if is_negated else [2])

    @pytest.mark.requirement("S1-31")
    def test_membership_on_a_list_field_means_any_of_them(self, books: VectorStore) -> None:
        vectors = unit_vectors(3)
        payloads: list[Payload] = [{"tags": ("law", "tax")}, {"tags": ("tax",)}, {}]
        books.upsert(NAME, batch([1, 2, 3], vectors, payloads), Budget())
        assert sorted(found(books, vectors[0], where=Membership("tags", ("law", "war")))) == [1]
        assert sorted(found(books, vectors[0], where=Membership("tags", ("law",), negated=True))) == [2, 3]

    @pytest.mark.requirement("S1-31")
    @pytest.mark.parametrize("seed", [11, 12, 13])
    @pytest.mark.requirement("S1-29")
    @pytest.mark.requirement("T25")
    def test_random_filters_agree_with_the_reference_evaluator(self, books: VectorStore, seed: int) -> None:
        rng = random.Random(seed)
        payloads = [random_payload(rng) for _ in range(60)]
        books.upsert(NAME, batch(range(1, 61), unit_vectors(60), payloads), Budget())
        query = unit_vectors(1, seed=9)[0]
        refused = 0
        for _ in range(FILTERS // 3):
            condition = random_filter(rng)
            if self.is_unsupported_filter(condition):
                refused += 1
                with pytest.raises(UnsupportedFilterError):
                    books.search(NAME, query, 60, Budget(), where=condition)
                continue
            expected = [number for number, payload in enumerate(payloads, 1) if matches(condition, payload)]
            assert sorted(found(books, query, where=condition)) == expected, condition
        assert refused < FILTERS // 3 * 0.75

    @pytest.mark.requirement("S1-31")
    def test_every_kind_of_clause_agrees_with_the_reference_evaluator(self, books: VectorStore) -> None:
        rng = random.Random(21)
        payloads = [random_payload(rng) for _ in range(60)]
        books.upsert(NAME, batch(range(1, 61), unit_vectors(60), payloads), Budget())
        query = unit_vectors(1, seed=9)[0]
        for _ in range(FILTERS):
            clause = random_filter(rng, depth=0)
            if self.is_unsupported_filter(clause):
                with pytest.raises(UnsupportedFilterError):
                    books.search(NAME, query, 60, Budget(), where=clause)
                continue
            expected = [number for number, payload in enumerate(payloads, 1) if matches(clause, payload)]
            assert sorted(found(books, query, where=clause)) == expected, clause


class VectorStoreContract(FilteringContract):
    """What every engine promises."""

    def test_an_unknown_collection_is_not_found(self, store: VectorStore) -> None:
        query = unit_vectors(1)[0]
        for call in (
            lambda: store.upsert("gw-none", batch([1], unit_vectors(1)), Budget()),
            lambda: store.delete("gw-none", [1], Budget()),
            lambda: store.search("gw-none", query, 1, Budget()),
            lambda: list(store.numbers("gw-none", Budget())),
            lambda: store.count("gw-none", Budget()),
            lambda: store.fetch("gw-none", [1], Budget()),
        ):
            with pytest.raises(CollectionNotFoundError):
                call()

    def test_a_budget_that_is_over_ends_every_call(self, books: VectorStore) -> None:
        vectors = unit_vectors(1)
        cancelled = Budget()
        cancelled.cancel()
        for budget, error in ((Budget(0.0), DeadlineError), (cancelled, CallCancelledError)):
            calls: list[Callable[[Budget], object]] = [
                lambda budget: books.create_collection("gw-other", DIMENSIONS, budget),
                lambda budget: books.drop_collection(NAME, budget),
                books.collections,
                lambda budget: books.upsert(NAME, batch([1], vectors), budget),
                lambda budget: books.delete(NAME, [1], budget),
                lambda budget: books.search(NAME, vectors[0], 1, budget),
                lambda budget: books.fetch(NAME, [1], budget),
                lambda budget: list(books.numbers(NAME, budget)),
                lambda budget: books.count(NAME, budget),
            ]
            for call in calls:
                with pytest.raises(error):
                    call(budget)
        assert books.collections(Budget()) == [NAME]
        assert books.count(NAME, Budget()) == 0

    def test_an_engine_at_work_responds(self, books: VectorStore) -> None:
        books.upsert(NAME, batch([1], unit_vectors(1)), Budget())
        books.check_responding()

    def test_names_outside_the_allowed_form_are_refused(self, store: VectorStore) -> None:
        for name in ("ab", "-abc", "Abc", "a/b", "../x", "a" * 64, ""):
            with pytest.raises(InvalidRequestError):
                store.create_collection(name, DIMENSIONS, Budget())
        assert store.collections(Budget()) == []

    def test_creating_a_collection_again_changes_nothing(self, books: VectorStore) -> None:
        books.upsert(NAME, batch([1], unit_vectors(1)), Budget())
        books.create_collection(NAME, DIMENSIONS, Budget())
        assert books.count(NAME, Budget()) == 1

    @pytest.mark.requirement("S1-27")
    def test_creating_a_collection_with_other_dimensions_is_refused(self, books: VectorStore) -> None:
        with pytest.raises(StoreMismatchError) as refused:
            books.create_collection(NAME, DIMENSIONS + 1, Budget())
        assert refused.value.metadata == {"setting": "dimensions", "expected": "17", "got": "16"}

    def test_collections_are_listed_in_order(self, store: VectorStore) -> None:
        for name in ("gw-b", "gw-a", "gw-c"):
            store.create_collection(name, 4, Budget())
        assert store.collections(Budget()) == ["gw-a", "gw-b", "gw-c"]

    def test_a_dropped_collection_is_gone_and_may_come_back_with_other_dimensions(self, books: VectorStore) -> None:
        books.upsert(NAME, batch([1], unit_vectors(1)), Budget())
        books.drop_collection(NAME, Budget())
        assert books.collections(Budget()) == []
        with pytest.raises(CollectionNotFoundError):
            books.count(NAME, Budget())
        books.create_collection(NAME, 4, Budget())
        assert books.count(NAME, Budget()) == 0

    def test_dropping_an_unknown_collection_is_ignored(self, store: VectorStore) -> None:
        store.drop_collection("gw-none", Budget())
        assert store.collections(Budget()) == []

    def test_collections_do_not_see_one_another(self, books: VectorStore) -> None:
        books.create_collection("gw-other", DIMENSIONS, Budget())
        vectors = unit_vectors(2)
        books.upsert(NAME, batch([1], vectors[:1]), Budget())
        books.upsert("gw-other", batch([2], vectors[1:]), Budget())
        assert found(books, vectors[1]) == [1]
        books.delete("gw-other", [1, 2], Budget())
        assert (books.count(NAME, Budget()), books.count("gw-other", Budget())) == (1, 0)

    def test_vectors_of_another_length_are_refused_and_nothing_is_written(self, books: VectorStore) -> None:
        with pytest.raises(DimensionMismatchError) as refused:
            books.upsert(NAME, batch([1, 2], unit_vectors(2, dimensions=15)), Budget())
        assert refused.value.metadata == {"got": "15", "expected": "16"}
        assert books.count(NAME, Budget()) == 0

    def test_a_query_of_another_length_is_refused(self, books: VectorStore) -> None:
        with pytest.raises(DimensionMismatchError):
            books.search(NAME, unit_vectors(1, dimensions=17)[0], 1, Budget())

    def test_numbers_that_are_not_finite_are_refused(self, books: VectorStore) -> None:
        for bad in (float("nan"), float("inf")):
            vectors = unit_vectors(1)
            with pytest.raises(InvalidRequestError):
                books.upsert(NAME, batch([1], vectors, [{"size": bad}]), Budget())
            vectors[0, 3] = bad
            with pytest.raises(InvalidRequestError):
                books.upsert(NAME, batch([1], vectors), Budget())
            with pytest.raises(InvalidRequestError):
                books.search(NAME, vectors[0], 1, Budget())
        assert books.count(NAME, Budget()) == 0

    def test_a_limit_below_one_is_refused(self, books: VectorStore) -> None:
        with pytest.raises(InvalidRequestError):
            books.search(NAME, unit_vectors(1)[0], 0, Budget())

    @pytest.mark.requirement("S4-27")
    @pytest.mark.requirement("C03")
    @pytest.mark.requirement("T27")
    def test_numbers_up_to_two_to_the_53_are_kept_exactly(self, books: VectorStore) -> None:
        numbers = [1, 2**53 - 2, 2**53 - 1]
        vectors = unit_vectors(3)
        books.upsert(NAME, batch(numbers, vectors), Budget())
        assert list(books.numbers(NAME, Budget())) == numbers
        assert found(books, vectors[2], 1) == [2**53 - 1]

    @pytest.mark.requirement("T29")
    def test_points_come_back_as_they_were_written(self, books: VectorStore) -> None:
        rng = random.Random(31)
        numbers = [3, 7, 11, 2**53 - 1]
        vectors = unit_vectors(4)
        payloads: list[Payload] = [
            {"tags": ("b", "a"), "level": 2, "size": 5, "share": 0.5, "ok": True, "parts": (1, 2), "note": "1"},
            {},
            *(random_payload(rng) for _ in range(2)),
        ]
        books.upsert(NAME, batch(numbers, vectors, payloads), Budget())
        back = books.fetch(NAME, [2**53 - 1, 5, 3, 3, 11, 7], Budget())
        assert list(back.numbers) == numbers
        assert back.vectors.dtype == np.float32
        assert np.allclose(back.vectors, vectors, atol=1e-6)
        for written, read in zip(payloads, back.payloads, strict=True):
            assert same_filter_keys(written, read), (written, read)

    def test_points_come_back_whatever_the_number_that_is_asked_for(self, books: VectorStore) -> None:
        books.upsert(NAME, batch([1, 40_000], unit_vectors(2)), Budget())
        assert list(books.fetch(NAME, range(1, 40_001), Budget()).numbers) == [1, 40_000]

    def test_points_that_do_not_exist_do_not_come_back(self, books: VectorStore) -> None:
        books.upsert(NAME, batch([1, 2], unit_vectors(2)), Budget())
        books.delete(NAME, [1], Budget())
        assert list(books.fetch(NAME, [1, 2, 3], Budget()).numbers) == [2]
        for nothing in (books.fetch(NAME, [1, 3], Budget()), books.fetch(NAME, [], Budget())):
            assert (list(nothing.numbers), list(nothing.payloads), nothing.vectors.shape) == ([], [], (0, DIMENSIONS))

    def test_what_was_written_last_comes_back(self, books: VectorStore) -> None:
        vectors = unit_vectors(2)
        books.upsert(NAME, batch([1], vectors[:1], [{"title": "old", "size": 1}]), Budget())
        books.upsert(NAME, batch([1], vectors[1:], [{"chapter": "new"}]), Budget())
        back = books.fetch(NAME, [1], Budget())
        assert same_filter_keys(back.payloads[0], {"chapter": "new"})
        assert np.allclose(back.vectors, vectors[1:], atol=1e-6)

    def test_an_empty_batch_is_accepted(self, books: VectorStore) -> None:
        books.upsert(NAME, batch([], np.zeros((0, DIMENSIONS), dtype=np.float32)), Budget())
        assert books.count(NAME, Budget()) == 0
        assert books.search(NAME, unit_vectors(1)[0], 5, Budget()) == []
        assert list(books.numbers(NAME, Budget())) == []

    @pytest.mark.requirement("S1-28")
    @pytest.mark.requirement("T05")
    def test_similarity_is_one_for_the_same_and_zero_for_the_opposite_direction(self, books: VectorStore) -> None:
        vector = unit_vectors(1)
        across = np.zeros_like(vector[0])
        across[0], across[1] = vector[0, 1], -vector[0, 0]
        books.upsert(
            NAME, batch([1, 2, 3], np.stack([vector[0], -vector[0], across / np.linalg.norm(across)])), Budget()
        )
        hits = {hit.number: hit.similarity for hit in books.search(NAME, vector[0], 3, Budget())}
        assert hits[1] == pytest.approx(1.0, abs=1e-6)
        assert hits[1] <= 1.0
        assert hits[2] == 0.0
        assert hits[3] == pytest.approx(0.0, abs=1e-6)
        assert hits[3] >= 0.0

    def test_the_length_of_the_query_does_not_matter(self, books: VectorStore) -> None:
        vectors = unit_vectors(20)
        books.upsert(NAME, batch(range(1, 21), vectors), Budget())
        query = unit_vectors(1, seed=7)[0]
        for hit, scaled in zip(
            books.search(NAME, query, 20, Budget()), books.search(NAME, query * 40, 20, Budget()), strict=True
        ):
            assert hit.number == scaled.number
            assert hit.similarity == pytest.approx(scaled.similarity, abs=1e-5)

    def test_results_are_the_exact_best_ones_in_order(self, books: VectorStore) -> None:
        vectors = unit_vectors(200)
        books.upsert(NAME, batch(range(1, 201), vectors), Budget())
        for query in unit_vectors(20, seed=1):
            cosines = vectors @ query
            hits = books.search(NAME, query, 10, Budget())
            assert [hit.number for hit in hits] == [int(i) + 1 for i in np.argsort(-cosines)[:10]]
            assert [hit.similarity for hit in hits] == pytest.approx(np.sort(cosines)[::-1][:10].tolist(), abs=1e-5)

    def test_equal_similarities_are_ordered_by_number_also_at_the_cut(self, books: VectorStore) -> None:
        vectors = unit_vectors(3)
        numbers = random.Random(3).sample(range(1, 500), 120)
        books.upsert(NAME, batch(numbers, np.repeat(vectors[:1], 120, axis=0)), Budget())
        books.upsert(NAME, batch([600], vectors[1:2]), Budget())
        assert found(books, vectors[0], 7) == sorted(numbers)[:7]
        assert found(books, vectors[0], 200) == [*sorted(numbers), 600]

    def test_no_more_than_the_limit_and_no_more_than_there_are(self, books: VectorStore) -> None:
        vectors = unit_vectors(30)
        books.upsert(NAME, batch(range(1, 31), vectors), Budget())
        assert [len(found(books, vectors[0], limit)) for limit in (1, 29, 30, 31, 5000)] == [1, 29, 30, 30, 30]

    def test_within_keeps_only_those_numbers(self, books: VectorStore) -> None:
        vectors = unit_vectors(50)
        books.upsert(NAME, batch(range(1, 51), vectors), Budget())
        assert sorted(found(books, vectors[0], within=[3, 9, 9, 44, 999])) == [3, 9, 44]
        assert found(books, vectors[8], 1, within=[3, 9]) == [9]
        assert found(books, vectors[0], within=[]) == []
        assert found(books, vectors[0], within=[999]) == []

    @pytest.mark.requirement("T39")
    def test_a_batch_of_thousands_is_accepted(self, books: VectorStore) -> None:
        vectors = unit_vectors(6000)
        books.upsert(NAME, batch(range(1, 6001), vectors), Budget())
        assert books.count(NAME, Budget()) == 6000
        assert list(books.numbers(NAME, Budget())) == list(range(1, 6001))
        assert found(books, vectors[5999], 1) == [6000]
        assert len(books.fetch(NAME, range(1, 6001), Budget()).numbers) == 6000
        assert found(books, vectors[5999], 1, within=range(1, 6001)) == [6000]
        books.delete(NAME, range(1, 5001), Budget())
        assert books.count(NAME, Budget()) == 1000

    def test_searches_go_on_while_points_are_written(self, books: VectorStore) -> None:
        fixed = unit_vectors(50)
        books.upsert(NAME, batch(range(1, 51), fixed), Budget())
        failures: list[object] = []
        is_over = threading.Event()

        def read() -> None:
            try:
                while not is_over.is_set():
                    hit = books.search(NAME, fixed[7], 1, Budget())[0]
                    if (hit.number, round(hit.similarity, 4)) != (8, 1.0):
                        failures.append(hit)
            except Exception as error:  # noqa: BLE001 - any failure of a reader fails the test
                failures.append(error)

        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        for start in range(100, 1000, 100):
            books.upsert(NAME, batch(range(start, start + 100), unit_vectors(100, seed=start)), Budget())
            books.delete(NAME, range(start, start + 50), Budget())
        is_over.set()
        for reader in readers:
            reader.join()
        assert failures == []
        assert books.count(NAME, Budget()) == 50 + 9 * 50

    def test_writers_of_different_points_do_not_lose_any(self, books: VectorStore) -> None:
        def write(start: int) -> None:
            for offset in range(0, 60, 20):
                numbers = range(start + offset, start + offset + 20)
                books.upsert(NAME, batch(numbers, unit_vectors(20, seed=start + offset)), Budget())

        writers = [threading.Thread(target=write, args=(start,)) for start in (100, 200, 300)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        expected = [n for start in (100, 200, 300) for n in range(start, start + 60)]
        assert list(books.numbers(NAME, Budget())) == expected
