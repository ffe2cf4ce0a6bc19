"""Words that mean the same have one stem, and words that do not have different ones."""

import pytest

from groundwire.kernel.words import content_stems, stem


@pytest.mark.parametrize(
    ("form", "base"),
    [
        ("began", "begin"),
        ("begun", "beginning"),
        ("children", "child's"),
        ("written", "writes"),
        ("6th", "6"),
        ("21st", "21"),
        ("indexable", "indexing"),
        ("movie", "movies"),
        ("copied", "copies"),
    ],
)
def test_forms_have_the_stem_of_their_base(form: str, base: str) -> None:
    assert stem(form) == stem(base)


@pytest.mark.parametrize(
    ("one", "other"), [("left", "leave"), ("founded", "found"), ("lives", "life"), ("bases", "basis"), ("6", "60th")]
)
def test_words_that_only_look_alike_keep_their_own(one: str, other: str) -> None:
    assert stem(one) != stem(other)


def test_words_of_texts_are_stemmed_in_order() -> None:
    assert content_stems("What did he say about January 6? He said it on the 6th.") == [
        "say",
        "january",
        "6",
        "say",
        "6",
    ]
