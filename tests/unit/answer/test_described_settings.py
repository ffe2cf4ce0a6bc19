"""What references say of settings, options and functions: their fields, and what they are."""

import pytest

from groundwire.answer.evidence import Markup, section_at
from groundwire.answer.extractive.definitions import BELOW_ITS_NAME, INTRODUCED_AS_TERM
from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.answer.extractive.scoring import Scored, answers_as_field
from groundwire.answer.question import read_question
from tests.unit.answer.builders import excerpts_of, make_passage, make_scored, quoted, texts_of

_MAX_OWLS = "### `max-owls`\n\n* Type: whole number\n* Default: `12`\n\nCounts owls by night. Lamps are lit for them."


def _best(question: str, *contents: str) -> str:
    return min(make_scored(question, *contents), key=Scored.order).excerpt.text


def test_a_field_below_a_heading_is_said_of_what_that_names() -> None:
    content = "# Settings\n\n## Number of owls\n\nDefault: `12`\n\nHow many owls there are at night."
    field, sentence = excerpts_of(content)
    assert field.text == "Number of owls: Default: 12"
    assert (field.field_of, quoted(field)) == ("Number of owls", "Default: `12`")
    ((_, start, end),) = field.header
    assert content[start:end] == "## Number of owls"
    assert sentence.opens
    # Where the heading stands in another chunk, there is nothing to cite.
    assert [each.text for each in excerpts_of("Default: `12`\n\nOwls sleep by day.")] == [
        "Default: 12",
        "Owls sleep by day.",
    ]
    assert texts_of("# Owls\n\nNote: all of the owls there are sleep by day.") == [
        "Note: all of the owls there are sleep by day."
    ]
    assert texts_of("# Owls\n\nOwls are counted by night. Default: 12.") == ["Owls are counted by night."]


@pytest.mark.parametrize("name", ["--max-owls N", "MAX_OWLS", "owls.count", "-o, --owls"])
def test_what_opens_the_section_of_a_setting_or_an_option_comes_with_its_name(name: str) -> None:
    content = f"# {name}\n\nCounts owls by night. It needs a lamp."
    first, both = excerpts_of(content)
    assert first.text == f"{name}: Counts owls by night."
    assert both.text == f"{name}: Counts owls by night. It needs a lamp."
    assert [content[start:end] for _, start, end in first.header] == [f"# {name}"]
    assert quoted(first) == "Counts owls by night."


def test_only_the_first_sentence_has_the_name_and_only_where_it_can_be_cited() -> None:
    assert texts_of("# MAX_OWLS\n\nCounts owls by night. Lamps are lit for them.") == [
        "MAX_OWLS: Counts owls by night.",
        "Lamps are lit for them.",
    ]
    (apart,) = find_excerpts([make_passage("Counts owls by night.", start=100, section_heading="MAX_OWLS")])
    assert (apart.text, apart.header, apart.is_of_code) == ("Counts owls by night.", (), True)
    sentence = "This option counts all of the owls that it meets in the forest by night:"
    whole = texts_of(f"# MAX_OWLS\n\n{sentence}\n\n- barn owls of any age\n- eagle owls of any age")[-1]
    assert whole == f"{sentence}\n- barn owls of any age\n- eagle owls of any age"
    (leaning,) = excerpts_of("# MAX_OWLS\n\nIt counts owls by night.")
    assert leaning.text == "MAX_OWLS: It counts owls by night."


def test_the_name_is_cited_without_the_lines_around_it() -> None:
    content = "========\nMAX_OWLS\n========\n\nCounts owls by night."
    (found,) = excerpts_of(content, Markup.RST)
    assert (found.text, [content[start:end] for _, start, end in found.header]) == (
        "MAX_OWLS: Counts owls by night.",
        ["MAX_OWLS"],
    )


def test_a_sentence_that_has_the_name_or_stands_below_a_title_of_words_comes_alone() -> None:
    assert texts_of("# MAX_OWLS\n\nMAX_OWLS counts owls.")[0] == "MAX_OWLS counts owls."
    assert texts_of("# Counting owls\n\nIt is done by night.") == ["It is done by night."]
    assert texts_of("# DESCRIPTION\n\nCounts owls by night.") == ["Counts owls by night."]


def test_a_list_of_fields_is_read_field_by_field() -> None:
    content = ":Exit code 0: All owls are awake\n:Exit code 5: No owl was found,\n    or none was asked\n"
    found = excerpts_of(content, Markup.RST)
    assert [each.text for each in found] == [
        "Exit code 0: All owls are awake",
        "Exit code 5: No owl was found, or none was asked",
    ]
    assert quoted(found[0]) == ":Exit code 0: All owls are awake"
    # The head of a document is more than a list: each field says something of that document.
    head = excerpts_of(":Title: Owls\n:Author: Ada Lovelace\n:Date: 2021-05-01\n", Markup.RST)
    assert [each.field_of for each in head][-1] == ":Title: Owls :Author: Ada Lovelace"


@pytest.mark.parametrize("heading", ["`limit`", "`night limit`", "`max-owls`", "max_owls", "`` limit ``", "`limit`:"])
def test_a_heading_in_the_type_of_code_names_what_its_section_describes(heading: str) -> None:
    first, second = excerpts_of(f"## {heading}\n\nCounts owls by night. Lamps are lit for them.")
    assert first.text == f"{heading.strip('`: ')}: Counts owls by night."
    assert (first.is_of_code, second.is_of_code) == (True, True)


@pytest.mark.parametrize("heading", ["owls", "max-owls", "Use `owls`", "`owls` and `foxes`", "what is in `owls`"])
def test_a_heading_of_words_names_no_code(heading: str) -> None:
    first, *_ = excerpts_of(f"## {heading}\n\nCounts owls by night. Lamps are lit for them.")
    assert (first.text, first.is_of_code) == ("Counts owls by night.", False)


def test_what_a_function_takes_is_no_sentence_and_its_kind_no_part_of_its_name() -> None:
    takes = "`(name, *, eats: Mice, sleeps: bool = True) \u2192 None`"
    for taken in (takes, f"{takes}\n`(name, age, eats: Mice, sleeps: bool = True)`"):
        (described,) = excerpts_of(f"## class `owls.Owl`\n\n{taken}\n\nSleeps by day.")
        assert (described.text, described.heading) == ("owls.Owl: Sleeps by day.", "owls.Owl")
    in_code = "`owls` sleep in a `den` by day and wake at `night`"
    assert texts_of(f"## Owls\n\n{in_code}") == [in_code.replace("`", "")]


def test_what_makes_a_thing_does_not_say_what_that_is() -> None:
    made = "### `Owl`\n\n`public Owl(String name)`\n\nConstructs a new Owl that sleeps by day."
    owl = "## Class Owl\n\nAn Owl is a bird of the night."
    assert _best("What is an Owl?", made, owl) == "An Owl is a bird of the night."
    constructed, does = (make_scored(question, made)[0] for question in ("What is an Owl?", "What does Owl do?"))
    assert constructed.definition < does.definition


@pytest.mark.parametrize(
    "sentence",
    [
        "(All of the owls that there are sleep by day.)",
        "(all of the owls that there are sleep by day; all of the foxes sleep by night)",
        "(all of the owls that there are, e.g. barn owls of any age, sleep by day)",
    ],
)
def test_a_sentence_in_brackets_is_one(sentence: str) -> None:
    assert texts_of(f"## Owls\n\n{sentence}") == [sentence]


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("owls.MAX, owls.MAXIMUM", "owls.MAXIMUM"),
        ("owls.MAX, owls.MAXIMUM", "owls.MAX"),
        ("MAX_OWLS, MOST_OWLS", "MOST_OWLS"),
        ("owls.night.MAX, owls.night.MOST", "owls.night.MOST"),
    ],
)
def test_a_thing_of_two_names_is_either(heading: str, name: str) -> None:
    content = f"## `{heading}`\n\nThe greatest number that there may be."
    assert make_scored(f"What is {name}?", content)[0].definition >= INTRODUCED_AS_TERM


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("owls.MAX, owls.MAXIMUM", "owls.MIN"),
        ("barn-owls.MAX", "owls.MAX"),
        ("owls.MAX of foxes", "owls.MAX"),
    ],
)
def test_a_part_of_a_name_is_not_the_thing(heading: str, name: str) -> None:
    content = f"## `{heading}`\n\nThe greatest number that there may be."
    assert make_scored(f"What is {name}?", content)[0].definition < INTRODUCED_AS_TERM


@pytest.mark.parametrize(
    ("question", "heading", "headed"),
    [
        ("How does wake_before_owls work?", "`wake_before_owls`", 1.0),
        ("How does wake_before_owls work?", "`foxes.wake_before_owls`", 1.0),
        ("How does wake_after_owls work?", "`wake_before_owls`", 0.0),
        # Neither who asks for no name of code, nor a heading that has none, means another one.
        ("How are owls woken?", "`wake_before_owls`", 1.0),
        ("How does wake_before_owls work?", "`limit`", 1.0),
        ("How does wake_before_owls work?", "How to set wake_after_owls", 1.0),
    ],
)
def test_a_heading_that_is_the_name_of_other_code_answers_nothing(question: str, heading: str, headed: float) -> None:
    (scored, *_) = make_scored(question, f"### {heading}\n\nWakes the foxes first of all.")
    assert scored.below_heading(read_question(question), 1.0).headed == headed


def test_a_list_of_fields_below_the_name_of_a_setting_is_said_of_it() -> None:
    kind, default, whole, first, _ = excerpts_of(_MAX_OWLS)
    assert (kind.text, kind.field_of) == ("max-owls: Type: whole number", "max-owls")
    assert (default.text, quoted(default)) == ("max-owls: Default: 12", "Default: `12`")
    assert (whole.text, whole.field_of) == ("- Type: whole number\n- Default: 12", "")
    # The list does not take the place of what opens the section.
    assert (first.text, first.opens) == ("max-owls: Counts owls by night.", True)
    assert _best("What is the default of max-owls?", _MAX_OWLS) == "max-owls: Default: 12"
    assert _best("What does max-owls do?", _MAX_OWLS) == "max-owls: Counts owls by night."


def test_a_field_with_emphasis_is_read_once() -> None:
    emphasised = _MAX_OWLS.replace("Type: whole number", "*Type: whole number*")
    assert [each.text for each in excerpts_of(emphasised)] == [each.text for each in excerpts_of(_MAX_OWLS)]


def test_a_list_of_what_is_no_field_is_read_as_any_other() -> None:
    below_words = _MAX_OWLS.replace("`max-owls`", "Owls of the night")
    with_sentence = _MAX_OWLS.replace("Type: whole number", "Type: It is a whole number.")
    without_label = _MAX_OWLS.replace("Type: whole number", "the number of owls")
    after_prose = _MAX_OWLS.replace("\n\n", "\n\nOwls sleep by day.\n\n", 1)
    for content in (below_words, with_sentence, without_label, after_prose):
        assert not any(each.field_of for each in excerpts_of(content)), content


def test_parameters_do_not_take_the_place_of_what_opens_the_section() -> None:
    parameters = "* `depth` {number} How deep it is to be. **Default:** `1`.\n  * `by` {Fox}\n* Returns: {Den}"
    for listed, opened in (
        (parameters, "dens.dig: Makes a den."),
        (f"{parameters}\n* Foxes dig at night.", "Makes a den."),
        (f"Foxes take these:\n\n{parameters}", "Makes a den."),
    ):
        texts = texts_of(f"### `dens.dig(depth[, by])`\n\n{listed}\n\nMakes a den. Foxes live in it.")
        assert opened in texts
    # An example, or a label, says nothing of what the thing is.
    for front in ("Stability: 0 - Deprecated since long ago", "For example, by night:\n\n```\ndig(1)\n```"):
        first, *_ = make_scored("What is dens.dig?", f"### `dens.dig(depth)`\n\n{front}\n\nMakes a den for the foxes.")
        assert first.excerpt.opens
        assert first.definition < BELOW_ITS_NAME


def test_a_default_value_is_the_default_whatever_it_is() -> None:
    content = "### `owls`\n\n- Type: list\n- Default value: `[]`\n\nCounts owls by night."
    (field,) = (each for each in find_excerpts([make_passage(content)]) if each.field_of and "[]" in each.text)
    assert answers_as_field(read_question("What is the default of owls?"), field)
    assert not answers_as_field(read_question("What is the type of owls?"), field)
    assert not answers_as_field(read_question("What are owls?"), field)
    (nameless, *_) = excerpts_of("### `owls`\n\n- Of: list\n- Default: 12")
    assert nameless.field_of == "owls"
    assert not answers_as_field(read_question("What is the default of owls?"), nameless)


def test_a_setting_that_is_described_by_another_one_is_not_that_one() -> None:
    before = "### `wake_before_owls`\n\nLike `wake_after_owls` but wakes the foxes first."
    after = "### `wake_after_owls`\n\nThe animals that are to be woken when the night has come."
    assert _best("What does wake_after_owls do?", before, after).startswith("wake_after_owls: The animals")
    assert _best("What does wake_before_owls do?", after, before).startswith("wake_before_owls: Like")


def test_what_other_code_says_defines_nothing_unless_it_is_another_sentence() -> None:
    said = "The wake_after_owls setting is a number of the animals."
    question = "What is wake_after_owls?"
    (first,) = make_scored(question, f"### `wake_before_owls`\n\n{said}")
    _, second = make_scored(question, f"### `wake_before_owls`\n\nThe opposite of it. {said}")
    assert (first.definition, second.definition) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("question", "items"),
    [
        ("What is an owl?", "- A fox that is there by day.\n- A badger that is there by night."),
        # The items are what there is of it, not what it is.
        ("What is owl_value?", "- The greatest number that there may be\n- foxes of any age by day"),
    ],
)
def test_a_list_below_a_name_of_code_does_not_say_what_that_is(question: str, items: str) -> None:
    found = make_scored(question, f"### `owl_value`\n\n{items}")
    assert {each.definition for each in found} == {0.0}


def test_a_word_that_is_part_of_a_name_of_code_is_not_defined_by_it() -> None:
    content = "### `getOwl(name)`\n\nUsed to fetch one that is there."
    asked, named = (make_scored(question, content)[0] for question in ("What are owls?", "What does getOwl do?"))
    assert asked.definition < named.definition
    # The words around the thing asked about are none of its name.
    (found,) = make_scored("What is waking?", "### `is_waking`\n\nTells whether the fox sleeps.")
    assert found.definition == 0.0


def test_a_heading_in_small_letters_does_not_go_on_with_the_chunk_before() -> None:
    first = make_passage("max_foxes\n~~~~~~~~~\n\nCounts foxes::\n\n    foxes: 1", markup=Markup.RST)
    second = make_passage(
        "max_owls\n~~~~~~~~\n\nCounts owls by night.",
        start=first.span.end + 2,
        document_id="doc_1",
        rank=2,
        markup=Markup.RST,
        section_heading="max_owls",
    )
    found = find_excerpts([first, second])
    assert found[-1].text == "max_owls: Counts owls by night."


def test_what_stands_below_a_record_is_about_what_the_record_is_about() -> None:
    owls = "Syntax: max-owls [n]\nDefault: 12\nExample: max-owls 3\n\nIf set, so many animals are woken."
    foxes = owls.replace("owls", "foxes")
    content = f"## Commands\n\n{owls}\n\n{foxes}\n\n## Nights\n\nBy night all are woken."
    found = [each.about for each in excerpts_of(content) if "woken" in each.text]
    assert found == ["Commands max-owls [n]", "Commands max-foxes [n]", "Nights"]
    # One record alone may be the head of a document, which is about what its heading names.
    (alone,) = (each for each in excerpts_of(f"## Commands\n\n{owls}") if "woken" in each.text)
    assert alone.about == "Commands"


@pytest.mark.parametrize("markup", [Markup.BLOCKS, Markup.MARKDOWN])
def test_a_citation_names_the_entry_of_a_reference_without_marks(markup: Markup) -> None:
    content = "### class `owls.Owl`\n\nSleeps by day."
    passage = make_passage(content, markup=markup)
    assert section_at(passage, content.index("Sleeps")) == (passage.section, "class owls.Owl")
