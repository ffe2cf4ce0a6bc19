"""Tagged PDF: headings that nothing but the structure of the document names."""

import pytest

from groundwire.ingest.parsing import pdf_tags
from groundwire.ingest.parsing.pdf_reader import read_pdf
from groundwire.ingest.parsing.source_text import ReadingLimits
from tests.unit.ingest.made_files import make_tagged_pdf


def headings(data: bytes) -> list[tuple[int, str]]:
    found = read_pdf(data, ReadingLimits(), "content")
    return [(heading.level, found.text[heading.start : heading.end]) for heading in found.outline.headings]


def test_tags_name_the_headings_of_each_page_with_their_levels() -> None:
    pages = [
        [("H1", "Tides"), ("P", "The moon pulls."), ("H2", "Spring tides and\nneap tides"), ("P", "Both come twice.")],
        [("P", "They differ."), ("H1", "Waves"), ("P", "Waves are none.")],
    ]
    assert headings(make_tagged_pdf(pages)) == [(1, "Tides"), (2, "Spring tides and neap tides"), (1, "Waves")]


def test_headings_may_lie_in_sections_and_consist_of_parts() -> None:
    pages = [[("Sect/H2/Span", "Tides"), ("Sect/P", "The moon pulls."), ("Sect/Sect/H", "Waves"), ("P", "Wind.")]]
    assert headings(make_tagged_pdf(pages)) == [(2, "Tides"), (1, "Waves")]


def test_lines_outside_of_the_structure_are_part_of_no_heading() -> None:
    pages = [[("", "Of the sea"), ("H1/Span", "Tides"), ("P", "The moon pulls."), ("", "1"), ("H1/Span", "Waves")]]
    assert headings(make_tagged_pdf(pages)) == [(1, "Tides"), (1, "Waves")]


def test_types_of_others_mean_what_the_document_says() -> None:
    pages = [[("Heading1", "Tides"), ("Title", "Of the sea"), ("P", "The moon pulls.")]]
    assert headings(make_tagged_pdf(pages)) == []
    assert headings(make_tagged_pdf(pages, roles={"Heading1": "H1"})) == [(1, "Tides")]


def test_a_line_that_reads_like_a_heading_elsewhere_is_none() -> None:
    pages = [[("P", "Of the sea."), ("H1", "Tides"), ("P", "The moon pulls.")], [("P", "Tides"), ("P", "Two a day.")]]
    data = make_tagged_pdf(pages)
    found = read_pdf(data, ReadingLimits(), "content")
    (heading,) = found.outline.headings
    assert found.pages[0].start < heading.start < found.pages[0].end
    assert heading.text == "Tides"


@pytest.mark.parametrize(
    ("bookmarks", "levels"),
    [([("Tides", 0), ("Waves", 1), ("Wind", 1)], [1, 1, 1]), ([("Tides", 0)], [2, 2])],
    ids=["bookmarks", "tags"],
)
def test_of_bookmarks_and_tags_those_that_are_more_name_the_headings(
    bookmarks: list[tuple[str, int]], levels: list[int]
) -> None:
    pages = [[("H2", "Tides"), ("P", "The moon pulls.")], [("H2", "Waves"), ("P", "Wind"), ("P", "It blows.")]]
    assert [level for level, _ in headings(make_tagged_pdf(pages, bookmarks=bookmarks))] == levels


def test_a_document_of_too_many_elements_has_no_headings_rather_than_half_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = make_tagged_pdf([[("H1", f"Day {number * number}"), ("P", "It rains.")] for number in range(10)])
    assert len(headings(data)) == 10
    monkeypatch.setattr(pdf_tags, "_MOST_PARTS", 150)
    assert headings(data) == []


def test_elements_need_not_be_in_the_order_of_the_pages() -> None:
    pages = [[("H1", "Tides"), ("P", "The moon pulls.")], [("H1", "Waves"), ("P", "Wind.")]]
    kids = b"/K [11 0 R 12 0 R 13 0 R 14 0 R]"
    assert kids in (data := make_tagged_pdf(pages))
    for other in (b"/K [12 0 R 13 0 R 11 0 R 14 0 R]", b"/K [13 0 R 14 0 R 11 0 R 12 0 R]"):
        assert headings(data.replace(kids, other)) == [(1, "Tides"), (1, "Waves")]


def test_damaged_tags_cost_headings_and_not_the_document() -> None:
    data = make_tagged_pdf([[("H1", "Tides"), ("P", "The moon pulls.")]])
    for damaged in (
        data.replace(b"/ParentTree", b"/ParentTrex"),
        data.replace(b"/S /H1", b"/S /Hx"),
        data.replace(b"/S /Document", b"/S /H1      "),
        data.replace(b"/K [0] >>", b"/K [9] >>"),
    ):
        assert damaged != data
        assert read_pdf(damaged, ReadingLimits(), "content").text.split() == ["Tides", "The", "moon", "pulls."]
