"""Memories are ranked by similarity, importance and recency as C10 says, and nothing buries what clearly fits best."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.collection import MemoryWeights
from groundwire.kernel.records import RecordFacts
from groundwire.retrieve.ranking import MemoryScore, Scores, rank_memories

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)

Memory = tuple[float, int, float]
"""Similarity, importance and age in days."""
_MEMORY = st.tuples(st.floats(0, 1), st.integers(1, 5), st.floats(0, 4000))
_MEMORIES = st.lists(_MEMORY, min_size=1, max_size=20)


def ranked(
    memories: list[Memory], weights: MemoryWeights | None = None, against: Mapping[int, set[int]] | None = None
) -> list[tuple[int, MemoryScore]]:
    """Rank memories, which are numbered from 0, and return them best first."""
    similarity = np.array([each[0] for each in memories])
    columns = (np.arange(len(memories)), similarity, similarity, np.zeros(len(memories)), similarity)
    records = {
        number: RecordFacts("memory", importance, epoch_ms(NOW - timedelta(days=age)))
        for number, (_, importance, age) in enumerate(memories)
    }
    scores, components = rank_memories(Scores(*columns), records, weights or MemoryWeights(), NOW, against or {})
    assert scores.numbers.tolist() == [*components]
    assert scores.relevance.tolist() == [each.relevance for each in components.values()]
    return [*components.items()]


@pytest.mark.requirement("S0-33")
@pytest.mark.requirement("C10")
@pytest.mark.requirement("T05")
@given(_MEMORIES)
def test_components_add_up_and_the_public_score_stays_in_range(memories: list[Memory]) -> None:
    order = ranked(memories)
    assert sorted(number for number, _ in order) == [*range(len(memories))]
    for number, score in order:
        similarity, importance, age = memories[number]
        assert (score.similarity, score.importance) == (similarity, importance)
        assert score.age_days == pytest.approx(age, abs=1e-6)
        bonus = 0.1 * 0.5 ** (score.age_days / 30.0)
        assert score.recency_bonus == pytest.approx(bonus)
        raw = 0.5 * similarity + score.influence * (0.5 * importance / 5 + bonus)
        assert score.raw == pytest.approx(raw)
        assert score.relevance == pytest.approx(raw / 1.1)
        assert 0.0 <= score.relevance <= 1.0


@pytest.mark.requirement("T05")
@given(_MEMORIES)
def test_the_public_score_ties_only_where_the_raw_one_does(memories: list[Memory]) -> None:
    scores = [score for _, score in ranked(memories)]
    raws = [score.raw for score in scores]
    assert raws == sorted(raws, reverse=True)
    for one, other in pairwise(scores):
        assert (one.relevance > other.relevance) or one.raw - other.raw <= 1e-15


@pytest.mark.requirement("S0-33")
@given(_MEMORY, st.integers(1, 5), st.floats(0, 4000))
def test_each_component_only_helps(memory: Memory, importance: int, age: float) -> None:
    """Against a memory that differs in one component alone."""
    similarity, own_importance, own_age = memory
    by_importance = ranked([memory, (similarity, importance, own_age)])
    if importance != own_importance:
        assert by_importance[0][1].importance == max(importance, own_importance)
    by_age = ranked([memory, (similarity, own_importance, age)])
    assert by_age[0][1].age_days == min(score.age_days for _, score in by_age)


@given(_MEMORIES, st.data(), st.floats(0, 1))
def test_a_better_fit_never_lowers_the_raw_score(memories: list[Memory], data: st.DataObject, better: float) -> None:
    best = max(similarity for similarity, _, _ in memories)
    number = data.draw(st.integers(0, len(memories) - 1))
    similarity, importance, age = memories[number]
    raised = [*memories]
    raised[number] = (max(similarity, min(better, best)), importance, age)
    assert dict(ranked(raised))[number].raw >= dict(ranked(memories))[number].raw - 1e-12


@pytest.mark.requirement("S0-34")
@given(st.floats(0.05, 1), _MEMORIES, st.integers(1, 5), st.floats(0, 4000))
def test_nothing_that_fits_half_as_well_gets_ahead_of_the_best(
    best: float, others: list[Memory], importance: int, age: float
) -> None:
    far = [(similarity * best / 2, each, days) for similarity, each, days in others]
    order = ranked([*far, (best, importance, age)])
    assert order[0][0] == len(far)


@pytest.mark.requirement("S0-34")
def test_a_very_similar_memory_of_importance_3_beats_an_unrelated_one_of_5() -> None:
    assert [number for number, _ in ranked([(0.25, 5, 0.0), (0.6, 3, 365.0)])] == [1, 0]


@pytest.mark.requirement("S0-33")
def test_among_memories_that_fit_alike_importance_decides_then_recency() -> None:
    order = ranked([(0.5, 1, 0.0), (0.5, 5, 100.0), (0.5, 5, 2.0)])
    assert [number for number, _ in order] == [2, 1, 0]


@pytest.mark.requirement("S0-33")
def test_of_equal_scores_the_newest_comes_first() -> None:
    weights = MemoryWeights(recency=0.0)
    order = ranked([(0.5, 3, 9.0), (0.5, 3, 1.0), (0.5, 3, 4.0)], weights)
    assert [number for number, _ in order] == [1, 2, 0]
    assert len({score.raw for _, score in order}) == 1
    assert [number for number, _ in ranked([(0.5, 3, 1.0)] * 3)] == [0, 1, 2]


@pytest.mark.requirement("S0-34")
def test_fifty_important_ones_that_fit_a_little_worse_do_not_bury_the_answer() -> None:
    order = ranked([(0.7, 1, 500.0), *((0.58, 5, 0.0) for _ in range(50))])
    assert order[0][0] == 0


def test_the_newest_of_those_that_contradict_one_another_comes_first() -> None:
    memories = [(0.5, 5, 30.0), (0.7, 3, 20.0), (0.4, 1, 10.0), (0.6, 3, 5.0)]
    # The third contradicts the second, and the second the first; the fourth has nothing to do with them.
    against = {0: {1}, 1: {0, 2}, 2: {1}}
    order = ranked(memories, against=against)
    assert [number for number, _ in order] == [2, 1, 3, 0]
    newest, older = order[0][1], order[1][1]
    assert newest.raw == older.raw
    assert newest.update_bonus == pytest.approx(older.raw - 0.5 * 0.4)
    assert older.update_bonus == 0.0


def test_what_contradicts_a_candidate_and_is_none_itself_changes_nothing() -> None:
    memories: list[Memory] = [(0.5, 5, 30.0), (0.7, 3, 20.0)]
    assert ranked(memories, against={0: {7}, 1: {0, 7}}) == ranked(memories, against={1: {0}})


def test_the_newest_of_a_chain_of_contradictions_comes_first() -> None:
    # Numbered from the newest to the oldest, which fits best.
    chain = {0: {1}, 1: {0, 2}, 2: {1}}
    order = ranked([(0.3, 1, 1.0), (0.4, 1, 10.0), (0.7, 3, 20.0)], against=chain)
    assert [number for number, _ in order] == [0, 1, 2]
    assert len({score.raw for _, score in order}) == 1


def test_contradicting_memories_of_the_same_time_keep_their_scores() -> None:
    order = ranked([(0.4, 1, 10.0), (0.7, 3, 10.0)], against={0: {1}, 1: {0}})
    assert [(number, score.update_bonus) for number, score in order] == [(1, 0.0), (0, 0.0)]


def test_importance_and_recency_count_from_85_to_95_hundredths_of_the_best_fit() -> None:
    scores = dict(ranked([(0.8, 3, 0.0), *((0.8 * share, 3, 0.0) for share in (0.84, 0.86, 0.9, 0.94, 0.96))]))
    influences = [scores[number].influence for number in range(6)]
    assert influences == pytest.approx([1.0, 0.0, 0.1, 0.5, 0.9, 1.0])


def test_a_memory_of_the_future_counts_as_new() -> None:
    ((_, score),) = ranked([(0.5, 3, -400.0)], MemoryWeights(recency=0.4, half_life_days=7.0))
    assert score.age_days == 0.0
    assert score.recency_bonus == pytest.approx(0.4)


def test_half_of_the_bonus_is_left_after_the_half_life() -> None:
    ((_, score),) = ranked([(0.5, 3, 7.0)], MemoryWeights(recency=0.4, half_life_days=7.0))
    assert score.recency_bonus == pytest.approx(0.2)


def test_what_is_no_record_is_neutral() -> None:
    columns = (np.array([1]), np.array([0.5]), np.array([0.5]), np.zeros(1), np.array([0.5]))
    scores, components = rank_memories(Scores(*columns), {}, MemoryWeights(), NOW, {})
    assert (components[1].importance, components[1].recency_bonus, components[1].age_days) == (3, 0.0, np.inf)
    assert scores.relevance[0] == pytest.approx((0.25 + 0.3) / 1.1)
