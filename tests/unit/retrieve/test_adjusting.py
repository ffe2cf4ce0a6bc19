"""Neighbours and turns raise one another, never lower, and what is withheld raises nothing."""

import pytest

from groundwire.kernel.collection import ProfileName, SearchMode
from groundwire.kernel.query_log import QueryType
from groundwire.kernel.records import TurnPlace
from groundwire.retrieve.ranking import (
    NEIGHBOUR_SHARE,
    PROFILE_RULES,
    Fate,
    RankingRules,
    adjust,
    rules_for,
    withheld_because,
)
from tests.unit.retrieve.ranked_chunks import chunk_facts, scores_of

TURNS = {1: TurnPlace("c", 1, "user"), 2: TurnPlace("c", 1, "user"), 3: TurnPlace("c", 1, "assistant")}
"""A question of two chunks, and its answer."""


def _adjusted(
    relevances: dict[int, float],
    rules: RankingRules,
    turns: dict[int, TurnPlace],
    withheld: tuple[int, ...] = (),
    window: int = 10,
) -> dict[int, float]:
    facts = [chunk_facts(number) for number in relevances]
    scores = adjust(scores_of(relevances), facts, rules, window, withheld, turns)
    return dict(zip(scores.numbers.tolist(), scores.relevance.tolist(), strict=True))


def test_a_chunk_follows_its_better_neighbour_and_no_worse_one() -> None:
    found = _adjusted({1: 0.8, 2: 0.4, 3: 0.2}, RankingRules(neighbours=0.5), {})
    assert found == pytest.approx({1: 0.8, 2: 0.6, 3: 0.3})


def test_a_chunk_follows_the_better_chunk_behind_it_as_well() -> None:
    assert _adjusted({2: 0.8, 1: 0.4}, RankingRules(neighbours=0.5), {}) == pytest.approx({2: 0.8, 1: 0.6})


def test_only_the_best_chunks_follow_their_neighbours() -> None:
    found = _adjusted({1: 0.8, 9: 0.5, 2: 0.4}, RankingRules(neighbours=0.5), {}, window=2)
    assert found == {1: 0.8, 9: 0.5, 2: 0.4}


def test_a_type_of_query_follows_neighbours_where_the_profile_does_not() -> None:
    by_vector, general = (
        rules_for(profile, mode, None, QueryType.CONCEPTUAL, "What is an owl?")
        for profile, mode in ((ProfileName.BOOK, SearchMode.VECTOR), (ProfileName.GENERAL, SearchMode.HYBRID))
    )
    assert by_vector.neighbours == NEIGHBOUR_SHARE > 0.0
    assert general.neighbours == max(NEIGHBOUR_SHARE, PROFILE_RULES[ProfileName.GENERAL].neighbours)


def test_a_chunk_that_follows_its_neighbour_gets_ahead_of_those_that_it_overtakes() -> None:
    assert [*_adjusted({1: 0.8, 9: 0.5, 2: 0.4}, RankingRules(neighbours=0.5), {})] == [1, 2, 9]


def test_a_turn_follows_the_best_chunk_of_the_turn_before() -> None:
    rules = RankingRules(turns=0.5)
    assert _adjusted({1: 0.8, 2: 0.6, 3: 0.4}, rules, TURNS) == pytest.approx({1: 0.8, 2: 0.6, 3: 0.6})
    assert _adjusted({3: 0.9, 1: 0.8, 2: 0.6}, rules, TURNS) == pytest.approx({3: 0.9, 1: 0.8, 2: 0.6})


def test_a_turn_that_is_withheld_does_not_show_in_the_one_after_it() -> None:
    found = _adjusted({1: 0.8, 3: 0.4}, RankingRules(turns=0.5), TURNS, withheld=(1,))
    assert found == {1: 0.8, 3: 0.4}


def test_a_chunk_that_says_only_blanks_of_where_it_stands_is_withheld() -> None:
    assert withheld_because("a.md", "1.1", "1", [(), ("a",)]) is None
    assert withheld_because("a.md", "1.1", "1", [("a",), ("b",)]) is Fate.SOURCE_REJECTED
    for place in ((" ", "1.1", "1"), ("a.md", "\t", "1"), ("a.md", "1.1", " ")):
        assert withheld_because(*place, ()) is Fate.INCOMPLETE
