"""reStructuredText: titles of sections with their lines, whatever the marks."""

from pathlib import Path

import pytest

from groundwire.ingest.parsing.text_readers import rst_outline

TEXT = """\
:Author: Ada

========
Of Tides
========

The ``moon`` pulls.

Neap *and* spring
-----------------

.. note:: Not a title

    Code
    ====

Deep
~~~~
Text.

Waves
-----
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"])
def test_titles_are_found_with_their_level_and_all_their_lines(line_end: str) -> None:
    text = TEXT.replace("\n", line_end)
    found = rst_outline(text).headings
    assert [(heading.level, heading.text) for heading in found] == [
        (1, "Of Tides"),
        (2, "Neap and spring"),
        (3, "Deep"),
        (2, "Waves"),
    ]
    assert [text[heading.start : heading.end].split(line_end) for heading in found] == [
        ["========", "Of Tides", "========"],
        ["Neap *and* spring", "-----------------"],
        ["Deep", "~~~~"],
        ["Waves", "-----"],
    ]


def test_a_line_of_punctuation_at_the_end_belongs_to_no_title() -> None:
    (heading,) = rst_outline("Tides\n=====\n\nText.\n\n-----").headings
    assert (heading.start, heading.end) == (0, 11)


def test_titles_share_no_line_and_letters_are_no_rule() -> None:
    (heading,) = rst_outline("Tides\n=====\nA\n=====").headings
    assert (heading.start, heading.end) == (0, 11)
    text = "=====\n  =====\nIII\nIII\n-----\n"
    (heading,) = rst_outline(text).headings
    assert text[heading.start : heading.end] == "III\n-----"


def test_odd_line_ends_do_not_move_titles() -> None:
    text = "A\x0b b\x0c c\u2028 d\x85 e\n\nTides\n=====\n\nText.\n"
    assert [text[heading.start : heading.end] for heading in rst_outline(text).headings] == ["Tides\n====="]


def test_nothing_outside_the_text_is_read(tmp_path: Path) -> None:
    other = tmp_path / "other.rst"
    other.write_text("Secret\n======\n\nText.\n", encoding="utf-8")
    text = f".. include:: {other}\n\n.. raw:: html\n   :file: {other}\n"
    assert rst_outline(text).headings == ()


def test_text_without_titles_and_broken_markup_have_no_headings() -> None:
    assert rst_outline("Just text.\n").headings == ()
    assert rst_outline("Title\n==\n\n.. |x| replace:: |x|\n\n`a`_ *b **c\n\n.. _a: b_\n.. _b: a_\n").headings == ()


def test_deep_nesting_costs_the_outline_not_the_document() -> None:
    text = "Title\n=====\n\n" + "".join("  " * depth + "- x\n\n" for depth in range(400))
    assert len(rst_outline(text).headings) <= 1


DESCRIBED = """\
Owls
====

What there is.

.. py:class:: Owl(name, *, age=0)
   :module: birds

   A bird of the night.

   .. method:: hoot()
               hoot(times)

      Make a sound.

   .. note::

      Owls sleep by day.

   Said of the class.

.. option:: -n, --night

   Only at night.

.. _elsewhere:

.. setting:: MAX_OWLS

   How many.

Said of owls.

.. function:: without_text(x)

Food
----

.. code-block:: rst

   .. function:: in_code()

      Not described.

.. data:: MICE

   What they eat.
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_what_sphinx_describes_has_a_section_below_its_name(line_end: str) -> None:
    text = DESCRIBED.replace("\n", line_end)
    found = rst_outline(text).headings
    assert [(each.level, each.text, text[each.start :].split(line_end)[0]) for each in found] == [
        (1, "Owls", "Owls"),
        (2, "Owl()", ".. py:class:: Owl(name, *, age=0)"),
        (3, "hoot()", "   .. method:: hoot()"),
        (2, "Owl()", ".. note::"),  # what stands behind a method belongs to the class again
        (2, "-n, --night", ".. option:: -n, --night"),
        (2, "MAX_OWLS", ".. setting:: MAX_OWLS"),
        (1, "Owls", "Said of owls."),
        (2, "Food", "Food"),
        (3, "MICE", ".. data:: MICE"),
    ]
    signature = text[found[2].start : found[2].end].split(line_end)
    assert [line.strip() for line in signature] == [".. method:: hoot()", "hoot(times)"]
    assert [each.text for each in found if each.start == each.end] == ["Owl()", "Owls"]


def test_text_behind_descriptions_belongs_to_what_it_is_indented_below() -> None:
    described = ".. class:: A\n\n   .. method:: b\n\n      Text.\n\nAfter.\n\n.. data:: c\n\n   Text.\n"
    text = f"Owls\n====\n\n{described}\nAt the end.\n"
    found = [(each.text, text[each.start :].partition("\n")[0].strip()) for each in rst_outline(text).headings]
    assert found == [
        ("Owls", "Owls"),
        ("A", ".. class:: A"),
        ("b", ".. method:: b"),
        ("Owls", "After."),
        ("c", ".. data:: c"),
        ("Owls", "At the end."),
    ]


def test_descriptions_need_no_title_above() -> None:
    text = ".. envvar:: OWL\n\n   A variable.\n\nText.\n"
    assert [(each.level, each.text) for each in rst_outline(text).headings] == [(1, "OWL")]
