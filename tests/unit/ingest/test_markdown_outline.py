"""Headings and sections of Markdown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.ingest.chunking.cuts import TextOutline, runs_of, sections_of
from groundwire.ingest.parsing.parser_worker import place_of
from groundwire.ingest.parsing.text_readers import markdown_outline
from groundwire.kernel.sentences import MAX_HEADING_CHARS, heading_text

TEXT = """Preamble.

# The Sea {#sea}

Waves.

```md
# no heading
```

Tides
-----

> ## no heading

- ## no heading

<!--
# no heading
-->

### Spring *tides* ###

    # no heading

# The `Moon<T>`
"""


def found(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.text) for heading in markdown_outline(text).headings]


@pytest.mark.requirement("S4-19")
@pytest.mark.requirement("S4-25")
@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_only_headings_of_the_text_itself_count(line_end: str) -> None:
    text = TEXT.replace("\n", line_end)
    assert found(text) == [(1, "The Sea"), (2, "Tides"), (3, "Spring tides"), (1, "The Moon<T>")]
    tides = markdown_outline(text).headings[1]
    assert text[tides.start : tides.end] == f"Tides{line_end}-----{line_end}"


def test_code_and_html_are_verbatim() -> None:
    outline = markdown_outline(TEXT)
    blocks = [TEXT[start:end] for start, end in outline.verbatim]
    assert [block.splitlines()[0] for block in blocks] == ["```md", "<!--", "    # no heading"]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_headings_in_html_count(line_end: str) -> None:
    text = (
        '<div align="center">\n  <h1>\n    <img src="a.png">\n    The <b>Sea</b>\n  </h1>\n</div>\n\nWaves.\n\n'
        "## Tides\n\n<H3>Spring</H3>\n<h4>Neap<h5><img></h5>\n\n- <h2>no heading</h2>\n\n<!-- <h2>no heading</h2> -->\n"
    ).replace("\n", line_end)
    assert found(text) == [(1, "The Sea"), (2, "Tides"), (3, "Spring")]
    sea = markdown_outline(text).headings[0]
    assert (text[sea.start : sea.end][:4], text[sea.start : sea.end][-5:]) == ("<h1>", "</h1>")


@given(
    st.lists(
        st.sampled_from(["# A", "## B", "### C", "text", "", "```", "- item", "    code", "B", "---", "<h2>C</h2>"])
    )
)
def test_sections_cover_the_text_without_gaps(lines: list[str]) -> None:
    text = "\n".join(lines)
    sections = list(sections_of(markdown_outline(text), 0, len(text)))
    assert "".join(text[section.start : section.end] for section in sections) == text
    for section in sections:
        levels = [heading.level for heading in section.path]
        assert levels == sorted(set(levels))
    for run in runs_of(text, sections, 1):
        assert all(section.level != 1 for section in run[1:])


def test_a_heading_without_words_is_none() -> None:
    assert found("#\n\n## \n\n### <a id=x></a>\n") == []


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("Plain", "Plain"),
        ("Errors with `panic!` and `a*b*`", "Errors with panic! and a*b*"),
        ("[Link](http://a) and ![image](b.png)", "Link and image"),
        ("**Bold** and _slanted_ snake_case_name", "Bold and slanted snake_case_name"),
        (r"Five \* six", "Five * six"),
        ("Owl [![npm](a.svg)](b) [![tests][c]][d] of `[![x](y)](z)`", "Owl of [![x](y)](z)"),
        ("[![Owl](a.svg)](b)", "Owl"),
        ("Tom &amp; Co", "Tom & Co"),
        ("x" * 1000, "x" * MAX_HEADING_CHARS),
    ],
)
def test_headings_lose_their_markup(source: str, text: str) -> None:
    assert heading_text(source) == text


@pytest.mark.requirement("S1-46")
@pytest.mark.requirement("S1-77")
@pytest.mark.requirement("C26")
def test_the_place_of_a_paragraph() -> None:
    text = "# Chapter\n\nA.\n\n## Section\n\nB.\n\n#### Deep\n\nC.\n"
    sections = list(sections_of(markdown_outline(text), 0, len(text)))
    assert [tuple(heading.text for heading in section.path) for section in sections] == [
        ("Chapter",),
        ("Chapter", "Section"),
        ("Chapter", "Section", "Deep"),
    ]
    assert [place_of(section.path, "file.md") for section in sections] == [
        ("Chapter", None, 2),
        ("Chapter", "Section", 3),
        ("Chapter", "Section", 3),
    ]
    assert place_of((), "file.md") == ("file.md", None, 1)


def test_an_empty_outline_has_one_section() -> None:
    (section,) = sections_of(TextOutline(), 0, 10)
    assert (section.start, section.end, section.level) == (0, 10, 0)
