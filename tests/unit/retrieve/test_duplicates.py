"""Which candidates repeat better ones."""

import pytest

from groundwire.retrieve.ranking import eligible
from tests.unit.retrieve.ranked_chunks import chunk_facts


@pytest.mark.requirement("C06")
def test_the_same_words_repeat_whatever_the_case_and_the_spaces() -> None:
    chunks = [
        chunk_facts(1, "Alpha beta\n\ngamma"),
        chunk_facts(2, "alpha  BETA gamma", document="doc_2"),
        chunk_facts(3, "alpha beta delta", document="doc_2"),
        chunk_facts(4, "gamma beta alpha", document="doc_2"),
    ]
    ranked = eligible(chunks, {}, collapse=True)
    assert (ranked.repeated, list(ranked.places)) == ({2: 1}, [0, 2, 3])
    unchanged = eligible(chunks, {}, collapse=False)
    assert (unchanged.repeated, list(unchanged.places)) == ({}, [0, 1, 2, 3])


@pytest.mark.requirement("S1-55")
def test_a_part_of_a_text_that_is_mostly_there_repeats_it() -> None:
    chunks = [
        chunk_facts(1, "x" * 1000, start=0),
        chunk_facts(2, "y" * 500, start=300),
        chunk_facts(3, "z" * 1000, start=850),  # the usual overlap of neighbours stays
        chunk_facts(4, "w" * 500, start=700),  # two better ones together cover it
        chunk_facts(5, "v" * 500, start=300, document="doc_2"),
        chunk_facts(6, "u" * 500, start=300, generation=2),
    ]
    assert eligible(chunks[:5], {}, collapse=True).repeated == {2: 1, 4: 1}
    assert eligible([chunks[0], chunks[5]], {}, collapse=True).repeated == {}


def test_a_large_chunk_around_a_small_better_one_stays() -> None:
    chunks = [chunk_facts(1, "x" * 100, start=50), chunk_facts(2, "y" * 1000, start=0)]
    assert list(eligible(chunks, {}, collapse=True).places) == [0, 1]


def test_what_is_repeated_is_the_better_chunk_that_covers_it_and_none_elsewhere() -> None:
    chunks = [
        chunk_facts(1, "x" * 500, start=0),
        chunk_facts(2, "y" * 1000, start=2000),
        chunk_facts(3, "z" * 400, start=2300),
        chunk_facts(4, "w" * 400, start=500),  # touches the first, shares nothing with it
    ]
    assert eligible(chunks, {}, collapse=True).repeated == {3: 2}


def test_what_two_better_chunks_both_hold_counts_once() -> None:
    apart = [chunk_facts(1, start=0, length=50), chunk_facts(2, start=20, length=50)]
    assert not eligible([*apart, chunk_facts(3, start=0, length=100)], {}, collapse=True).repeated
    nested = [chunk_facts(1, start=10, length=10), chunk_facts(2, start=0, length=85)]
    assert eligible([*nested, chunk_facts(3, start=0, length=100)], {}, collapse=True).repeated.keys() == {3}


@pytest.mark.parametrize(("length", "repeats"), [(79, False), (80, True)])
def test_four_fifths_of_a_chunk_make_it_a_repetition(length: int, repeats: bool) -> None:
    chunks = [chunk_facts(1, start=0, length=length), chunk_facts(2, start=0, length=100)]
    assert bool(eligible(chunks, {}, collapse=True).repeated) is repeats


def test_only_what_lies_within_a_chunk_covers_it() -> None:
    chunks = [chunk_facts(1, start=90, length=400), chunk_facts(2, start=0, length=100)]
    assert not eligible(chunks, {}, collapse=True).repeated
    nested = [
        chunk_facts(1, start=10, length=10),
        chunk_facts(2, start=0, length=60),
        chunk_facts(3, start=50, length=25),
        chunk_facts(4, start=0, length=100),
    ]
    assert not eligible(nested, {}, collapse=True).repeated


def test_a_chunk_that_ends_where_another_begins_is_not_what_it_repeats() -> None:
    chunks = [
        chunk_facts(1, start=0, length=500),
        chunk_facts(2, start=500, length=500),
        chunk_facts(3, start=500, length=400),
        chunk_facts(4, start=1000, length=500),
        chunk_facts(5, start=600, length=400),
    ]
    assert eligible(chunks, {}, collapse=True).repeated == {3: 2, 5: 2}


def test_chunks_whose_places_in_the_text_are_not_known_do_not_cover_one_another() -> None:
    chunks = [chunk_facts(number, start=0, length=0) for number in (1, 2)]
    assert list(eligible(chunks, {}, collapse=True).places) == [0, 1]
