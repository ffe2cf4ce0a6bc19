"""A query is words and phrases; no sign in it is an operator."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.words import signed_words, split_words
from groundwire.retrieve.queries import MAX_MATCHES, MAX_QUERY_TERMS, parse_query, select_terms


@pytest.mark.requirement("T21")
@pytest.mark.parametrize(
    ("query", "terms", "phrases"),
    [
        ("C++", ("c", "c++"), ()),
        ("What did AT&T buy?", ("buy", "at&t"), ()),
        ("V&A", ("v", "v&a"), ()),
        ("the R&D of .NET and C#", ("r", "d", "net", "c", "r&d", "c#", ".net"), ()),
        ("東京タワーの高さ", ("東京", "京タ", "タワ", "ワー", "ーの", "の高", "高さ"), ()),
        ("2024年の売上", ("2024", "年の", "の売", "売上"), ()),
        ('"東京都" OPS-306', ("東京", "京都", "ops", "306"), ("東京 京都", "ops 306")),
        ("it's", ("it", "s"), ()),
        ("-x", ("x", "-x"), ()),
        ('"', (), ()),
        ("*", ("*",), ()),
        ("rust AND", ("rust",), ()),
        ("NEAR(a b, 5)", ("near", "b", "5"), ()),
        ("title:a", ("title",), ()),
        ("^a", ("a",), ()),
        ("a*", ("a",), ()),
        ("{title content}: rust", ("title", "content", "rust"), ()),
        ("OPS-306", ("ops", "306"), ("ops 306",)),
        ("std::mem::swap(&v)", ("std", "mem", "swap", "v"), ("std mem swap",)),
        ("OPS-306 ops-306", ("ops", "306"), ("ops 306",)),
        ('say "dangling" twice', ("say", "dangling", "twice"), ()),
        ('say "dangling pointer" twice', ("say", "dangling", "pointer", "twice"), ("dangling pointer",)),
        ("snake_case_name", ("snake", "case", "name"), ("snake case name",)),
        ("Größe größe", ("grösse",), ()),
    ],
)
def test_signs_only_separate_words(query: str, terms: tuple[str, ...], phrases: tuple[str, ...]) -> None:
    parsed = parse_query(query)
    assert parsed.terms == terms
    assert parsed.phrases == phrases


def _is_word(term: str) -> bool:
    """Tell whether a term is letters and digits, perhaps with marks on them, or a word that has a sign."""
    letters = (char.isalnum() or unicodedata.category(char).startswith("M") for char in term)
    return all(letters) or split_words(term) == [term] or [term] == signed_words(term)


@given(st.text(max_size=600))
def test_any_text_gives_bounded_lists_of_words(query: str) -> None:
    parsed = parse_query(query)
    assert len(parsed.terms) <= MAX_QUERY_TERMS
    assert len(parsed.phrases) <= MAX_QUERY_TERMS
    assert all(_is_word(term) for term in parsed.terms)
    assert all(_is_word(word) for phrase in parsed.phrases for word in phrase.split(" "))
    assert len(set(parsed.terms)) == len(parsed.terms)


def test_stop_words_are_left_out_unless_nothing_else_is_there() -> None:
    assert parse_query("what is the borrow checker").terms == ("borrow", "checker")
    assert parse_query("to be or not to be").terms == ("to", "be", "or", "not")


def _selected(frequencies: dict[str, int], chunk_count: int, max_terms: int = 12) -> tuple[str, ...]:
    return select_terms(frequencies, chunk_count, max_share=0.25, max_terms=max_terms)


def test_frequent_words_are_dropped_and_the_rest_come_rarest_first() -> None:
    frequencies = {"rust": 900, "borrow": 40, "lifetime": 12, "zebra": 0, "trait": 250}
    assert _selected(frequencies, 1000) == ("lifetime", "borrow", "trait")


def test_frequent_words_stay_when_hardly_any_other_is_there() -> None:
    assert _selected({"rust": 900, "code": 800, "the": 999}, 1000) == ("code", "rust")
    assert _selected({"rust": 900, "zebra": 1}, 1000) == ("zebra", "rust")


def test_only_the_rarest_words_are_kept() -> None:
    assert _selected({f"w{i:02}": i for i in range(1, 40)}, 1000, max_terms=3) == ("w01", "w02", "w03")


def test_no_known_word_gives_no_term() -> None:
    assert _selected({"zebra": 0}, 1000) == ()


def test_words_that_together_match_too_many_chunks_are_dropped_from_the_most_frequent_down() -> None:
    frequencies = {"a1": 100, "b1": 2000, "c1": MAX_MATCHES - 2100, "d1": MAX_MATCHES - 2099}
    assert _selected(frequencies, 100_000) == ("a1", "b1", "c1")
    assert _selected({"a1": 100, "b1": 2000, "d1": MAX_MATCHES - 2099}, 100_000) == ("a1", "b1")
    assert _selected({"x1": 20_000, "y1": 24_000}, 100_000) == ("x1", "y1")
