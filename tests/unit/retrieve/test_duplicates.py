"""Which candidates repeat better ones."""

import pytest

from groundwire.retrieve.domain.duplicates import Repetitions
from tests.unit.retrieve.stored_chunks import stored_chunk


@pytest.mark.requirement("C06")
def test_the_same_words_repeat_whatever_the_case_and_the_spaces() -> None:
    seen = Repetitions()
    assert seen.of(stored_chunk(1, "Alpha beta\n\ngamma")) is None
    assert seen.of(stored_chunk(2, "alpha  BETA gamma", document_id="doc_2")) == 1
    assert seen.of(stored_chunk(3, "alpha beta delta", document_id="doc_2")) is None
    assert seen.of(stored_chunk(4, "gamma beta alpha", document_id="doc_2")) is None


@pytest.mark.requirement("S1-55")
def test_a_part_of_a_text_that_is_mostly_there_repeats_it() -> None:
    seen = Repetitions()
    assert seen.of(stored_chunk(1, "x" * 1000, start=0)) is None
    assert seen.of(stored_chunk(2, "y" * 500, start=300)) == 1
    assert seen.of(stored_chunk(3, "z" * 1000, start=850)) is None, "the usual overlap of neighbours stays"
    assert seen.of(stored_chunk(4, "w" * 500, start=700)) == 1, "two better ones together cover it"
    assert seen.of(stored_chunk(5, "v" * 500, start=300, document_id="doc_2")) is None
    assert seen.of(stored_chunk(6, "u" * 500, start=300, generation=2)) is None


def test_a_large_chunk_around_a_small_better_one_stays() -> None:
    seen = Repetitions()
    assert seen.of(stored_chunk(1, "x" * 100, start=50)) is None
    assert seen.of(stored_chunk(2, "y" * 1000, start=0)) is None
