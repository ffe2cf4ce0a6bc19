"""Fusion keeps scores on the similarity scale and orders like the normalised sum."""

import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.retrieve.ranking import Score, fuse


def fused(similarities: Mapping[int, float], lexical: Mapping[int, float], dense_weight: float) -> list[Score]:
    """Fuse scores given by chunk number, and return those of each chunk, best first."""
    numbers = np.array([*similarities], dtype=np.int64)
    raw = np.array([lexical.get(number, 0.0) for number in similarities], dtype=np.float64)
    scores = fuse(numbers, np.array([*similarities.values()], dtype=np.float64), raw, dense_weight)
    return scores.at(range(len(scores)))


_SCORES = st.dictionaries(st.integers(1, 50), st.floats(0, 1), min_size=1, max_size=20)


@given(_SCORES, st.data(), st.floats(0, 1))
@pytest.mark.requirement("S3-35")
@pytest.mark.requirement("T05")
def test_every_score_is_in_the_unit_range(similarities: dict[int, float], data: st.DataObject, weight: float) -> None:
    matched = data.draw(st.dictionaries(st.sampled_from(sorted(similarities)), st.floats(1e-9, 1e9)))
    scores = fused(similarities, matched, weight)
    assert sorted(score.number for score in scores) == sorted(similarities)
    assert all(0 <= value <= 1 for score in scores for value in (score.relevance, score.similarity, score.lexical))


@given(_SCORES)
def test_with_the_whole_weight_on_vectors_relevance_is_the_similarity(similarities: dict[int, float]) -> None:
    scores = fused(similarities, dict.fromkeys(similarities, 3.0), dense_weight=1.0)
    assert all(score.relevance == pytest.approx(score.similarity) for score in scores)


def test_the_order_is_that_of_the_min_max_normalised_sum() -> None:
    rng = random.Random(7)
    for _ in range(100):
        similarities = {number: rng.random() for number in range(1, 30)}
        lexical = {number: rng.uniform(0.1, 20) for number in rng.sample(range(1, 30), 12)}
        low, high, best = min(similarities.values()), max(similarities.values()), max(lexical.values())
        expected = sorted(
            similarities,
            key=lambda number: (
                -(0.6 * (similarities[number] - low) / (high - low) + 0.4 * lexical.get(number, 0) / best),
                number,
            ),
        )
        assert [score.number for score in fused(similarities, lexical, 0.6)] == expected


@pytest.mark.requirement("S1-42")
def test_the_only_lexical_match_can_overtake_a_nearer_chunk() -> None:
    scores = fused({1: 0.50, 2: 0.48, 3: 0.40}, {2: 8.0}, dense_weight=0.75)
    assert [score.number for score in scores] == [2, 1, 3]


def test_ties_go_to_the_better_lexical_score_and_then_to_the_lower_number() -> None:
    scores = fused({9: 0.0, 4: 0.0, 7: 0.0}, {7: 1.0}, dense_weight=0.75)
    assert [score.number for score in scores] == [7, 4, 9]


def test_the_best_possible_chunk_scores_what_its_similarity_says() -> None:
    best = fused({1: 0.9, 2: 0.2}, {1: 5.0}, dense_weight=0.75)[0]
    assert best.relevance == pytest.approx(0.9)


def test_nothing_to_fuse_gives_nothing() -> None:
    assert fused({}, {}, 0.5) == []


def test_without_a_vector_the_share_of_the_best_score_of_words_is_the_relevance() -> None:
    scores = fuse(np.array([5, 3, 4]), None, np.array([2.0, 8.0, 2.0]), dense_weight=0.0)
    assert (scores.numbers.tolist(), scores.relevance.tolist()) == ([3, 4, 5], [1.0, 0.25, 0.25])
    assert scores.similarity.tolist() == [0.0, 0.0, 0.0]


def test_what_a_reranker_did_not_read_comes_behind_and_has_no_scores_of_it() -> None:
    both = fuse(np.array([1, 2], dtype=np.int64), np.array([0.9, 0.5]), np.zeros(2), 1.0)
    read = replace(both.take(slice(0, 1)), ranked=np.array([0.9]), rerank=np.array([0.7]))
    ahead = read.before(both.take(slice(1, 2))).at([0, 1])
    assert [(each.relevance, each.ranked, each.rerank) for each in ahead] == [(0.9, 0.9, 0.7), (0.5, None, None)]
    behind = both.take(slice(0, 1)).before(replace(both.take(slice(1, 2)), rerank=np.array([0.2]))).at([0, 1])
    assert [(each.ranked, each.rerank) for each in behind] == [(None, None), (None, 0.2)]
