"""Results that resemble better ones make way, as far as asked."""

import numpy as np

from groundwire.kernel.embedder import Vectors
from groundwire.kernel.hit import StoredChunk
from groundwire.retrieve.domain.fusion import FusedScore
from groundwire.retrieve.domain.selecting import select
from tests.unit.retrieve.stored_chunks import stored_chunk


def _candidates(*relevances: float) -> list[tuple[FusedScore, StoredChunk]]:
    return [
        (FusedScore(number, relevance, relevance, 0.0), stored_chunk(number, f"text {number}"))
        for number, relevance in enumerate(relevances, start=1)
    ]


def _vectors(*rows: tuple[float, float]) -> dict[int, Vectors]:
    return {
        number: np.array(row, dtype=np.float32) / np.float32(np.linalg.norm(row))
        for number, row in enumerate(rows, start=1)
    }


def test_without_diversity_the_best_are_taken() -> None:
    chosen = select(_candidates(0.9, 0.8, 0.7), 2, 0.0, 0.0, _vectors((1, 0), (1, 0), (0, 1)))
    assert [(each.score.number, each.step, each.penalty) for each in chosen] == [(1, 1, 0.0), (2, 2, 0.0)]


def test_a_twin_of_a_better_one_makes_way_for_something_else() -> None:
    chosen = select(_candidates(0.9, 0.89, 0.7), 2, 0.0, 0.5, _vectors((1, 0), (1, 0.01), (0, 1)))
    assert [each.score.number for each in chosen] == [1, 3]


def test_a_little_diversity_does_not_overturn_much_relevance() -> None:
    chosen = select(_candidates(0.9, 0.89, 0.2), 2, 0.0, 0.5, _vectors((1, 0), (1, 0.01), (0, 1)))
    assert [each.score.number for each in chosen] == [1, 2]
    assert chosen[1].penalty > 0.49


def test_results_keep_the_order_of_relevance_and_tell_when_they_were_taken() -> None:
    candidates = _candidates(0.9, 0.85, 0.8, 0.75)
    chosen = select(candidates, 3, 0.0, 0.6, _vectors((1, 0), (1, 0.1), (1, 0.2), (0, 1)))
    assert [each.score.number for each in chosen] == [1, 2, 4]
    assert sorted((each.step, each.score.number) for each in chosen) == [(1, 1), (2, 4), (3, 2)]


def test_a_chunk_without_a_vector_resembles_nothing() -> None:
    chosen = select(_candidates(0.9, 0.5, 0.49), 2, 0.0, 1.0, {1: _vectors((1, 0))[1], 3: _vectors((1, 0))[1]})
    assert [each.score.number for each in chosen] == [1, 2]
