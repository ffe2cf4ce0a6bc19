"""Headings of PDFs without bookmarks, which are found by how they are set."""

from collections.abc import Sequence

from groundwire.ingest.parsing.pdf_reader import read_pdf
from groundwire.ingest.parsing.source_text import ReadingLimits, SourceText
from tests.unit.ingest.made_files import Placed, make_pdf

Set = tuple[str, str, float]
"""A line: font (F1, F2 is bold), text, size."""
BODY = "The harbour opens at six in the morning and closes at ten."


def page(*lines: Set) -> list[Placed]:
    """Return the lines, each as far below the one above as its size asks for; an empty one is a gap."""
    placed, height = list[Placed](), 740.0
    for font, text, size in lines:
        height -= 1.2 * size
        placed += [(72, height, font, size, text)] if text else []
    return placed


def read(*pages: Sequence[Placed], bookmarks: Sequence[tuple[str, int]] = ()) -> SourceText:
    return read_pdf(make_pdf(pages, bookmarks=bookmarks), ReadingLimits(), "content")


def found(*pages: Sequence[Placed]) -> list[tuple[int, str]]:
    return [(heading.level, heading.text) for heading in read(*pages).outline.headings]


def test_lines_set_larger_than_the_text_are_headings_the_largest_above_all() -> None:
    text: Set = ("F1", BODY, 10)
    first = page(("F1", "A Book of", 24), ("F1", "Harbours", 24), text, ("F1", "Opening", 14), text, text, text)
    second = page(text, ("F1", "Closing", 14), text, ("F2", "At night", 10), text, text, text)
    assert found(first, second) == [(1, "A Book of Harbours"), (2, "Opening"), (2, "Closing"), (3, "At night")]


def test_a_size_that_sets_no_heading_leaves_no_gap_between_levels() -> None:
    text: Set = ("F1", BODY, 10)
    assert found(page(("F1", "Harbours", 24), ("F1", "12", 18), text, text, ("F1", "Opening", 14), text, text)) == [
        (1, "Harbours"),
        (2, "Opening"),
    ]


def test_headings_that_follow_one_another_are_two_if_they_stand_apart() -> None:
    text: Set = ("F1", BODY, 10)
    lines = page(("F2", "Harbours", 18), ("F1", "", 18), ("F2", "Opening", 18), *[text] * 6, ("F2", "Fees", 10), text)
    assert found(lines) == [(1, "Harbours"), (1, "Opening"), (2, "Fees")]


def test_what_only_stands_out_is_no_heading() -> None:
    text: Set = ("F1", BODY, 10)
    paragraph = ("F2", "Bold words of a paragraph", 10), ("F2", "that go on for two lines", 10)
    ends = ("F2", "Note that it is closed on Sundays.", 10), text, ("F2", "Fees:", 10)
    assert found(page(text, *paragraph, text, *ends, text, ("F1", f"{BODY} {BODY} {BODY}", 13), *[text] * 8)) == []
    everything_bold: Set = ("F2", BODY, 10)
    assert found(page(everything_bold, ("F2", "Fees", 10), everything_bold)) == []


def test_where_much_of_the_text_is_large_its_size_says_nothing() -> None:
    assert found(page(("F1", BODY, 10), ("F1", BODY, 20), ("F1", BODY, 10), ("F1", "Fees", 30))) == []


def test_bookmarks_are_believed_more() -> None:
    pages = page(("F1", "Harbours", 24), ("F1", BODY, 10), ("F1", "Opening", 14), *[("F1", BODY, 10)] * 3)
    headings = read(pages, bookmarks=[("Opening", 0)]).outline.headings
    assert [(heading.level, heading.text) for heading in headings] == [(1, "Opening")]


def test_a_header_in_the_size_of_a_heading_is_one_on_its_first_page_only() -> None:
    pages = [page(("F1", "Harbours", 14), *[("F1", f"{word}. {BODY}", 10)] * 3) for word in ("One", "Two", "Three")]
    assert found(*pages) == [(1, "Harbours")]
