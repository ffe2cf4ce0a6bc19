"""Chapters of books in plain text."""

import pytest

from groundwire.ingest.parsing.text_readers import text_outline
from tests.growth import LINEAR, growth

BOOK = """The Keeper

CHAPTER I. The Storm

CHAPTER II. The Wreck


BOOK ONE

CHAPTER I

THE STORM AT SEA

It was night.

  Chapter the Second.
  Of the Wreck

The brig struck. Chapter 3 is later.

Chapter 5 describes the brig.

Letter 4 — To Mrs. Hale

Dear Mrs. Hale,

BOOK TWO

CHAPTER XIV: AFTER
It was day, and the sea was calm.
All was quiet.

Epilogue

He slept.
"""


def found(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.text) for heading in text_outline(text).headings]


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_chapters_are_headings_with_their_titles(line_end: str) -> None:
    text = BOOK.replace("\n", line_end)
    assert found(text) == [
        (1, "BOOK ONE"),
        (2, "CHAPTER I THE STORM AT SEA"),
        (2, "Chapter the Second. Of the Wreck"),
        (2, "Letter 4 — To Mrs. Hale"),
        (1, "BOOK TWO"),
        (2, "CHAPTER XIV: AFTER"),
        (2, "Epilogue"),
    ]
    storm = text_outline(text).headings[1]
    assert text[storm.start : storm.end] == f"CHAPTER I{line_end}{line_end}THE STORM AT SEA"


@pytest.mark.parametrize(
    ("below", "text"),
    [
        ("\nThe Sea\nis wide.\n\nTHE SEA", "Chapter 1"),
        (f"\n\n{'SEA ' * 25}", "Chapter 1"),
        ("\n\nIt was night", "Chapter 1"),
        ("\nThe Sea", "Chapter 1 The Sea"),
    ],
)
def test_a_title_is_one_short_line_and_in_capitals_if_it_stands_apart(below: str, text: str) -> None:
    assert found(f"Chapter 1{below}\n\nOne.\n\nChapter 2\n\nTwo.") == [(1, text), (1, "Chapter 2")]


def test_parts_that_only_a_table_of_contents_names_are_none() -> None:
    text = "PART ONE\n\nPART TWO\n\nCHAPTER I\n\nEbb.\n\nCHAPTER II\n\nFlow."
    assert found(text) == [(1, "PART TWO"), (2, "CHAPTER I"), (2, "CHAPTER II")]


def test_without_parts_chapters_are_at_the_top() -> None:
    assert found("Chapter 1\n\nOne.\n\nChapter 2\n\nTwo.") == [(1, "Chapter 1"), (1, "Chapter 2")]


@pytest.mark.parametrize(
    "text",
    [
        "Chapter 1\n\nThe only one.",
        "Section 1 says.\n\nSection 2 says, too.",
        "part one\n\nSmall.\n\npart two\n\nSmall.",
        "He read\nChapter 1\nand\nChapter 2\nof it.",
        "Introduction\n\nOnly this.",
        "Act I will remember.\n\nAct in haste.",
    ],
)
def test_what_may_be_something_else_is_no_heading(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("bit", ["CHAPTER I\n\n", "\n", "CHAPTER I\n", "CHAPTER I A", " ", "Chapter 1 - ", "a\n\n"])
def test_the_time_is_linear(bit: str) -> None:
    assert growth(lambda n: bit * n, text_outline, 20_000) < LINEAR
