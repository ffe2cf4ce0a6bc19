"""Exact comparison: cosines in [0, 1], best first, ties by number."""

import numpy as np
import pytest

from groundwire.kernel.vectors import unit_rows
from groundwire.retrieve.vector_search import merge, nearest


def test_the_nearest_are_those_of_a_plain_sort() -> None:
    chance = np.random.default_rng(3)
    rows = unit_rows(chance.standard_normal((500, 32)).astype(np.float32))
    vector = chance.standard_normal(32).astype(np.float32)
    numbers = chance.permutation(np.arange(1, 501)).astype(np.int64)
    found = nearest(numbers, rows, vector, 20)
    cosines = np.clip(rows @ vector / np.linalg.norm(vector), 0, 1)
    expected = numbers[np.lexsort((numbers, -np.round(cosines.astype(np.float64), 7)))][:20]
    assert found.numbers.tolist() == expected.tolist()
    assert found.similarities.tolist() == sorted(found.similarities.tolist(), reverse=True)


def test_equal_rows_tie_by_number_wherever_they_stand() -> None:
    rows = unit_rows(np.tile(np.array([[0.3, 0.1, 0.7]], dtype=np.float32), (1001, 1)))
    numbers = np.arange(1001, 0, -1, dtype=np.int64)
    found = nearest(numbers, rows, np.array([1.0, 1.0, 1.0], dtype=np.float32), 5)
    assert found.numbers.tolist() == [1, 2, 3, 4, 5]
    assert len({*found.similarities.tolist()}) == 1


@pytest.mark.requirement("T05")
def test_opposite_rows_are_zero_and_equal_ones_one_whatever_their_length() -> None:
    rows = unit_rows(np.array([[3.0, 0.0], [-5.0, 0.0], [0.0, 0.0]], dtype=np.float32))
    found = nearest(np.array([1, 2, 3]), rows, np.array([0.5, 0.0], dtype=np.float32), 3)
    assert list(zip(found.numbers, found.similarities, strict=True)) == [(1, 1.0), (2, 0.0), (3, 0.0)]
    assert len(nearest(np.zeros(0, dtype=np.int64), rows[:0], rows[0], 3)) == 0


def test_two_lists_become_one() -> None:
    rows = unit_rows(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]], dtype=np.float32))
    vector = np.array([1.0, 0.0], dtype=np.float32)
    first = nearest(np.array([7, 8]), rows[1:], vector, 2)
    merged = merge(first, nearest(np.array([9]), rows[:1], vector, 1), 2)
    assert merged.numbers.tolist() == [9, 7]
