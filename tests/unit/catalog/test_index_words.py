"""The words that the full-text index sees."""

import re
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import pysqlite3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.catalog import index_words as index_words_module
from groundwire.catalog.index_words import IndexWords, index_words
from groundwire.kernel.words import base_form, is_pair
from groundwire.retrieve.queries import parse_query


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Hello, World", ["hello", "world"]),
        ("naïve CAFÉ", ["naiv", "cafe"]),
        ("Straße STRASSE ﬁnd Ა", ["strass", "strass", "find", "ა"]),  # case as Unicode folds it
        ("it's OPS-306", ["it", "s", "op", "306"]),
        ("東京 ☃ 🦀", ["東京"]),
        ("rust🦀 ₿100", ["rust", "100"]),  # signs that are younger than the tables of the tokenizer
        ("e\u0301clair x\u0323\u0301y", ["eclair", "xy"]),
        (
            "東京タワーがThe Towersより高い",
            ["東京", "京タ", "タワ", "ワー", "ーが", "the", "tower", "より", "り高", "高い"],
        ),
        ("snake_case", ["snake", "case"]),
        ("", []),
        ("!?", []),
        ("the the", ["the", "the"]),
        ("She wrote what was written", ["she", "write", "what", "wa", "write"]),
        ("Found: the founder founded it", ["find", "the", "founder", "found", "it"]),
    ],
)
def test_texts_are_cut_into_folded_words(text: str, words: list[str]) -> None:
    assert IndexWords().of_each([text])[0] == words


def test_words_with_a_sign_stand_behind_the_others_in_the_index() -> None:
    """So that the words of a phrase stay side by side; a query asks for the word with its sign alone."""
    words = IndexWords()
    assert words.indexed(["Using C++ and AT&T lines"]) == [["us", "c", "and", "at", "t", "line", "at&t", "c++"]]
    assert words.sought(["C++", "at&t", "C++ and", "東京都", "lines"]) == [
        ["c++"], ["at&t"], ["c", "and"], ["東京", "京都"], ["line"],
    ]  # fmt: skip


def test_many_texts_are_cut_at_once_and_kept_apart() -> None:
    assert IndexWords().of_each(["a b", "", "c"]) == [["a", "b"], [], ["c"]]
    assert IndexWords().of_each([]) == []


def test_threads_do_not_mix_their_texts() -> None:
    words = IndexWords()
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda number: words.of_each([f"alpha{number} beta{number}"])[0], range(200)))
    assert found == [[f"alpha{number}", f"beta{number}"] for number in range(200)]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=60).filter(
    lambda text: not any(map(is_pair, text)) and unicodedata.normalize("NFKC", text) == text
)
ENGLISH = st.lists(
    st.sampled_from(["Running", "tides'", "naïve", "CAFÉS", "re-used", "U.S.", "a\u0301b", "O\u2019Neil", "KEPT"])
)


@given(st.lists(TEXTS | ENGLISH.map(" ".join), max_size=5))
def test_words_are_those_of_the_tokenizer_on_the_whole_text(texts: list[str]) -> None:
    """Words are looked up run by run; where scripts have spaces, cutting the whole text must not give others."""
    whole = pysqlite3.connect(":memory:")
    whole.execute("CREATE VIRTUAL TABLE t USING fts5 (w, tokenize = 'porter unicode61 remove_diacritics 2')")
    whole.execute("CREATE VIRTUAL TABLE v USING fts5vocab (t, instance)")
    # SQLite ends a text at its first NUL when it is read back, and the tokenizer does not see what is behind it.
    texts = [text.replace("\x00", " ") for text in texts]
    folded = [re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFC", text)).casefold() for text in texts]
    letters = ["".join(c if c.isalnum() or "\u0300" <= c <= "\u036f" else " " for c in text) for text in folded]
    # The index holds irregular forms as their base, which the tokenizer knows nothing of.
    letters = [" ".join(map(base_form, text.split())) for text in letters]
    whole.executemany("INSERT INTO t (rowid, w) VALUES (?, ?)", enumerate(letters))
    expected: list[list[str]] = [[] for _ in texts]
    for row, word in whole.execute("SELECT doc, term FROM v ORDER BY doc, offset"):
        expected[row].append(word)
    whole.close()
    assert index_words().of_each(texts) == expected


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_what_a_query_makes_of_a_word_is_what_the_index_has_of_it(text: str) -> None:
    indexed = set(index_words().indexed([text])[0])
    assert {word for words in index_words().sought(parse_query(text).terms) for word in words} <= indexed


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groundwire.catalog.index_words._REMEMBERED_RUNS", 10)
    words = IndexWords()
    texts = [" ".join(f"w{number}x{each}" for each in range(7)) for number in range(20)]
    assert [words.of_each([text])[0] for text in texts] == [text.split() for text in texts]
    assert len(words._known) <= 10
    many = [f"z{number}" for number in range(30)]
    assert words.of_each([" ".join(many)])[0] == many
    assert 0 < len(words._known) <= 10
    long = "x" * 41
    assert words.of_each([f"{long} y"])[0] == [long, "y"]
    assert long not in words._known


@pytest.mark.parametrize("run", ["ж" * 20_000, "é" * 20_000, "a" + "\U00010428" * 12_000, "a" * 40_000])
def test_a_word_that_never_ends_is_cut_at_a_character(run: str) -> None:
    [first, second] = IndexWords().of_each([f"{run} next"])[0]
    assert run.replace("é", "e").startswith(first)
    assert 20_000 <= len(first.encode()) <= 32_768
    assert second == "next"


def test_words_of_a_query_do_not_wait_for_those_of_a_large_document(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one thread is inside SQLite, another one cuts its own words."""
    words, inside, done = IndexWords(), threading.Event(), threading.Event()
    decode = index_words_module._whole_characters

    def waiting(text: bytes) -> str:
        if text == b"mountain":
            inside.set()
            assert done.wait(10)
        return decode(text)

    monkeypatch.setattr(index_words_module, "_whole_characters", waiting)
    with ThreadPoolExecutor(2) as threads:
        document = threads.submit(words.of_each, ["mountain"])
        assert inside.wait(10)
        query = threads.submit(words.of_each, ["small"])
        try:
            assert query.result(5) == [["small"]]
        finally:
            done.set()
        assert document.result(10) == [["mountain"]]
