"""Where texts are cut: what places cost, where overlapping text begins, and what is left out at the ends."""

import re

import pytest

from groundwire.ingest.chunking.cuts import (
    CHAPTER_LEVEL,
    SECTION_LEVEL,
    Heading,
    SectionPaths,
    TextOutline,
    TextSection,
    cut_before,
    cut_cost,
    lies_inside,
    restart_near,
    runs_of,
    sections_of,
    trim,
)

PARAGRAPH, LINE, SENTENCE, WITHIN_SENTENCE, WORD, WITHIN_WORD = (
    cut_cost(*place, ())
    for place in (
        ("One.\n\nTwo.", 6),
        ("One.\nTwo.", 5),
        ("One. Two.", 5),
        ("the owl\nsleeps", 8),
        ("one two", 4),
        ("one", 1),
    )
)


def test_a_chunk_ends_best_behind_a_paragraph_then_a_line_a_sentence_and_last_of_all_inside_a_word() -> None:
    costs = [PARAGRAPH, LINE, SENTENCE, WITHIN_SENTENCE, WORD, WITHIN_WORD]
    assert costs == sorted(set(costs))


@pytest.mark.parametrize(
    ("text", "position", "cost"),
    [
        ("One.\n \nTwo.", 7, PARAGRAPH),
        ("One.\r\n\r\nTwo.", 8, PARAGRAPH),
        ("One.\r\rTwo.", 6, PARAGRAPH),
        ("One.\rTwo.", 5, LINE),
        ("One.\n  Two.", 7, LINE),
        ("the owl\n- an item", 8, LINE),
        ("a\nthe owl\nSleeps", 10, LINE),
        ("a\nthe owl\nsleeps", 10, WITHIN_SENTENCE),
        ("the owl\n  Sleeps", 8, WITHIN_SENTENCE),
        ("the owl\n(which sleeps)", 8, WITHIN_SENTENCE),
        ("As follows: owls", 12, SENTENCE),
        ("It sleeps; owls", 11, SENTENCE),
        ("\u201cIt sleeps.\u201d Owls", 13, SENTENCE),
        ("\u6708\u4eae\u3002\u4f7f", 3, SENTENCE),
        ("Some, e.g. owls", 11, WORD),
        ("One.Two", 4, WITHIN_WORD),
    ],
)
def test_what_a_place_costs(text: str, position: int, cost: float) -> None:
    assert cut_cost(text, position, ()) == cost


@pytest.mark.parametrize(
    ("text", "position", "cost"),
    [
        ("x = 1\n\ny = 2", 7, PARAGRAPH),
        ("x = f(\ny)", 7, LINE),
        ("# One. Two", 7, SENTENCE),
        ("x = 1", 2, WORD),
    ],
)
def test_code_is_cut_elsewhere_if_possible_and_then_between_its_lines(text: str, position: int, cost: float) -> None:
    assert cut_cost(text, position, [(0, len(text))]) == cost + 0.5


def test_a_range_begins_and_ends_with_places_outside_of_it() -> None:
    ranges = [(2, 5), (8, 9)]
    assert [place for place in range(12) if lies_inside(place, ranges)] == [3, 4]


def test_a_cut_looks_back_as_far_as_clusters_are_kept_whole() -> None:
    text = "ab" + "\u0301" * 100
    assert (cut_before(text, 64), cut_before(text, 65)) == (1, 65)


@pytest.mark.parametrize(
    ("text", "ideal", "lowest", "highest", "start"),
    [
        ("One. Two. Three. Four.", 9, 0, 20, 10),
        ("One. Two. Three. Four.", 6, 0, 20, 5),
        ("One. Two. Three. Four.", 12, 10, 12, 10),
        ("One. Two. Three. Four.", 7, 8, 10, 10),
        ("\u6708\u3002\u6708\u3002\u6708", 3, 1, 4, 2),
        ("Owls fly. Mice run far", 15, 8, 18, 10),
        ("The owl\nsleeps. Mice", 8, 0, 18, 16),
        ("One.     Two", 11, 9, 11, 9),
        ("The owl\n\nsleeps. Mice", 9, 0, 18, 9),
        ("one two three", 7, 5, 9, 8),
        ("one - three", 6, 3, 8, 6),
        ("abcdef", 3, 2, 4, 3),
        ("abcdef", 4, 2, 4, 4),
        ("ab \u0301cd", 3, 2, 4, 2),
        ("a" + "\u0301" * 9, 4, 2, 6, None),
    ],
)
def test_overlapping_text_begins_with_a_sentence_else_a_word_as_near_as_it_goes(
    text: str, ideal: int, lowest: int, highest: int, start: int | None
) -> None:
    assert restart_near(text, ideal, lowest, highest) == start


@pytest.mark.parametrize(
    ("text", "start", "end", "left"),
    [("\n  a \n", 0, 6, "  a"), ("\r  a", 0, 4, "  a"), ("  a", 0, 3, "  a"), ("xx\n \n  a  b ", 2, 12, "  a  b")],
)
def test_blank_lines_before_and_blanks_behind_are_left_out(text: str, start: int, end: int, left: str) -> None:
    first, last = trim(text, start, end)
    assert text[first:last] == left


def _sections(text: str) -> list[TextSection]:
    lines = re.finditer(r"(?m)^(#+) (.*)$", text)
    headings = tuple(Heading(len(line[1]), line[2], line.start(), line.end()) for line in lines)
    return list(sections_of(TextOutline(headings), 0, len(text)))


@pytest.mark.parametrize(
    ("text", "level", "runs"),
    [
        ("# A\n\n## B\n\nText.\n\n## C\n\nMore.\n\n# D\n\nLast.", SECTION_LEVEL, ["AB", "C", "D"]),
        ("# A\n\n## B\n\nText.\n\n## C\n\nMore.\n\n# D\n\nLast.", CHAPTER_LEVEL, ["ABC", "D"]),
        ("# A\n\n# B\n\n## C\n\nText.", SECTION_LEVEL, ["A", "BC"]),
        ("# A\n\n## B\n\nText.\n\n# C\n\n## D\n\nMore.", SECTION_LEVEL, ["AB", "CD"]),
        ("# A\n\nText.\n\n### B\n\n## C\n\nMore.", SECTION_LEVEL, ["AB", "C"]),
    ],
)
def test_a_heading_without_text_stays_with_the_section_below_it(text: str, level: int, runs: list[str]) -> None:
    found = runs_of(text, _sections(text), level)
    assert ["".join(section.path[-1].text for section in run) for run in found] == runs


def test_a_chunk_stands_below_the_heading_above_its_first_text() -> None:
    text = "# A\n\n## B\n\nText.\n\n# C\n\nMore."
    paths = SectionPaths(text, _sections(text))

    def path(start: int, end: int) -> str:
        return "".join(heading.text for heading in paths.path(start, end))

    behind = text.index("\n\n# C")
    assert path(0, len(text)) == "AB"
    assert path(behind, len(text)) == "C"
    assert path(0, text.index("B") + 1) == "A"
    assert path(behind + 2, behind + 5) == "C"
