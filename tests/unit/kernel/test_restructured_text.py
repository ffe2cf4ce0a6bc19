"""reStructuredText read as Markdown: nothing moves but the cells of a row, and what Sphinx describes is a heading."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.restructured_text import descriptions, read_rst, without_roles
from groundwire.kernel.sentences import BlockKind
from tests.growth import LINEAR, growth

SIMPLE = (
    "====== ===== ======\n"
    "Animal Eats  Sleeps\n"
    "at sea\n"
    "====== ===== ======\n"
    "Seal   fish  on\n"
    "             rocks\n"
    "\n"
    "Whale  krill\n"
    "====== ===== ======\n"
)
GRID = (
    "+--------+-------+\n"
    "| Animal | Eats  |\n"
    "+========+=======+\n"
    "| Seal   | small |\n"
    "|        | fish  |\n"
    "+--------+-------+\n"
    "| Whale  | krill |\n"
    "+--------+-------+\n"
)


def _read(text: str) -> list[tuple[BlockKind, str]]:
    shown, items = read_rst(text)
    assert len(shown) == len(text)
    return [(item.kind, shown[item.start : item.end]) for item in items]


def _rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.split("|")] for line in table.splitlines() if line.strip("| ")]


def test_what_is_described_is_a_heading_above_what_is_said_of_it() -> None:
    text = (
        ".. method:: save(path, *, force=False)\n.. method:: asave(path)\n   :async:\n\n    Writes the record.\n\n"
        ".. py:attribute:: owner\n\n    Whose it is.\n\n.. setting:: DEBUG\n\n.. note:: This is a note.\n"
    )
    assert _read(text) == [
        (BlockKind.HEADING, f"#{' ' * 11}save()"),
        (BlockKind.PROSE, "Writes the record."),
        (BlockKind.HEADING, f"#{' ' * 17}owner"),
        (BlockKind.PROSE, "Whose it is."),
        (BlockKind.HEADING, f"#{' ' * 12}DEBUG"),
        (BlockKind.PROSE, ".. note:: This is a note."),
    ]


def test_a_term_comes_with_what_defines_it() -> None:
    text = ".. glossary::\n\n    MTV\n        A pattern. It has parts.\n\n    ``save(path)``\n        Writes it.\n"
    (_, definition), (_, more), (_, literal) = _read(text)
    assert (" ".join(definition.split()), more) == ("MTV: A pattern.", "It has parts.")
    assert " ".join(literal.split()) == "``save(path)``: Writes it."
    assert [kind for kind, _ in _read("Seals sleep on the\n    rocks, and more.")] == [BlockKind.PROSE]
    assert ":" not in read_rst("- Seals\n    sleep.")[0]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (SIMPLE, [["Animal at sea", "Eats", "Sleeps"], ["Seal", "fish", "on rocks"], ["Whale", "krill"]]),
        (GRID, [["Animal", "Eats"], ["Seal", "small fish"], ["Whale", "krill"]]),
    ],
)
@pytest.mark.parametrize("indent", ["", "   "])
def test_the_rows_of_a_table_have_bars_between_their_cells(table: str, expected: list[list[str]], indent: str) -> None:
    text = "".join(f"{indent}{line}".rstrip() + "\n" for line in f"Before it.\n\n{table}\nBehind it.".splitlines())
    (_, before), (kind, shown), (_, behind) = _read(text)
    assert (before, kind, behind) == ("Before it.", BlockKind.TABLE, "Behind it.")
    header, rule, *rows = _rows(shown)
    assert set("".join(rule)) == {"-"}
    assert [header, *rows] == expected
    # A row stands where it stood in the source, so that it can be quoted.
    source, items = text, read_rst(text)[1]
    start = items[1].start + shown.index("Seal")
    line = shown[shown.index("Seal") :].partition("\n")[0].rstrip()
    quoted = source[start : start + len(line)].split()
    assert [word for word in quoted if word != "|"] == " ".join(expected[1]).split() or "rocks" in quoted[-1]


def test_a_table_without_a_header_has_rows_only() -> None:
    ((_, simple),) = _read("===== =====\nSeal  fish\nWhale krill\n===== =====\n")
    ((_, grid),) = _read("+----+----+\n| a  | b  |\n+----+----+\n| c  | d  |\n+----+----+\n")
    assert _rows(simple) == [["Seal", "fish"], ["Whale", "krill"]]
    assert _rows(grid) == [["a", "b"], ["c", "d"]]


def test_a_table_ends_at_its_last_border_and_one_without_rows_is_none() -> None:
    table = "== ==\na  b\n== ==\n\n"
    kinds = [kind for kind, _ in _read(f"{table}Behind.\n\n{table}")]
    assert kinds == [BlockKind.TABLE, BlockKind.PROSE, BlockKind.TABLE]
    assert _read("== ==\n== ==\n\nBehind.") == [(BlockKind.PROSE, "Behind.")]


def test_a_table_that_a_chunk_cuts_off_ends_with_it_or_at_a_blank_line() -> None:
    assert _rows(_read("===== =====\nSeal  fish\nWhale krill")[0][1]) == [["Seal", "fish"], ["Whale", "krill"]]
    (_, cut), (kind, text) = _read("===== =====\nSeal  fish\n\nSeals sleep on rocks.\n")
    assert (_rows(cut), kind, text) == ([["Seal", "fish"]], BlockKind.PROSE, "Seals sleep on rocks.")


def test_what_only_announces_code_is_not_read() -> None:
    text = (
        "::\n\n    seals = 1\n\n.. code-block:: python\n   :linenos:\n\n    seals = 2\n\n"
        ".. note::\n\n    Seals sleep.\n"
    )
    assert _read(text) == [
        (BlockKind.CODE, "seals = 1"),
        (BlockKind.CODE, "seals = 2"),
        (BlockKind.PROSE, "Seals sleep."),
    ]


@pytest.mark.parametrize("begin", ["Seals\n=====\n\n.. toctree::\n    :maxdepth: 1\n\n", ""])
def test_the_entries_of_a_table_of_contents_are_not_read(begin: str) -> None:
    entries = "    intro\n    seals/food\n    How seals sleep <sleep-1.0>\n"
    assert _read(f"{begin}{entries}\nSeals sleep.\n")[-2:] == [
        *([(BlockKind.HEADING, "Seals\n=====")] if begin else []),
        (BlockKind.PROSE, "Seals sleep."),
    ]
    quoted = "Seals said:\n\n    Sleep well.\n    Eat well.\n"
    assert [text.split() for _, text in _read(quoted)] == [["Seals", "said:"], ["Sleep", "well."], ["Eat", "well."]]


def test_code_is_read_as_it_is() -> None:
    lines = [".. image:: fox.png", ".. class:: Fox(den)", "", "SELECT", "    prey,", '"""', "####", "::", "|fox| |owl|"]
    lines += ["== ==", "a  b", "== ==", ":fox: owl"]
    code = "\n    ".join(lines)
    text = f"Write::\n\n    {code}\n\nEnd.\n"
    assert _read(text) == [(BlockKind.PROSE, "Write::"), (BlockKind.CODE, code), (BlockKind.PROSE, "End.")]
    session = ">>> for fox in den:\n...     feed(fox)\n...\nfed"
    assert _read(session) == [(BlockKind.CODE, session)]


def test_what_looks_like_a_fence_in_code_opens_none() -> None:
    assert _read("Mark a title so::\n\n    Seals\n    ~~~~~\n\nSeals sleep.\n") == [
        (BlockKind.PROSE, "Mark a title so::"),
        (BlockKind.CODE, "Seals\n    ~~~~~"),
        (BlockKind.PROSE, "Seals sleep."),
    ]


def test_line_ends_of_windows_change_nothing() -> None:
    text = f"Tides\n~~~~~\n\n.. note::\n\n   Ebb.\n\nflow\n   The sea rises.\n\n::\n\n   a = 1\n   b = 2\n\n{SIMPLE}"

    def words(source: str) -> list[tuple[BlockKind, list[str]]]:
        return [(kind, shown.replace("-", "").split()) for kind, shown in _read(source)]

    assert [kind for kind, _ in words(text)] == [
        *(BlockKind.HEADING, BlockKind.PROSE, BlockKind.PROSE, BlockKind.CODE, BlockKind.TABLE)
    ]
    assert words(text.replace("\n", "\r\n")) == words(text.replace("\n", "\r")) == words(text)


def test_what_begins_indented_is_code_only_if_it_looks_like_it() -> None:
    assert _read("    seals = read(path)\n")[0][0] is BlockKind.CODE
    assert [kind for kind, _ in _read(">>> fox\n\n    Seals sleep.")] == [BlockKind.CODE, BlockKind.PROSE]
    assert [kind for kind, _ in _read("  Run::\n\n  No code.")] == [BlockKind.PROSE, BlockKind.PROSE]
    assert _read("    Optional (:attr:`blank=True <a.blank>`). At most ten.\n")[0][0] is BlockKind.PROSE


def test_a_directive_that_begins_indented_is_no_code() -> None:
    heading, *said = _read("    .. method:: Response.urljoin(url)\n\n        Make it whole.\n\n        And say so.\n")
    assert heading[0] is BlockKind.HEADING
    assert said == [(BlockKind.PROSE, "Make it whole."), (BlockKind.PROSE, "And say so.")]


def test_roles_are_read_as_sphinx_shows_them() -> None:
    text = ":class:`~typing.List`, :meth:`!save`, :c:func:`.Py_Exit`, :ref:`the docs <docs>`, :pep:`8`, :file:`~/.rc`"
    assert without_roles(text) == "List, save, Py_Exit, the docs, PEP 8, ~/.rc"
    assert without_roles(":rfc:`2822`, :rfc:`mail <2822>`, :ref:`<x>`") == "RFC 2822, RFC 2822, <x>"
    assert without_roles(":doc:`/plugins/web`, :doc:`faq`, :doc:`the web </web>`") == "web, faq, the web"
    assert without_roles("a:b:`c` and `d`") == "a:b:`c` and `d`"


LIST_TABLE = (
    ".. list-table:: What they eat\n"
    "   :header-rows: 1\n"
    "   :widths: 20 80\n"
    "\n"
    "   * - Animal\n"
    "     - Eats\n"
    "   * - Seal\n"
    "     - small\n"
    "       fish\n"
    "\n"
    "   * - Whale\n"
    "     -\n"
)


def test_a_list_table_is_a_table_of_which_every_row_is_quoted_as_it_stands() -> None:
    text = f"They eat.\n\n{LIST_TABLE}\nThey sleep."
    shown, items = read_rst(text)
    assert len(shown) == len(text)
    assert [item.kind for item in items] == [BlockKind.PROSE, BlockKind.TABLE, BlockKind.PROSE]
    table = items[1]
    rows = [line.split("|") for line in shown[table.start : table.end].splitlines()]
    assert [[cell.strip() for cell in row] for row in rows] == [
        ["Animal", "Eats"],
        ["-"],
        ["Seal", "small fish"],
        ["Whale", ""],
    ]
    row = shown.index("Seal")
    assert text[row - 2 : shown.index("\n", row)].strip() == "* - Seal\n     - small\n       fish"
    first = shown.index("Animal")
    assert text[first - 2 : shown.index("\n", first)].strip() == "* - Animal\n     - Eats"


def test_a_list_table_without_a_header_and_one_that_a_chunk_cuts_are_read() -> None:
    rows = "* - Seal\n  - fish\n* - Whale\n  - krill\n"
    ((kind, shown),) = _read(rows)
    assert kind is BlockKind.TABLE
    assert [[cell.strip() for cell in line.split("|")] for line in shown.splitlines()] == [
        ["Seal", "fish"],
        ["Whale", "krill"],
    ]
    assert [kind for kind, _ in _read("They eat::\n\n  * - Seal\n    - fish\n")] == [BlockKind.PROSE, BlockKind.CODE]


def test_what_stands_in_tabs_belongs_to_the_text_around_them() -> None:
    text = (
        "Run it:\n\n.. tab:: Linux\n\n   .. code-block:: console\n\n      $ owls wake\n\n.. tab:: Windows\n\n   Click."
    )
    assert _read(text) == [(BlockKind.PROSE, "Run it:"), (BlockKind.CODE, "$ owls wake"), (BlockKind.PROSE, "Click.")]


_LINES = [
    *("* - a", "  - b", "  -", ".. list-table::", "   :header-rows: 1", "   * - c", ".. tab:: x"),
    *("== ==", "=== == =", "a  b", "   b", "", "+-+-+", "+=+=+", "|a|b|", "| | b|", ".. class:: A(b)", "    text"),
    *("::", "term", "``x``", ">>> x", "- item", "=====", "~~~~", ".. note::", "|x|", "::\r"),
]


@pytest.mark.parametrize(
    ("border", "row"),
    [
        ("+-", "+-+-+\n"),
        ("+-", "|a|b|\n"),
        ("== ", "a  b\n"),
        ("", "+-+\n|a|\n"),
        ("", "= =\na\n\n"),
        ("* - ", "* - a\n"),
        ("", "* - a\n  - b\n"),
        ("", "* - a\n:b:\n"),
    ],
)
def test_tables_take_linear_time(border: str, row: str) -> None:
    assert growth(lambda n: f"{border * n}+\n{row * n}", read_rst, 1000) < LINEAR


@pytest.mark.parametrize(
    "nested", [".. a:: b\n\n c\n\n", ".. a:: b\n", ".. a:: b\n\n\t.. a:: b\n\n", "::\n\n .. a:: b\n\n"]
)
def test_descriptions_take_linear_time(nested: str) -> None:
    assert growth(lambda n: nested * n, descriptions, 1000) < LINEAR


def test_descriptions_inside_of_each_other_have_their_own_ends() -> None:
    text = ".. a:: one\n\n  .. b:: two(x)\n\n    Text.\n\n  More.\n\n\nEnd.\n\n.. c:: no text\n"
    found = [
        (each.name, text[each.start : each.body], text[each.body : each.end].strip()) for each in descriptions(text)
    ]
    inner = ".. b:: two(x)\n\n    Text."
    assert found == [("one", ".. a:: one", f"{inner}\n\n  More."), ("two()", "  .. b:: two(x)", "Text.")]


@given(st.lists(st.sampled_from(_LINES), max_size=12))
def test_every_text_keeps_its_length_and_its_items_stand_in_order(lines: list[str]) -> None:
    text = "\n".join(lines)
    shown, items = read_rst(text)
    assert len(shown) == len(text)
    assert all(0 <= item.start < item.end <= len(text) for item in items)
    assert all(one.end <= other.start for one, other in pairwise(items))


@pytest.mark.parametrize(
    "image",
    [
        ".. image:: https://a.example/b.svg\n   :target: https://a.example/",
        ".. image::\n    https://a.example/b.svg?a=b\n    :target: https://a.example/\n    :alt: a seal",
        # A chunk may begin between an image and its options.
        ":target: https://a.example/\n   :alt: a seal",
        ":alt: a seal",
    ],
)
def test_images_say_nothing(image: str) -> None:
    assert _read(f"{image}\n\nSeals sleep.") == [(BlockKind.PROSE, "Seals sleep.")]


def test_fields_at_the_beginning_are_no_options_of_an_image() -> None:
    assert ":Author: Ada" in read_rst(":Author: Ada\n:Status: Final\n\nSeals sleep.")[0]
