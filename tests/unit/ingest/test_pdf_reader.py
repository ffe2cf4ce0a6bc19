"""PDF: true pages, the text of each, headings from bookmarks, and every way it can be refused."""

from datetime import UTC, datetime

import pytest

from groundwire.ingest.parsing.pdf_reader import read_pdf
from groundwire.ingest.parsing.source_text import ReadingLimits, SourceText, SourceWarning
from groundwire.kernel.document_errors import (
    DocumentLimitError,
    DocumentMalformedError,
    DocumentWithoutTextError,
)
from tests.unit.ingest.made_files import make_pdf


def read(data: bytes) -> SourceText:
    return read_pdf(data, ReadingLimits(), "content")


def test_each_page_has_its_number_and_its_own_text() -> None:
    found = read(make_pdf(["The moon pulls.\nThe sea rises.", "Two tides a day."]))
    assert found.text == "The moon pulls.\nThe sea rises.\n\nTwo tides a day."
    assert [(page.number, found.text[page.start : page.end]) for page in found.pages] == [
        (1, "The moon pulls.\nThe sea rises."),
        (2, "Two tides a day."),
    ]
    assert found.warnings == {}


def test_the_same_bytes_always_give_the_same_text() -> None:
    data = make_pdf(["One page.", "", "Another page."])
    assert read(data) == read(data)


def test_pages_without_text_are_counted_and_keep_their_numbers() -> None:
    found = read(make_pdf(["First.", "", "", "Fourth."]))
    assert found.warnings == {SourceWarning.PAGE_WITHOUT_TEXT: 2}
    assert [found.text[page.start : page.end] for page in found.pages] == ["First.", "", "", "Fourth."]


def test_a_document_without_any_text_is_refused_with_its_pages() -> None:
    with pytest.raises(DocumentWithoutTextError, match="no text layer") as caught:
        read(make_pdf(["", ""]))
    assert caught.value.metadata == {"pages": "2"}
    assert caught.value.violations[0].field == "content"


def test_bookmarks_become_headings_where_their_title_stands() -> None:
    pages = ["1 Tides\nThe moon pulls.", "2 Waves in\nthe wind\nThe wind pushes.", "3 Gone"]
    found = read(make_pdf(pages, bookmarks=[("1 Tides", 0), ("2 Waves in the wind", 1), ("Not there", 2)]))
    assert [(heading.text, heading.level) for heading in found.outline.headings] == [
        ("1 Tides", 1),
        ("2 Waves in the wind", 1),
    ]
    assert [found.text[heading.start : heading.end] for heading in found.outline.headings] == [
        "1 Tides",
        "2 Waves in\nthe wind",
    ]


def test_a_bookmark_is_no_heading_where_its_title_is_only_part_of_a_line() -> None:
    found = read(make_pdf(["All about Tides and more."], bookmarks=[("Tides", 0)]))
    assert found.outline.headings == ()


def test_the_info_dictionary_becomes_properties() -> None:
    info = {"Title": "Of Tides", "Author": "Ada", "Keywords": "moon, sea", "CreationDate": "D:20240501120000+02'00'"}
    properties = read(make_pdf(["Text."], info=info)).properties
    assert (properties.title, properties.creators, properties.subjects) == ("Of Tides", ("Ada",), ("moon", "sea"))
    assert properties.date_created == datetime(2024, 5, 1, 10, tzinfo=UTC)


@pytest.mark.parametrize("date", ["", "yesterday", "D:20241399", "D:0000", "D:2024050112000099'99'"])
def test_an_unreadable_date_is_left_out(date: str) -> None:
    found = read(make_pdf(["Text."], info={"Title": "untitled", "CreationDate": date})).properties
    assert found.title is None
    assert found.date_created is None or found.date_created.year == 2024


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_a_truncated_file_is_refused(share: float) -> None:
    whole = make_pdf(["Text that is there."])
    with pytest.raises((DocumentMalformedError, DocumentWithoutTextError)):
        read(whole[: int(len(whole) * share)])


def test_pages_that_cannot_be_loaded_make_it_malformed() -> None:
    with pytest.raises(DocumentMalformedError, match="no page") as caught:
        read(make_pdf(["Text."]).replace(b"/Type /Page /Parent", b"/Type /Pogo /Parent"))
    assert caught.value.metadata == {"format": "pdf"}


def test_a_tree_of_pages_that_contains_itself_ends() -> None:
    loop = make_pdf(["Text."]).replace(b"/Kids [4 0 R]", b"/Kids [2 0 R]")
    with pytest.raises((DocumentMalformedError, DocumentWithoutTextError)):
        read(loop)


def test_too_many_pages_are_refused_naming_the_limit() -> None:
    with pytest.raises(DocumentLimitError) as caught:
        read_pdf(make_pdf(["One.", "Two."]), ReadingLimits(pages=1), "content")
    assert caught.value.metadata == {"resource": "pages", "limit": "1"}
