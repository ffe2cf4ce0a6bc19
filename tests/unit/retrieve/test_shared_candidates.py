"""What one search found for several types of record, as each of them gets it."""

import numpy as np
import pytest

from groundwire.retrieve.candidates import Candidates, SharedCandidates, WordMatches


def _shared(*, is_all: bool = False, near_are_all: bool = False, exhausted: bool = False) -> SharedCandidates:
    """Return five candidates: vectors brought the first three, words the second and the last two."""
    matches = WordMatches(np.array([2, 4, 5]), np.array([3.0, 2.0, 1.0]), is_all)
    similarities = np.array([0.9, 0.8, 0.7, 0.2, 0.1])
    candidates = Candidates(np.array([1, 2, 3, 4, 5]), similarities, 3, matches, exhausted)
    types = np.array(["faq", "memory", "faq", "faq", "memory"])
    return SharedCandidates(None, candidates, types, types[[1, 3, 4]], near_are_all)


@pytest.mark.parametrize("is_all", [True, False])
def test_a_type_gets_its_own_of_what_vectors_and_words_brought(is_all: bool) -> None:
    found = _shared(is_all=is_all).of_type("faq", at_least=3, uses_words=True)
    assert found is not None
    assert found.similarities is not None
    assert (found.numbers.tolist(), found.similarities.tolist(), found.nearest) == ([1, 3, 4], [0.9, 0.7, 0.2], 2)
    assert (found.matches.numbers.tolist(), found.matches.scores.tolist(), found.matches.is_all) == ([4], [2.0], is_all)
    assert found.lexical().tolist() == [0.0, 0.0, 2.0]


def test_a_type_that_is_searched_for_by_vectors_gets_nothing_of_the_words() -> None:
    found = _shared().of_type("faq", at_least=2, uses_words=False)
    assert found is not None
    assert (found.numbers.tolist(), found.nearest, len(found.matches.numbers)) == ([1, 3], 2, 0)


@pytest.mark.parametrize("uses_words", [True, False])
@pytest.mark.parametrize("is_everything", [True, False])
def test_too_few_are_enough_only_where_there_are_no_others(uses_words: bool, is_everything: bool) -> None:
    # By vectors alone it is what has a vector that counts, and with words what either would bring.
    flags = {"exhausted" if uses_words else "near_are_all": is_everything}
    found = _shared(**flags).of_type("memory", at_least=3, uses_words=uses_words)
    assert (found is not None) == is_everything
    assert found is None or found.exhausted
    other = {"near_are_all" if uses_words else "exhausted": True}
    assert _shared(**other).of_type("memory", at_least=3, uses_words=uses_words) is None
