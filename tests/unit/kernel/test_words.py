# ruff: noqa: RUF001 - letters of other scripts
"""Where words begin and end, in scripts with and without spaces, and with signs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.words import is_pair, signed_words, split_words, without_pairs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Plain words, and more.", ["Plain", "words", "and", "more"]),
        ("東京都", ["東京", "京都"]),
        ("犬", ["犬"]),
        ("東京。大阪", ["東京", "大阪"]),
        ("食べるデータベース", ["食べ", "べる", "るデ", "デー", "ータ", "タベ", "ベー", "ース"]),
        ("Python3で書くAPI", ["Python3", "で書", "書く", "API"]),
        ("2024年3月", ["2024", "年", "3", "月"]),
        ("人々〆", ["人々", "々〆"]),
        ("서울은 크다", ["서울", "울은", "크다"]),
        # A vowel that is written around its letter stays with it.
        ("กี่ปี", ["กี่ปี"]),
        ("မြန်မာ", ["မြန်", "န်မာ"]),
        # One spelling for narrow katakana and wide letters, and for voiced signs in two parts.
        ("ﾀﾞﾝｽ ＡＢＣ１２", ["ダン", "ンス", "ABC12"]),
        ("か\u3099く", ["がく"]),
        ("naïve Größe", ["naïve", "Größe"]),
        ("𠀋𠀌𠀍", ["𠀋𠀌", "𠀌𠀍"]),
    ],
)
def test_each_script_has_words_of_its_kind(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("C++ and g++, not x+++y", ["c++", "g++"]),
        ("C++17 or C/C++", ["c++", "c++"]),
        ("C#, F#. page.html#top ## heading", ["c#", "f#"]),
        (".NET and (.env) but a.b, ASP.NET, ... or .5", [".net", ".env"]),
        ("AT&T's R&D at V&A, a && b, &amp;", ["at&t", "r&d", "v&a", "&&"]),
        ("a -> b, x && y; use `?` or ‘=>’ (||)", ["->", "&&", "?", "=>", "||"]),
        ("What does the ? operator do?", ["?"]),
        ("->: leads to, and :: or := or <=> stand apart", ["->", "::", ":=", "<=>"]),
        ("set -e, but tar -xzf and well-known", ["-e"]),
        ("is $@ in $PATH or $?", ["$@", "$path", "$?"]),
        ("- item\n* item\n## heading -- so\n---\n===\nComment faire ? Ouf !", []),
        ("?", ["?"]),
        ("plain words only", []),
    ],
)
def test_signs_make_words_of_their_own(text: str, words: list[str]) -> None:
    assert sorted(signed_words(text)) == sorted(words)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_any_text_is_cut_without_loss_of_letters_outside_the_pairs(text: str) -> None:
    words = split_words(text)
    assert all(words)
    assert split_words(without_pairs(text)) == [word for word in words if not is_pair(word)]
