"""Headings of plain text."""

import pytest

from groundwire.ingest.parsing.text_outline import text_outline
from groundwire.kernel.sentences import MAX_HEADING_CHARS
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
        (f"\n\n{'SEA ' * 19}SEAS", f"Chapter 1 {'SEA ' * 19}SEAS"),
        (f"\n\n{'SEA ' * 19}ISLES", "Chapter 1"),
        ("\n\nIt was night", "Chapter 1"),
        ("\n\nTHE SEA\nTHE SHIP", "Chapter 1"),
        ("\nThe Sea", "Chapter 1 The Sea"),
        ("\nThe Sea.", "Chapter 1"),
    ],
)
def test_a_title_is_one_short_line_and_in_capitals_if_it_stands_apart(below: str, text: str) -> None:
    assert found(f"Chapter 1{below}\n\nOne.\n\nChapter 2\n\nTwo.") == [(1, text), (1, "Chapter 2")]


def test_an_appendix_has_a_letter_and_titles_may_be_quoted_and_do_not_end_like_a_sentence() -> None:
    text = "Chapter 1: \u201cThe Sea\u201d\n\nOne.\n\nChapter 2 Owls hunt.\n\nTwo.\n\nAppendix A\n\nThree.\n"
    assert found(text) == [(1, "Chapter 1: \u201cThe Sea\u201d"), (1, "Appendix A")]


def test_parts_that_only_a_table_of_contents_names_are_none() -> None:
    text = "PART ONE\n\nPART TWO\n\nCHAPTER I\n\nEbb.\n\nCHAPTER II\n\nFlow."
    assert found(text) == [(1, "PART TWO"), (2, "CHAPTER I"), (2, "CHAPTER II")]


def test_without_parts_chapters_are_at_the_top() -> None:
    assert found("Chapter 1\n\nOne.\n\nChapter 2\n\nTwo.") == [(1, "Chapter 1"), (1, "Chapter 2")]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_titles_above_a_rule_are_headings_of_the_level_of_its_character(line_end: str) -> None:
    text = (
        "========\nThe Owls\n========\n\nAll of them.\n\nFood\n====\n\nMice.\n\nBy night\n--------\nVoles.\n\n"
        "Sleep\n=====\n\n"
        "Name    Age\n-----------\nAda     3\n\nName | Age\n---- | ---\nAda | 3\n\n----\n\n"
        "Nest\n-------------\n\n=========\nNot this\n---------\n\n"
        "A longer line than the rule below\n---\n"
    ).replace("\n", line_end)
    assert found(text) == [(1, "The Owls"), (2, "Food"), (3, "By night"), (2, "Sleep"), (3, "Nest")]
    owls, food, *_ = text_outline(text).headings
    assert text[owls.start : owls.end] == f"========{line_end}The Owls{line_end}========"
    assert text[food.start : food.end] == f"Food{line_end}===="


@pytest.mark.parametrize(
    ("title", "rule", "is_heading"),
    [
        ("Owls", "---", True),
        ("Owl", "--", False),
        ("Barn owl", "-----", True),
        ("Barn owls", "-----", False),
        ("?!", "---", False),
        ("----", "====", False),
    ],
)
def test_a_rule_has_three_characters_at_least_and_misses_three_of_its_title_at_most(
    title: str, rule: str, is_heading: bool
) -> None:
    text = f"Mice\n----\n\nSmall.\n\nVoles\n-----\n\nFat.\n\n{title}\n{rule}\n\nBig.\n"
    assert found(text) == [(1, "Mice"), (1, "Voles"), *([(1, title)] if is_heading else [])]


def test_levels_end_at_the_sixth_and_long_titles_are_cut() -> None:
    text = "".join(f"{'Owls ' * 100}\n{rule * 497}\n\nBig.\n\n" for rule in "=-~^*#+")
    assert [level for level, _ in found(text)] == [1, 2, 3, 4, 5, 6, 6]
    assert {len(title) for _, title in found(text)} == {MAX_HEADING_CHARS}


@pytest.mark.parametrize("end", [".", ",", ";", ":", "!"])
def test_a_numbered_title_does_not_end_like_a_sentence(end: str) -> None:
    assert found(f"1. Owls\n\nBig.\n\n2. Mice{end}\n\nSmall.\n\n3. Voles\n\nFat.\n") == [
        (1, "1. Owls"),
        (1, "3. Voles"),
    ]


def test_numbers_have_six_parts_at_most_and_two_that_are_missing_between_them_at_most() -> None:
    deep = "1. Owls\n\nBig.\n\n1.1 Barn\n\nOld.\n\n1.1.1 Door\n\nRed.\n"
    assert found(deep) == [(1, "1. Owls"), (2, "1.1 Barn"), (3, "1.1.1 Door")]
    assert found("1. Owls\n\nBig.\n\n4. Mice\n\nSmall.\n") == [(1, "1. Owls"), (1, "4. Mice")]
    assert found("1. Owls\n\nBig.\n\n5. Mice\n\nSmall.\n") == []


@pytest.mark.parametrize("other", ["1.1.2 Barn", "2.2 Barn", "1. Barn", "1.1 Barn"])
def test_a_number_that_does_not_follow_the_one_before_is_no_heading(other: str) -> None:
    text = f"1. Owls\n\nBig.\n\n1.1 Nest\n\nHigh.\n\n{other}\n\nOld.\n\n2. Mice\n\nSmall.\n"
    assert found(text) == [(1, "1. Owls"), (2, "1.1 Nest"), (1, "2. Mice")]


def test_numbered_titles_are_headings_as_far_as_they_count_on() -> None:
    contents = "1. Owls\n\n2. Mice\n\n2.1 Field mice\n\n3. Voles ..... 7\n\n"
    body = (
        "1. Owls\n\n   They hunt.\n\n7. Not this\n\nIt is no section.\n\n2. Mice\n\n2.1 Field mice\n\nSmall.\n\n"
        "2.2 What eats them?\n\nOwls do.\n\n12 May 2020\n\nDay one.\n\n4) Voles\n\nFat.\n\n5. They end here.\n\n"
        "5. Lines\nof a list\n"
    )
    headings = [(1, "1. Owls"), (1, "2. Mice"), (2, "2.1 Field mice"), (2, "2.2 What eats them?"), (1, "4) Voles")]
    assert found(body) == headings
    assert found(contents + body) == headings
    assert text_outline(contents + body).headings[0].start == len(contents)


def test_numbered_titles_may_be_indented_and_items_of_lists_are_none() -> None:
    text = (
        "  1. Owls\n\n     They hunt.\n\n    1.1. Food\n\n     They eat:\n\n"
        "        1. Mice of the barn\n\n        2. Voles\n\n        3. Owls of others\n\n"
        "    1.2. Sleep\n\n     By day.\n\n  2. Mice\n\n     They hide.\n"
    )
    headings = [(1, "1. Owls"), (2, "1.1. Food"), (2, "1.2. Sleep"), (1, "2. Mice")]
    assert found(text) == headings
    owls, *_ = text_outline(text).headings
    assert text[owls.start : owls.end] == "  1. Owls"
    # Items that stand below text further to the left number no sections.
    assert found("Do this:\n\n  1. Wake the owls\n\n     It takes long.\n\n  2. Count them\n\n     All.\n") == []


@pytest.mark.parametrize("space", [" ", "\u00a0"])
def test_sections_of_chapters_and_of_appendices_are_headings(space: str) -> None:
    text = (
        "Chapter 1. Owls\n\nBig.\n\n1.1. owl_count - counting\n\nSlow.\n\n1.1.1. DESCRIPTION\n\nShort.\n\n"
        "Chapter 2. Mice\n\nSmall.\n\nAppendix A. Voles\n\nFat.\n\nA.1. Field voles\n\nFatter.\n\nB.1 Owls\n\nNo.\n\n"
        "Appendix B: End\n\nGone.\n"
    )
    headings = [
        (1, "Chapter 1. Owls"),
        (2, "1.1. owl_count - counting"),
        (3, "1.1.1. DESCRIPTION"),
        (1, "Chapter 2. Mice"),
        (1, "Appendix A. Voles"),
        (2, "A.1. Field voles"),
        (1, "Appendix B: End"),
    ]
    assert found(text.replace("r 1", f"r{space}1").replace(". ", f".{space}").replace("x A", f"x{space}A")) == headings


def test_an_answer_that_a_letter_announces_is_no_appendix() -> None:
    text = "1. Do owls bite?\n\nA. Yes, all of them\n\n1.1 Do mice bite?\n\nNo.\n\n2. Is it day?\n\nB. No\n"
    assert found(text) == [(1, "1. Do owls bite?"), (2, "1.1 Do mice bite?"), (1, "2. Is it day?")]


def test_a_title_between_rules_may_have_its_mark_far_in_front() -> None:
    text = (
        "Contents\n--------\nA.  Owls\nB.  Mice\n\n--------------\nA.        OWLS\n--------------\n\nBig.\n\n"
        "Food\n=====\n\nMice.\n\n--------------\nB.        MICE\n--------------\n\nSmall.\n"
    )
    assert found(text) == [(3, "Contents"), (1, "A. OWLS"), (2, "Food"), (1, "B. MICE")]


def test_a_short_numbered_title_may_have_its_text_in_the_next_line() -> None:
    text = (
        "1. Budget of the society for the year that is past\nThe treasurer presented the budget.\n\n"
        "2. Roof\n\nIt leaks.\n\n"
        "3. A title that is longer than titles mostly are here\nThe text goes on below it.\n\n"
        "3. Wake the owls and the mice\nof the old barn in the north.\n\n3. End\nGo on.\n"
    )
    assert found(text) == [(1, "1. Budget of the society for the year that is past"), (1, "2. Roof")]


def test_a_numbered_question_may_take_several_lines() -> None:
    text = (
        "1. I know that owls hunt mice at night, but mine sleeps.\nWhat do I do?\n\nWake it.\n\n"
        "2. Why does it bite?\nIt is hungry and has no mice.\n\n"
        "2. Is it the light that\nkeeps the owl\nso much\nawake?\n\nNo.\n\n"
        "2. When I wake the owl\nit says so.\nWhat is wrong?\n\nIt is day.\n"
    )
    assert found(text) == [
        (1, "1. I know that owls hunt mice at night, but mine sleeps. What do I do?"),
        (1, "2. Why does it bite?"),
    ]
    assert found(text.replace("2. Why does it bite?\nIt is hungry and has no mice.\n\n", ""))[1:] == [
        (1, "2. When I wake the owl it says so. What is wrong?")
    ]


def test_capitals_above_indented_text_are_headings() -> None:
    text = (
        "OWL(1)\n\nNAME\n       owl - watch mice\n\nSEE ALSO\n\n       mouse(1)\n\n"
        "NOTE\nOwls bite.\n\nCREATE NEST (\n  size\n"
    )
    assert found(text) == [(1, "NAME"), (1, "SEE ALSO")]


@pytest.mark.parametrize(
    ("title", "is_heading"), [("FILES, PATHS & NAMES (A/B-C)", True), ("O" * 61, True), ("O" * 62, False)]
)
def test_capitals_have_the_signs_of_titles_and_61_characters_at_most(title: str, is_heading: bool) -> None:
    text = f"NAME\n  owl\n\n{title}\n  What there is.\n\nNOTES\n  None.\n"
    assert found(text) == [(1, "NAME"), *([(1, title)] if is_heading else []), (1, "NOTES")]


def test_one_form_of_heading_is_taken_alone() -> None:
    rules = "Owls\n----\n\nMice\n----\n\n"
    numbers, chapters = "1. Voles\n\nFat.\n\n2. Foxes\n\nRed.\n\n", "Chapter 1\n\nOne.\n\nChapter 2\n\nTwo.\n\n"
    capitals = "NEST\n  High.\n\nEGGS\n  White.\n\n"
    assert [text for _, text in found(capitals + numbers + chapters + rules)] == ["Owls", "Mice"]
    assert [text for _, text in found(capitals + numbers + chapters)] == ["Chapter 1", "Chapter 2"]
    assert [text for _, text in found(capitals + numbers)] == ["1. Voles", "2. Foxes"]


@pytest.mark.parametrize(
    "text",
    [
        "Chapter 1\n\nThe only one.",
        "Section 1 says.\n\nSection 2 says, too.",
        "part one\n\nSmall.\n\npart two\n\nSmall.",
        "He read\nChapter 1\nand\nChapter 2\nof it.",
        "Introduction\n\nOnly this.",
        "Introduction\n\nOf owls.\n\nOwls and mice\n\nThey hunt.\n\nConclusion\n\nSo it is.",
        "Act I will remember.\n\nAct in haste.",
        "The only one\n============\n\nOwls.",
        "1. Buy mice\n\n2. Feed the owls\n\n3. Sleep",
        "1. Buy mice\n2. Feed the owls\n\nThen sleep.",
        "2. Mice\n\nSmall.\n\n3. Owls\n\nBig.",
        "1. mice\n\nSmall.\n\n2. owls\n\nBig.",
        "NOTE\nOwls bite.\n\nNOTE\nMice do not.",
    ],
)
def test_what_may_be_something_else_is_no_heading(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "bit",
    [
        "CHAPTER I\n\n",
        "\n",
        "CHAPTER I\n",
        "CHAPTER I A",
        " ",
        "Chapter 1 - ",
        "a\n\n",
        "a\n--\n\n",
        "1. A\n\n",
        "A\n ",
    ],
)
def test_the_time_is_linear(bit: str) -> None:
    assert growth(lambda n: bit * n, text_outline, 20_000) < LINEAR
