"""The printed table of contents of a PDF: what it names are headings, and what it says is not in the text."""

from time import process_time

import pytest

from groundwire.ingest.parsing.pdf_contents import find_contents
from groundwire.ingest.parsing.pdf_reader import read_pdf
from groundwire.ingest.parsing.pdf_structure import Bookmark
from groundwire.ingest.parsing.source_text import ReadingLimits, SourceText
from tests.unit.ingest.made_files import make_pdf

TITLES = ["Tides", "Ebb", "Flow", "Waves", "Names"]
BODY = [f"{title}\nAll about {title.lower()}." for title in TITLES]


def read(data: bytes) -> SourceText:
    return read_pdf(data, ReadingLimits(), "content")


def listed(*, dots: str = " . . . . . . ", first: int = 1) -> list[str]:
    return [f"{title}{dots}{page}" for page, title in enumerate(TITLES, first)]


def left(*contents: str, body: list[str] = BODY) -> str:
    """Return what is left of a first page with these lines."""
    pages = ["\n".join(contents), *body]
    shown = find_contents(pages).left_out(pages)
    assert shown[1:] == body
    return shown[0]


def test_the_text_of_a_pdf_does_not_have_its_contents() -> None:
    front = ["The sea", "\n".join(["Table of Contents", *listed(), "We thank all sailors."])]
    found = read(make_pdf([*front, *BODY]))
    assert found.text.startswith("The sea\n\nWe thank all sailors.\n\nTides\n\nAll about tides.")
    assert "Contents" not in found.text
    assert "." * 2 not in found.text.replace(" ", "")
    assert [found.text[page.start : page.end][:3] for page in found.pages] == [
        "The",
        "We ",
        "Tid",
        "Ebb",
        "Flo",
        "Wav",
        "Nam",
    ]
    assert [heading.text for heading in found.outline.headings] == TITLES


@pytest.mark.parametrize("dots", ["....", " . . . . . ", "\u2026\u2026", "\u2026\u2026\u2026 ", ". . . . . . .  "])
def test_dots_that_lead_to_numbers_are_set_in_many_ways(dots: str) -> None:
    assert left(*listed(dots=dots)) == ""


def test_an_ellipsis_is_part_of_the_title() -> None:
    body = [*BODY, "And so on\u2026\nIt ends."]
    pages = ["\n".join([*listed(), "And so on\u2026 . . . . . 6"]), *body]
    assert find_contents(pages).bookmarks[-1] == Bookmark(0, "And so on\u2026", 6)


def test_contents_without_dots_are_left_out_and_name_no_headings() -> None:
    pages = ["\n".join(["Contents", *listed(dots=" ")]), *BODY]
    assert find_contents(pages).left_out(pages) == ["", *BODY]
    assert find_contents(pages).bookmarks == []
    in_a_table = [f"| {title} | {page} |" for page, title in enumerate(TITLES, 1)]
    assert left("A book.", *in_a_table, "Printed at sea.") == "A book.\nPrinted at sea."


@pytest.mark.parametrize(
    "lines",
    [
        [f"{title} {number}" for title, number in zip(TITLES, (9, 1, 4, 9, 2), strict=True)],
        [f"{title} {number}" for number, title in enumerate(reversed(TITLES), 1)],
        listed(dots=" ")[:4],
        [*listed(dots=" ")[:2], *["It rains in the night.", "It is cold by day."] * 4, *listed(dots=" ")[2:]],
        [f"Soup {number} . . . . . . {number}" for number in range(1, 9)],
        ["A sum of a, b, . . . . are the terms", *listed()[:2], "of the whole."],
        [f"{title}{number}" for number, title in enumerate(TITLES, 1)],
    ],
    ids=["figures", "backwards", "few", "mostly text", "prices", "formula", "names with numbers"],
)
def test_what_only_looks_like_contents_stays(lines: list[str]) -> None:
    assert left(*lines) == "\n".join(lines)


def test_lines_without_dots_need_three_on_each_page() -> None:
    pages = ["\n".join(listed(dots=" ")[:3]), "\n".join(listed(dots=" ", first=1)[3:]), *BODY]
    # Two pages come before that with the number 1.
    assert find_contents(pages).left_out(pages)[:2] == pages[:2]
    longer = [*TITLES, "Rain"]
    contents = [f"{title} {page}" for page, title in enumerate(longer, 1)]
    pages = ["\n".join(contents[:3]), "\n".join(contents[3:]), *BODY, "Rain"]
    assert find_contents(pages).left_out(pages)[:2] == ["", ""]


def test_titles_of_several_lines_and_numbers_of_other_kinds_are_part_of_the_contents() -> None:
    body = [*BODY, "A long title that goes on\nfor another line\nIt says little."]
    contents = ["Preface . . . . . . xii", *listed(), "A long title that goes on", "for another line . . . . 6"]
    assert left("Contents", *contents, "Maps . . . . . . 3, 5", body=body) == ""


def test_a_title_of_two_lines_is_one_heading() -> None:
    contents = [*listed(), "1.2 Why it rains in the night", "and where . . . . . . 6", "Fog . . . . . . 6"]
    header = "2 The sea"
    found = find_contents(["\n".join([header, *contents]), *BODY, "1.2 Why it rains in the night\nand where\nFog"])
    assert found.bookmarks[0] == Bookmark(0, "Tides", 1)
    assert found.bookmarks[-2:] == [Bookmark(1, "Why it rains in the night and where", 6), Bookmark(0, "Fog", 6)]


def test_lists_of_figures_lead_to_captions() -> None:
    body = [f"{title}\nFigure {number}: The {title.lower()} of a day at noon" for number, title in enumerate(TITLES, 1)]
    figures = [f"{number} The {title.lower()} of a day . . . . {number}" for number, title in enumerate(TITLES, 1)]
    assert left(*listed(), "List of Figures", *figures, body=body) == ""
    assert left("List of Figures", *figures, body=body) == ""
    assert left("Figures of the sea", *figures, body=body) == "Figures of the sea"


def test_text_between_the_entries_of_an_index_stays() -> None:
    text = ["Numbers in italics are those", "of the pages where a word", "is explained."]
    assert left(*listed(), "A", *text, "B", *listed()) == "\n".join(text)


def test_an_entry_leads_to_another_page() -> None:
    pages = [*BODY, "\n".join([*TITLES, *listed(first=6)])]
    assert find_contents(pages).lines == {}


def test_thousands_of_entries_that_lead_to_one_long_page_take_little_time() -> None:
    entries = [f"{title} . . . . 6" for number in range(10_000) for title in (f"Nothing {number}", "All is wet")]
    pages = ["\n".join([*listed(), *entries]), *BODY, "All is wet. " * 200_000]
    begin = process_time()
    assert len(find_contents(pages).bookmarks) == len(TITLES) + len(entries)
    assert process_time() - begin < 10


def test_numbers_before_titles_give_the_depth_also_without_dots() -> None:
    contents = ["1 Tides 1", "1.1 Ebb . . . . . 2", "1.2 Flow . . . . . 3", "2 Waves 4", "A. Names . . . . 5"]
    assert find_contents(["\n".join(contents), *BODY]).bookmarks == [
        *(Bookmark(0, "Tides", 1), Bookmark(1, "Ebb", 2), Bookmark(1, "Flow", 3)),
        *(Bookmark(0, "Waves", 4), Bookmark(0, "Names", 5)),
    ]


def test_without_bookmarks_the_printed_contents_name_the_headings() -> None:
    titles = ["1 Tides", "1.1 Ebb", "1.2 Flow", "2 Waves", "A. Names"]
    contents = "\n".join(f"{title} . . . . . . {page}" for page, title in enumerate(titles, 1))
    pages = ["The sea", contents, *(f"Page {n}\n{title}\nThe sea is wet." for n, title in enumerate(titles, 1))]
    found = read(make_pdf(pages))
    assert [(each.level, each.text, found.text[each.start : each.end]) for each in found.outline.headings] == [
        *((1, "Tides", "1 Tides"), (2, "Ebb", "1.1 Ebb"), (2, "Flow", "1.2 Flow"), (1, "Waves", "2 Waves")),
        (1, "Names", "A. Names"),
    ]
    assert read(make_pdf(["The sea", *pages[1:]], bookmarks=[("Flow", 4)])).outline.headings[0].text == "Flow"


@pytest.mark.parametrize("first", [1, 2])
def test_contents_need_no_numbers_before_their_titles(first: int) -> None:
    contents = "\n".join(["Cover . . . . . . 0", *listed(first=first)])
    found = read(make_pdf([contents, *BODY, "Cover"]))
    assert [each.text for each in found.outline.headings] == TITLES


def test_dots_that_lead_to_no_titles_are_no_contents() -> None:
    prices = "\n".join(f"Fish {n} ......... {n}" for n in range(1, 9))
    assert read(make_pdf([prices, "1 Fish 1\nIt swims.", "Eels", "Rays"])).outline.headings == ()
    few = "1 Tides . . . . 1\n2 Waves . . . . 2\n3 Rain . . . . 3\n4 Fog . . . . 4"
    assert read(make_pdf([few, "1 Tides", "2 Waves", "3 Rain", "4 Fog"])).outline.headings == ()
    beyond = "\n".join(f"{n} Title {chr(64 + n)} ......... {n}" for n in range(1, 7))
    found = read(make_pdf([beyond, "1 Title A", "2 Title B", "3 Title C"]))
    assert [each.text for each in found.outline.headings] == ["Title A", "Title B", "Title C"]
