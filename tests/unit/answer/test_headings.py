from dataclasses import replace

import pytest

from groundwire.answer.evidence import Markup, section_at
from tests.unit.answer.builders import make_passage

CONTENT = """intro of the old section

## `Box<T>` on the heap ##

one

### Deeper

two

```
## no heading
three
```

Setext
------

four

# Next chapter

five
"""


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("intro", ("Old", "Old, deep")),
        ("one", ("Box<T> on the heap", "Box<T> on the heap")),
        ("two", ("Box<T> on the heap", "Deeper")),
        ("three", ("Box<T> on the heap", "Deeper")),
        ("four", ("Setext", "Setext")),
        ("five", ("", "Next chapter")),
    ],
)
def test_the_nearest_heading_above_a_sentence_is_its_section(word: str, expected: tuple[str, str]) -> None:
    passage = replace(make_passage(CONTENT), section="Old", section_heading="Old, deep")
    assert section_at(passage, CONTENT.index(word)) == expected


def test_a_plain_text_has_no_headings() -> None:
    passage = replace(make_passage(CONTENT), section="Old", section_heading="Old, deep", markup=Markup.NONE)
    assert section_at(passage, CONTENT.index("five")) == ("Old", "Old, deep")


def test_headings_in_html_count_but_what_folds_away_names_no_section() -> None:
    content = "<h2>\n  The <b>den</b>\n</h2>\none\n<details><summary>Why?</summary>\ntwo\n</details>\n\nthree"
    passage = replace(make_passage(content), section="Old", section_heading="Old")
    assert {section_at(passage, content.index(word)) for word in ("one", "two", "three")} == {("The den", "The den")}


def test_a_comment_of_code_that_began_before_the_passage_is_no_heading() -> None:
    content = "# Count the owls\ncount owls\n\n# Wake them\nwake owls\n```\n\none\n\n## Owls\n\ntwo"
    passage = replace(make_passage(content), section="Old", section_heading="Old", markup=Markup.BLOCKS)
    assert section_at(passage, content.index("wake owls")) == ("Old", "Old")
    assert section_at(passage, content.index("two")) == ("Owls", "Owls")


RST = """Backups
-------

Take one daily.

``Restore`` of :ref:`all <backups>`
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~

Use a copy.

.. class:: Copy(source, target=None)

   Describes a copy.

   .. attribute:: size

      In bytes.

Behind it.

=====
Next
=====

Above.

Mirrors
-------

End.
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Take", ("Backups", "Backups")),
        ("Use", ("Backups", "Restore of all")),
        ("Describes", ("Backups", "Copy()")),
        ("In bytes", ("Backups", "size")),
        ("Behind", ("Backups", "Restore of all")),
        ("Above", ("Backups", "Next")),
        ("End", ("Mirrors", "Mirrors")),
    ],
)
def test_titles_and_descriptions_of_rst_are_sections(words: str, expected: tuple[str, str]) -> None:
    passage = replace(make_passage(RST), section="Backups", section_heading="Backups", markup=Markup.RST)
    assert section_at(passage, RST.index(words)) == expected


def test_a_title_of_rst_leaves_a_section_alone_whose_own_title_is_not_there() -> None:
    content = RST[RST.index("``Restore``") :]
    passage = replace(make_passage(content), section="Backups", section_heading="Backups", markup=Markup.RST)
    assert section_at(passage, content.index("End")) == ("Backups", "Mirrors")
