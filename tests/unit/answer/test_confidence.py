"""Confidence as requirement C22 has it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.answer.answers import answer_confidence, claim_confidence

_RELEVANCES = st.lists(st.floats(0, 1), max_size=6)


def test_the_formula_of_an_answer() -> None:
    assert answer_confidence([0.8, 0.4]) == pytest.approx(0.6 * 0.8 + 0.4 * 0.6)
    assert answer_confidence([]) == 0.0


@pytest.mark.requirement("S1-101")
def test_two_sources_support_a_claim_better_than_one() -> None:
    assert claim_confidence([0.5]) == pytest.approx(0.5)
    assert claim_confidence([0.5, 0.5]) == pytest.approx(0.75)
    assert claim_confidence([]) == 0.0


@given(_RELEVANCES, st.floats(0, 1))
def test_values_stay_in_range_and_fall_with_the_scores(relevances: list[float], factor: float) -> None:
    lower = [relevance * factor for relevance in relevances]
    for measure in (claim_confidence, answer_confidence):
        assert 0.0 <= measure(lower) <= measure(relevances) + 1e-12 <= 1.0 + 1e-9
