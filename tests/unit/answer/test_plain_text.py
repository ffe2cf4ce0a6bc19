"""What a person reads where a source has marks, links and line breaks."""

import time

import pytest

from groundwire.answer.evidence import Markup
from groundwire.answer.plain_text import plain_text


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
        ("Use `argv[1]` and `matrix[i][j]` now.", "Use argv[1] and matrix[i][j] now."),
        ("Take items[0] and argv[1].lower() of it.", "Take items[0] and argv[1].lower() of it."),
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
    ],
)
def test_restructured_text(source: str, shown: str) -> None:
    assert plain_text(source, Markup.RST) == shown


def test_words_cut_at_the_end_of_a_line_are_joined_and_nothing_else_is_changed() -> None:
    source = "The cover-\nage of a plan\nis *not* `marked`, well-known A-\nB stays."
    assert plain_text(source, Markup.NONE) == "The coverage of a plan is *not* `marked`, well-known A- B stays."
    source = "Keepers wrote ba\u2010\nrometers, gr\u00f6\u00ad\n\u00dfere and Kirk-\nWall down."
    assert plain_text(source, Markup.NONE) == "Keepers wrote barometers, gr\u00f6\u00dfere and Kirk- Wall down."


def test_raised_references_to_notes_are_left_out_and_exponents_stay() -> None:
    source = "Lit in 1844.\u00b9\u00b2 \u201cIt burned,\u201d\u00b3 he said,\u2074,\u2075 10\u00b3 m\u00b2 of it."
    shown = "Lit in 1844. \u201cIt burned,\u201d he said, 10\u00b3 m\u00b2 of it."
    assert plain_text(source, Markup.NONE) == shown


@pytest.mark.parametrize(
    "attack", [":pep:`" + 65_530 * "1", 32_768 * ":a", "`a" + 65_534 * " ", 32_768 * "a_", 32_768 * "`a"]
)
def test_no_text_takes_more_than_linear_time(attack: str) -> None:
    began = time.thread_time()
    plain_text(attack, Markup.RST)
    assert time.thread_time() - began < 1.0  # at quadratic cost: 3 s and more
