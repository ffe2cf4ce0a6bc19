"""What only the layout of a plain text tells: definitions, titles, page breaks, tables of contents."""

from dataclasses import replace

import pytest

from groundwire.answer.evidence import Markup
from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.answer.extractive.generator import _statements
from groundwire.kernel.sentences import BlockKind
from tests.unit.answer.builders import excerpts_of, make_passage, quoted


def shown(content: str) -> list[str]:
    return [excerpt.text for excerpt in excerpts_of(content, Markup.NONE)]


@pytest.mark.parametrize("between", ["", "\n"])
@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_term_comes_with_what_is_indented_below_it(between: str, line_end: str) -> None:
    content = (
        f"Evasion\n{between}  This helps the owl to avoid being hit by hunters\n  who see it.\n\n"
        f"-m, --mice\n{between}  Counts the mice that were eaten. It takes long.\n\n"
        f"Owls\n{between}  The owls are birds that hunt at night.\n"
    ).replace("\n", line_end)
    evasion, *_, mice, owls = excerpts_of(content, Markup.NONE)
    assert evasion.text == "Evasion: This helps the owl to avoid being hit by hunters who see it."
    assert quoted(evasion) == content[content.index("Evasion") : content.index(f"{line_end}{line_end}-m")]
    assert mice.text == "-m, --mice: Counts the mice that were eaten. It takes long."
    # It has its term already.
    assert owls.text == "The owls are birds that hunt at night."


@pytest.mark.parametrize(
    "above",
    [
        "2. The owls",  # a numbered title
        "A. The owls",
        "SEE ALSO",
        "Owls    Mice",  # a row of a table
        "The owls,",
        "Owls, mice and all the other animals of the barn that we ever saw there at night",
    ],
)
def test_what_is_no_term_gets_no_colon(above: str) -> None:
    assert not any(text.startswith(f"{above}: ") for text in shown(f"{above}\n\n  They hunt in the barn at night.\n"))


MANUAL = """       Owls have options.

       -a, --all
              do not ignore owls that
              hide in the barn

       -n      Redirects the owls to the
               other barn.

       -R owl:barn:mouse
       -R owl:mouse
              Sends  the  owls to the mouse.
       --dry-run              show what would be hunted
       --format=NAME, -F      name of the format of all owls

       The owls hunt in the barn. All of the
       --dry-run  owls do it at night.
"""


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_options_of_a_manual_page_are_items_with_what_they_do(line_end: str) -> None:
    found = excerpts_of(MANUAL.replace("\n", line_end), Markup.NONE)
    assert [each.text for each in found if each.kind is BlockKind.LIST_ITEM] == [
        "-a, --all: do not ignore owls that hide in the barn",
        "-n: Redirects the owls to the other barn.",
        "-R owl:barn:mouse -R owl:mouse: Sends the owls to the mouse.",
        "--dry-run: show what would be hunted",
        "--format=NAME, -F: name of the format of all owls",
    ]
    assert found[-1].text == "All of the --dry-run owls do it at night."
    every = next(each for each in found if each.text.startswith("-a"))
    said = "-a, --all\n              do not ignore owls that\n              hide in the barn"
    assert quoted(every) == said.replace("\n", line_end)


def test_an_option_without_anything_told_of_it_is_none() -> None:
    assert not any(
        ":" in text for text in shown("   owls [options]\n\n   --all\n\n   Owls hunt at night in the barn.\n")
    )
    assert shown("  -a  Counts the owls of the barn.") == ["-a: Counts the owls of the barn."]
    # There is no room for the mark of an item.
    assert shown(" -a  Counts the owls of the barn.\n") == ["-a Counts the owls of the barn."]


def test_an_indented_first_line_makes_no_definition() -> None:
    assert (
        shown("The barn\n   They hunt in the barn at\nnight. They sleep in the tree.\n")[-1]
        == "They sleep in the tree."
    )
    assert not any("barn:" in text for text in shown("The barn\n   They hunt in the barn at\nnight.\n"))


@pytest.mark.parametrize("gap", ["\n\n\n", "\n\f"])
def test_a_sentence_goes_on_behind_the_break_of_a_page(gap: str) -> None:
    foot, head = (
        "Lovelace                     Owls                     [Page 7]",
        "RFC 1234            Owls           May 1997",
    )
    content = f"The owl that lives in the barn hunts\n\n{foot}\n{gap}{head}\n\n\nmice at night. It sleeps by day.\n"
    first, second = excerpts_of(content, Markup.NONE)
    assert first.text == "The owl that lives in the barn hunts mice at night."
    assert quoted(first) == content[: content.index(" It sleeps")]
    assert second.text.endswith("It sleeps by day.")


def test_a_page_that_ends_with_a_sentence_does_not_run_into_the_next_one() -> None:
    content = "The owl hunts mice.\n\nOwls            7\n\n\n\nBarn        May 1997\n\nIt sleeps by day in the barn.\n"
    assert shown(content)[0] == "The owl hunts mice."
    assert not any("1997" in text or "7" in text for text in shown(content))


def test_rows_of_a_table_are_no_break_of_a_page() -> None:
    content = "The owl that lives in the barn hunts\n\nName        Mice\n\n\nAda          17\n\nmice at night.\n"
    assert not any("hunts mice" in text for text in shown(content.replace("17", "many")))


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_a_table_of_contents_is_not_quoted(line_end: str) -> None:
    entries = "1. Where owls live\n2. What owls eat\n    2.1. What owls eat at night\n    2.2. What owls eat by day\n"
    content = f"Owls are birds of the night.\n\n{entries}".replace("\n", line_end)
    assert shown(content) == ["Owls are birds of the night."]
    steps = "1. Open the barn\n2. Count the owls\n3. Close the barn\n4. Write down the number\n"
    assert any("Count the owls" in text for text in shown(f"Owls are birds of the night.\n\n{steps}"))


def test_a_numbered_title_stands_above_its_text_and_parts_behind_it() -> None:
    content = (
        "6.3. owl_count - counting owls\n\nowl_count.so\n\n6.3.1. DESCRIPTION\n\n"
        "This module counts the owls of a barn.\n\n6.3.2. OPTIONS\n\nThis module does not take any options.\n"
    )
    passage = replace(
        make_passage(content, markup=Markup.NONE),
        section="6.3. owl_count - counting owls",
        section_heading="6.3. owl_count",
    )
    counts, takes = (each for each in find_excerpts([passage]) if "module" in each.text)
    assert counts.heading == "owl_count - counting owls: DESCRIPTION"
    assert counts.text == "owl_count - counting owls: This module counts the owls of a barn."
    assert takes.heading == "owl_count - counting owls: OPTIONS"


def test_what_goes_on_from_text_that_is_not_there_is_not_quoted() -> None:
    assert shown(", owls, mice and all the others of the barn. The owls hunt at night.") == ["The owls hunt at night."]


def test_the_sentences_of_an_item_have_its_term_once() -> None:
    told = "It is best to count the owls at night, because they are at home by day and asleep then. " * 6
    content = f"- Count: Says how many owls there are. {told}Count them twice.\n"
    first, second, *_, last = excerpts_of(content)
    assert (first.text, last.text) == ("Count: Says how many owls there are.", "Count: Count them twice.")
    assert second.text.startswith("Count: It is best")
    one, other = _statements([(each, [(each, 1.0)]) for each in (first, second)])
    assert (other.separator, other.text.startswith("It is best")) == (" ", True)
    assert [len(each.sources) for each in (one, other)] == [1, 1]
    (alone,) = _statements([(second, [(second, 1.0)])])
    assert (alone.text, len(alone.sources)) == (second.text, 2)
