"""How far a sentence says what something is, by its form and the headings above it."""

from dataclasses import replace

import pytest

from groundwire.answer.evidence import Markup, Passage
from groundwire.answer.extractive.cues import is_address_unasked
from groundwire.answer.extractive.definitions import BELOW_ITS_NAME, INTRODUCED_AS_TERM, definition_match
from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.answer.extractive.generator import candidates
from groundwire.answer.extractive.scoring import (
    Scored,
    score_excerpts,
    scored_text,
)
from groundwire.answer.extractive.weights import RANKING
from groundwire.answer.plain_text import plain_text
from groundwire.answer.question import read_question
from tests.unit.answer.builders import make_passage, make_scored


def _best(question: str, *contents: str) -> str:
    return min(make_scored(question, *contents), key=Scored.order).excerpt.text


@pytest.mark.parametrize(
    ("question", "best"),
    [
        ("What is ownership?", "In Rust, ownership governs how memory is managed."),
        ("Why is there ownership?", "In Rust, ownership governs how memory is managed."),
    ],
)
def test_a_sentence_with_hardly_a_word_of_its_own_explains_nothing(question: str, best: str) -> None:
    content = "Ownership scales.\n\nIn Rust, ownership governs how memory is managed.\n"
    assert _best(question, content) == best


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("Copayment: A copayment, also known as a copay, is a fixed fee.", 1.0),
        ("The copay plan, which you choose once a year, is a fixed fee.", 1.0),
        ("A copay is another kind of fee.", 1.0),
        ("The essential point of a copay is that it is fixed.", 0.7),
        ("Copays are a fundamental concept of health plans.", 0.3),
        ("The insurer (or a copay) is the one who pays.", 0.0),
        ("The fixed fee (or copay) is the part that you pay.", 1.0),
        ("Copay rule: A plan copay lowers all bills.", 0.7),
        ("Copay rule: Nobody pays more than once.", 0.3),
        ("The copay is read from the card.", 0.5),
        ("A copay is the plan\u2019s way of sharing costs.", 1.0),
        ("A copay is Contoso's way of sharing costs.", 1.0),
        ("A copay, however, lets you pay less.", 0.5),
        ("Ask whether the fee is called a copay.", 0.0),
        ("Ask for your copay, which is a fixed fee.", 0.7),
        ("Copays, in which you pay part of each bill", 0.7),
        ("Choose the copay plan, in which you pay part of each bill.", 0.7),
        ("Choose the copay plan, which means that you pay part of each bill.", 0.7),
        ("The copay is also useful for small bills.", 0.3),
        ("The copay is a very important part of the plan.", 0.3),
        ("The copay is a popular fixed fee that you pay for each visit.", 1.0),
        ("Ask at the copay desk, in which you pay part of each bill.", 0.0),
        ("Nobody can waive a copay\u2014a fee that is fixed.", 0.7),
        ("Deductibles, copays, and coinsurance are a part of the cost.", 0.3),
        ("Copays are a great way to save money.", 0.3),
        ("Overall, copays are a great way to save money.", 0.0),
        ("A refund, also known as a rebate, is a fixed fee.", 0.0),
        ("Your copay desk, which opens at nine, is a room.", 0.3),
        ("Copay: what you pay for each visit", 0.7),
        ("Copay (integer): what you pay for each visit", 0.7),
        ("Copay: fee 1 (>= 2:1.3.0)", 0.3),
        ("Copay: noun", 0.3),
        ("Copay desk: where you pay", 0.3),
        ("The Copay<T> type keeps track of fees.", 0.7),
        ("Copays can be thought of as shares of a bill.", 1.0),
        ("Copays are created by the plan.", 0.5),
        ("Copays are indicated by an asterisk.", 0.7),
        ("Copays are defined via the plan of each year.", 0.5),
        ("Copays are defined as fees of a visit.", 0.7),
        ("Copays can also be used to allow visits.", 0.5),
        ("Copays are also known as fees of a visit.", 0.7),
        ("A fixed fee is usually referred to as a copay.", INTRODUCED_AS_TERM),
        ("A fixed fee is usually referred to as a copay plan.", 0.0),
        ("This is what is meant by copay: a fixed fee.", INTRODUCED_AS_TERM),
        ("Copays are carefully written on each card.", 0.5),
        ("Copays are used by most plans.", 0.7),
        ("Copays, the fees of a plan, are a share of the bill.", 1.0),
        ("Copays, short for copayments, are a share of the bill.", 1.0),
        ("The HealthPlan (short: Copay) is a share of the bill.", 1.0),
        ("The HealthPlan (short: refund) is a share of the bill.", 0.0),
        ("Copays are also available for children.", 0.3),
        ("Copays are deprecated, use refunds.", 0.3),
        ("The copay is charging nobody here.", 0.3),
        ("The copay is anything that you pay.", 1.0),
        ("Paying the copay is an example of a fee.", 0.0),
        ("The copay is an example of a fee.", 0.3),
        ("Such a fee is known as a share or a copay.", INTRODUCED_AS_TERM),
        ("Such a fee is known as a refund or share.", 0.0),
        ("copay \u2013 what you pay for each visit", 0.7),
        ("copay-share of the bill for each visit", 0.3),
        ("The copay shares the bill.", 0.7),
        ("@copay/shares to have shares in the bill.", 0.3),
        ("The copay of a plan is what you pay for each visit.", 1.0),
        ("The copay of the year before is what you pay again.", 1.0),
        ("Almost all copays are fees of a fixed sum.", 0.0),
        ("Most copays are a fixed fee.", 0.3),
        ("Copays do not provide a share of the bill.", 0.3),
        ("The copay doesn\u2019t allow visits of this kind.", 0.3),
        ("The copay never lets you pay a share.", 0.3),
        ("The copay lets you pay a share, not the bill.", 1.0),
        ("Copays are due when you visit.", 0.3),
        ("A copay is only due if you stay.", 0.3),
        ("Copays are intended only to share the bill.", 0.7),
    ],
)
def test_how_far_a_sentence_defines_the_subject(text: str, match: float) -> None:
    question = read_question("What is a copay?")
    assert definition_match(question, text, text) == pytest.approx(match)


def test_a_term_of_several_words_may_be_introduced_with_its_kind() -> None:
    text = "Two views of the names are referred to as a split DNS setup."
    assert definition_match(read_question("What is split DNS?"), text, text) == INTRODUCED_AS_TERM
    assert definition_match(read_question("What is a split?"), text, text) == 0.0


def test_a_label_that_mentions_a_term_of_several_words_defines_another() -> None:
    question = read_question("What is a strict table?")
    for text, match in (
        ("A strict one is a table of fixed types.", 1.0),
        ("strict: 1 if the table is a STRICT table.", 0.0),
    ):
        assert definition_match(question, text, text) == match


def test_what_a_company_says_of_itself_is_said_of_the_company() -> None:
    text = "Our mission is to fly everywhere."
    for question, match in (
        ("What is Contoso's mission?", 0.7),
        ("What is Contoso\u2019s mission?", 0.7),
        ("What is the mission of Contoso?", 0.7),
        ("What is the mission of Contoso Electronics?", 0.7),
        ("What is Contoso's vision?", 0.0),
        ("What is the mission of the north?", 0.0),
    ):
        assert definition_match(read_question(question), text, text) == pytest.approx(match), question


def test_a_command_does_not_define_its_program() -> None:
    for text, match in (("owl lists --all the mice.", 0.7), ("owl --lists all the mice.", 0.3)):
        assert definition_match(read_question("What is owl?"), text, text) == match


@pytest.mark.parametrize(
    "said",
    [
        "This is the program that counts",
        "It is a program that counts",
        "A program for",
        "This type of program counts",
        "This tool has",
    ],
)
def test_what_is_said_of_this_below_a_name_defines_it(said: str) -> None:
    def first(heading: str) -> Scored:
        return make_scored("What is owl?", f"# {heading}\n\n{said} mice by night.")[0]

    assert first("owl").definition == BELOW_ITS_NAME
    assert first("Counting owls").definition == 0
    # It leans on the heading alone, which is shown with it.
    assert first("owl").score - first("Counting owls").score > RANKING.definition * BELOW_ITS_NAME - 1e-9 - (
        RANKING.leaning if first("owl").excerpt.leans else 0.0
    )


def test_what_announces_itself_defines_nothing() -> None:
    content = "Owls are fond of mice. Before describing the owls, we review owls in other books."
    assert _best("What are owls?", content) == "Owls are fond of mice."


def test_what_one_of_two_things_is_tells_their_difference() -> None:
    content = 'Foxes of owls are rare, and so on. A beast that hunts alone is termed a "fox".'
    assert _best("What is the difference between a fox and an owl?", content).startswith("A beast")
    assert read_question("What is the difference between $in and a fox?").sides == (
        frozenset({"$in"}),
        frozenset({"fox"}),
    )


def test_what_only_has_the_subject_in_its_name_is_not_defined() -> None:
    question = read_question("What is a crate?")
    assert definition_match(question, "The crate root is a file.", "The crate root is a file.") < 0.7
    assert definition_match(question, "Rust's crate is a file.", "Rust's crate is a file.") == 0.7


@pytest.mark.parametrize(
    ("question", "text", "match"),
    [
        ("What is Owl Watch?", "This RFC introduces a new Owl Watch protocol.", 0.6),
        ("What is Owl Watch?", "This RFC proposes to change how others build their own Owl Watch.", 0.0),
        ("What is a nest box?", "Initialize Nest Box to: This room lets you start.", 0.3),
        ("What is a nest box?", "Nest Box: This room lets you start.", 1.0),
        ("What is an owlet?", "A new immutable type owlet is added to the language.", 0.6),
        ("What is OW?", "Data stay whole by watching (Owl Watch, OW).", 0.6),
        ("What is OWCC?", "We use Owlwatch Concurrency Control (OWCC) for it.", 0.6),
        ("What is OW?", "Foxes hunt mice (OW) there.", 0.0),
        ("What is OW?", "Foxes hunt mice (OW) there, by an Owl Watch (OW).", 0.6),
        ("What is the owl macro?", "#[owl] is an attribute of the crate.", 1.0),
        ("What are owls?", "Owls is where things get complicated.", 0.7),
        ("What is a red owl?", "For each owl that is a red owl, the nest is the owl itself.", 0.0),
        ("What is owl watching?", "Thus it supports owl watching: it is possible to see them.", 0.7),
        ("What is an owl?", "Mice do not fit the nature of an owl: it is excepted.", 0.0),
        ("What is /owls used for?", "The /owls hierarchy contains files of the night.", 0.7),
        ("What does OWL FULL do?", "OWL FULL requires a lock of the table.", 0.3),
        ("What does `max_owls` set?", "max_owls (integer): Sets how many owls there are.", 0.7),
    ],
)
def test_how_else_a_sentence_says_what_something_is(question: str, text: str, match: float) -> None:
    assert definition_match(read_question(question), text, "") == pytest.approx(match)


def test_what_the_section_is_about_need_not_be_said_again_to_define_it() -> None:
    section = "# Owl watching\n\nMany like owl watching. Watching refers to sitting in a tree by night."
    assert _best("What is owl watching?", section).startswith("Watching refers")
    elsewhere = make_scored("What is owl watching?", section.replace("Owl watching\n", "Foxes\n"))
    assert [each.definition for each in elsewhere if each.excerpt.text.startswith("Watching")] == [0.0]
    (listed,) = make_scored(
        "What is owl watching?", "# Owl watching\n\n- Night: Night watching is the default watching."
    )
    assert listed.definition == 0.0


def test_who_makes_a_thing_and_what_it_is_like_do_not_hide_its_definition() -> None:
    question = read_question("What is Owl Watch?")
    for text, match in (
        ("Night Owl Watch\u00ae is a camera that sees in the dark.", 1.0),
        ("The portable Night Owl Watch service finds owls.", 0.7),
        ("The Owl Watch environment is a program.", 1.0),
        ("Night Owl Watchers is a club.", 0.0),
    ):
        assert definition_match(question, text, text) == pytest.approx(match), text


def test_a_definition_beats_a_mention() -> None:
    text = "We talk about ownership at length later on. Ownership is a set of rules for memory."
    assert _best("What is ownership?", text) == "Ownership is a set of rules for memory."


def test_what_stands_below_a_name_without_a_verb_says_what_it_is() -> None:
    tagline = "A keeper of owls for the whole winter."

    def definition(content: str) -> float:
        return make_scored("What is Strix?", content)[0].definition

    assert definition(f"# Strix\n\n{tagline}") == BELOW_ITS_NAME
    assert definition(f"# Owls\n\n{tagline}") == 0.0
    assert definition(f"# Strix and owls\n\n{tagline}") == 0.0
    assert definition("# Strix\n\nKeeps owls for the whole winter.") == 0.0
    assert make_scored("What is Strix?", f"# Strix\n\nIt is told to keepers. {tagline}")[1].definition == 0.0
    described = ".. class:: Strix(path)\n\n    Keeps owls for the whole winter."
    (does,) = make_scored("What does Strix do?", described, markup=Markup.RST)
    assert does.definition == BELOW_ITS_NAME


@pytest.mark.parametrize(
    ("content", "definition"),
    [
        ("# Strix\n\nFast, silent and small keeper of all owls", BELOW_ITS_NAME),
        ("# Strix\n\nCount the owls of next year by counting those of today\n\nThey hunt.", BELOW_ITS_NAME),
        ("Fast, silent and small keeper of all owls\n\n# Feeding\n\nOwls eat mice.", BELOW_ITS_NAME),
        ("# Strix\n\nThere is a silent keeper of all owls", 0.0),
        ("# Strix\n\nLanguages of this page: those of all owls", 0.0),
        ("# Strix\n\n- silent keeper of all owls", 0.0),
        ("# Keepers\n\nFast, silent and small keeper of all owls", 0.0),
        ("# Owls\n\n## Strix\n\nFast, silent and small keeper of all owls", 0.0),
    ],
)
def test_the_first_words_of_a_front_page_say_what_it_is_about(content: str, definition: float) -> None:
    chapter = content.partition("\n")[0].removeprefix("# ")
    passage = make_passage(content, source_uri="strix/README.md", title="README.md", chapter=chapter)
    question = read_question("What is Strix?")

    def first(passage: Passage) -> Scored:
        excerpts = find_excerpts([passage])
        return score_excerpts(question, excerpts, [1.0] * len(excerpts))[0]

    assert first(passage).definition == definition
    # It has the words of the question where it speaks of what they name, so that nothing is to be added to it.
    assert first(passage).coverage == (1.0 if definition else RANKING.around)
    # So say those of a page that has the name of its subject.
    assert first(replace(passage, source_uri="docs/strix.md", title="strix.md")).definition == definition
    assert first(replace(passage, source_uri="docs/owls.md", title="owls.md")).definition == 0.0


def test_a_manual_page_says_below_its_name_what_the_command_does_and_what_it_is_for() -> None:
    page = "# NAME\n\nowl-clean - Remove lost feathers from the tree"
    assert make_scored("What does owl clean do?", page)[0].definition == 1.0
    assert make_scored("What is owl-clean?", page)[0].definition == 1.0
    assert make_scored("What is owl?", page)[0].definition < 1.0
    assert make_scored("What does owl clean do?", page.replace("NAME", "Notes"))[0].definition < 1.0
    other = "# OPTIONS\n\nThe lost feathers of the tree are removed by night, which takes a while."
    assert _best("How do I remove lost feathers?", other, page).startswith("owl-clean")


def test_a_thing_is_defined_by_its_kind() -> None:
    text = "A fast-forward is a special type of merge of branches."
    for question, match in (
        ("What is a fast-forward merge?", 1.0),
        ("What is a fast-forward branch?", 0.0),
        ("What is a merge?", 0.0),
        ("What is a slow merge?", 0.0),
    ):
        assert definition_match(read_question(question), text, text) == match, question


def test_what_something_is_tells_no_more_of_what_it_does_than_its_deeds() -> None:
    question = read_question("What does an owl do?")
    told = (
        ("An owl is a hunter of mice.", 0.7),
        ("An owl hunts mice.", 1.0),
        ("An owl lets mice go.", 1.0),
        ("Owl: an animal that hunts mice", 0.7),
    )
    for text, match in told:
        assert definition_match(question, text, text) == match, text
    assert definition_match(read_question("What is an owl?"), "An owl is a hunter of mice.", "") == 1.0


@pytest.mark.parametrize(
    ("question", "heading"),
    [
        ("What is MAX_OWLS for?", "MAX_OWLS"),
        ("What does the MAX_OWLS setting do?", "MAX_OWLS"),
        ("What does --max-owls do?", "--max-owls N"),
        ("What does the -o option do?", "-o, --owls"),
        ("What does owls.count() do?", "owls.count()"),
    ],
)
def test_what_opens_the_reference_of_a_name_says_what_that_is(question: str, heading: str) -> None:
    content = f"# {heading}\n\nWhether owls are counted by night."
    assert make_scored(question, content)[0].definition == BELOW_ITS_NAME
    assert make_scored("What does --mice do?", content)[0].definition == 0.0


@pytest.mark.parametrize(
    "told",
    [
        "- `use`: brings owls into the forest by night.",
        "# The use keyword\n\nA way to bring owls into the forest.",
        "The `use` keyword is the one that brings owls into the forest.",
    ],
)
def test_a_keyword_is_explained_by_what_is_said_of_it_and_not_by_any_use(told: str) -> None:
    question = "What does the use keyword do?"
    assert make_scored(question, told)[0].definition >= 0.7
    other = "A keyword is a word that owls use."
    assert make_scored(question, other)[0].definition < 0.7
    assert _best(question, told, other) in told.replace("`", "")


def test_what_one_can_use_something_for_tells_what_it_does() -> None:
    text = "You can use the `tame` option to keep owls inside."
    assert make_scored("What does the tame option do?", text)[0].definition == 1.0
    assert make_scored("What is the tame option for?", text)[0].definition == 0.7
    assert make_scored("What does the wild option do?", text)[0].definition == 0.0
    assert make_scored("What is the tame option?", text)[0].definition == 0.0


def test_a_label_names_its_subject_with_or_without_its_kind() -> None:
    assert make_scored("What is Owls?", "- Owls Directive: the number by night.")[0].definition == 0.7
    assert make_scored("What is a setting?", "- Setting: a name with a value.")[0].definition == 0.7
    assert make_scored("What does the Owls directive do?", "- Owls: How many there are.")[0].definition == 0.7
    assert make_scored("What is Owls?", "- Owls Keeper: Who feeds them there.")[0].definition < 0.7


def test_an_abbreviation_stands_for_what_it_is_short_for() -> None:
    best = "The “Night Owl Watch” (NOW) counts birds."
    assert _best("What is NOW?", "NOW messages are shown by selecting the NOW marker.", best) == best
    text = "The Night Owl Watch (NOW) is a club."
    assert definition_match(read_question("What is NOW?"), text, text) == 1.0
    assert definition_match(read_question("What is the Night Owl Watch?"), text, text) == 1.0
    assert definition_match(read_question("What is NOW?"), "The Grey Fox Den (NOW) is a club.", "") == 0.0


def test_a_keyword_is_explained_by_what_it_only_does() -> None:
    text = "The den keyword only gives access to a hole."
    assert definition_match(read_question("What does den do?"), text, text) == 1.0
    text = "Using den to sleep is not wrong."
    assert definition_match(read_question("What does den do?"), text, text) == 0.3


def test_a_mode_is_what_is_said_of_it_as_well() -> None:
    text = "Foxes have a night mode, in which they see in the dark."
    assert definition_match(read_question("What is the night mode?"), text, text) == 0.7
    assert definition_match(read_question("What is a mode?"), "Each has a mode, in which it works.", "") == 0.7


def test_code_defines_nothing() -> None:
    content = "```\nden is a hole in the wood\n```\n\nA den of a fox has been seen here. A den is what a fox sleeps in."
    assert _best("What is a den?", content) == "A den is what a fox sleeps in."
    assert max(each.definition for each in make_scored("What is a den?", "```\nden is a hole\n```")) == 0.0


def test_what_something_is_stands_anywhere_in_the_section_with_its_name() -> None:
    def score(question: str, heading: str) -> float:
        return make_scored(question, f"# {heading}\n\nMany sleep by day.")[0].score

    assert score("What is a night fox?", "Night fox") == score("What is a night fox?", "Night owl fox")
    assert score("Where is the night fox?", "Night fox") > score("Where is the night fox?", "Night owl fox")
    # All words of a question, and no others, name its section in any order.
    assert score("Where is the fox of the night?", "Night fox") == score("Where is the night fox?", "Night fox")
    assert score("Where is the fox of the night owl?", "Night fox") < score("Where is the night fox owl?", "Night fox")


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("Closures are a kind of function.", "Closures are typically short."),
        ("_Closures_, on the other hand, are functions that capture.", "We use closures in many places."),
        ("Such functions are called _closures_ in Rust.", "We saw closures in many places."),
        ("Fundamentally, closures let us pass code around.", "Fundamentally, we like closures a lot."),
        ("Rust's closures are the functions without a name.", "Rust's closures are short."),
        ("A closure captures its scope.", "A closure in a loop captures its scope."),
        ("Closures are short.", "Closures are not short."),
        ("Closures are short.", "While closures are short, functions are long."),
    ],
)
def test_how_far_a_sentence_defines(better: str, worse: str) -> None:
    question = read_question("What are closures?")
    plain = [plain_text(text, Markup.MARKDOWN) for text in (better, worse)]
    assert definition_match(question, plain[0], better) > definition_match(question, plain[1], worse)


def test_what_an_extension_is_stands_below_its_name() -> None:
    (sentence,) = make_scored("What is OwlThrottle?", "# OwlThrottle extension\n\nThis is an extension for slow owls.")
    assert sentence.definition == BELOW_ITS_NAME


def test_a_description_is_that_of_its_chapter() -> None:
    question = read_question("What does owl clean do?")
    for heading, definition in (("Description", BELOW_ITS_NAME), ("Examples", 0.0)):
        content = f"## {heading}\n\nThis command frees space of the nest."
        (sentence,) = find_excerpts([make_passage(content, chapter="owl clean", section_heading=heading)])
        (scored,) = score_excerpts(question, [sentence], [1.0])
        assert scored.definition == definition, heading
        assert scored_text(question, sentence).startswith("owl clean: ") is (heading == "Description")


def test_a_heading_may_name_its_subject_in_front_of_what_that_is() -> None:
    question = read_question("What is /nests used for?")
    for heading, definition in (
        ("/nests: Where owls sleep", BELOW_ITS_NAME),
        ("/dens: Where foxes sleep", 0.0),
        ("Where owls sleep", 0.0),
    ):
        (sentence,) = find_excerpts([make_passage(f"## {heading}\n\nThis folder holds straw for the night.")])
        (scored,) = score_excerpts(question, [sentence], [1.0])
        assert scored.definition == definition, heading


def test_a_name_that_is_always_in_italics_is_not_introduced_by_them() -> None:
    asked = "What is owlery?"
    mentions = ["The nests of *owlery* are warm.", "Wake the night of *owlery* up.", "Owls like *owlery* by day."]

    def definitions(*texts: str) -> list[float]:
        passages = [make_passage(text, rank=rank) for rank, text in enumerate(texts, 1)]
        question, quotable, _ = candidates(asked, passages)
        return [each.definition for each in score_excerpts(question, quotable, [1.0] * len(quotable))]

    assert definitions(*mentions) == [0.0, 0.0, 0.0]
    assert definitions(*(mention.replace("*", '"') for mention in mentions)) == [0.0, 0.0, 0.0]
    assert definitions(*mentions[:2]) == [INTRODUCED_AS_TERM] * 2
    plain = [mention.replace("*", "") for mention in mentions]
    assert definitions(*mentions, *plain) == [INTRODUCED_AS_TERM] * 3 + [0.0] * 3


def test_an_example_alone_says_least_what_something_is() -> None:
    said = "While a key is held, the modifier lets all keys move."
    content = f"{{}}\n\n```\nowl_modifier Mod1\n```\n\n{said}\n"
    assert _best("What does the owl_modifier do?", content.format("Example:")) == said
    told = content.format("The owl_modifier is set for all of the owls like this:")
    assert _best("What does the owl_modifier do?", told) != said


@pytest.mark.parametrize(
    ("question", "text", "is_unasked"),
    [
        ("What is Strix?", "Source code: https://owls.example/strix", True),
        ("What does Strix do?", "- Tutorial: https://owls.example/a\n- Chat: https://owls.example/b", True),
        ("What is the source code of Strix?", "Source code: https://owls.example/strix", False),
        ("What is Strix?", "Strix: https://owls.example/strix", False),
        ("What is Strix?", "Source code: https://owls.example/strix, for owls", False),
        ("What is Strix?", "- Tutorial: https://owls.example/a\n- Chat: of owls", False),
    ],
)
def test_where_something_is_read_does_not_say_what_it_is(question: str, text: str, *, is_unasked: bool) -> None:
    assert is_address_unasked(read_question(question), text) is is_unasked
    _, quotable, _ = candidates(question, [make_passage(text)])
    assert not (is_unasked and quotable)


def test_what_is_to_be_clicked_in_a_list_of_steps_is_no_term() -> None:
    steps = "Make a mask:\n\n1. Click on the \u201cQuick mask\u201d button.\n2. Paint the owl in red.\n"
    told = "A \u201cquick mask\u201d shows what is chosen."
    scored = {each.excerpt.is_whole: each for each in make_scored("What is the quick mask?", f"{steps}\n{told}\n")}
    assert (scored[True].definition, scored[False].definition) == (0.0, 0.7)
