"""The words that the full-text index sees."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from groundwire.catalog.index_words import IndexWords


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World", ["hello", "world"]),
        ("naïve CAFÉ", ["naive", "cafe"]),
        ("it's OPS-306", ["it", "s", "ops", "306"]),
        ("東京 ☃ 🦀", ["東京", "🦀"]),  # The crab is younger than the tokenizer's tables and counts as a letter.
        ("snake_case", ["snake", "case"]),
        ("", []),
        ("!?", []),
        ("the the", ["the", "the"]),
    ],
)
def test_texts_are_cut_into_folded_words(text: str, words: list[str]) -> None:
    assert IndexWords().of(text) == words


def test_many_texts_are_cut_at_once_and_kept_apart() -> None:
    assert IndexWords().of_each(["a b", "", "c"]) == [["a", "b"], [], ["c"]]
    assert IndexWords().of_each([]) == []


def test_threads_do_not_mix_their_texts() -> None:
    words = IndexWords()
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda number: words.of(f"alpha{number} beta{number}"), range(200)))
    assert found == [[f"alpha{number}", f"beta{number}"] for number in range(200)]
