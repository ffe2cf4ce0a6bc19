"""PDF: true pages, the text of each, headings from bookmarks, and every way it can be refused."""

from datetime import UTC, datetime
from time import process_time

import pytest

from groundwire.ingest.parsing import pdf_structure
from groundwire.ingest.parsing.pdf_reader import read_pdf
from groundwire.ingest.parsing.pdf_structure import Bookmark, find_headings, without_running_lines
from groundwire.ingest.parsing.source_text import ReadingLimits, SourceText, SourceWarning
from groundwire.kernel.document_errors import (
    DocumentLimitError,
    DocumentMalformedError,
    DocumentWithoutTextError,
)
from groundwire.kernel.spans import PageSpan
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


def test_a_page_of_spaces_has_no_text() -> None:
    found = read(
        make_pdf([[(72, 700, "F1", 11, "Rain. ")], [(72, 700, "F1", 11, " "), (72, 600, "F1", 11, " ")], "Fog."])
    )
    assert [found.text[page.start : page.end] for page in found.pages] == ["Rain.", "", "Fog."]
    assert found.warnings == {SourceWarning.PAGE_WITHOUT_TEXT: 1}


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
        "2 Waves in the wind",
    ]


def test_a_title_has_a_number_or_capitals_on_its_page_that_its_bookmark_does_not_have() -> None:
    headings = [
        ("Tides", "CHAPTER\nTWO\nTIDES"),
        ("Spring tides", "2.1 Spring tides"),
        ("The moon's part", "2.1.1. The moon\u2019s part"),
        ("Ebb - flow", "Ebb –\nflow"),
        ("A Tables", "Appendix A Tables"),
        ("Letters", "Appendix B: Letters"),
        ("Rain", "Part II. Rain"),
        ("Sun", "SECTION 3 Sun"),
        ("Snow", "Chapter 4.\nSnow"),
        ("Of fog", "A.2. Of fog"),
        ("Of hail", "12.10 Of hail"),
        ("One", "1) One"),
        ("Two", "2: Two"),
        ("Three", "3\u00a0Three"),
        ("Four", "4\t Four"),
        ("It\u2018s", "It's"),
        ('"Five"', "\u201cFive\u201d"),
        ("What? (C++) [x]", "5 What? (C++) [x]"),
        *((f"Six - {sign}", f"Six {sign} {sign}") for sign in "\u2010\u2011\u2012\u2014"),
    ]
    text = "\nWater.\n".join(printed for _, printed in headings) + "\nWater."
    bookmarks = [Bookmark(0, title, 0) for title, _ in headings]
    found = find_headings(text, [PageSpan(1, 0, len(text))], bookmarks)
    assert [(heading.text, text[heading.start : heading.end]) for heading in found] == headings


@pytest.mark.parametrize("line", ["All about Tides and more.", "About 2 Tides", "2 Tides and more", "2Tides", "tides"])
def test_a_line_of_other_words_is_no_heading(line: str) -> None:
    assert find_headings(line, [PageSpan(1, 0, len(line))], [Bookmark(0, "Tides", 0)]) == []


def test_spaces_around_a_title_do_not_matter() -> None:
    text = "Of water.\n \t2  Tides \nThe moon pulls."
    assert [
        heading.text for heading in find_headings(text, [PageSpan(1, 0, len(text))], [Bookmark(0, "Tides", 0)])
    ] == ["Tides"]


def test_a_title_on_an_earlier_page_is_not_the_one_that_a_bookmark_means() -> None:
    found = read(make_pdf(["Contents\nTides", "The sea\nTides"], bookmarks=[("Tides", 1)]))
    assert [heading.start for heading in found.outline.headings] == [found.text.rindex("Tides")]


def test_a_letter_at_the_beginning_is_a_heading_without_a_line_before_it() -> None:
    found = read(make_pdf(["A\nApple, 12"], bookmarks=[("A", 0)]))
    assert found.text == "A\n\nApple, 12"
    assert [(heading.start, heading.end) for heading in found.outline.headings] == [(0, 1)]


def test_titles_are_looked_for_until_it_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_structure, "_MOST_SEARCHED_CHARS", 100)
    text = "1 Tides\n2 Waves\n" + "It rains. " * 12 + "\n3 Fog\n4 Hail"
    bookmarks = [Bookmark(0, title, 0) for title in ("Tides", "Waves", "Fog", "Hail")]
    assert [each.text for each in find_headings(text, [PageSpan(1, 0, len(text))], bookmarks)] == [
        "Tides",
        "Waves",
        "Fog",
    ]


def test_headings_are_on_one_line_apart_from_the_text_around_them() -> None:
    pages = [
        "Of water.\n1 Tides\n1.1 Ebb\nThe sea falls",
        "and rises.\n2 Waves \nand the\n\nwind",
        "Wind makes them.\n\n3 Rain\n\nIt falls.",
    ]
    bookmarks = [("Tides", 0), ("Ebb", 0), ("Waves and the wind", 1), ("Rain", 2)]
    found = read(make_pdf(pages, bookmarks=bookmarks))
    texts = [
        "Of water.\n\n1 Tides\n\n1.1 Ebb\n\nThe sea falls",
        "and rises.\n\n2 Waves and the wind",
        "Wind makes them.\n\n3 Rain\n\nIt falls.",
    ]
    assert [found.text[page.start : page.end] for page in found.pages] == texts
    assert found.text == f"{texts[0]}\n{texts[1]}\n\n{texts[2]}"
    titles = ["1 Tides", "1.1 Ebb", "2 Waves and the wind", "3 Rain"]
    assert [found.text[heading.start : heading.end] for heading in found.outline.headings] == titles


def test_a_numbered_title_comes_before_a_line_that_has_its_words_alone() -> None:
    found = read(make_pdf(["Name Size\nTides\n3.1 Tides\nThe moon pulls."], bookmarks=[("Tides", 0)]))
    assert [found.text[heading.start : heading.end] for heading in found.outline.headings] == ["3.1 Tides"]


def test_a_bookmark_is_no_heading_where_its_title_is_only_part_of_a_line() -> None:
    found = read(make_pdf(["All about Tides and more."], bookmarks=[("Tides", 0)]))
    assert found.outline.headings == ()


def test_headers_footers_and_page_numbers_do_not_stand_between_the_lines_of_a_sentence() -> None:
    texts = [
        "The lamp was lit when the",
        "sun went down. The oil,",
        "which came by sea, was",
        "kept below.",
        "Rats ate.",
    ]
    footer = "Northern Press 2019"
    pages = [f"History of Lights\n{text}\n{footer}\n{number}" for number, text in enumerate(texts, start=141)]
    found = read(make_pdf(pages))
    assert found.text == (
        "History of Lights\nNorthern Press 2019\n\nThe lamp was lit when the\nsun went down. The oil,\n"
        "which came by sea, was\nkept below.\n\nRats ate."
    )
    assert [found.text[page.start : page.end] for page in found.pages[1:]] == texts[1:]


def test_left_and_right_pages_have_headers_of_their_own_with_numbers() -> None:
    texts = [
        "Rain",
        "Sun",
        "Fog",
        "Hail",
        "Snow",
        "Heat",
        "Wind",
        "Ice",
        "Mist",
        "Dew",
        "Frost",
        "Sleet",
        "Calm",
        "Gale",
    ]
    headers = [f"{number} The Lamps" if number % 2 else f"Of Light {number}" for number in range(1, 15)]
    found = read(make_pdf([f"{header}\n{text}." for header, text in zip(headers, texts, strict=True)]))
    assert found.text.startswith("1 The Lamps\n\nRain.\n\nOf Light 2\n\nSun.\n\nFog.\n\nHail.\n\n")
    assert found.text.count("The Lamps") == found.text.count("Of Light") == 1


@pytest.mark.parametrize(
    "pages",
    [
        ["Day 1\nRain.", "Day 2\nSun.", "Day 3\nSnow.", "Day 4\nFog.", "Day 5\nHail."],
        ["The same on each page."] * 4,
        [f"This is page {number}.\nRain {'x' * number}." for number in range(1, 9)],
        [f"{'Of the weather on all days ' * 9}\nRain {'x' * number}." for number in range(1, 9)],
        ["Summary\nRain.", "Sun.", "Snow.", "Summary\nFog.", "Hail.", "Wind.", "Summary\nHeat."],
        ["Northern Press\nRain.", "Northern Press\nSun."],
        [f"{word}\nOf weather.\nOf weather.\nOf weather." for word in ("Rain", "Sun", "Fog", "Hail")],
    ],
)
def test_what_may_be_a_heading_or_all_there_is_stays(pages: list[str]) -> None:
    assert read(make_pdf(pages)).text == "\n\n".join(pages)


def test_of_six_pages_three_lines_at_the_edge_with_its_number_are_no_text_after_the_first() -> None:
    body = [f"{'x' * number} rains.\nIt is wet {'y' * number}.\nFog {'z' * number}." for number in range(1, 7)]
    edge = "Of weather\nNorthern Press\nDay {}\nThe same.\n{}\nOf weather"
    found = read(make_pdf([edge.format(number, text) for number, text in enumerate(body, start=1)]))
    following = [f"The same.\n{text}" for text in body]
    assert found.text == "Of weather\nNorthern Press\nDay 1\n\n" + "\n\n".join(following)


def test_bookmarks_lead_on_and_long_titles_are_cut() -> None:
    long = " ".join(["rain"] * 50)
    bookmarks = [("Rain", 0), ("Rain", 0), ("Fog", 0), ("Sun", 0), (long, 1), (" ".join([long] * 2), 1)]
    found = read(make_pdf(["Rain\nSun\nRain\nFog", f"{long}\n{long} {long}\nEnd"], bookmarks=bookmarks))
    assert [(heading.start, heading.text) for heading in found.outline.headings] == [
        *((0, "Rain"), (11, "Rain"), (17, "Fog")),
        (22, long[:199]),
    ]


def test_a_page_goes_on_only_with_a_small_letter() -> None:
    assert read(make_pdf(["Of the sea", "Tides rise"])).text == "Of the sea\n\nTides rise"
    assert read(make_pdf(["Of the sea", "and of tides"])).text == "Of the sea\nand of tides"
    assert read(make_pdf(["See https://tides.", "example/sea"])).text == "See https://tides.\nexample/sea"
    assert read(make_pdf(["Of the sea.", "example/sea"])).text == "Of the sea.\n\nexample/sea"


def test_a_title_that_a_bookmark_names_stays_on_its_page() -> None:
    bookmarks = [("Results", 0), ("Results", 2)]
    found = read(make_pdf(["Results\nRain.", "Results\nSun.", "Results\nFog."], bookmarks=bookmarks))
    assert found.text == "Results\n\nRain.\n\nSun.\n\nResults\n\nFog."
    assert [found.text[heading.start : heading.end] for heading in found.outline.headings] == ["Results"] * 2


def test_headers_that_change_with_the_chapter_do_not_stand_between_the_lines_of_a_sentence() -> None:
    pages = [
        "1 Tides\nThe moon pulls at the",
        "12 Chapter 1. Tides\nsea, which then",
        "1. Tides 13\nrises",
        "and falls.",
        "2. Waves 15\n2 Waves\nWind drives it on. Near",
        "16 CHAPTER 2. WAVES\nland it",
        "3 The shore\u2019s end 17\nbreaks.",
    ]
    bookmarks = [("Tides", 0), ("Chapter 2. Waves", 4), ("The shore's end", 8)]
    pages += ["18 3. THE SHORE'S END\nFoam.", "The shore's end\nSand."]
    found = read(make_pdf([page.replace("\u2019", "'") for page in pages], bookmarks=bookmarks))
    assert found.text == (
        "1 Tides\n\nThe moon pulls at the\nsea, which then\nrises\nand falls.\n\n"
        "2 Waves\nWind drives it on. Near\nland it\nbreaks.\n\nFoam.\n\nThe shore\u2019s end\n\nSand."
    )


def test_a_header_of_two_titles_needs_no_number() -> None:
    header = "CHAPTER 1. THE SEA 1.{}"
    titles = ["1. Tides", "2. Waves", "3. Foam"]
    texts = ["The moon pulls at the", "sea, which then", "rises."]
    pages = ["The sea\nTides\nWaves\nFoam"]
    pages += [f"{header.format(title.upper())}\n{text}" for title, text in zip(titles, texts, strict=True)]
    bookmarks = [("The sea", 0), ("1.1 Tides", 0), ("Waves", 0), ("Foam", 0)]
    found = read(make_pdf(pages, bookmarks=bookmarks))
    assert found.text.endswith("Foam\n\nThe moon pulls at the\nsea, which then\nrises.")
    assert "1. THE SEA 1.1. TIDES" in read(make_pdf(pages[:3], bookmarks=bookmarks)).text
    assert "1. THE SEA 1.1. TIDES" in read(make_pdf(pages, bookmarks=bookmarks[1:])).text
    assert "1. THE SEA 1.1. TIDES" in read(make_pdf(pages, bookmarks=bookmarks[:1])).text
    # It stays where the title of the page stands nowhere else.
    assert "1. THE SEA 1.2. WAVES" in read(make_pdf(pages, bookmarks=[*bookmarks, ("Waves", 2)])).text
    pages = [
        page.replace("CHAPTER 1. ", "").replace(" 1.1.", "").replace(" 1.2.", "").replace(" 1.3.", "") for page in pages
    ]
    assert "THE SEA TIDES\n" in read(make_pdf(pages, bookmarks=bookmarks)).text


def test_dots_at_the_end_of_a_header_stand_for_the_rest_of_a_title() -> None:
    said = ["The moon pulls at the", "sea, which then", "rises and", "falls."]
    titles = ["What are tides?", "What are waves?", "Why is there foam?", "Wherefrom is rain?"]
    cut = ["WHAT ARE ...", "WHAT ARE WA...", "WHY IS ...", "WHEREFROM IS RAIN?"]
    pages = ["\n".join(["The sea of the north", *titles])]
    pages += [f"1. THE SEA OF ... 1.{n}. {each}\n{text}" for n, (each, text) in enumerate(zip(cut, said, strict=True))]
    pages = [page.replace("...", "\u2026") for page in pages]
    bookmarks = [Bookmark(0, "The sea of the north", 0), *(Bookmark(1, title, 0) for title in titles)]
    named = {(each.page_index, each.title) for each in bookmarks}
    assert without_running_lines(pages, named)[1:] == said
    # Neither dots alone nor other words name a title.
    for header in ("\u2026", "ON THE SEA\u2026", "THE SEA OF\u2026 OF"):
        other = [pages[0], *(f"{header} 1.1. {header}\n{text} {text}" for text in said)]
        assert without_running_lines(other, named)[1].startswith(header), header


def test_code_that_goes_on_on_another_page_has_no_notes_of_it() -> None:
    pages = [
        "wake(owl)\n(continues on next page)",
        "(continued from previous page)\nfeed(owl)\n(continues on next page) of",
    ]
    assert without_running_lines(pages) == ["wake(owl)\n", "feed(owl)\n(continues on next page) of"]


def test_two_pages_with_two_numbers_have_no_header() -> None:
    pages = ["1 Waves 1\nRain.", "2 Waves 2\nSun.", "Fog."]
    found = read(make_pdf(pages, bookmarks=[("Waves", 2), ("Waves 1", 2), ("Waves 2", 2)]))
    assert found.text == "\n\n".join(pages)


def test_headings_that_look_like_headers_stay_on_their_pages() -> None:
    names = ["Rain", "Sun", "Fog", "Hail"]
    pages = [f"{number} {name}\n\n{name} falls." for number, name in enumerate(names, start=1)]
    found = read(make_pdf(pages, bookmarks=[(name, index) for index, name in enumerate(names)]))
    assert [heading.text for heading in found.outline.headings] == names
    assert found.text == "\n\n".join(pages)


def test_raised_digits_stay_apart_from_the_text_before_them() -> None:
    def raised(digits: str) -> str:
        return f") Tj 4 Ts /F1 7 Tf ({digits}) Tj 0 Ts /F1 11 Tf ("

    lines = [
        f"Signed in 1648.{raised('12')} It ended the war.{raised('3')} A sum of 10{raised('3')}",
        f"or 1.25 m{raised('2')}; \\({raised('1')}/2 of 2{raised('1')}/2\\).",
        f"It rose.{raised('3,4')} By 10{raised('-3')} m.",
    ]
    found = read(make_pdf([[(72, 700 - 20 * index, "F1", 11, line) for index, line in enumerate(lines)]]))
    assert found.text == (
        "Signed in 1648.\u00b9\u00b2 It ended the war.\u00b3 A sum of 10\u00b3\nor 1.25 m\u00b2; (1/2 of 2\u00b9/2).\n"
        "It rose.\u00b3,\u2074 By 10\u207b\u00b3 m."
    )


def test_characters_beyond_the_basic_plane_change_nothing_else_on_their_page() -> None:
    placed = [
        (72, 720, "F2", 18, "~ Tides ~"),
        *((72, 690 - 14 * row, "F1", 12, text) for row, text in enumerate(["The ~ pulls.", "It is ~.", "All know~7."])),
        *((72, 600 - 14 * row, "F3", 12, text) for row, text in enumerate(["tide = 1", "  high = 2"])),
        *((x, 500 - 14 * row, "F1", 12, f"~{row}") for row in range(3) for x in (72, 200, 300)),
        (72, 400, "F2", 18, "Waves"),
        (72, 380, "F1", 12, "~ pushes."),
        (72, 300, "F2", 18, "Wind"),
        (80, 280, "F1", 12, "cm"),
        (96, 284, "F1", 8, "2"),
    ]
    shown = read(make_pdf([placed], meant={"~": "\U0001f319"}))
    plain = read(make_pdf([placed], meant={"~": "\u263d"}))
    assert "\n\n```\ntide = 1\n  high = 2\n```\n\n| \u263d0 | \u263d0 | \u263d0 |\n" in plain.text
    assert plain.text.endswith("cm\u00b2")
    assert [heading.text for heading in plain.outline.headings] == ["\u263d Tides \u263d", "Waves", "Wind"]
    assert shown.text.replace("\U0001f319", "\u263d") == plain.text
    assert [heading.text.replace("\U0001f319", "\u263d") for heading in shown.outline.headings] == [
        "\u263d Tides \u263d",
        "Waves",
        "Wind",
    ]


def test_the_info_dictionary_becomes_properties() -> None:
    info = {"Title": "Of Tides", "Author": "Ada", "Keywords": "moon, sea", "CreationDate": "D:20240501120000+02'00'"}
    properties = read(make_pdf(["Text."], info=info)).properties
    assert (properties.title, properties.creators, properties.subjects) == ("Of Tides", ("Ada",), ("moon", "sea"))
    assert properties.date_created == datetime(2024, 5, 1, 10, tzinfo=UTC)
    west = read(make_pdf(["Text."], info={"CreationDate": "D:20240501120000-02'00'"})).properties
    assert west.date_created == datetime(2024, 5, 1, 14, tzinfo=UTC)


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


def test_a_paragraph_begins_where_a_line_stands_apart_or_is_shifted_behind_a_sentence() -> None:
    lines = [
        *((72, 700, "Of the sea"), (72, 672, "The moon pulls"), (72, 658, "at the sea."), (72, 644, "It rises")),
        *((72, 624, "and falls."), (90, 610, "Further in."), (72, 596, "At the margin,"), (90, 582, "Further")),
        *((90, 568, "in again:"), (108, 554, "an item"), (108, 540, "of two lines.")),
        *((105, 526, "Set a little out."), (105, 506.5, "Set lower.")),
    ]
    assert read(make_pdf([[(x, y, "F1", 11, text) for x, y, text in lines]])).text == (
        "Of the sea\n\nThe moon pulls\nat the sea.\nIt rises\nand falls.\n\nFurther in.\n\n"
        "At the margin,\nFurther\nin again:\n\nan item\nof two lines.\nSet a little out.\n\nSet lower."
    )


@pytest.mark.parametrize("said", ["It rains.", "It rains. ", "It rains:", "It rains!", "Does it rain?"])
def test_a_line_further_in_behind_a_sentence_begins_a_paragraph(said: str) -> None:
    found = typed((72, 700, "F1", "Of rain"), (72, 686, "F1", said), (90, 672, "F1", "Fog comes."))
    assert found.text.endswith(f"{said.rstrip()}\n\nFog comes.") or f"{said}\n\nFog comes." in found.text


@pytest.mark.parametrize(("before", "after"), [("and it ", "rains."), ("The fog,", "  which comes."), ("(Fog)", "is.")])
def test_a_sentence_goes_on_below_a_gap(before: str, after: str) -> None:
    found = typed(
        *((72, y, "F1", text) for y, text in ((700, "Of rain"), (686, before), (650, after), (636, "It is.")))
    )
    assert "\n\n" not in found.text


def test_a_sentence_behind_a_gap_is_apart() -> None:
    placed = ((700, "Of rain"), (686, "It rains."), (650, "much of the time."), (636, "It is."))
    assert "It rains.\n\nmuch" in typed(*((72, y, "F1", text) for y, text in placed)).text


def test_the_usual_distance_of_lines_is_that_within_paragraphs() -> None:
    tops = [700, 672, 644, 630, 602, 588, 560]
    texts = ["Rain.", "Sun.", "Fog", "is wet.", "Hail", "is hard.", "End."]
    found = typed(*((72, top, "F1", text) for top, text in zip(tops, texts, strict=True)))
    assert found.text == "Rain.\n\nSun.\n\nFog\nis wet.\n\nHail\nis hard.\n\nEnd."
    # A line that stands closer changes nothing.
    tops = [700, 691, 677, 663, 649, 635]
    found = typed(*((72, top, "F1", f"Rain {top}") for top in tops))
    assert "\n\n" not in found.text
    # Nor does text that runs up the page.
    up = [(72, 700, "F1", f") Tj 0 1 -1 0 {300 + 14 * number} 100 Tm (Fog {number}") for number in range(6)]
    assert "\n\n" not in typed(*((72, 90 - 14 * number, "F1", f"Rain {number}") for number in range(4)), *up).text


def test_a_sign_of_a_deep_font_and_the_next_column_begin_no_paragraph() -> None:
    lines = [(72, 700 - 14 * n, "F3" if n == 1 else "F1", 11, "Rain is wet") for n in range(4)]
    about = "/BaseFont /CMSY10 /FontDescriptor << /Type /FontDescriptor /FontName /CMSY10 /Flags 4 {} >>"
    deep = about.format("/Ascent 700 /Descent -3000 /FontBBox [0 -3000 1000 700]")
    assert "\n\n" not in read(make_pdf([lines], code_font=deep)).text
    columns = [(x, 700 - 14 * n, "F1", f"Rain {n} is wet") for x in (72, 320) for n in range(4)]
    assert "\n\n" not in typed(*columns).text


def test_words_that_a_line_end_divides_are_whole_with_the_hyphen_that_they_have_elsewhere() -> None:
    pages = [
        "Visit an in-\nnetwork doctor, a compli-\ncated way to pay-\nment. Bone-\nanchored aids.",
        "In-network care is complicated. Payment follows. The in-",
    ]
    assert [page.rstrip() for page in read(make_pdf(pages)).text.split("\n")] == [
        *("Visit an in-network", "doctor, a complicated", "way to payment.", "Boneanchored", "aids.", ""),
        "In-network care is complicated. Payment follows. The in-",
    ]
    assert read(make_pdf(pages)).text.endswith("The in-")
    pages = ["Visit an in-\nnetwork doctor. Bone-\nanchored aids.", "In-network care."]
    assert "Bone-anchored" in read(make_pdf(pages)).text


def test_a_document_that_hardly_divides_words_keeps_its_hyphens() -> None:
    one, other = "Bone-\nanchored aids.", "A compli-\ncated rule."
    assert "Bone-anchored" in read(make_pdf([one, "It rains."])).text
    assert "Boneanchored" in read(make_pdf([one, other])).text
    assert "Boneanchored" in read(make_pdf([f"{one} Complicated.", other, "It rains."])).text


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("Bone-\nanchored aids", "Boneanchored\naids"),
        ("State-of-the-art care. A state-of-the-\nart bed", "State-of-the-art care. A state-of-the-art\nbed"),
        ("Pay--payment--then. In-network. An in-\nnetwork pay-\nment here", "payment\nhere"),
        ("In-network. An in-\nnetwork-wide rule", "In-network. An in-network-wide\nrule"),
        ("In-network. An in-\nnetwork\nrule", "In-network. An in-network\nrule"),
        ("in-network. An IN-\nNETWORK rule", "in-network. An IN-NETWORK\nrule"),
        (
            "Complicated. In-network, off-peak, an in-\nnetwork off-\npeak compli-\ncated rule",
            "complicated\nrule",
        ),
        ("Resign, re-sign. They re-\nsign it", "Resign, re-sign. They resign\nit"),
        ("Resign, re-sign, in-network. An in-\nnetwork vet. They re-\nsign it", "vet. They re-sign\nit"),
        ("Of in-\nfor-\nmation here", "Of infor-\nmation here"),
        ("A self-\nmade,co-\npied thing", "A selfmade,copied\nthing"),
    ],
)
def test_a_divided_word_is_written_as_elsewhere(page: str, shown: str) -> None:
    assert [line.rstrip() for line in read(make_pdf([page])).text.split("\n")][-shown.count("\n") - 1 :] == shown.split(
        "\n"
    )


@pytest.mark.parametrize(
    ("drawn", "shown"),
    [
        (
            "The \x1crst di\x1berence, re\x1dected by coe\x1ecients, is sou\x1fe o\x1b",
            "The first difference, reflected by coefficients, is souffle off",
        ),
        (
            "The \x0crst di\x0berence, in\rexible, by coe\x0ecients, is sou\x0fe",
            "The first difference, inflexible, by coefficients, is souffle",
        ),
        (
            "A \x10\x1cshy\x11 plot of \x10+\x11 signs, \x12Tide\x11, \x13mer\x14.",
            "A \u201cfishy\u201d plot of \u201c+\u201d signs, \u201eTide\u201d, \xabmer\xbb.",
        ),
        ("65\x1585 % \x16 or .5\x15.55", "65\u201385 % \u2014 or .5\u2013.55"),
        ("\x88 rain", "\u2022 rain"),
        ("\x15 fog", "\ufffd fog"),
        ("log \x10 \x14 y \x11 \x1b 2 \x88x", "log \ufffd \ufffd y \ufffd \ufffd 2 \x88x"),
    ],
)
def test_bitmap_fonts_of_tex_give_ligatures_quotes_and_dashes(drawn: str, shown: str) -> None:
    assert read(make_pdf([[(72, 700, "F1", 11, drawn)]])).text == shown


def test_a_dash_of_tex_may_begin_a_line_but_the_first() -> None:
    assert read(make_pdf(["Weather:\n\x15 fog\n\x15 2"])).text.split("\n")[1:] == ["\u2013 fog", "\ufffd 2"]


def typed(*lines: tuple[float, float, str, str]) -> SourceText:
    return read(make_pdf([[(x, y, font, 11, text) for x, y, font, text in lines]]))


def test_lines_in_a_typewriter_font_are_code_with_its_indentation() -> None:
    found = typed(
        (72, 700, "F1", "To greet a fox,"),
        (90, 686, "F3", "to greet fox:"),
        (115, 672, "F3", "show fox, self-"),
        (115, 658, "F3", "made"),
        (72, 644, "F1", "is enough."),
        (90, 630, "F3", "greet 1"),
        (72, 616, "F1", "Nothing else."),
    )
    blocks = [
        "To greet a fox,",
        "```\nto greet fox:\n    show fox, self-\n    made\n```",
        "is enough.",
        "```\ngreet 1\n```",
        "Nothing else.",
    ]
    assert found.text == "\n\n".join(blocks)
    assert [found.text[start:end] for start, end in found.outline.verbatim] == blocks[1::2]


def test_terms_names_in_sentences_and_typed_pages_are_no_code() -> None:
    term = [(72, 700, "F3", "cd"), (72, 686, "F3", "cd FOLDER"), (100, 672, "F1", "Changes the folder.")]
    assert "```" not in typed(*term).text
    alone = [(72, 700, "F1", "The names are"), (72, 686, "F3", "cd"), (72, 672, "F1", "and others.")]
    assert "```" not in typed(*alone).text
    between = [(72, 700, "F3", "cd"), (90, 700, "F1", "or"), (110, 700, "F3", "ls")]
    assert "```" not in typed((60, 714, "F1", "Use"), *between, (60, 686, "F1", "here.")).text
    assert "```" not in typed((72, 700, "F3", "Typed by hand,"), (72, 686, "F3", "all of it.")).text
    indented = [(72, 700, "F1", "See"), (90, 686, "F3", "cd ~"), (90, 672, "F3", "ls"), (104, 650, "F1", "A new one.")]
    assert "```\ncd ~\nls\n```" in typed(*indented, (72, 636, "F1", "It goes on.")).text
    far = [
        (72, 700, "F3", "cd"),
        (72, 686, "F3", "cd FOLDER"),
        (72, 672, "F3", "cd ~"),
        (100, 654, "F1", "Changes it."),
    ]
    assert "```" not in typed(*far).text
    for mixed in ([(72, "F1", "Use"), (100, "F3", "cd ls")], [(72, "F3", "cd ls"), (105, "F1", "s")]):
        lines = [(x, 700 - 14 * number, font, text) for number in range(3) for x, font, text in mixed]
        assert "```" not in typed(*lines, (72, 644, "F1", "here.")).text
    assert "```" not in typed((100, 700, "F3", "A header"), (72, 686, "F1", "It rains."), (72, 672, "F1", "Now.")).text
    shifted = [(72, 700, "F1", "The names are"), (75, 686, "F3", "cd"), (72, 672, "F1", "and others.")]
    assert "```" not in typed(*shifted).text
    footer = [(72, 700, "F1", "See"), (90, 686, "F3", "cd ~"), (90, 672, "F3", "ls"), (300, 60, "F1", "12")]
    assert "```\ncd ~\nls\n```" in typed(*footer).text


def test_code_stays_code_whatever_stands_around_it() -> None:
    lines = [(72, 700 - 14 * number, "F3", f"cd {number}") for number in range(9)]
    assert typed(*lines, (72, 560, "F1", "Above.")).text.startswith("```\ncd 0\n")
    near = [(72, 700, "F3", "cd ~"), (72, 686, "F3", "ls")]
    assert typed(*near, (75, 672, "F1", "Below."), (75, 658, "F1", "Lower.")).text.startswith(
        "```\ncd ~\nls\n```\n\nBelow."
    )
    column = [(72, 500, "F1", "See"), (72, 486, "F3", "cd ~"), (72, 472, "F3", "ls")]
    assert "```\ncd ~\nls\n```" in typed(*column, (320, 700, "F1", "Next"), (320, 686, "F1", "column")).text


def test_the_indentation_of_code_is_measured_in_usual_characters() -> None:
    first = [(72, 700, "F1", "See"), (103.2, 686, "F3", "fox"), (90, 672, "F3", "cd"), (90, 658, "F3", "ls -l ")]
    wide = [(90, 644, "F3", "a"), (130, 644, "F3", "b"), (103.2, 630, "F3", "end"), (72, 616, "F1", "here.")]
    assert "```\n  fox\ncd\nls -l\na b\n  end\n```" in typed(*first, *wide).text
    tiny = [
        (72, 700, "F1", 11, "See"),
        (72, 686, "F3", 0.01, "cd"),
        (80, 672, "F3", 0.01, "ls"),
        (72, 640, "F1", 11, "Now"),
    ]
    assert "```\ncd\n        ls\n```" in read(make_pdf([tiny])).text


def test_code_that_shows_fences_is_between_longer_ones() -> None:
    page = [(72, 700, "F1", "See"), (90, 686, "F3", "```{r}"), (90, 672, "F3", "ls()"), (90, 658, "F3", "```")]
    found = typed(*page, (72, 644, "F1", "and"), (90, 630, "F3", "q()"))
    blocks = ["````\n```{r}\nls()\n```\n````", "```\nq()\n```"]
    assert found.text == f"See\n\n{blocks[0]}\n\nand\n\n{blocks[1]}"
    assert [found.text[start:end] for start, end in found.outline.verbatim] == blocks


def test_backticks_of_a_page_itself_are_code_only_around_lines() -> None:
    for texts in (["Use ```", "it", "```"], ["```", "it", "```b"]):
        typed_page = [(72, 700 - 14 * number, "F3", 11, text) for number, text in enumerate(texts)]
        code = [(72, 700, "F1", 11, "See"), (90, 686, "F3", 11, "cd"), (90, 672, "F3", 11, "ls")]
        found = read(make_pdf([typed_page, code]))
        assert [found.text[start:end] for start, end in found.outline.verbatim] == ["```\ncd\nls\n```"]


def test_code_far_outside_of_the_page_does_not_fill_the_memory() -> None:
    code = [(90, 686, "F3", "ls"), (90_000_000, 672, "F3", "cd")]
    found = typed((72, 700, "F1", "See"), *code, (72, 640, "F1", "here."))
    assert found.text == f"See\n\n```\nls\n{' ' * 200}cd\n```\n\nhere."


def test_thousands_of_typed_lines_that_are_no_code_take_linear_time() -> None:
    count = 16_000
    terms = [(72, -14 * number, "F3", "cd") for number in range(count)]
    prose = [(90, -14 * number, "F1", "x") for number in range(count, count + count // 10)]
    start = process_time()
    assert "```" not in typed(*terms, *prose).text
    assert process_time() - start < 4  # 8 and more, if each line looks for the end of all


def test_sentences_of_text_that_runs_up_the_page_are_one_paragraph() -> None:
    lines = [f") Tj 0 1 -1 0 {72 + 14 * number} 100 Tm (Rain falls." for number in range(4)]
    assert typed(*((72, 700, "F1", line) for line in lines)).text == "\n".join(["Rain falls."] * 4)


def test_code_and_tables_at_the_edge_of_pages_are_no_headers() -> None:
    code = [(90, 686, "F3", "cd ~"), (90, 672, "F3", "ls")]
    rows = [(x, 686 - 14 * row, "F1", f"{x + row}") for row in range(3) for x in (72, 260, 420)]
    for block, shown in (
        (code, "```\ncd ~\nls\n```"),
        (rows, "| 72 | 260 | 420 |\n| 73 | 261 | 421 |\n| 74 | 262 | 422 |"),
    ):
        pages = [[*((72, 700, "F1", f"See {'x' * number}"), *block)] for number in range(1, 5)]
        found = read(make_pdf([[(x, y, font, 11, text) for x, y, font, text in page] for page in pages]))
        assert found.text.replace("| --- | --- | --- |\n", "").count(shown.strip()) == 4


@pytest.mark.parametrize(
    "name",
    [
        *("DejaVuSansMono", "LucidaTypewriter", "LucidaConsole", "Consolas", "Menlo-Regular", "SourceCodePro"),
        *("CMTT10", "CMSLTT10", "ECTT1000", "SFTT1000", "txtt", "ABCDEF+cmtt8"),
    ],
)
def test_fonts_of_typewriters_are_known_by_their_names(name: str) -> None:
    page = [(72, 700, "F1", 11, "See"), (90, 686, "F3", 11, "cd"), (90, 672, "F3", 11, "ls")]
    assert read(make_pdf([page], code_font=f"/BaseFont /{name}")).text == "See\n\n```\ncd\nls\n```"


def test_other_fonts_are_those_of_a_typewriter_if_they_say_so() -> None:
    page = [(72, 700, "F1", 11, "See"), (90, 686, "F3", 11, "cd"), (90, 672, "F3", 11, "ls")]
    about = "/BaseFont /{0} /FontDescriptor << /Type /FontDescriptor /FontName /{0} /Flags {1} >>"
    for name, flags, is_code in (("Garrett", 33, True), ("Garrett", 32, False), ("ArialUnicodeMS", 32, False)):
        assert ("```" in read(make_pdf([page], code_font=about.format(name, flags))).text) is is_code
