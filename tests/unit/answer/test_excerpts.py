"""What of a passage can be quoted, and how it is shown."""

from dataclasses import replace
from typing import Any

import pytest

from groundwire.answer.evidence import Markup, Passage, section_at
from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.kernel.sentences import BlockKind
from tests.unit.answer.builders import consecutive_passages, excerpts_of, make_passage, quoted, texts_of


def _texts_of(passages: list[Passage]) -> list[str]:
    return [excerpt.text for excerpt in find_excerpts(passages)]


def test_only_statements_can_be_quoted() -> None:
    content = (
        "# A heading of words\n\nA true statement stands here. Is this a question of yours? Too short.\n\n"
        "Figure 3: a caption of a picture.\n\n**Figure 14.27. A caption of another one**\n\n- a list item of words\n\n"
        "See the array [12] of numbers.\n\n![an image of a fox](fox.png)\n\n"
        "- [keep the foxes in sync](sync.md)\n\n[one link](a.md) [two links](b.md)\n\nTODO: say more of foxes."
    )
    assert texts_of(content) == ["A true statement stands here.", "a list item of words"]


@pytest.mark.parametrize(
    "pointer",
    [
        "The following operators can be used.",
        "The operators are as follows.",
        "See above for the operators.",
        "The operators are listed below.",
        "We use operators in the next chapter.",
        "See the page about operators.",
        "Please read the docs to learn more!",
        "Edit this page:",
    ],
)
def test_what_only_points_at_what_stands_elsewhere_is_passed_over(pointer: str) -> None:
    assert texts_of(f"Foxes eat small mice.\n\n{pointer}\n\nOwls eat small mice.") == [
        "Foxes eat small mice.",
        "Owls eat small mice.",
    ]


def test_pictures_targets_and_badges_of_restructured_text_are_passed_over() -> None:
    content = (
        "foxes\n=====\n\n|the build status| |the state of the docs|\n\n"
        ".. |the build status| image:: https://example.org/b.svg\n   :target: https://example.org/of/foxes\n"
        "   :alt: what it is\n\n.. image:: picture-of-a-fox.png\n    :alt: a fox in the snow\n\n"
        ".. _all about foxes: https://example.org/foxes\n.. _owls: https://example.org/owls\n\n"
        "Foxes eat small mice. |Note that| is kept.\n\n.. note:: Owls eat small mice."
    )
    found = excerpts_of(content, Markup.RST)
    assert [each.text for each in found] == ["Foxes eat small mice.", "|Note that| is kept.", "Owls eat small mice."]
    assert found[0].opens
    assert content[found[0].start : found[0].end] == "Foxes eat small mice."


def test_what_is_extracted_has_blocks_of_markdown_and_verbatim_words() -> None:
    content = (
        "## The __init__ of *foxes*\n\nRun it\nlike `this` or `that`, *always*:\n\n```\nfox run <b>\n```\n\n"
        "A short line of words\nStill in the same paragraph of foxes."
    )
    shown, told = excerpts_of(content, Markup.BLOCKS)
    assert (shown.kind, shown.heading) == (BlockKind.CODE, "The __init__ of *foxes*")
    assert shown.text == "Run it like `this` or `that`, *always*:\nfox run <b>"
    assert told.text == "A short line of words Still in the same paragraph of foxes."
    assert section_at(make_passage(content, markup=Markup.BLOCKS), told.start) == ("The __init__ of *foxes*",) * 2


def test_what_the_assistant_said_is_quoted_from_no_summary() -> None:
    own = ["User: I live in the town of Lund.", "User: I have two cats at home."]
    passage = make_passage("\n".join([own[0], "Assistant: Whales sing in the deep sea.", own[1]]), markup=Markup.NONE)
    assert [each.text for each in find_excerpts([replace(passage, source_uri="record:summary-1")])] == own
    assert len(find_excerpts([replace(passage, source_uri="talk.txt")])) == 3


def test_a_memory_needs_no_full_stop() -> None:
    passage = make_passage("Anna likes tea", markup=Markup.NONE)
    memory = replace(passage, source_uri="record:chunk-2026-02-10-a1b2c3d4")
    assert _texts_of([memory]) == ["Anna likes tea"]
    assert _texts_of([passage]) == []  # it may be a heading


def test_a_sentence_is_shown_plain_and_quoted_exactly() -> None:
    content = "Foxes **eat** [small\nmice](mice.md) at `night`."
    (excerpt,) = excerpts_of(content)
    assert excerpt.text == "Foxes eat small mice at night."
    assert quoted(excerpt) == content


def test_a_sentence_that_leans_on_the_one_before_comes_with_it() -> None:
    content = "Foxes live in holes. They sleep by day. However, foxes hunt at night. Owls hunt too."
    first, second, third, fourth = excerpts_of(content)
    assert first.text == "Foxes live in holes."
    assert second.text == quoted(second) == "Foxes live in holes. They sleep by day."
    assert third.leans  # its antecedent leans too
    assert (fourth.text, fourth.leans) == ("Owls hunt too.", False)


def test_one_such_thing_leans_on_what_comes_before() -> None:
    _, other = excerpts_of("Owls live in zoos. One such zoo is in Bonn.")
    assert other.text == "Owls live in zoos. One such zoo is in Bonn."


@pytest.mark.parametrize(
    ("second", "leans"),
    [
        ("Owls prefer the latter.", True),
        ("Owls hunt in the former, however.", True),
        ("Owls prefer mice and eat the latter.", False),
        ("Owls live in the former Zoo.", False),
    ],
)
def test_the_latter_of_two_things_comes_with_them(second: str, leans: bool) -> None:
    _, other = excerpts_of(f"Foxes eat mice or hens. {second}")
    assert other.text == (f"Foxes eat mice or hens. {second}" if leans else second)


def test_what_leans_on_text_outside_of_the_passage_says_so() -> None:
    (excerpt,) = excerpts_of("They sleep by day in holes.")
    assert excerpt.leans
    (excerpt,) = excerpts_of("It is possible to sleep by day.")
    assert not excerpt.leans


def test_a_lead_in_comes_with_what_it_introduces_or_not_at_all() -> None:
    content = "A fox eats:\n\n- the *mice* of the wood\n- the berries of the wood\n\nThe owl eats:\n\n# Next"
    first, second, whole = excerpts_of(content)
    assert (first.text, second.text) == ("the mice of the wood", "the berries of the wood")
    assert whole.text == "A fox eats:\n- the mice of the wood\n- the berries of the wood"
    assert whole.is_whole
    assert quoted(whole) == "A fox eats:\n\n- the *mice* of the wood\n- the berries of the wood"
    assert "A fox eats:" in first.about


def test_a_lead_in_that_says_something_can_be_quoted_alone() -> None:
    content = (
        "Cargo has a command called check. This command checks the code and makes sure that it compiles:\n\n"
        "```text\n{{#include output.txt}}\n```\n\nWhat the long command prints to the screen then looks like this:\n"
    )
    alone, with_colon = excerpts_of(content)
    assert alone.text == "Cargo has a command called check."
    assert with_colon.text == (
        "Cargo has a command called check. This command checks the code and makes sure that it compiles."
    )
    assert quoted(with_colon).endswith("makes sure that it compiles")


def test_what_is_only_said_to_be_here_is_no_answer() -> None:
    lead_in = "Here are a few tips that help each of the foxes to make the most of the winter:"
    assert texts_of(f"{lead_in}\n\n```text\n{{{{#include tips.txt}}}}\n```\n") == []
    assert lead_in in texts_of(f"{lead_in}\n\n- eat more mice\n- sleep by day")[-1]


def test_a_long_list_is_quoted_item_by_item_only() -> None:
    content = "A fox eats:\n\n" + "\n".join(f"- the mouse of number {number}" for number in range(31))
    assert [excerpt.is_whole for excerpt in excerpts_of(content)] == [False] * 31


def test_a_long_item_that_explains_a_term_is_quoted_by_sentences_with_the_term() -> None:
    first = "`max_foxes` (integer): The most foxes that may live in one den."
    filler = f"They share {'a lot and ' * 20}all of it."
    content = f"- {first}\n  {filler}\n  The default is seven foxes.\n- A short item. It has two sentences."
    found = excerpts_of(content)
    assert [excerpt.text for excerpt in found] == [
        "max_foxes (integer): The most foxes that may live in one den.",
        f"max_foxes (integer): {filler}",
        "max_foxes (integer): The default is seven foxes.",
        "A short item. It has two sentences.",
        found[-1].text,
    ]
    assert found[-1].is_whole
    assert (quoted(found[0]), found[0].header) == (first, ())
    ((passage, start, end),) = found[2].header
    assert passage.content[start:end] == "`max_foxes` (integer)"
    assert quoted(found[2]) == "The default is seven foxes."


def test_an_item_that_explains_no_term_is_quoted_by_sentences_where_it_is_too_long_to_be_quoted_whole() -> None:
    medium, long = (" ".join(f"Foxes number {n} eat mice." for n in range(1, count)) for count in (20, 40))
    assert texts_of(f"- {medium}") == [medium]
    assert texts_of(f"- {long}") == [f"Foxes number {n} eat mice." for n in range(1, 40)]


def test_the_emphasis_that_opens_a_list_item_is_not_torn() -> None:
    (excerpt,) = excerpts_of("- **No surprises.** Nothing is downloaded here.")
    assert excerpt.text == "No surprises. Nothing is downloaded here."
    assert quoted(excerpt) == "**No surprises.** Nothing is downloaded here."


def test_code_comes_whole_with_what_introduces_it() -> None:
    content = "Delete it like this:\n\n```console\n$ tool delete NAME\n$ tool list\n```\n\nThen rest a while."
    code, _ = excerpts_of(content)
    assert code.kind is BlockKind.CODE
    assert code.text == "Delete it like this:\n$ tool delete NAME\n$ tool list"
    assert quoted(code).startswith("Delete it")
    assert quoted(code).endswith("$ tool list\n```")


def test_items_and_definitions_in_html_are_quoted_without_their_tags() -> None:
    content = (
        "<h2>Foxes</h2>\n<ul>\n  <li>Red foxes eat <b>mice</b>.</li>\n</ul><dl><dt>Den</dt><dd>where a fox sleeps</dl>"
    )
    item, term, whole = excerpts_of(content)
    assert whole.text == "- Red foxes eat mice.\n- Den: where a fox sleeps"
    assert (item.heading, item.text, quoted(item)) == (*("Foxes", "Red foxes eat mice.", "Red foxes eat <b>mice</b>."),)
    assert (term.text, quoted(term)) == ("Den: where a fox sleeps", "Den</dt><dd>where a fox sleeps")


_LINES = """\
4. Any traces of the foxes.
Foxes that were seen may be reported by calling the wardens
at 1-
800-555 at any time.
What Foxes Eat
Foxes eat small mice and berries, and they find both of them in the
fields.
The dens are:
• Holes
• Hollow trees near a quiet river
Dens keep the young foxes warm and safe all through the winter. They
sleep there.
"""


def test_lines_that_end_early_show_where_headings_items_and_paragraphs_of_a_text_without_marks_end() -> None:
    found = find_excerpts([make_passage(_LINES, title="Heading", markup=Markup.NONE)])
    assert [(each.text, each.heading) for each in found if not each.is_whole] == [
        ("Any traces of the foxes.", ""),
        ("Foxes that were seen may be reported by calling the wardens at 1-800-555 at any time.", ""),
        ("Foxes eat small mice and berries, and they find both of them in the fields.", "What Foxes Eat"),
        ("Hollow trees near a quiet river", "What Foxes Eat"),
        ("Dens keep the young foxes warm and safe all through the winter.", "What Foxes Eat"),
        (
            "Dens keep the young foxes warm and safe all through the winter. They sleep there.",
            "What Foxes Eat",
        ),
    ]
    assert [each.text for each in found if each.is_whole] == [
        "The dens are:\n- Holes\n- Hollow trees near a quiet river"
    ]
    assert all(quoted(each) for each in found)


def test_a_chunk_without_marks_begins_under_the_last_heading_of_the_chunk_before_it() -> None:
    front = "Foxes eat small mice and berries all through the year.\nHabits of Foxes\nThey hunt alone, at night."
    first = make_passage(front, document_id="doc_1", title="Heading", markup=Markup.NONE)
    start, start_byte = first.span.end + 1, first.span.end_byte + 1
    second = make_passage("Foxes sleep by day.", rank=2, start=start, start_byte=start_byte, markup=Markup.NONE)
    second = replace(second, title="Heading")
    *_, alone = find_excerpts([first, second])
    *_, next_one = find_excerpts([first, replace(second, document_id="doc_1")])
    assert (alone.heading, next_one.heading) == ("", "Habits of Foxes")


def test_the_sections_of_a_pdf_are_known_by_their_titles_which_are_not_quoted() -> None:
    title = "What Foxes of the North Eat in Winter, in Summer and in all the Seasons between"
    printed = title.replace(" in Summer", "\nin Summer")
    contents = ["They hunt at night.", f"2.1 {printed}\n\nMice are their food.", "Berries are good, too."]
    text = "\n\n".join(contents)
    chunks = [
        make_passage(
            content, start=text.index(content), document_id="doc_1", section_heading=heading, markup=Markup.NONE
        )
        for content, heading in zip(contents, ("Habits", title, title), strict=True)
    ]
    assert [(each.text, each.heading, each.opens) for each in find_excerpts(chunks)] == [
        ("They hunt at night.", "Habits", False),
        ("Mice are their food.", title, True),
        ("Berries are good, too.", title, False),
    ]


def test_a_label_stands_below_the_title_of_a_section_of_a_pdf() -> None:
    content = "Tasks:\nFoxes hunt the mice of the wood by night, and owls do so, too.\n\nOwls\n\nTasks:\nOwls hunt."
    chunk = make_passage(content, section_heading="Foxes", markup=Markup.NONE)
    owls = make_passage("They see at night.", section_heading="Owls", markup=Markup.NONE, document_id="doc_1")
    owls = replace(owls, span=replace(owls.span, start=len(content) + 2, end=len(content) + 2 + len(owls.content)))
    assert [each.heading for each in find_excerpts([chunk, owls])] == ["Foxes: Tasks", "Owls: Tasks"]
    # Without the titles of sections a label is all that there is.
    assert find_excerpts([replace(chunk, section_heading="", title="")])[0].heading == "Tasks:"


def test_a_line_that_repeats_the_title_of_its_section_is_no_statement() -> None:
    def quoted(line: str, title: str = "Senior Manager of the Night") -> list[str]:
        chunk = make_passage(f"{line}\n\nFoxes hunt.", section_heading=title, markup=Markup.NONE)
        return _texts_of([chunk])

    repeated = "Job title: Senior Manager of the Night, Foxes"
    assert repeated not in quoted(repeated)
    assert repeated in quoted(repeated, "Tasks")
    sentence = "The Senior Manager of the Night hunts for Fox."
    assert sentence in quoted(sentence)
    longer = "Job title: Senior Manager of the Night in all of the woods of the north"
    assert longer in quoted(longer)


def test_an_item_is_quoted_without_what_introduces_the_list_below_it() -> None:
    item = "- depth: How deep a den is. It may be changed. The depths are:\n\n  - 1 m\n  - 2 m\n"
    assert "depth: How deep a den is. It may be changed." in texts_of(item)
    long = (
        "- depth: How deep a den is. "
        + "It may be changed at any time by each fox. " * 8
        + "The depths are:\n\n  - 1 m\n"
    )
    quoted = [each.text for each in excerpts_of(long) if not each.is_whole]
    assert "depth: How deep a den is." in quoted
    assert not any("The depths are" in text for text in quoted)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ("Appendix B.4.7 Mice\n\nThey are small.", [("They are small.", "Mice")]),
        ("B.4 Habits\nFoxes hunt at night.", [("Foxes hunt at night.", "Habits")]),
        ("2.1.  Mice\n\n   They are small.", [("They are small.", "Mice")]),
        ("MICE\n   eat seeds, which are\n   small.", [("eat seeds, which are small.", "MICE")]),
        ("They eat mice.\n\nThey are small.", [("They eat mice.", "Mice"), ("They are small.", "Mice")]),
        (
            "All of the foxes that live in the far north eat mice\n\nThey are small.",
            [
                ("All of the foxes that live in the far north eat mice", "Mice"),
                ("All of the foxes that live in the far north eat mice They are small.", "Mice"),
            ],
        ),
    ],
)
def test_what_is_a_title_in_a_pdf(content: str, found: list[tuple[str, str]]) -> None:
    passage = make_passage(content, section_heading="Mice", markup=Markup.NONE)
    assert [(each.text, each.heading) for each in find_excerpts([passage])] == found


def test_the_title_of_a_pdf_without_headings_is_none() -> None:
    passage = make_passage("Foxes and mice\n\nThey are small.", title="Foxes and mice", markup=Markup.NONE)
    assert [each.heading for each in find_excerpts([replace(passage, section_heading="Foxes and mice")])] == [""]


def test_topics_of_a_list_are_not_quoted_one_by_one() -> None:
    found = excerpts_of("Here we tell:\n\n- What a fox is\n- How it hunts mice\n- How it hunts mice is known.")
    assert [each.text for each in found if not each.is_whole] == ["How it hunts mice is known."]


def test_of_a_long_list_the_names_of_its_items_are_quoted_where_something_introduces_it() -> None:
    def whole(introduction: str, *items: str) -> list[str]:
        content = "\n".join([introduction, "", *(f"- {item}" for item in items)])
        return [each.text for each in excerpts_of(content) if each.is_whole]

    why = "which " + "they like a lot because it is there all through the year " * 2
    foods = [
        "mice",
        "berries",
        "eggs",
        "snails",
        "frogs",
        "worms",
        "nuts",
        "roots",
        "beetles",
        "grass",
        "fish",
        "plums",
    ]
    names = ["The foxes of the north eat:", *(f"- {food}" for food in foods)]
    assert whole(names[0], *(f"{food}, {why}" for food in foods)) == ["\n".join(names)]
    assert whole(names[0], *foods, "bread.") == ["\n".join([*names, "- bread"])]
    assert whole(names[0], *(f"{food}" for food in foods * 3)) == []
    assert whole(names[0], *(f"{food} {why}" for food in foods)) == []
    assert whole("Foxes eat much.", *(f"{food}, {why}" for food in foods)) == []
    numbered = "\n".join([names[0], "", *(f"{n}. {food}, {why}" for n, food in enumerate(foods, 1))])
    assert not any(each.is_whole for each in excerpts_of(numbered))


def test_a_sentence_that_code_ends_is_quoted_with_the_code() -> None:
    code = "```\nden --leave\n```\n"
    shown = "To leave a den the command is\nden --leave"
    assert texts_of(f"Foxes sleep all day.\n\nTo leave a den the command is\n\n{code}\nwhere den is a name.") == [
        *("Foxes sleep all day.", shown, "where den is a name.")
    ]
    (rest,) = [each for each in excerpts_of(f"{code}\nwhere den is a name.") if each.kind is BlockKind.PROSE]
    assert rest.leans
    assert texts_of(f"1. Foxes sleep all day.\n2. To leave a den the command is\n\n{code}")[0] == "Foxes sleep all day."
    assert shown in texts_of(f"1. Foxes sleep all day.\n2. To leave a den the command is\n\n{code}")
    assert "To leave a den the command is" not in texts_of(
        f"1. Foxes sleep.\n2. To leave a den the command is\n\n{code}"
    )
    (rest,) = [each for each in excerpts_of(f"{code}\nNothing else is needed.") if each.kind is BlockKind.PROSE]
    assert not rest.leans
    assert "Leave:\nden --leave" in texts_of(f"- Foxes sleep all day.\n- Leave:\n\n{code}")
    long = "To leave a den that you share with many other foxes, simply run:"
    assert not any(text.startswith("To leave") for text in texts_of(f"{long}\n\n{code.replace('den', '[1] ')}"))
    # A label is no sentence, and a whole sentence says something by itself.
    assert texts_of(f"Foxes sleep all day.\n\nExample\n\n{code}") == ["Foxes sleep all day.", "den --leave"]
    assert "Foxes can leave their den at any time." in texts_of(f"Foxes can leave their den at any time.\n\n{code}")


def test_a_term_in_the_line_of_what_explains_it_is_told_from_that() -> None:
    content = "These are our terms.\n\nden A hole in which a fox sleeps. It is dry."
    _, den, *_ = excerpts_of(content, Markup.NONE)
    assert (den.text, den.passage.content[den.start : den.end]) == (
        "den: A hole in which a fox sleeps.",
        "den A hole in which a fox sleeps.",
    )
    assert "den A hole in which a fox sleeps." in texts_of(content)
    inside = "These are our terms. Den A hole in which a fox sleeps."
    assert "Den A hole in which a fox sleeps." in [each.text for each in excerpts_of(inside, Markup.NONE)]


def test_lines_of_a_table_of_contents_are_not_quoted() -> None:
    entries = "4.1 Where all the foxes live . . . . . . 28\nHow the foxes hunt at night......xii\n"
    values = "Mice that a fox eats in a year..... 9200\nFoxes eat mice."
    quoted = " ".join(each.text for each in excerpts_of(entries + values, Markup.NONE))
    assert "foxes live" not in quoted
    assert "hunt at night" not in quoted
    assert "Mice that a fox eats in a year" in quoted


def test_the_fields_at_the_head_of_a_document_are_read_one_by_one() -> None:
    content = "Author: Ada Lovelace (1815)\nStatus: Final\nCreated: 13 of February 2009\n\nFoxes eat mice."
    assert [(excerpt.text, quoted(excerpt)) for excerpt in excerpts_of(content)] == [
        ("Author: Ada Lovelace (1815)",) * 2,
        ("Status: Final",) * 2,
        ("Created: 13 of February 2009",) * 2,
        ("Foxes eat mice.",) * 2,
    ]


def test_fragments_at_the_borders_of_a_chunk_are_left_out() -> None:
    content = "of the sentence before this one. It is a whole sentence here. And one that is cut in the"
    (excerpt,) = excerpts_of(content)
    assert (excerpt.text, excerpt.leans) == ("It is a whole sentence here.", True)


@pytest.mark.parametrize(
    "content",
    ["- Foxes eat mice at night.\n- Owls open connections. One", "- Foxes eat mice at night.\n- Owls are known to"],
)
def test_what_the_border_of_a_chunk_leaves_of_a_list_item_is_left_out(content: str) -> None:
    found = texts_of(content)
    assert found[0] == "Foxes eat mice at night."
    assert not any(text.endswith(("One", "known to")) for text in found)
    assert ("Owls open connections." in content) == any("Owls open connections." in text for text in found)


@pytest.mark.parametrize(
    "cut",
    [
        "The training of young foxes covers topics such as mice, berries,",
        "The habits of the fox are much like those of the jackal in that both of them hunt at night and sleep",
    ],
)
def test_a_long_sentence_that_the_border_of_a_chunk_cuts_is_left_out_where_it_begins_its_paragraph(cut: str) -> None:
    assert texts_of(f"Foxes eat mice at night.\n\n{cut}") == ["Foxes eat mice at night."]
    assert texts_of(f"{cut} and eggs.\n\nFoxes eat mice at night.") == [f"{cut} and eggs.", "Foxes eat mice at night."]


def test_a_lead_in_that_leans_comes_with_the_sentence_before_it() -> None:
    whole = excerpts_of("Some animals are not fed. These include:\n\n- Foxes that bite\n- Owls that hoot")[-1]
    assert whole.text == "Some animals are not fed. These include:\n- Foxes that bite\n- Owls that hoot"
    assert quoted(whole).startswith("Some animals are not fed.")


def test_literal_blocks_of_restructuredtext_are_code() -> None:
    content = (
        "Reading\n~~~~~~~\n\nRead it like this::\n\n    scale = read()\n\n    scale.close()\n\nIt is closed then.\n\n"
        ">>> scale\n<closed>\n\n.. note::\n\n    This note is prose that stands indented."
    )
    code, prose, shown, note = excerpts_of(content, Markup.RST)
    assert (code.kind, code.heading) == (BlockKind.CODE, "Reading")
    assert code.text.endswith("scale = read()\n\nscale.close()")
    assert quoted(code).endswith("scale.close()")
    assert (prose.kind, prose.text) == (BlockKind.PROSE, "It is closed then.")
    assert (shown.kind, shown.text.splitlines()[-1]) == (BlockKind.CODE, "<closed>")
    assert (note.kind, note.text) == (BlockKind.PROSE, "This note is prose that stands indented.")
    assert excerpts_of(".. note:: Owls eat small mice.", Markup.RST)[0].text == "Owls eat small mice."


def test_a_chunk_that_begins_in_a_literal_block_shows_it_by_what_is_indented() -> None:
    code, prose = excerpts_of("    scale = read()\n    scale.close()\n\nIt was closed by this call.", Markup.RST)
    assert (code.kind, code.text) == (BlockKind.CODE, "scale = read()\nscale.close()")
    assert (prose.kind, prose.text) == (BlockKind.PROSE, "It was closed by this call.")


def test_text_that_two_chunks_share_comes_once() -> None:
    first = make_passage("One sentence here. The shared sentence stands.")
    second = make_passage("The shared sentence stands.", rank=2, start=19, document_id="doc_1")
    assert [excerpt.text for excerpt in find_excerpts([first, second])] == [
        "One sentence here.",
        "The shared sentence stands.",
    ]


def test_a_text_without_markup_keeps_its_characters() -> None:
    (excerpt,) = excerpts_of("Foxes *really* eat `small` mice.", markup=Markup.NONE)
    assert excerpt.text == "Foxes *really* eat `small` mice."


def test_places_count_the_excerpts_of_a_passage() -> None:
    found = find_excerpts([make_passage("Foxes eat mice. Owls eat mice."), make_passage("Bears eat fish.", rank=2)])
    # The third does not follow the second.
    assert [(excerpt.passage.rank, excerpt.place) for excerpt in found] == [(1, 0), (1, 1), (2, 3)]


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_fields_at_the_head_of_a_book_are_read_as_one_head(line_end: str) -> None:
    head = "The eBook of Foxes\n\nTitle: All About\n       Foxes\n\nAuthor: Ada Flett\n\nRelease date: June 1, 2004\n\n"
    found = excerpts_of(f"{head}Foxes eat small mice.".replace("\n", line_end), Markup.NONE)
    assert [excerpt.text for excerpt in found] == [
        *("Title: All About Foxes", "Author: Ada Flett", "Release date: June 1, 2004", "Foxes eat small mice."),
    ]
    assert found[1].field_of == "Title: All About Foxes Author: Ada Flett wrote written"
    assert found[1].stems >= {"fox", "ada"}


@pytest.mark.parametrize(
    "told", ["Owls come into scope by the use keyword.", "Owls come into scope by the `use` keyword."]
)
def test_a_keyword_that_is_a_small_word_of_english_is_a_stem_of_what_names_it(told: str) -> None:
    (excerpt,) = excerpts_of(told)
    assert "`use`" in excerpt.stems


def test_short_fragments_without_a_full_stop_are_no_sentences() -> None:
    content = "Chief Technology Officer\n\nShe leads engineering.\n\nAll of the teams of engineering report to her"
    assert [excerpt.text for excerpt in find_excerpts([make_passage(content)])] == [
        "She leads engineering.",
        "All of the teams of engineering report to her",
    ]


def test_a_sentence_that_the_border_of_a_chunk_cuts_is_joined_where_both_chunks_were_found() -> None:
    first = make_passage("Owls sleep by day. Reviews of owls are held annually and help the", document_id="doc_1")
    second = make_passage(
        "owls to grow. Owls eat mice.", rank=2, start=first.span.end + 1, start_byte=first.span.end_byte + 1
    )
    second = replace(second, document_id="doc_1")
    found = find_excerpts([second, first])
    joined = next(each for each in found if each.rest)
    assert joined.text == "Reviews of owls are held annually and help the owls to grow."
    assert quoted(joined) == "Reviews of owls are held annually and help the"
    ((passage, start, end),) = joined.rest
    assert passage is second
    assert passage.content[start:end] == "owls to grow."
    assert [each.text for each in found if not each.rest] == ["Owls sleep by day.", "Owls eat mice."]


@pytest.mark.parametrize(
    ("gap", "following"), [(40, "owls to grow."), (2, "Owls eat mice."), (2, "# A heading"), (1, "owls to grow")]
)
def test_what_does_not_go_on_is_not_joined(gap: int, following: str) -> None:
    first = make_passage("Reviews of owls are held annually and help the", document_id="doc_1")
    second = make_passage(following, rank=2, start=first.span.end + gap, start_byte=first.span.end_byte + gap)
    found = find_excerpts([first, replace(second, document_id="doc_1")])
    assert not any(each.rest for each in found)


def test_a_wide_title_does_not_make_full_lines_short() -> None:
    content = (
        "The Journal of the Study of Foxes and of Owls in the North, Volume 12\n"
        "Foxes sleep by day in their dens, which\nthey dig in the woods of the north.\n"
        "The only keeper of the foxes was\nHamish Buchanan, who kept two of them."
    )
    assert "The only keeper of the foxes was Hamish Buchanan, who kept two of them." in [
        excerpt.text for excerpt in excerpts_of(content, Markup.NONE)
    ]


@pytest.mark.parametrize("heading", ["Heading", ""])
def test_a_sentence_goes_on_behind_the_indent_of_a_chunk(heading: str) -> None:
    fields: dict[str, Any] = {"document_id": "doc_1", "section_heading": heading}
    first = make_passage("* Owls that were seen by day start", rank=1, **fields)
    second = make_passage("to hunt at night. They eat mice.", start=first.span.end + 3, rank=2, **fields)
    found = find_excerpts([first, second])
    assert found[0].text == "Owls that were seen by day start to hunt at night. They eat mice."
    assert len(found[0].rest) == 1


def test_a_lead_in_is_no_answer_beside_the_list_that_it_introduces() -> None:
    lead_in = "All of the foxes that live in the woods of the north eat these two things:"
    assert [each.text for each in excerpts_of(f"{lead_in}\n\n- mice of the woods\n- voles of the meadows")] == [
        "mice of the woods",
        "voles of the meadows",
        f"{lead_in}\n- mice of the woods\n- voles of the meadows",
    ]


def test_what_introduces_a_list_may_stand_in_the_chunk_before() -> None:
    first, second = consecutive_passages(
        "Foxes live alone. They eat these animals:\n", "- mice of the woods\n- voles of the meadows"
    )
    whole = find_excerpts([second, first])[-1]
    assert whole.text == "Foxes live alone. They eat these animals:\n- mice of the woods\n- voles of the meadows"
    assert quoted(whole) == "Foxes live alone. They eat these animals:\n"
    assert whole.rest == ((second, 0, len(second.content)),)


@pytest.mark.parametrize(
    ("title", "heading"),
    [
        ("6.2.2. Waking owls", "Waking owls"),
        ("3. Owls", "Owls"),
        ("A.7. Owls", "Owls"),
        ("B.2.1. Owls", "Owls"),
        ("A. Owls", "A. Owls"),
        ("3.10 Owls", "3.10 Owls"),
        ("1.2. (draft)", "1.2. (draft)"),
    ],
)
def test_the_number_of_a_section_says_nothing(title: str, heading: str) -> None:
    for markup in (Markup.MARKDOWN, Markup.BLOCKS):
        (excerpt,) = excerpts_of(f"## {title}\n\nOwls wake up by night.", markup)
        assert excerpt.heading == heading


def test_an_address_alone_is_not_quoted_and_nothing_leans_on_it() -> None:
    address = "\u2192 https://example.org/owls#night"
    (excerpt,) = excerpts_of(f"{address}\n\nFor example, owls wake up by night.")
    assert (excerpt.text, excerpt.leans) == ("For example, owls wake up by night.", True)
    assert texts_of(f"Owls are described at {address[2:]} and elsewhere.") != []


def test_headings_of_a_wiki_are_headings() -> None:
    content = " = = Life = = \n\n = USS Owl ( 1861 ) = \n\n Owl was a ship .\n==Career==\nOwl sank in 1869 .\n"
    found = find_excerpts([make_passage(content)])
    assert [(each.heading, each.text) for each in found] == [
        ("", "Owl was a ship ."),
        ("Career", "Owl sank in 1869 ."),
    ]
    assert [content[each.start : each.end] for each in found] == [each.text for each in found]


def test_a_short_line_of_a_text_without_marks_is_a_heading_before_a_path_too() -> None:
    text = (
        "Purpose\n/opt is kept for packages that somebody adds to the system by hand.\nIt may be empty or be absent.\n"
    )
    first, *_ = excerpts_of(text, Markup.NONE)
    assert (first.heading, first.text) == (
        "Purpose",
        "/opt is kept for packages that somebody adds to the system by hand.",
    )


def test_a_heading_that_only_says_which_part_follows_comes_behind_the_one_above_it() -> None:
    content = (
        "## /nests\n\n### Purpose\n\nThis folder holds straw for owls. It is dry.\n\n## Purpose\n\nOwls need beds."
    )
    first, *_, last = excerpts_of(content)
    assert (first.heading, first.text) == ("/nests: Purpose", "/nests: This folder holds straw for owls.")
    assert [passage.content[start:end] for passage, start, end in first.header] == ["## /nests"]
    assert (last.heading, last.text) == ("Purpose", "Owls need beds.")


@pytest.mark.parametrize("chapter", ["Animals", "/nests"])  # without a first level, the first heading is the chapter
def test_each_part_of_several_sections_comes_behind_the_heading_of_its_own(chapter: str) -> None:
    first, second = (
        replace(passage, chapter=chapter, section=section, section_heading="Purpose")
        for section, passage in zip(
            ("/nests", "/dens"),
            consecutive_passages(
                "## /nests\n\n### Purpose\n\nThis folder holds straw for owls.",
                "## /dens\n\n### Purpose\n\nThis folder holds leaves for foxes.",
            ),
            strict=True,
        )
    )
    whole = make_passage(f"{first.content}\n\n{second.content}", chapter=chapter)
    in_one = replace(whole, section="/nests", section_heading="Purpose")
    for passages in ([first, second], [in_one]):
        found = find_excerpts(passages)
        assert [each.text for each in found] == [
            "/nests: This folder holds straw for owls.",
            "/dens: This folder holds leaves for foxes.",
        ]
        quotes = [passage.content[start:end] for each in found for passage, start, end in each.header]
        assert quotes == ["## /nests", "## /dens"]


@pytest.mark.parametrize(
    ("heading", "chapter", "section", "title", "shown"),
    [
        ("Purpose", "Owls", "/nests", "Birds", "/nests: Purpose"),
        ("Requirements", "Owls", "/nests", "Birds", "/nests: Requirements"),
        ("Purpose", "Owls", "", "Birds", "Owls: Purpose"),
        ("Requirements", "Owls", "", "Birds", "Requirements"),
        ("Nests", "Owls", "/nests", "Birds", "Nests"),
        ("Description", "Synopsis", "", "owl-wake", "owl-wake: Description"),
        ("Description", "Synopsis", "", "How to wake an owl", "Description"),
        ("Introduction", "B.1. Introduction", "", "B.1. Introduction", "Introduction"),
    ],
)
def test_the_heading_above_the_first_one_of_a_passage_is_that_of_its_section(
    heading: str, chapter: str, section: str, title: str, shown: str
) -> None:
    content = f"### {heading}\n\nOwls sleep on straw at noon."
    place = make_passage(content, start=90, chapter=chapter, section=section, section_heading=heading, title=title)
    (excerpt,) = find_excerpts([place])
    assert excerpt.heading == shown


def test_the_title_of_the_section_above_is_no_sentence_of_a_printed_page() -> None:
    content = "5.1. /nests : Beds of owls for all of the forest\n\n5.1.1. Purpose\n\nThis folder holds straw for owls."
    above = "/nests : Beds of owls for all of the forest"
    passage = make_passage(content, markup=Markup.NONE, section=above, section_heading="Purpose")
    (excerpt,) = find_excerpts([passage])
    assert excerpt.text == "/nests : Beds of owls for all of the forest: This folder holds straw for owls."
    assert [passage.content[start:end] for passage, start, end in excerpt.header] == [content.partition("\n")[0]]


def test_emphasis_of_several_sentences_shows_no_marks() -> None:
    content = (
        '_"Owls sleep by day. They are birds of *the* night."_ **Foxes run. Foxes hide.** Use `_owl` and `fox_` now.'
    )
    assert next(quoted(each) for each in excerpts_of(content)) == '_"Owls sleep by day.'
    shown = " ".join(texts_of(content))
    assert '"Owls sleep by day. They are birds of the night."' in shown
    assert "*" not in shown
    assert "_" not in shown.replace("_owl", "").replace("fox_", "")
    assert "Use _owl and fox_ now." in shown


def test_two_words_say_something_where_they_are_an_amount() -> None:
    assert texts_of("Serves 4. Serves well. Serves 4") == ["Serves 4."]


def test_a_remark_leans_on_what_comes_before() -> None:
    for text, leans in (("(Barn owls hunt by day, too.)", True), ("(Most) owls hunt by night (all year)", False)):
        (excerpt,) = excerpts_of(text)
        assert excerpt.leans is leans, text


def test_the_end_of_a_remark_comes_with_its_beginning() -> None:
    assert texts_of("They hunt. (There is one exception: barn owls. They sleep by night.)")[-1] == (
        "(There is one exception: barn owls. They sleep by night.)"
    )


@pytest.mark.parametrize("markup", [Markup.NONE, Markup.MARKDOWN])
def test_code_without_a_fence_comes_with_what_introduces_it_and_nothing_goes_on_behind_it(markup: Markup) -> None:
    content = "To wake all of the owls, do this:\n\n    owl wake --all\n\n<b>This</b> takes a while."
    code, behind = excerpts_of(content, markup)
    assert (code.kind, code.text) == (BlockKind.CODE, "To wake all of the owls, do this:\nowl wake --all")
    assert "wake" not in behind.text


def test_a_list_of_one_item_comes_with_what_introduces_it_and_one_of_a_step_does_not() -> None:
    assert texts_of("Owls need the following packages:\n\n- mice\n\nThey are small.")[0] == (
        "Owls need the following packages:\n- mice"
    )
    need = "Owls need the following packages:"
    assert texts_of(f"{need}\n\n1. mice\n\nThey are small.") == ["They are small."]
    assert texts_of("Owls need packages.\n\n- mice\n\nMice are small.") == ["Owls need packages.", "Mice are small."]
    assert texts_of(f"{need}\n\n- mice of any size") == ["mice of any size", f"{need}\n- mice of any size"]
    finds = "To find the mouse that is the nearest to the nest, do either:"
    assert texts_of(f"{finds}\n\n- Look around the nest.") == [
        "Look around the nest.",
        f"{finds}\n- Look around the nest.",
    ]
    assert texts_of("There are two ways to feed owls:\n\n1. Put mice into the nest:\n\n```\nfeed(mice)\n```")[0] != (
        "There are two ways to feed owls:\n1. Put mice into the nest:"
    )


def test_of_the_code_of_several_systems_only_the_first_is_introduced() -> None:
    first, second = excerpts_of("Wake the owls like so:\n\n```\nowls wake\n```\n\n```\nowls.exe wake\n```")
    assert first.text == "Wake the owls like so:\nowls wake"
    assert (second.text, first.leans, second.leans) == ("owls.exe wake", False, True)


@pytest.mark.parametrize("shells", ["bash", "console"])
def test_what_is_typed_into_a_shell_and_what_is_written_then_are_no_tabs(shells: str) -> None:
    install, use = f"```{shells}\ninstall owl from here\n```", "```js\nowl.wake(everybody, now)\n```"
    first, second = excerpts_of(f"# Owls\n\n{install}\n\n{use}")
    assert (second.text, first.leans, second.leans) == ("owl.wake(everybody, now)", False, False)


def test_what_goes_on_behind_code_leans_on_it() -> None:
    (*_, after) = excerpts_of("Run this:\n\n```\nowls wake\n```\n\nwhich wakes all of the owls.")
    assert (after.text, after.leans) == ("which wakes all of the owls.", True)
    # Code that nothing introduces consists of names, whatever they mean in a sentence.
    (alone,) = excerpts_of("```\nit.wakes(every, owl)\n```")
    assert not alone.leans


def test_colons_that_stand_alone_leave_the_code_to_the_sentence_before_them() -> None:
    found = excerpts_of("Wake the owls with a call. ::\n\n    owls.wake()\n", Markup.RST)
    assert found[-1].text == "Wake the owls with a call.\nowls.wake()"


def test_the_heading_of_a_release_is_quoted_with_its_date_and_other_headings_are_not() -> None:
    content = "# Owls 2 of 2021\n\n## 0.15.0 (June 23, 2021)\n\nOwls sleep by day from now on."
    release, sentence = excerpts_of(content)
    assert (release.text, quoted(release)) == ("0.15.0 (June 23, 2021)", "## 0.15.0 (June 23, 2021)")
    assert sentence.opens


def test_code_and_lists_that_the_first_sentence_introduces_open_the_section_with_it() -> None:
    code = "# Waking owls\n\nThe first thing that you do is to wake all of your owls:\n\n```\nowls wake\n```\n\n"
    opening, shown, behind = excerpts_of(f"{code}Owls may be slow.\n\n```\nowls wait\n```\n")[:3]
    assert [(each.opens, each.leans) for each in (opening, shown)] == [(True, False), (True, False)]
    assert not behind.opens
    listed = excerpts_of("# Waking owls\n\nOwls wake in steps:\n\n- stretch a wing\n- open both eyes\n")[-1]
    assert (listed.is_whole, listed.opens) == (True, True)


@pytest.mark.parametrize(
    ("text", "leans"),
    [
        ("The first thing you do is to wake the owls.", False),
        ("The first is a barn owl.", True),
        ("The first two hunt by day.", True),
        ("The second thing you do is to feed them.", True),
    ],
)
def test_the_first_of_something_leans_on_nothing_where_it_is_named(text: str, leans: bool) -> None:
    (sentence,) = excerpts_of(text)
    assert sentence.leans is leans


def test_a_hint_to_read_another_page_is_not_quoted() -> None:
    assert texts_of("Read the design page for help on the kinds of owls.\n\nOwls of all kinds sleep by day.") == [
        "Owls of all kinds sleep by day."
    ]


def test_the_end_of_code_that_begins_before_the_passage_is_not_quoted() -> None:
    assert texts_of("owls.wake()\nowls.feed(mice)\n```\n\nOwls eat mice by night.") == ["Owls eat mice by night."]


def test_a_line_of_tildes_in_code_of_restructured_text_is_part_of_it() -> None:
    (code,) = (
        each for each in excerpts_of("Mark a title so::\n\n    Owls\n    ~~~~\n", Markup.RST) if "~" in each.text
    )
    assert code.text == "Mark a title so:\nOwls\n~~~~"


@pytest.mark.parametrize(
    ("source_uri", "title", "name"),
    [
        ("owls/README.md", "README.md", "owls"),
        ("owls/Index.rst", "Index.rst", "owls"),
        ("README.md", "README.md", "README.md"),
        ("owls/night.md", "night.md", "night"),
        ("owls/README.md", "All about owls", "All about owls"),
    ],
)
def test_what_a_document_begins_with_is_about_the_document(source_uri: str, title: str, name: str) -> None:
    content = "**A keeper of owls for the winter.**\n\n## Feeding\n\nOwls eat many mice."
    passage = make_passage(content, source_uri=source_uri, title=title, section_heading="Feeding")
    first, second = find_excerpts([passage])
    assert (first.heading, first.opens, second.heading) == (name, True, "Feeding")
    (later,) = find_excerpts([make_passage("A keeper of owls for the winter.", start=9, section_heading="Feeding")])
    assert (later.heading, later.opens) == ("Feeding", False)


def test_a_heading_that_is_a_sentence_says_what_the_one_above_is() -> None:
    said, rest = "The fast, small and silent library for counting owls.", "Owls are counted by night."
    tagline, told = excerpts_of(f"# Strix\n\n##### {said}\n\n{rest}")
    assert (tagline.text, tagline.heading, tagline.opens, quoted(tagline)) == (said, "Strix", True, said)
    assert (told.heading, told.opens) == ("Strix", False)
    for heading in ("## The fast, small and silent library for counting owls", "## Count them all."):
        (told,) = excerpts_of(f"# Strix\n\n{heading}\n\n{rest}")
        assert told.text == rest
    _, told = excerpts_of(f"# Strix\n\nOwls sleep by day.\n\n## Never wake or count an owl by day.\n\n{rest}")
    assert told.heading == "Never wake or count an owl by day."


def test_a_table_of_contents_is_not_quoted() -> None:
    contents = "# Owls\n\nIn here:\n\n- [Feeding all owls](#feeding)\n- [Counting all the owls](#counting)\n"
    assert texts_of(contents) == []
    linked = contents.replace("(#feeding)", "(feeding.md)")
    assert [excerpt.is_whole for excerpt in excerpts_of(linked)] == [True]


@pytest.mark.parametrize("link", ["[Feeding](feeding.md)", "**[Feeding](../feeding.md#mice)**"])
def test_what_another_page_is_about_is_not_quoted(link: str) -> None:
    assert texts_of(f"# Owls\n\n- {link}: how the owls of the wood are fed by night\n") == []
    assert texts_of(f"# Owls\n\n{link} \u2014 how the owls of the wood are fed by night.\n") == []


@pytest.mark.parametrize(
    "start", ["[Feeding](https://example.org/feeding): how the", "[Feeding](feeding.md) tells how the"]
)
def test_what_stands_behind_other_links_is_quoted(start: str) -> None:
    assert len(texts_of(f"# Owls\n\n- {start} owls of the wood are fed by night\n")) == 1


def test_code_that_a_page_has_as_a_paragraph_is_not_quoted() -> None:
    for code in ("PRAGMA owls = ON | OFF | NIGHT;", "set the owls = of all nights;"):
        assert texts_of(f"# Owls\n\n{code}\n\nOwls sleep by day.") == ["Owls sleep by day."]
    assert texts_of("# Owls\n\nOwls sleep by day, and wake by night;\n\nThey hunt.")[0].endswith("night;")


def test_a_footnote_of_a_pdf_is_not_quoted() -> None:
    content = (
        "Owls hunt by night in the wood.\n\n13 Here is an example of owls that hunt by day.\n\n12 owls were counted."
    )
    assert [each.text for each in excerpts_of(content, Markup.NONE)] == [
        "Owls hunt by night in the wood.",
        "12 owls were counted.",
    ]
    assert len(excerpts_of(content, Markup.MARKDOWN)) == 3


@pytest.mark.parametrize("lead_in", ["The following owls are known in the barn.", "The owls are named as follows."])
def test_a_sentence_that_speaks_of_what_follows_introduces_the_list_below_it(lead_in: str) -> None:
    (*_, whole) = excerpts_of(f"{lead_in}\n\n- barn owls\n- eagle owls\n")
    assert whole.is_whole
    assert whole.text == f"{lead_in}\n- barn owls\n- eagle owls"
    # Without a list below it, it says nothing.
    assert lead_in not in texts_of(f"{lead_in}\n\nOwls hunt mice at night.\n")


@pytest.mark.parametrize(
    ("content", "tells"),
    [
        ("# Owls of the wood\n\n[![owl](https://a.example/b.svg)](https://a.example/b)\n", False),
        ("![owl][logo]\n\n[logo]: https://a.example/b.svg 'An owl'\n", False),
        (".. image:: https://a.example/b.svg\n   :target: https://a.example/\n\n.. |owl| image:: b.svg\n", False),
        (".. image::\n    https://a.example/b.svg\n    :target: https://a.example/", False),
        (":target: https://a.example/\n\n.. image:: b.svg", False),
        ("---\n\n2.1", False),
        ("# Owls\n\n[![owl](https://a.example/b.svg)](https://a.example/b) hunt", True),
        (".. image:: https://a.example/b.svg\n   :target: https://a.example/\n\nOwls hunt.", True),
        ("See [the owls][owls].\n\n[owls]: https://a.example/", True),
    ],
)
def test_a_passage_tells_something_unless_it_is_titles_images_and_addresses(content: str, *, tells: bool) -> None:
    assert make_passage(content).tells() is tells


@pytest.mark.parametrize(
    "pointer",
    [
        "For more information checkout the official documentation.",
        "For further details, please see our guide.",
        "Please read the user manual before you start.",
    ],
)
def test_what_sends_the_reader_elsewhere_is_not_quoted(pointer: str) -> None:
    assert texts_of(f"# Owls\n\n{pointer}\n\nOwls hunt at night in the wood.") == ["Owls hunt at night in the wood."]


@pytest.mark.parametrize(
    "remark",
    [", as described above", ", see below", " (see below)", " as shown below", ",\nas explained in the next\nsection"],
)
def test_a_remark_at_the_end_that_sends_the_reader_elsewhere_is_left_out(remark: str) -> None:
    (sentence,) = excerpts_of(f"Owls are counted by night{remark}.")
    assert (sentence.text, quoted(sentence)) == ("Owls are counted by night.", "Owls are counted by night")


@pytest.mark.parametrize(
    "pointer", ["The owls are shown below.", "Owls count as above.", "As shown above, owls sleep."]
)
def test_a_sentence_that_is_about_what_stands_elsewhere_stays_whole(pointer: str) -> None:
    assert "Owls are counted." not in texts_of(pointer)
    assert texts_of(pointer) in ([], [pointer])
