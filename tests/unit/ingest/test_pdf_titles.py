"""PDF without bookmarks or tags: titles are told by their type."""

import pytest

from groundwire.ingest.parsing.pdf_reader import read_pdf
from groundwire.ingest.parsing.source_text import ReadingLimits
from tests.unit.ingest.made_files import Placed, make_pdf

TEXT, BOLD, CODE = "F1", "F2", "F3"
Line = tuple[str, str, float]
"""Its text, font and size."""


def page(*lines: Line) -> list[Placed]:
    """Return lines one below the other, each as far from the one before as it is tall."""
    placed, y = list[Placed](), 750.0
    for text, font, size in lines:
        y -= 1.2 * size
        placed.append((72, y, font, size, text))
    return placed


def text(*lines: str) -> list[Line]:
    return [(line, TEXT, 10) for line in lines]


FILLER = text(*["The moon pulls the water of the sea, and the sea follows it."] * 8)


def headings(*pages: list[Placed], bookmarks: tuple[tuple[str, int], ...] = ()) -> list[tuple[int, str]]:
    found = read_pdf(make_pdf(pages, bookmarks=bookmarks), ReadingLimits(), "content")
    return [(heading.level, found.text[heading.start : heading.end]) for heading in found.outline.headings]


def with_titles(*titles: Line) -> list[Placed]:
    """Return a page with three titles that are headings in any case, and others, each with text below it."""
    plain = [(f"{name} tides", BOLD, 14.0) for name in ("Spring", "Neap", "Red")]
    return page(*(line for title in (*plain, *titles) for line in (title, *FILLER[:4])))


PLAIN = [(1, "Spring tides"), (1, "Neap tides"), (1, "Red tides")]


def test_larger_type_names_the_headings_and_its_size_their_levels() -> None:
    first = page(("1 Tides", TEXT, 18), *FILLER, ("1.1 Spring tides", TEXT, 14), *FILLER, ("Floods", BOLD, 10), *FILLER)
    second = page(*FILLER, ("2 Waves and", TEXT, 18), ("the wind", TEXT, 18), *FILLER)
    assert headings(first, second) == [
        (1, "1 Tides"),
        (2, "1.1 Spring tides"),
        (3, "Floods"),
        (1, "2 Waves and the wind"),
    ]


def test_numbered_titles_in_the_type_of_the_text_are_headings() -> None:
    """As in articles whose titles are set in small capitals; type tells the headings wherever it can."""
    said = [FILLER[0][0]] * 2
    lines = ["1. Introduction", *said, "2 The tides", *said]
    ys = [700, 670, 658, 628, 598, 586]
    printed: list[Placed] = [(72, y, TEXT, 10, line) for y, line in zip(ys, lines, strict=True)]
    assert headings(printed) == [(1, "1. Introduction"), (1, "2 The tides")]
    assert headings(printed, bookmarks=(("The tides", 0),)) == [(1, "2 The tides")]


def test_a_question_may_be_a_long_title() -> None:
    question = "If the moon pulls the sea to it twice a day, why does it do so here but once?"
    assert headings(with_titles((question, BOLD, 14))) == [*PLAIN, (1, question)]
    assert headings(with_titles((question.rstrip("?"), BOLD, 14))) == PLAIN


def test_titles_have_the_ligatures_of_tex() -> None:
    """Of bitmap fonts, of which PDFium gives control characters."""
    assert headings(with_titles(("Re\x1dected tides", BOLD, 14))) == [*PLAIN, (1, "Reflected tides")]


@pytest.mark.parametrize(
    "line",
    [
        ("All of this is said in bold type.", BOLD, 10),
        ("Responsibilities:", BOLD, 10),
        ("and so the sentence goes on", BOLD, 10),
        ("(see the section on waves)", TEXT, 14),
        ("Tides are " + "very " * 30 + "high", BOLD, 10),
        ("1234", BOLD, 14),
        ("Typed by hand", CODE, 14),
        ("4 Waves . . . . . . . xii", BOLD, 14),
        ("4 Waves, tides, and what they do to the sea . . 12", BOLD, 14),
        ("Slightly larger", TEXT, 11),
        ("Small but bold", BOLD, 8),
    ],
)
def test_what_is_no_title(line: Line) -> None:
    assert headings(with_titles(line)) == PLAIN


def test_a_line_that_only_begins_or_ends_bold_is_no_title() -> None:
    made = with_titles()
    last = made[-1][1]
    run_in = [(72.0, last - 14, BOLD, 10.0, "Floods"), (120.0, last - 14, TEXT, 10.0, "come in spring")]
    assert headings([*made, *run_in]) == PLAIN
    assert headings([*made, (72.0, last - 14, BOLD, 10.0, "Floods come in spring")]) == [
        *PLAIN,
        (2, "Floods come in spring"),
    ]


def test_a_row_of_cells_is_no_title_but_a_number_may_stand_apart() -> None:
    made = with_titles()
    y = made[-1][1] - 20
    assert headings([*made, (72, y, BOLD, 14, "Height"), (200, y, BOLD, 14, "Time")]) == PLAIN
    assert headings([*made, (72, y, BOLD, 14, "4.1"), (200, y, BOLD, 14, "Times of day")])[-1] == (
        1,
        "4.1 Times of day",
    )


def test_a_title_has_at_most_three_lines() -> None:
    lines = [(f"Line {name} of it", BOLD, 12.0) for name in ("one", "two", "three")]
    shown = " ".join(name for name, *_ in lines)
    assert headings(page(*FILLER, *lines, *FILLER), with_titles()) == [(2, shown), *PLAIN]
    assert headings(page(*FILLER, *lines, ("Line four of it", BOLD, 12), *FILLER), with_titles()) == PLAIN


def test_titles_further_apart_are_two() -> None:
    made = with_titles()
    y = made[-1][1]
    two = [(72.0, y - 20, BOLD, 14.0, "4 Waves"), (72.0, y - 50, BOLD, 14.0, "4.1 Of the wind")]
    assert headings([*made, *two]) == [*PLAIN, (1, "4 Waves"), (1, "4.1 Of the wind")]


def test_what_stands_all_over_the_document_is_no_title() -> None:
    notes = [page(*FILLER, ("Note", BOLD, 10), *FILLER) for _ in range(4)]
    assert headings(with_titles(), *notes) == PLAIN
    assert headings(with_titles(), *notes[:3]) == [*PLAIN, *[(2, "Note")] * 3]


def test_headers_of_pages_are_no_titles_whatever_their_numbers() -> None:
    pages = [page((f"{number} Of the sea", BOLD, 14), *FILLER) for number in range(11, 16)]
    assert headings(with_titles(), *pages) == PLAIN


def test_the_title_of_the_document_is_no_heading() -> None:
    cover = page(("All about the sea", BOLD, 24), ("by Ada", TEXT, 10))
    assert headings(cover, with_titles()) == PLAIN
    assert headings(page(*FILLER), cover, with_titles())[0] == (1, "All about the sea")


def test_where_the_text_is_bold_only_larger_type_is_a_title() -> None:
    bold = [(line, BOLD, size) for line, _, size in FILLER]
    made = page(*(line for title in ("Spring", "Neap", "Red") for line in ((f"{title} tides", TEXT, 14.0), *bold[:4])))
    assert headings(made) == PLAIN
    assert headings([*made, (72, made[-1][1] - 12, BOLD, 10, "Floods")]) == PLAIN


def test_two_titles_are_too_few_and_every_third_line_is_too_many() -> None:
    assert headings(page(*FILLER, ("Tides", BOLD, 14), *FILLER, ("Waves", BOLD, 14), *FILLER)) == []
    mixed = [line for number in "abcdefgh" for line in ((f"Rain {number * 3}", BOLD, 14.0), *FILLER[:1])]
    assert headings(page(*mixed)) == []


def test_bookmarks_come_first_where_their_titles_stand_on_the_pages() -> None:
    made = with_titles()
    assert headings(made, bookmarks=(("Neap tides", 0),)) == [(1, "Neap tides")]
    assert headings(made, bookmarks=(("Of something else", 0),)) == PLAIN


@pytest.mark.parametrize("size", [0.02, 0.04, -12, 99_999_999])
def test_type_of_any_size_is_read(size: float) -> None:
    odd = [(72.0, 700.0 - 14 * row, TEXT, size, f"Line {row} of it") for row in range(9)]
    found = read_pdf(make_pdf([odd]), ReadingLimits(), "content")
    assert "Line 3 of it" in found.text
    assert found.outline.headings == ()
    assert headings(odd, with_titles()) == PLAIN
