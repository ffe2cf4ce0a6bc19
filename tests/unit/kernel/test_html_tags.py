"""HTML in Markdown, read as Markdown without moving what stands outside of its tags."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.html_tags import html_as_markdown
from groundwire.kernel.sentences import BlockKind, split_sentences


def _read(source: str) -> list[tuple[BlockKind, str]]:
    """Return what is read in a source: kinds, and texts with single spaces."""
    shown = html_as_markdown(source)
    assert len(shown) == len(source)
    return [(each.kind, " ".join(shown[each.start : each.end].split())) for each in split_sentences(shown)]


TABLE = """<table>
  <tr>
    <th>English</th>
    <th>French</th>
  </tr>
  <tr>
    <td><b>Huey</b></td>
    <td>Riri,<br>the red one</td>
  </tr>
  <tr><td>Dewey</td><td><code>a|b</code></td></tr>
</table>
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n", ""])
def test_rows_of_a_table_are_lines_of_cells(line_end: str) -> None:
    shown = html_as_markdown(TABLE.replace("\n", line_end))
    lines = [line.replace(" ", "") for line in shown.splitlines() if line.strip()]
    assert lines == ["|English|French|", "|-", "|<b>Huey</b>|Riri,theredone|", r"|Dewey|`a\|b`|"]
    assert [each.kind for each in split_sentences(shown)] == [BlockKind.TABLE]


def test_a_row_keeps_its_place() -> None:
    shown = html_as_markdown(TABLE)
    start = shown.index("|Dewey")
    end = shown.rindex("|") + 1
    assert TABLE[start:end] == "<td>Dewey</td><td><code>a|b</code></td>"


def test_rows_without_a_header_have_none() -> None:
    source = "<table><tr><th>Linux<td>4.18<tr><th>Windows<td>10.0</table>"
    assert _read(source) == [(BlockKind.TABLE, "|Linux|4.18 | |Windows|10.0 |")]


def test_a_cell_of_several_rows_or_columns_keeps_the_columns_apart() -> None:
    source = (
        "<thead><tr><td>System</td><td>Kind</td><td>Version</td></tr></thead>"
        '<tr><td rowspan="2">Linux</td><td>x86</td><td>4</td></tr><tr><td>arm</td><td>5</td></tr>'
        '<tr><td colspan="2">All others</td><td>6</td></tr>'
    )
    assert _read(source) == [(BlockKind.TABLE, "|System|Kind|Version | |- |Linux|x86|4 | ||arm|5 | |All others||6 |")]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("<tr><th>a<th>b<tr><th>c<th>d<tr><td>e<td>f", "|a|b | |- |c|d | |e|f |"),
        ('<tr><td rowspan="3">a<td>b<tr><td>c<tr><td>d<tr><td>e<td>f', "|a|b | ||c | ||d | |e|f |"),
        ("<tr><td>`<code>`<td>x", "|`<code>`|x |"),
        # There is no room for so many escapes.
        ("<tr><td>||||||||<td>x<tr><td>a<td>b", "|a|b |"),
    ],
)
def test_the_first_row_alone_is_a_header_and_cells_stay_in_their_columns(rows: str, expected: str) -> None:
    assert _read(f"<table>{rows}</table>") == [(BlockKind.TABLE, expected)]


def test_a_cell_of_several_rows_ends_with_its_table() -> None:
    source = '<table><tr><td rowspan="2">a<td>b</table>\n<table><tr><td>c<td>d</table>'
    assert _read(source) == [(BlockKind.TABLE, "|a|b |"), (BlockKind.TABLE, "|c|d |")]


def test_a_table_that_lays_out_paragraphs_or_code_is_none() -> None:
    source = "<table><tr><td>Foxes\n\neat.</td><td>Owls do.</td></tr></table>"
    assert _read(source) == [(BlockKind.PROSE, "Foxes"), (BlockKind.PROSE, "eat."), (BlockKind.PROSE, "Owls do.")]
    source = "<table><tr><td>a<td>b<tr><td>Foxes\n\neat.<tr><td>c<td>d</table>"
    assert [text for _, text in _read(source)] == ["|a|b |", "Foxes", "eat.", "|c|d |"]
    source = "<table><tr><td>\n```sh\nrun\n```\n</td><td>Owls do.</td></tr></table>"
    assert [kind for kind, _ in _read(source)] == [BlockKind.CODE, BlockKind.PROSE]
    source = "<table><tr><td>\n\nFoxes eat mice.\n\nOwls do too.\n\n</td><td>\n\n```sh\nrun\n```\n\n</td></tr></table>"
    assert [kind for kind, _ in _read(source)] == [BlockKind.PROSE, BlockKind.PROSE, BlockKind.CODE]
    inner = "<table><tr><td><table><tr><td>a fox</td><td>a mouse</td></tr></table></td></tr></table>"
    assert _read(inner) == [(BlockKind.TABLE, "|a fox|a mouse |")]


def test_headings_items_definitions_and_paragraphs() -> None:
    source = (
        '<h1 align="center">\n  <img src="fox.png">\n  The <code>fox</code>\n</h1>\n<h2><a><img></a></h2>'
        "<div>\n    <p>Foxes eat mice.<br>Owls eat <b>voles</b>.</p>\n</div><ul>\n  <li>\n    <p>red</p>\n  </li>"
        "<li>grey</li></ul>\n<dl><dt>Den</dt>\n<dd>\n  where it sleeps</dd><dd>alone</dd></dl>"
    )
    assert _read(source) == [
        (BlockKind.HEADING, '# <img src="fox.png"> The `fox`'),
        (BlockKind.PROSE, "Foxes eat mice."),
        (BlockKind.PROSE, "Owls eat <b>voles</b>."),
        (BlockKind.LIST_ITEM, "red"),
        (BlockKind.LIST_ITEM, "grey"),
        (BlockKind.LIST_ITEM, "Den: where it sleeps"),
        (BlockKind.LIST_ITEM, "alone"),
    ]


def test_what_folds_away_stands_below_its_summary() -> None:
    source = "<details>\n    <summary>What do foxes eat?</summary>\n\nThey eat mice.\n\n</details>"
    assert _read(source) == [(BlockKind.HEADING, "###### What do foxes eat?"), (BlockKind.PROSE, "They eat mice.")]


def test_prose_may_begin_with_a_link() -> None:
    source = '<a href="https://example.org">Foxes</a> eat mice.'
    ((kind, text),) = _read(source)
    assert (kind, text) == (BlockKind.PROSE, "Foxes</a> eat mice.")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Foxes\n<br>eat mice.", ["Foxes eat mice."]),
        ('Foxes sleep.<br><a href="b">Owls</a> hunt.', ["Foxes sleep.", "Owls</a> hunt."]),
        ('Foxes<div><a href="b">Owls</a> hunt.</div>', ["Foxes", "Owls</a> hunt."]),
        ("<h2>Fox</h2>Owls eat.", ["## Fox", "Owls eat."]),
        ("<h2>Fox<div>den</div></h2>Owls.", ["Fox", "den", "Owls."]),
        ("Foxes:<li>red", ["Foxes:", "red"]),
        ("<dt>Den</dt> loose <dd>home", ["Den loose", "home"]),
        ("<dt>Den</dt><dt>Earth</dt><dd>home</dd>", ["Den", "Earth: home"]),
        ("<pre>a</pre><pre>b</pre>\n\nFoxes.", ["``` a ```", "``` b ```", "Foxes."]),
        ("<pre>a</pre> and foxes.\n\nOwls.", ["``` a ```", "and foxes.", "Owls."]),
        ("<pre>a<pre>b</pre>", ["<pre>a<pre>b</pre>"]),
    ],
)
def test_blocks_end_where_their_tags_say(source: str, expected: list[str]) -> None:
    assert [text for _, text in _read(source)] == expected


def test_preformatted_text_is_code() -> None:
    source = "<pre><code>fox --eat\nfox --sleep\n</code></pre>"
    shown = html_as_markdown(source)
    (code,) = split_sentences(shown)
    assert (code.kind, source[code.start : code.end]) == (BlockKind.CODE, source)
    assert [line.strip() for line in shown.splitlines() if line.strip()] == ["```", "fox --eat", "fox --sleep", "```"]


@pytest.mark.parametrize(
    "source",
    [
        "Foxes < owls and a<b>c.",
        "Write `<td>` and ``<li>``.",
        "```html\n<table><tr><td>a</td></tr></table>\n```",
        "Of List<String> and <file>.",
        "Water is H<sub>2</sub>O, and <b>bold</b>.",
        "Of <b><i>foxes</i></b>.",
        "Write ` <!-- a --> `.",
        "```\n`a` <td>fox</td>",
        "Foxes <pre>eat</pre>",
        "</pre>Foxes eat <pre>mice.",
    ],
)
def test_code_and_what_is_no_block_stay(source: str) -> None:
    assert html_as_markdown(source) == source


def test_a_comment_in_front_of_a_full_stop_leaves_no_space() -> None:
    source = "Foxes eat [mice](mice.md)<!-- ignore -->. Owls do<!-- <b> -->. All<!-- of them --> eat."
    assert html_as_markdown(source) == source.replace("<!-- <b> -->", " " * 12).replace("<!-- of them -->", " " * 16)


def test_comments_say_nothing() -> None:
    assert _read("Foxes <!-- not\nmany --> eat. <!-- <tr><td>a</td></tr> -->\n\n<!--> Owls do. --> <!-- open") == [
        (BlockKind.PROSE, "Foxes eat."),
        (BlockKind.PROSE, "Owls do."),
        (BlockKind.PROSE, "--> <!-- open"),
    ]


TAGS = "<table> </table> <tr> </tr> <td> <th> </td> <h2> </h2> <li> </li> <dt> </dt> <dd> <p> </p> <br> <a> </a>"
PARTS = [
    *TAGS.split(),
    "<pre>",
    "</pre>",
    "<thead>",
    "<summary>",
    "</summary>",
    "<!--",
    "-->",
    "`",
    "```\n",
    "\n",
    "\n\n",
]
PARTS += ['<td colspan="9">', '<td rowspan="3">', "|", "x", " fox ", "\r\n", "<h6>", "</h6>", "- ", "> ", "<"]


@given(st.lists(st.sampled_from(PARTS), max_size=30).map("".join))
def test_any_html_keeps_its_length(source: str) -> None:
    assert len(html_as_markdown(source)) == len(source)


@pytest.mark.parametrize(
    ("part", "end"),
    [
        *((part, "") for part in PARTS),
        ("<td", ""),
        ("<td>\n\n", ""),
        ("<h1><b>", ""),
        ("<dt> </dt>", ""),
        ("<pre><b>", ""),
        ("<table><td>", ""),
        ("`<a>", ""),
        ("<td rowspan=99 colspan=99>x<tr>", ""),
        ("<td>", "<table>"),
    ],
)
def test_the_time_is_linear_in_the_length(part: str, end: str) -> None:
    source = part * (200_000 // len(part)) + end
    # The processor time of this thread: what runs beside it does not count.
    started = time.thread_time()
    html_as_markdown(source)
    assert time.thread_time() - started < 5
