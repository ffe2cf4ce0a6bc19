"""What a person reads where a source has marks, links and line breaks."""

import time

import pytest

from groundwire.answer.evidence import Markup
from groundwire.answer.plain_text import emphasis_marks, ends_sentence, plain_text, row_cells, row_text


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("Run **now**, _please_.", "Run now, please."),
        ("Use `a_b` and `x * y * z`.", "Use a_b and x * y * z."),
        ("See [the guide](guide.md#top) first.", "See the guide first."),
        ("See [the guide][guide]<!-- ignore --> first[^note].", "See the guide first."),
        ("The [`parse` method on owls][parse] reads.", "The parse method on owls reads."),
        ("A picture ![of a cat](cat.png) is here.", "A picture is here."),
        ("A &lt;b&gt; and <em>more</em> of it.", "A <b> and more of it."),
        ("One line\nand the next  line.", "One line and the next line."),
        ("It is said\n> in a quotation.", "It is said in a quotation."),
        ("Mice are eaten.[12]", "Mice are eaten."),
        ("Mice are eaten.[12]: 105\u00a0 Owls sleep.", "Mice are eaten. Owls sleep."),
        ("[x] a task that is done", "a task that is done"),
        ("2 * 3 is 6, snake_case stays", "2 * 3 is 6, snake_case stays"),
        ("Mice[1](#note) are eaten.", "Mice are eaten."),
        ("Up to 2<sup>8</sup> - 1, or 2<sup>n - 1</sup>, the 1<sup>st</sup>.", "Up to 2^8 - 1, or 2^(n - 1), the 1st."),
        ("mice<br>voles<br/>owls", "mice voles owls"),
        ("Use {class}`~owls.Owl`, {ref}`the nest <nests>` and {x}.", "Use Owl, the nest and {x}."),
        ("Use `{owl}` or `{fox}` there.", "Use {owl} or {fox} there."),
        ("Use `argv[1]` and `matrix[i][j]` now.", "Use argv[1] and matrix[i][j] now."),
        ("Take items[0] and argv[1].lower() of it.", "Take items[0] and argv[1].lower() of it."),
        ("Set items[1] = 2 and [12] of [[3]] now.", "Set items[1] = 2 and [12] of [[3]] now."),
        ("Mice are eaten.[123] So are voles.[12]: 105-107 Owls sleep.", "Mice are eaten. So are voles. Owls sleep."),
        (r"Half, or 50\% of it", "Half, or 50% of it"),
        ("Owls &amp; mice", "Owls & mice"),
        ("*One* line  \nand the next", "One line and the next"),
        ("The 3<sup>rd</sup> and 4<sup>th</sup> of 2<sup> 8 </sup>", "The 3rd and 4th of 2^8"),
        ("[X] a task that is done", "a task that is done"),
        ("Tick [x] here", "Tick [x] here"),
    ],
)
def test_markdown(source: str, shown: str) -> None:
    assert plain_text(source, Markup.MARKDOWN) == shown


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("Call ``f(*args)`` *now*.", "Call f(*args) now."),
        ("Call it *right\nnow*.", "Call it right now."),
        ("See :pep:`484` and :rfc:`2119`.", "See PEP 484 and RFC 2119."),
        ("The :class:`~typing.List` of `the docs <https://example.org>`__ here.", "The List of the docs here."),
        ("Use :meth:`!close`, :c:func:`.Py_Exit` and :file:`~/.bashrc`.", "Use close, Py_Exit and ~/.bashrc."),
        (
            r"Set ``DEBUG\=1`` or DEBUG\=False, 2\*3\*4, :envvar:`HOME`\ s.",
            r"Set DEBUG\=1 or DEBUG=False, 2*3*4, HOMEs.",
        ),
        ("As Python_ says [#note]_ and more.", "As Python says and more."),
        ("2 * 3 * 4 and f(*args, **kwargs)", "2 * 3 * 4 and f(*args, **kwargs)"),
        ("Call ``__init__`` and ``argv[1]`` first.", "Call __init__ and argv[1] first."),
        ("Call :meth:`__init__`, see snake_case_ too.", "Call __init__, see snake_case too."),
        ("See :py:func:`the lock <a.lock>` and `<https://a.org>`_.", "See the lock and <https://a.org>."),
        ("Mice are eaten.[12] Owls sleep.", "Mice are eaten. Owls sleep."),
        ("Take f*x* y of it.", "Take f*x* y of it."),
    ],
)
def test_restructured_text(source: str, shown: str) -> None:
    assert plain_text(source, Markup.RST) == shown


def test_words_cut_at_the_end_of_a_line_are_joined_and_nothing_else_is_changed() -> None:
    source = "The cover-\nage of a plan\nis *not* `marked`, well-known A-\nB stays."
    assert plain_text(source, Markup.NONE) == "The coverage of a plan is *not* `marked`, well-known A- B stays."
    source = "Keepers wrote ba\u2010\nrometers, gr\u00f6\u00ad\n\u00dfere and Kirk-\nWall down."
    assert plain_text(source, Markup.NONE) == "Keepers wrote barometers, gr\u00f6\u00dfere and Kirk- Wall down."
    assert plain_text("An X-\nray of it.", Markup.NONE) == "An X- ray of it."


@pytest.mark.parametrize("markup", [Markup.NONE, Markup.BLOCKS, Markup.RECORDS])
def test_texts_without_markup_within_lines_lose_only_numbers_of_references(markup: Markup) -> None:
    source = "Mice are *not* `eaten`.[12] So [3] say\nowls.[4]_ Voles are."
    assert plain_text(source, markup) == "Mice are *not* `eaten`. So [3] say owls. Voles are."


def test_raised_references_to_notes_are_left_out_and_exponents_stay() -> None:
    source = "Lit in 1844.\u00b9\u00b2 \u201cIt burned,\u201d\u00b3 he said,\u2074,\u2075 10\u00b3 m\u00b2 of it."
    shown = "Lit in 1844. \u201cIt burned,\u201d he said, 10\u00b3 m\u00b2 of it."
    assert plain_text(source, Markup.NONE) == shown


@pytest.mark.parametrize(
    "attack",
    [
        ":pep:`" + 65_530 * "1",
        32_768 * ":a",
        "`a" + 65_534 * " ",
        32_768 * "a_",
        32_768 * "`a",
        "`a" + 65_531 * " " + "b`",
    ],
)
def test_no_text_takes_more_than_linear_time(attack: str) -> None:
    began = time.thread_time()
    plain_text(attack, Markup.RST)
    assert time.thread_time() - began < 1.0  # at quadratic cost: 3 s and more


def test_marks_of_emphasis_are_found_where_they_stand_behind_and_around_code() -> None:
    assert emphasis_marks("Use `a_b` and *this*.") == [(range(14, 15), range(19, 20))]
    assert emphasis_marks("Use *`a b`* and `*c*`.") == [(range(4, 5), range(10, 11))]


@pytest.mark.parametrize(
    ("row", "markup", "cells"),
    [
        ("one  cell   another", Markup.NONE, ["one cell", "another"]),
        ("| one | another   cell |", Markup.NONE, ["one", "another cell"]),
        ("one   cell", Markup.MARKDOWN, ["one cell"]),
        (r"| a \| b ||", Markup.MARKDOWN, ["a | b", ""]),
        (r"| a \| b | c |", Markup.NONE, ["a | b", "c"]),
    ],
)
def test_cells_of_a_row(row: str, markup: Markup, cells: list[str]) -> None:
    assert row_cells(row, markup) == cells


@pytest.mark.parametrize(
    ("names", "cells", "text"),
    [
        (("Name",), ("a", "b", "c"), "Name a: b; c"),
        (("Name", "", "Use"), ("a", "b", "c"), "Name a: b; Use: c"),
        (("Name", "Use", "Note"), ("a", "b", "Owls eat it."), "Name a: Use: b; Note: Owls eat it."),
        (("Name", "Use", "Size", "Note"), ("a", "b", "c", "Owls eat it."), "Name a: Owls eat it. (Use: b; Size: c)"),
        (("Name", "Use", "Size", "Note"), ("a", "", "-", "Owls eat it."), "Name a: Note: Owls eat it."),
        (("", "Use", "Size", "Note"), ("", "b", "c", "Owls eat it."), "Owls eat it. (Use: b; Size: c)"),
    ],
)
def test_a_row_reads_as_a_sentence(names: tuple[str, ...], cells: tuple[str, ...], text: str) -> None:
    assert row_text(names, cells) == text


def test_a_sentence_ends_with_a_full_stop_of_any_script_behind_which_marks_may_close() -> None:
    for text in ("Owls sleep.", "Owls sleep!", "He said \u201cno.\u201d", "\u732b\u3002", "\u06d4", "\u0964"):
        assert ends_sentence(text)
    for text in ("Owls sleep", "Do owls sleep?", "Owls:"):
        assert not ends_sentence(text)
