"""Results that resemble better ones make way, as far as asked."""

from collections.abc import Sequence

import numpy as np

from groundwire.kernel.embedder import Vectors
from groundwire.retrieve.ranking import Selected, select


def _selected(
    relevances: Sequence[float], top_k: int, diversity: float, vectors: Sequence[Vectors | None]
) -> list[Selected]:
    chapters = [("doc_1", f"Chapter {number}") for number in range(len(relevances))]
    return select(relevances, chapters, top_k, 0.0, diversity, vectors)


def _vectors(*rows: tuple[float, float]) -> list[Vectors]:
    return [np.array(row, dtype=np.float32) / np.float32(np.linalg.norm(row)) for row in rows]


def test_without_diversity_the_best_are_taken() -> None:
    chosen = _selected((0.9, 0.8, 0.7), 2, 0.0, _vectors((1, 0), (1, 0), (0, 1)))
    assert [(each.place, each.step, each.penalty) for each in chosen] == [(0, 1, 0.0), (1, 2, 0.0)]


def test_few_enough_are_all_taken_in_their_order() -> None:
    chosen = _selected((0.9, 0.8), 2, 1.0, _vectors((1, 0), (1, 0)))
    assert [(each.place, each.step, each.penalty) for each in chosen] == [(0, 1, 0.0), (1, 2, 0.0)]


def test_a_twin_of_a_better_one_makes_way_for_something_else() -> None:
    chosen = _selected((0.9, 0.89, 0.7), 2, 0.5, _vectors((1, 0), (1, 0.01), (0, 1)))
    assert [each.place for each in chosen] == [0, 2]


def test_a_little_diversity_does_not_overturn_much_relevance() -> None:
    chosen = _selected((0.9, 0.89, 0.2), 2, 0.5, _vectors((1, 0), (1, 0.01), (0, 1)))
    assert [each.place for each in chosen] == [0, 1]
    assert chosen[1].penalty > 0.49


def test_results_keep_the_order_of_relevance_and_tell_when_they_were_taken() -> None:
    chosen = _selected((0.9, 0.85, 0.8, 0.75), 3, 0.6, _vectors((1, 0), (1, 0.1), (1, 0.2), (0, 1)))
    assert [each.place for each in chosen] == [0, 1, 3]
    assert sorted((each.step, each.place) for each in chosen) == [(1, 0), (2, 3), (3, 1)]


def test_what_resembles_the_first_result_makes_way_for_the_third_too() -> None:
    one, other = _vectors((1, 0), (0, 1))
    chosen = _selected((0.9, 0.8, 0.79, 0.5), 3, 0.5, [one, other, one, None])
    assert [each.place for each in chosen] == [0, 1, 3]


def test_a_chunk_without_a_vector_resembles_nothing() -> None:
    (axis,) = _vectors((1, 0))
    chosen = _selected((0.9, 0.5, 0.49), 2, 1.0, [axis, None, axis])
    assert [each.place for each in chosen] == [0, 1]
