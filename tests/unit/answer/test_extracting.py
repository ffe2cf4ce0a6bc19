"""How an extractive answer is chosen: what is asked, how excerpts are scored, which of them are quoted."""

import time
from dataclasses import replace
from typing import Any

import pytest

from groundwire.answer.evidence import Markup
from groundwire.answer.extractive.cues import definition_match, has_amount, kind_match
from groundwire.answer.extractive.excerpts import Excerpt, find_excerpts
from groundwire.answer.extractive.generator import candidates
from groundwire.answer.extractive.scoring import (
    Scored,
    Support,
    answers_in_full,
    covered,
    rarities,
    score_excerpts,
    shortlist,
)
from groundwire.answer.extractive.selection import (
    completed,
    corroborations,
    of_each_side,
    select_excerpts,
    with_code,
    with_context,
)
from groundwire.answer.extractive.summary import summarise
from groundwire.answer.intent import document_asked_for, named_place
from groundwire.answer.plain_text import plain_text
from groundwire.answer.question import QuestionKind, read_question
from groundwire.kernel.words import content_stems, stem
from tests.unit.answer.builders import make_passage


def _texts(excerpts: list[Excerpt]) -> list[str]:
    return [excerpt.text for excerpt in excerpts]


def _scored(question: str, *contents: str) -> list[Scored]:
    """Score by words alone: every similarity is 1."""
    asked = read_question(question)
    excerpts = find_excerpts([make_passage(content, rank=rank) for rank, content in enumerate(contents, 1)])
    return score_excerpts(asked, excerpts, [1.0] * len(excerpts))


def _best(question: str, *contents: str) -> str:
    return min(_scored(question, *contents), key=Scored.order).excerpt.text


def _selected(question: str, scored: list[Scored]) -> list[str]:
    weights = rarities(read_question(question), [item.excerpt for item in scored])
    best = min(scored, key=Scored.order)
    return [item.excerpt.text for item in select_excerpts([best], scored, weights)]


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What is ownership?", QuestionKind.DEFINITION),
        ("What does shadowing mean?", QuestionKind.DEFINITION),
        ("Define lifetimes", QuestionKind.DEFINITION),
        ("When should I use closures?", QuestionKind.OTHER),
        ("How do I create a project?", QuestionKind.PROCEDURE),
        ("How do new employees enroll?", QuestionKind.PROCEDURE),
        ("How can a struct be printed?", QuestionKind.PROCEDURE),
        ("What is the process for filing an appeal?", QuestionKind.PROCEDURE),
        ("What steps should employees take?", QuestionKind.PROCEDURE),
        ("How do closures capture variables?", QuestionKind.OTHER),
        ("What is unsafe code needed for?", QuestionKind.DEFINITION),
        ("Why is it safe?", QuestionKind.REASON),
        ("Who wrote it?", QuestionKind.PERSON),
        ("When was it written?", QuestionKind.TIME),
        ("Where is it stored?", QuestionKind.PLACE),
        ("How many threads are there?", QuestionKind.QUANTITY),
        ("In which year was it written?", QuestionKind.TIME),
        ("Rust has how many keywords?", QuestionKind.QUANTITY),
        ("How often are sessions removed?", QuestionKind.QUANTITY),
        ("Which version of Rust is needed?", QuestionKind.QUANTITY),
        ("Which version control systems can be used?", QuestionKind.ENUMERATION),
        ("What is a version?", QuestionKind.DEFINITION),
        ("What is the maximum line length?", QuestionKind.QUANTITY),
        ("What is the best height for a shelf?", QuestionKind.DEFINITION),
        ("Which file formats can be read?", QuestionKind.ENUMERATION),
        ("List the commands of the tool", QuestionKind.ENUMERATION),
        ("What are the rules of references?", QuestionKind.ENUMERATION),
        ("What is the purpose of a trait?", QuestionKind.REASON),
        ("Does it compile?", QuestionKind.OTHER),
        ("What happens when a document is deleted?", QuestionKind.OTHER),
        ("Do people who read it like it?", QuestionKind.OTHER),
    ],
)
def test_kinds_of_questions(question: str, kind: QuestionKind) -> None:
    assert read_question(question).kind is kind


def test_the_subject_of_a_definition() -> None:
    assert read_question("What is a smart pointer in Rust?").subject == ("smart", "pointer")
    assert read_question("How many smart pointers are there?").subject == ()


@pytest.mark.parametrize("question", ["How big do foxes grow?", "In which year do foxes grow?"])
def test_what_an_answer_replaces_is_no_word_that_it_must_have(question: str) -> None:
    assert set(read_question(question).stems) == {stem("foxes"), stem("grow")}


@pytest.mark.parametrize(
    "question",
    ["What is the difference between a fox and an owl?", "How does a fox differ from an owl?", "fox vs. owl"],
)
def test_what_asks_for_a_comparison_is_no_word_that_it_must_have(question: str) -> None:
    assert set(read_question(question).stems) == {"fox", "owl"}


def test_operators_are_words_of_a_question() -> None:
    assert read_question("What does the @ operator do?").stems == ("operator", "@")
    assert read_question("How does ~= differ from $in?").stems == ("~=", "$in")
    assert read_question("Foxes - and owls | mice: who eats?").stems == ("fox", "owl", stem("mouse"), "eat")
    rows = "| Operator | Meaning |\n|---|---|\n| `!` | turns a value round |\n| `@` | binds a value |\n"
    assert _best("What does the @ operator do?", rows) == "Operator @: binds a value"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("Copayment: A copayment, also known as a copay, is a fixed fee.", 1.0),
        ("The copay plan, which you choose once a year, is a fixed fee.", 1.0),
        ("A copay is another kind of fee.", 1.0),
        ("Ask for your copay, which is a fixed fee.", 0.7),
        ("Nobody can waive a copay\u2014a fee that is fixed.", 0.7),
        ("Deductibles, copays, and coinsurance are a part of the cost.", 0.3),
        ("Copays are a great way to save money.", 0.3),
        ("Overall, copays are a great way to save money.", 0.0),
        ("A refund, also known as a rebate, is a fixed fee.", 0.0),
        ("Your copay desk, which opens at nine, is a room.", 0.3),
        ("Copay: what you pay for each visit", 0.7),
        ("Copay desk: where you pay", 0.3),
        ("The Copay<T> type keeps track of fees.", 0.7),
    ],
)
def test_how_far_a_sentence_defines_the_subject(text: str, match: float) -> None:
    question = read_question("What is a copay?")
    assert definition_match(question, text, text) == pytest.approx(match)


def test_a_definition_supports_the_answer_to_what_something_is() -> None:
    question = read_question("What is a copay?")
    defining, mentioning = _scored("What is a copay?", "Ask for your copay, which is a fixed fee.", "Ask for a copay.")
    support = Support(question, [defining, mentioning])
    assert support.parts(defining)["defines"] == 1.0
    assert support.parts(mentioning)["defines"] == 0.0


@pytest.mark.parametrize(
    ("question", "is_term"),
    [
        ("What is a copay?", True),
        ("What are copays?", True),
        ("Define copay", True),
        ("What is the copay?", False),
        ("What is a copay of the plan?", False),
        ("What is our copay?", False),
        ("What does a copay do?", False),
        ("Why is there a copay?", False),
    ],
)
def test_what_something_is_only_its_definition_answers(question: str, is_term: bool) -> None:
    read = read_question(question)
    assert read.is_term is is_term
    mentioning = _scored(question, "Members of the plan asked for a copay.", "Nobody asked for a copay.")
    assert Support(read, mentioning).parts(mentioning[0])["undefined"] == float(is_term)
    # Where it is defined, other sentences may go on from there.
    told = [*mentioning, *_scored(question, "A copay is a fixed fee.")]
    assert Support(read, told).parts(mentioning[0])["undefined"] == 0.0


@pytest.mark.parametrize(
    "platitude",
    [
        "Data security is of the utmost importance for the requirements here.",
        "We take the requirements for data security here very seriously.",
        "The company is fully committed to the requirements for data security.",
        "The team strives to know the requirements for data security.",
    ],
)
def test_that_something_matters_answers_nothing(platitude: str) -> None:
    content = f"{platitude} Requirements for data security: all data of customers must be encrypted with a key."
    assert _best("What are the requirements for data security?", content).startswith("Requirements")


def test_what_one_can_also_do_leans_on_what_comes_before() -> None:
    passages = [make_passage("A member may call. You can also write. People also write.")]
    assert _texts(find_excerpts(passages)) == [
        "A member may call.",
        "A member may call. You can also write.",
        "People also write.",
    ]


def test_what_is_to_be_imagined_explains_nothing() -> None:
    content = "Imagine a copay as a coin. Each copay keeps its value."
    assert _best("What does a copay do?", content) == "Each copay keeps its value."


def test_a_sentence_that_points_at_a_table_leans_on_it() -> None:
    passages = [make_passage("Use any of these kinds of owls. Owls hunt at night.")]
    assert [(each.text, each.leans) for each in find_excerpts(passages)] == [
        ("Use any of these kinds of owls.", True),
        ("Owls hunt at night.", False),
    ]


def test_what_announces_itself_defines_nothing() -> None:
    content = "Owls are fond of mice. Before describing the owls, we review owls in other books."
    assert _best("What are owls?", content) == "Owls are fond of mice."


def _compared(question: str, *contents: str) -> list[str]:
    """Return what is quoted of a comparison that the first of the contents leads."""
    scored = _scored(question, *contents)
    return [each.excerpt.text for each in of_each_side(read_question(question), scored[0], scored)]


def test_a_comparison_speaks_of_both_sides() -> None:
    question = "What is the difference between a fox and an owl?"
    fox, owl = "A fox is a beast that hunts alone.", "An owl is a bird that sees at night."
    assert _compared(question, fox, "Somebody saw an owl.", owl) == [fox, owl]
    assert _compared(question, owl, "Somebody saw an owl.", fox) == [owl, fox]
    contrast = "Unlike a fox, an owl sees at night."
    assert _compared(question, contrast, fox, owl) == [contrast]
    assert _compared(question, fox, "Somebody saw an owl.") == [fox]
    # The one that comes with the sentence before it would repeat the lead.
    joined = _compared(question, f"{fox} It is unlike an owl.")
    assert " ".join(joined).count(fox) == 1


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


def test_two_words_that_stand_apart_as_well_are_not_one() -> None:
    vocabulary = frozenset({"priorapproval", "prior", "approval"})
    assert read_question("Who needs prior approval?", vocabulary).stems == ("prior", "approval")


def test_how_long_it_takes_asks_for_no_taking() -> None:
    assert read_question("How long does it take to get an answer?").stems == ("answer",)


def test_an_operator_of_the_question_is_covered_where_it_stands() -> None:
    question = read_question("What does ~= do for foxes?")
    told, other = score_excerpts(
        question,
        find_excerpts([make_passage("~= finds all foxes."), make_passage("It finds foxes.", rank=2)]),
        [1.0, 1.0],
    )
    support = Support(question, [told, other])
    assert support.parts(told)["coverage_around"] > support.parts(other)["coverage_around"]


def test_a_number_makes_no_compound_with_the_word_before_it() -> None:
    vocabulary = frozenset({"fox2", "backup"})
    assert read_question("Will there be a fox 2?", vocabulary).stems == ("fox", "2")
    assert read_question("How do I back up?", vocabulary).stems == ("backup",)


def test_what_only_says_what_a_section_holds_answers_nothing() -> None:
    for announced in (
        "This chapter describes what foxes eat.",
        "Introducing what foxes eat in the wood of owls.",
        "This is a list of what foxes eat.",
    ):
        assert _best("What do foxes eat?", f"{announced} Foxes eat mice.") == "Foxes eat mice."


def test_how_often_asks_for_a_rhythm() -> None:
    assert kind_match(read_question("How often do foxes eat?"), "Foxes have a six-day cycle.") > 0
    content = "The 12 reviews of foxes are long. Reviews of foxes are held annually."
    assert _best("How often are reviews of foxes held?", content) == "Reviews of foxes are held annually."
    assert kind_match(read_question("How often do foxes eat?"), "Foxes eat 3 mice.") < 0


def test_how_many_asks_for_a_number_of_that_thing() -> None:
    question = read_question("How many new mice do foxes remember?")
    assert has_amount(question, "A fox counts fifteen brand new mice.")
    assert not has_amount(question, "A fox with 3 cubs of its own remembers mice.")
    assert not has_amount(read_question("Which mice do foxes remember?"), "A fox remembers 3 new mice.")


@pytest.mark.parametrize(
    ("question", "amount", "other"),
    [
        ("How long do foxes sleep?", "Foxes sleep for ten short hours.", "Foxes sleep with 12 others."),
        ("How long may a call take?", "A call may take 500 ms.", "A call may take 500 turns."),
        ("How much does a fox cost?", "A fox costs $20.", "A fox costs 3 mice."),
        ("How much of the price do I pay?", "You pay 20 percent of the price.", "You pay the price of 1 fox."),
        ("How often do foxes eat?", "Foxes eat daily.", "Foxes eat 3 mice."),
    ],
)
def test_an_amount_of_the_kind_asked_for_supports_an_answer(question: str, amount: str, other: str) -> None:
    parts = {text: _parts(question, text)["amount"] for text in (amount, other)}
    assert parts == {amount: 1.0, other: 0.0}


def test_fields_say_what_but_neither_why_nor_how() -> None:
    head = "Title: Foxes\nStatus: Rejected\nAuthor: Ada\n\nFoxes were rejected because they bite."
    passages = [make_passage(head)]
    _, _, asked_what = candidates("What is the status of foxes?", passages)
    _, _, asked_why = candidates("Why were foxes rejected?", passages)
    assert "Status: Rejected" in _texts(asked_what)
    assert _texts(asked_why) == ["Foxes were rejected because they bite."]


def test_a_field_of_something_else_is_not_what_is_asked() -> None:
    passages = [make_passage("Title: Foxes\nPython-Version: 3.10\nPost-History: May\n\nFoxes need a wood.")]
    asked = {
        question: "Python-Version: 3.10" in _texts(candidates(question, passages)[2])
        for question in ("Which Python version is required?", "Which Rust version is required?")
    }
    assert asked == {"Which Python version is required?": True, "Which Rust version is required?": False}


def test_a_question_that_only_has_the_word_do_asks_for_no_definition() -> None:
    assert read_question("What does the queen want to do about fees?").kind is not QuestionKind.DEFINITION
    assert read_question("What does the queen do?").subject == ("queen",)


def test_a_question_of_separators_is_read_in_no_time() -> None:
    began = time.thread_time()
    read_question(1000 * ", ")
    assert time.thread_time() - began < 0.2  # at cubic cost: 0.5 s and more


def test_two_words_that_the_material_writes_as_one_are_one() -> None:
    question = "How do I back up the set-up data?"
    assert read_question(question, frozenset({"backup"})).stems == ("backup", "set", "data")
    assert read_question(question).stems == ("back", "set", "data")
    assert "backup" in read_question(question, frozenset({"backup"})).stems_of("Back up and restore")
    assert "backup" not in read_question(question).stems_of("Back up and restore")


def test_a_joined_sentence_loses_to_the_one_that_says_it_alone() -> None:
    content = "Foxes eat small mice. They do it at night."
    assert _best("What do foxes eat?", content) == "Foxes eat small mice."


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("borrows", "borrowing"),
        ("copies", "copied"),
        ("running", "runs"),
        ("classes", "class"),
        ("files", "file"),
        ("strings", "string"),
    ],
)
def test_forms_of_a_word_have_one_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


def test_an_ending_without_which_no_vowel_is_left_is_none() -> None:
    assert stem("string") != stem("str")


def test_words_are_folded_and_identifiers_cut() -> None:
    assert content_stems("What is HashMap, the `hash_map`?") == ["hash", "map", "hash", "map"]


@pytest.mark.parametrize(
    ("question", "wants_code"),
    [
        ("Show me a match expression", True),
        ("Give me an example of a filter", True),
        ("What is the syntax of a closure?", True),
        ("What does exit code 2 mean?", False),
        ("How do I run it?", False),
    ],
)
def test_code_is_quoted_when_asked_for(question: str, wants_code: bool) -> None:
    assert read_question(question).wants_code is wants_code
    content = "To match a filter run a closure with syntax here.\n\n```\nmatch filter { closure }\n```"
    assert ("match filter {" in _best(question, content)) is wants_code


def test_rare_words_weigh_more() -> None:
    question = read_question("borrow checker errors")
    excerpts = find_excerpts([make_passage("The checker runs here. The checker stops here. The borrow is over.")])
    weights = rarities(question, excerpts)
    assert weights["error"] > weights["borrow"] > weights["checker"]
    assert covered(weights, {"error", "borrow", "checker"}) == pytest.approx(1.0)
    assert covered(weights, {"error"}) > covered(weights, set(), {"error"}) > 0.0
    assert covered({}, {"error"}) == 0.0


def test_a_definition_beats_a_mention() -> None:
    text = "We talk about ownership at length later on. Ownership is a set of rules for memory."
    assert _best("What is ownership?", text) == "Ownership is a set of rules for memory."


def test_what_is_not_so_is_asked_of_a_sentence_that_denies() -> None:
    contents = "The plan covers the cost of all sports.", "The plan does not cover any sports abroad."
    assert _best("What does the plan cover?", *contents) == contents[0]
    assert _best("What does the plan not cover?", *contents) == contents[1]


def test_a_person_beats_a_sentence_without_one() -> None:
    text = "Somebody founded the company here. In 1999 Ada founded the company."
    assert _best("Who founded the company?", text) == "In 1999 Ada founded the company."


def test_an_announcement_loses_to_the_thing() -> None:
    text = "In this chapter we show how traits work. All traits work by dispatch here."
    assert _best("How do traits work?", text) == "All traits work by dispatch here."


def test_a_sentence_that_leans_on_what_is_not_shown_loses() -> None:
    one, other = "However, foxes eat small mice.", "Foxes also eat small mice."
    assert _best("What do foxes eat?", one, other) == other


def test_a_whole_list_answers_what_asks_for_one() -> None:
    content = "A filter has these operators:\n\n- the operator eq of a filter\n- the operator ne of a filter"
    assert _best("Which operators does a filter have?", content).splitlines() == [
        "A filter has these operators:",
        "- the operator eq of a filter",
        "- the operator ne of a filter",
    ]
    content = content.replace("ne of a filter", "ne that a filter has for other values")
    assert (
        _best("What is the operator ne of a filter?", content) == "the operator ne that a filter has for other values"
    )


@pytest.mark.parametrize("question", ["Which operators does a filter have?", "What operators do filters need?"])
def test_which_and_a_plural_asks_for_a_list(question: str) -> None:
    assert read_question(question).kind is QuestionKind.ENUMERATION


@pytest.mark.parametrize(("question", "best"), [("What does an owl keeper do?", 1), ("Who is the owl keeper?", 0)])
def test_a_label_names_and_explains_nothing(question: str, best: int) -> None:
    contents = ("- Owl keeper Ann", "The owl keeper Ben feeds the birds of the zoo in the night.")
    excerpts = find_excerpts([make_passage(content, rank=rank) for rank, content in enumerate(contents, 1)])
    scored = score_excerpts(read_question(question), excerpts, [1.0, 0.7])
    assert min(scored, key=Scored.order) is scored[best]


@pytest.mark.parametrize(
    ("other", "best"),
    [
        (
            "Use a lamp if the owls that you feed are shy, since it is dark by night.",
            "To feed owls, hang the mice at a branch.",
        ),
        ("# Looking at owls\n\nThe owls eat what `feeder` brings.", "Feed the owls with `feeder run owls`."),
    ],
)
def test_what_says_how_to_do_it_beats_what_only_speaks_of_it(other: str, best: str) -> None:
    assert _best("How do I feed owls?", other, best) == best.replace("`", "")


def test_what_stands_under_a_heading_that_says_what_to_do_is_how_to_do_it() -> None:
    contents = ("# Owls\n\n## Go back\n\nStop the owls, and take the mice.", "# Feed owls\n\nUse mice, and no berries.")
    excerpts = find_excerpts([make_passage(content, rank=rank) for rank, content in enumerate(contents, 1)])
    question = read_question("How do I feed owls?")
    scored = score_excerpts(question, excerpts, [0.7, 0.35])
    headed = [each.below_heading(question, like) for each, like in zip(scored, (0.3, 0.8), strict=True)]
    assert min(headed, key=Scored.order).excerpt.text == "Use mice, and no berries."


def test_a_heading_like_the_question_supports_what_stands_below_it() -> None:
    question = read_question("How do I turn on encryption?")
    (scored,) = score_excerpts(question, find_excerpts([make_passage("# TLS\n\nSet a key and a name.")]), [0.4])
    like, unlike = scored.below_heading(question, 0.7), scored.below_heading(question, 0.3)
    assert (unlike.headed, unlike.score) == (0.0, scored.score)
    assert like.score > scored.score
    assert Support(question, [like]).of(like) > Support(question, [unlike]).of(unlike) + 0.1


def test_what_opens_a_section_comes_first_where_an_explanation_is_asked_for() -> None:
    passage = make_passage("# Feeding owls\n\nThey get fresh mice. They get some water.")
    for asked, gains in (("How do I feed owls?", True), ("What is feeding?", False), ("Who is feeding owls?", False)):
        question = read_question(asked)
        opening, second = score_excerpts(question, find_excerpts([passage]), [0.5, 0.5])
        gain = [each.below_heading(question, 0.8).score - each.score for each in (opening, second)]
        assert (gain[0] > gain[1] > 0) is gains


def _ranked(content: str, *scores: float) -> list[Scored]:
    excerpts = find_excerpts([make_passage(content)])
    assert len(excerpts) == len(scores)
    return [Scored(excerpt, 0.5, 0.5, score) for excerpt, score in zip(excerpts, scores, strict=True)]


FOXES = "What do foxes eat?"


def test_the_best_excerpt_comes_first_and_the_others_in_source_order() -> None:
    content = "Mice are often found near barns. Owls sleep in old trees. Foxes eat small mice. Bears wake in spring."
    chosen = _selected(FOXES, _ranked(content, 0.99, 0.1, 1.0, 0.1))
    assert chosen == ["Foxes eat small mice.", "Mice are often found near barns."]


def test_excerpts_next_to_the_best_stay_in_source_order_around_it() -> None:
    content = "Mice are often found near barns. Foxes eat small mice. Bears wake up in spring."
    chosen = _selected(FOXES, _ranked(content, 0.98, 1.0, 0.99))
    assert chosen == ["Mice are often found near barns.", "Foxes eat small mice.", "Bears wake up in spring."]


def test_the_row_that_answers_best_comes_before_its_neighbours() -> None:
    content = "| Setting | Meaning |\n|---|---|\n| owls | owls eat big mice |\n| foxes | foxes eat small mice |\n"
    chosen = _selected("What do foxes and owls eat?", _ranked(content, 0.98, 1.0, 0.5))
    assert chosen == ["Setting foxes: foxes eat small mice", "Setting owls: owls eat big mice"]


def test_other_passages_follow_document_by_document() -> None:
    contents = ["Red foxes eat small mice.", "Foxes eat red berries. Some foxes eat brown beetles."]
    question = "Which red foxes eat mice, berries and beetles?"
    scored = [
        Scored(item.excerpt, 0.5, 0.5, score)
        for item, score in zip(_scored(question, *contents), (1.0, 0.98, 0.99), strict=True)
    ]
    assert _selected(question, scored) == [
        "Red foxes eat small mice.",
        "Foxes eat red berries.",
        "Some foxes eat brown beetles.",
    ]


def test_a_further_sentence_shares_the_paragraph_or_has_a_further_word_of_the_question() -> None:
    content = (
        "Mice are fat in autumn. Owls sleep in old trees. Foxes eat small mice.\n\n"
        "Berries of the wood are eaten too.\n\nFoxes live in dens."
    )
    scores = (0.99, 0.1, 1.0, 0.99, 0.99)
    assert _selected(FOXES, _ranked(content, *scores)) == ["Foxes eat small mice.", "Mice are fat in autumn."]
    assert _selected("What do foxes eat, and where do they live?", _ranked(content, *scores)) == [
        "Foxes eat small mice.",
        "Mice are fat in autumn.",
        "Foxes live in dens.",
    ]


def test_a_second_sentence_comes_in_where_either_may_be_the_answer() -> None:
    content = (
        "Foxes eat small mice.\n\nFoxes mostly eat big beetles.\n\nFoxes never eat green berries.\n\n- Foxes eat birds"
    )
    mice, beetles = "Foxes eat small mice.", "Foxes mostly eat big beetles."
    assert _selected(FOXES, _ranked(content, 1.0, 0.97, 0.96, 0.5)) == [mice, beetles]
    assert _selected(FOXES, _ranked(content, 1.0, 0.94, 0.93, 0.98)) == [mice]
    defined = [replace(each, definition=0.7) for each in _ranked(content, 1.0, 0.97, 0.5, 0.5)]
    assert _selected("What are foxes?", defined) == [mice]


def test_the_lowest_scores_let_nothing_else_in() -> None:
    content = "Foxes eat small mice.\n\nBerries of the wood are sweet."
    assert _selected(FOXES, _ranked(content, -0.1, -0.2)) == ["Foxes eat small mice."]


def test_near_duplicates_are_said_once() -> None:
    question = "Do foxes eat mice that sleep?"
    contents = ["Foxes eat small brown mice in spring.", "Sleep, foxes eat small brown mice in spring."]
    scored = [
        Scored(item.excerpt, 0.5, 0.5, score)
        for item, score in zip(_scored(question, *contents), (1.0, 0.99), strict=True)
    ]
    assert _selected(question, scored) == contents[:1]


def _in_context(question: str, content: str, lead: str, **parts: float) -> list[str]:
    """Return what the sentence `lead` of a text is read with where it leads the answer."""
    excerpts = find_excerpts([make_passage(content)])
    (one,) = (each for each in excerpts if each.text == lead)
    scored = Scored(one, 0.5, 0.5, 1.0, **parts)
    return [each.excerpt.text for each in with_context(read_question(question), scored, excerpts)]


def test_code_is_quoted_with_what_introduces_it_where_a_way_is_asked_for() -> None:
    sentence = "Owls are fed by a command that reads their names from a file"
    content = f"{sentence}:\n\n```\nfeed names\n```"
    assert _in_context("How do I feed owls?", content, f"{sentence}.") == [f"{sentence}:\nfeed names"]
    assert _in_context("Who feeds the owls?", content, f"{sentence}.") == [f"{sentence}."]


def test_code_or_steps_that_follow_a_sentence_come_with_it_where_a_way_is_asked_for() -> None:
    sentence = "Owls are fed by a command."
    content = f"{sentence} It is part of the tools.\n\nTake a file:\n\n```\nfeed names\n```"
    assert _in_context("How do I feed owls?", content, sentence) == [sentence, "Take a file:\nfeed names"]
    assert _in_context("Why are owls fed?", content, sentence) == [sentence]
    far = f"{sentence} {'Mice are caught in the barn by night. ' * 10}\n\n```\nfeed names\n```"
    assert _in_context("How do I feed owls?", far, sentence) == [sentence]
    elsewhere = f"{sentence}\n\n## Foxes\n\nTake a file:\n\n```\nfeed names\n```"
    assert _in_context("How do I feed owls?", elsewhere, sentence) == [sentence]


@pytest.mark.parametrize(
    ("question", "score", "coverage", "heading", "is_shown"),
    [
        ("How do I feed owls?", 0.85, 1.0, "Tools", True),
        ("Who feeds the owls?", 0.85, 1.0, "Tools", False),
        ("How do I feed owls?", 0.75, 1.0, "Tools", False),
        ("How do I feed owls?", 0.85, 0.5, "Tools", False),
        ("How do I feed owls?", 0.85, 0.5, "Food", True),
    ],
)
def test_code_shows_how_something_is_done_where_the_answer_has_none(
    question: str, score: float, coverage: float, heading: str, is_shown: bool
) -> None:
    content = f"## Food\n\nOwls are fed in the evening.\n\n## {heading}\n\n```\nfeed owls\n```\n\n```\nfeed foxes\n```"
    prose, code, other = find_excerpts([make_passage(content)])
    lead, shown = Scored(prose, 0.5, 1.0, 1.0), Scored(code, 0.5, coverage, score)
    scored = [lead, shown, Scored(other, 0.5, coverage, score - 0.01)]
    assert with_code(read_question(question), [lead], scored) == [lead, *[shown] * is_shown]
    assert with_code(read_question(question), [lead, shown], scored) == [lead, shown]


def test_a_sentence_that_announces_a_list_comes_with_it() -> None:
    sentence = "Besides mice there are animals that owls do not eat."
    content = f"{sentence} These are:\n\n- foxes of any age\n- bears of the wood"
    whole = f"{sentence} These are:\n- foxes of any age\n- bears of the wood"
    assert _in_context("What do owls not eat?", content, sentence) == [whole]


@pytest.mark.parametrize(
    ("question", "definition", "is_completed"),
    [
        ("How do adapters work?", 0.0, True),
        ("Who wrote the adapters?", 0.0, False),
        ("What are adapters?", 0.7, True),
        ("What are adapters?", 1.0, False),
    ],
)
def test_a_sentence_that_leans_on_the_whole_answer_completes_it(
    question: str, definition: float, is_completed: bool
) -> None:
    adapters = "Adapters are methods of iterators that do not consume the iterator."
    for following, follows in (
        ("Instead, they make another adapter.", True),
        ("They are lazy.", False),
        ("However, the last of the adapters consumes it.", False),
    ):
        excerpts = find_excerpts([make_passage(f"{adapters} {following} Iterators are lazy.")])
        lead = Scored(excerpts[0], 0.5, 0.5, 1.0, definition)
        whole = f"{adapters} {following}" if is_completed and follows else adapters
        assert completed(read_question(question), lead, excerpts).excerpt.text == whole


def test_the_first_sentence_of_a_section_comes_first_where_its_heading_says_what_was_asked() -> None:
    opening, lead = "Unions accept values of several types.", "One writes Union with the types in brackets."
    content = f"## Union types\n\n{opening} Few need them.\n\n{lead}"
    question = "How do I declare a union type?"
    assert _in_context(question, content, lead, headed=1.0) == [opening, lead]
    assert _in_context(question, content, lead, headed=0.5) == [lead]
    assert _in_context(question, content, lead, headed=1.0, definition=0.7) == [lead]
    vague = content.replace(opening, "We know how important it is to be free.")
    assert _in_context(question, vague, lead, headed=1.0) == [lead]
    announced = content.replace(opening, "In this section, we describe the types of values.")
    assert _in_context(question, announced, lead, headed=1.0) == [lead]


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ("Managers must approve an invoice.", 1),
        ("Managers may approve the invoice.", 0),
        ("Parcels under 5 kg are free.", 1),
        ("Parcels over 5 kg are free.", 0),
    ],
)
def test_another_document_supports_a_claim_only_if_it_says_the_same(said: str, count: int) -> None:
    claims = _scored("q", "Managers must approve the invoices. Parcels under 5 kg are free.", said)
    assert sum(len(corroborations(each.excerpt, claims[2:])) for each in claims[:2]) == count


def test_far_worse_excerpts_stay_out() -> None:
    scored = _scored(FOXES, "Foxes eat small mice. The weather was fine that day.")
    assert _selected(FOXES, scored) == ["Foxes eat small mice."]


@pytest.mark.parametrize(
    ("question", "text", "in_full"),
    [
        ("When was the tower built?", "The tower was built in 1840.", True),
        ("When was the tower built?", "The tower was built by owls.", False),
        ("When was the high tower built?", "The tower was built in 1840.", False),
        ("Why was the tower built?", "The tower was built for owls.", False),
    ],
)
def test_a_fact_with_all_words_of_the_question_is_the_whole_answer(question: str, text: str, in_full: bool) -> None:
    (item,) = _scored(question, text)
    assert answers_in_full(read_question(question), item) is in_full


def test_each_part_of_a_question_is_answered() -> None:
    question = "What do foxes eat and where do owls sleep?"
    foxes, owls = "Foxes eat small mice.", "Owls sleep in old trees."
    scored = [
        Scored(item.excerpt, 0.5, 0.5, score)
        for item, score in zip(_scored(question, foxes, owls), (1.0, 0.85), strict=True)
    ]
    assert _selected(question, scored) == [foxes, owls]
    assert _selected(FOXES, scored) == [foxes]


def test_a_whole_list_stands_alone() -> None:
    content = "Foxes eat:\n\n- small mice of the woods\n- red berries of the woods\n\nFoxes eat at night."
    excerpts = find_excerpts([make_passage(content)])
    scored = [Scored(excerpt, 0.5, 0.5, 1.0 if excerpt.is_whole else 0.99) for excerpt in excerpts]
    assert _selected(FOXES, scored) == ["Foxes eat:\n- small mice of the woods\n- red berries of the woods"]


def test_a_shortlist_keeps_the_best_by_words_in_order() -> None:
    question = read_question(FOXES)
    excerpts = find_excerpts(
        [make_passage("The weather was fine. Foxes eat small mice. Birds can fly. Foxes eat berries.")]
    )
    assert _texts(shortlist(question, excerpts, 2)) == ["Foxes eat small mice.", "Foxes eat berries."]
    assert shortlist(question, excerpts, 9) == excerpts


def _parts(question: str, content: str, **fields: Any) -> dict[str, float]:
    excerpts = find_excerpts([make_passage(content, **fields)])
    scored = score_excerpts(read_question(question), excerpts, [0.5])
    return Support(read_question(question), scored).parts(scored[0])


def _support(question: str, content: str) -> float:
    scored = _scored(question, content)
    return Support(read_question(question), scored).of(scored[0])


@pytest.mark.parametrize(
    ("fitting", "contradicted"),
    [
        ("When was Rust 1.0 released?", "When was Rust 2.0 released?"),
        ("Did the firm open in old Berlin?", "Did the firm open in old Paris?"),
        ("Which version was released?", "Which version was not released?"),
    ],
)
def test_numbers_names_and_negations_that_the_passage_lacks_weaken_support(fitting: str, contradicted: str) -> None:
    content = "Rust version 1.0 was released when the firm did open in old Berlin."
    assert _support(contradicted, content) < _support(fitting, content)


@pytest.mark.parametrize(
    "piece",
    [
        "`",
        "` ",
        "(",
        "<!--",
        "_a",
        "**",
        "[a](",
        "a. ",
        ". ",
        "\n> ",
        "| ",
        "\n- ",
        '"',
        "\n```\n",
        "1.",
        "A. B",
        "_ _",
        "~~~\n\n",
        ">>> a\n\n",
        "a::\n\n  b\n\n",
    ],
)
def test_hostile_text_is_read_in_no_time(piece: str) -> None:
    content = piece * (20_000 // len(piece))
    markup = Markup.RST if piece.endswith("\n\n") else Markup.MARKDOWN
    question = read_question("What is a? Why 1.0 and not a_b? " + content[:400])
    began = time.thread_time()
    passages = [make_passage(content, markup=markup), make_passage("All of it is read.", rank=2)]
    excerpts = shortlist(question, find_excerpts(passages), 64)
    scored = score_excerpts(question, excerpts, [1.0] * len(excerpts))
    lead, _ = Support(question, scored).lead()
    select_excerpts([lead], scored, rarities(question, excerpts))
    assert time.thread_time() - began < 2.0


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


def test_a_name_with_a_dot_is_one_name_of_code() -> None:
    content = "The function wood.burn burns wood."
    assert _parts("What does wood.call do?", content)["missing_name"] == 1.0
    assert _parts("What does wood.burn do?", content)["identified"] == 1.0


def test_a_name_of_code_that_the_passage_lacks_weakens_support() -> None:
    content = "The pin project crate pins fields of a project."
    assert _support("What does the pin_project crate do?", content) < _support("What does the crate do?", content)


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        ("What was decided on 3 March 2023?", {"title": "Minutes of 3 March 2023"}),
        ("What was decided on 2023-03-05?", {"source_uri": "minutes/2023-03-05.md"}),
        ("What was decided of version 1.2?", {"title": "Version 1.2"}),
        ("What was decided of max_tokens?", {"title": "max_tokens"}),
    ],
)
def test_a_date_a_version_and_a_name_of_code_are_met_in_the_name_of_a_document(
    question: str, fields: dict[str, str]
) -> None:
    def missing(**named: Any) -> float:
        parts = _parts(question, "The board decided to wait.", **named)
        return parts["missing_number"] + parts["missing_name"]

    assert missing(title="Minutes") == 1.0
    assert missing(**fields) == 0.0


@pytest.mark.parametrize(
    ("question", "is_identified"),
    [
        ("What happens on SIGTERM?", True),
        ("What happens on SIGKILL?", False),
        ("What do SIGTERM and drain_s do?", False),
        ("What happens on Sigterm?", False),
        ("WHAT HAPPENS ON SIGTERM?", False),
        ("What does signal.alarm do?", False),
    ],
)
def test_an_excerpt_with_the_identifiers_of_the_question_is_supported_by_them(
    question: str, is_identified: bool
) -> None:
    parts = _parts(question, "On SIGTERM the calls in progress may finish.")
    assert parts["identified"] == float(is_identified)


@pytest.mark.parametrize(
    ("question", "source", "is_named"),
    [
        ("What happens by rule 5?", "rules/rule-0005.md", True),
        ("What happens after 5 failures?", "rules/rule-0005.md", False),
        ("What happens after 5 failures?", "05-setup.md", False),
    ],
)
def test_a_number_names_a_document_behind_its_word(question: str, source: str, is_named: bool) -> None:
    assert (_parts(question, "The call is given up.", source_uri=source)["named"] > 0) is is_named


@pytest.mark.parametrize(
    ("question", "is_own"), [("Where do they send us to work?", True), ("Where does the US send them to work?", False)]
)
def test_a_country_is_nobody_who_asks(question: str, is_own: bool) -> None:
    said = "I think where they send us to work, and the US send them, is Bonn."
    assert _parts(question, said, source_uri="record:turn-1")["own"] == float(is_own)


def test_a_name_in_short_is_met_where_the_document_has_it_in_full() -> None:
    question = read_question("Who composed the music of Red Fox Delta?")
    short = make_passage("The music of Red Fox was composed by Ada Byron.", document_id="game")

    def support(document_id: str) -> float:
        full = make_passage("Red Fox Delta came out in Japan.", rank=2, document_id=document_id)
        scored = score_excerpts(question, excerpts := find_excerpts([short, full]), [1.0] * len(excerpts))
        return Support(question, scored).of(scored[0])

    assert support("game") > support("another game")


def test_a_number_in_words_names_nothing_that_the_passage_must_have() -> None:
    content = "Conditions of a filter combine with and here."
    in_words = _support("How do two conditions of a filter combine?", content)
    assert in_words > _support("How do 2 conditions of a filter combine?", content)


def test_the_best_supported_of_the_best_passages_leads() -> None:
    question = "What do red foxes eat in 1990?"
    passages = [
        make_passage("Red foxes eat small mice in winter.", rank=1),
        make_passage("In 1990 red foxes did eat berries there.", rank=2),
    ]
    excerpts = find_excerpts(passages)
    scored = [Scored(excerpt, 0.5, 0.5, score) for excerpt, score in zip(excerpts, (0.7, 0.65), strict=True)]
    lead, support = Support(read_question(question), scored).lead()
    assert lead.excerpt.text == "In 1990 red foxes did eat berries there."
    assert support == Support(read_question(question), scored).of(scored[1])
    lead, _ = Support(read_question("What do red foxes eat?"), scored).lead()
    assert lead.excerpt.text == "Red foxes eat small mice in winter."


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("How long are copies kept?", "Copies are kept for ninety days."),
        ("How many owls lived there in 2015?", "The wood had 15 owls."),
        ("How many owls are there?", "The wood has 1500 owls."),
        ("How many owls are there?", "The wood has thousands of owls."),
        ("How long are copies kept?", "Copies are kept for a year."),
        ("How old is the owl?", "The owl was born on 5 March 2013."),
        ("Which Python version do owls need?", "Owls need Python 3.10."),
        ("What is the latest version?", "Version 2 is the latest one."),
        ("What is the size of an owl?", "An owl is 30 cm tall."),
        ("When do owls hunt?", "Owls hunt at night."),
    ],
)
def test_quantities_and_times_answer_questions_for_them(question: str, text: str) -> None:
    assert kind_match(read_question(question), text) == 1.0


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("How long is Highway 88?", "Highway 88 is a road in the north."),
        ("How many owls are there?", "The list of owls was made on 5 March 2023."),
        ("How many owls are there?", "In 1912 owls came to the north, where they have been since 1913 or so."),
        ("How many owls are there?", "Watching owls is one of the joys of the north."),
        ("How many owls are there?", "The owls of Rule 14 are protected."),
        ("How many owls are there?", "PEP 14 protects owls."),
        ("How old is the owl?", "The owl of Anna Maria is an old one."),
        ("Which Python version do owls need?", "The 3 owls need the latest version of Python."),
        ("Which version came after 3.9?", "What came after 3.9 was better."),
        ("What is the average size of an owl?", "The size of an owl depends on its food."),
    ],
)
def test_a_number_of_the_question_and_a_date_are_no_quantity(question: str, text: str) -> None:
    assert kind_match(read_question(question), text) == -1.0


@pytest.mark.parametrize(
    ("asked", "fitting", "unfitting"),
    [
        (
            "How much do foxes eat in old Berlin?",
            "In old Berlin foxes eat 12 mice.",
            "In old Berlin foxes eat all mice.",
        ),
        ("Why do foxes eat in Berlin?", "Foxes eat in Berlin because mice do.", "Foxes eat in Berlin where mice do."),
        ("How do I feed foxes?", "You can feed foxes with mice.", "Mice like to feed foxes in the wood."),
    ],
)
def test_what_lacks_an_amount_a_reason_or_a_step_answers_no_question_for_it(
    asked: str, fitting: str, unfitting: str
) -> None:
    assert _support(asked, unfitting) < _support(asked, fitting) - 0.05
    other = "Do foxes eat?"
    assert abs(_support(other, unfitting) - _support(other, fitting)) < 0.05


def test_why_prefers_a_reason_to_a_sentence_that_is_more_alike() -> None:
    content = "Foxes never climb trees of the old wood. Foxes never climb, because owls watch over the trees."

    def best(question: str) -> str:
        excerpts = find_excerpts([make_passage(content)])
        scored = score_excerpts(read_question(question), excerpts, [0.75, 0.35])
        return min(scored, key=Scored.order).excerpt.text

    assert "because" in best("Why do foxes never climb trees?")
    assert "because" not in best("Do foxes never climb trees?")


@pytest.mark.parametrize(
    ("question", "is_procedure"),
    [
        ("How is UTF-8 mode enabled?", True),
        ("How are the owls published?", True),
        ("How is memory laid out?", False),
        ("How are generations stored?", False),
    ],
)
def test_how_something_is_done_by_users_asks_for_steps(question: str, is_procedure: bool) -> None:
    assert (read_question(question).kind is QuestionKind.PROCEDURE) is is_procedure


def test_code_shows_how_without_a_word() -> None:
    content = "Foxes are fed:\n\n```\nfeed --foxes\n```"
    assert _parts("How do I feed foxes?", content)["missing_step"] == 0.0
    assert _parts("How do I feed foxes?", "Foxes are fed by owls.")["missing_step"] == 1.0


def test_a_heading_that_names_somebody_does_not_say_who_did_something() -> None:
    def supported(question: str) -> bool:
        scored = _scored(question, "Foxes of the Acme Company eat mice with Anna Berg.")
        headed = scored[0].below_heading(read_question(question), 1.0)
        support = Support(read_question(question), scored)
        return support.of(headed) > support.of(scored[0])

    assert supported("What do foxes of the Acme Company do?")
    assert not supported("Who founded the Acme Company?")


@pytest.mark.parametrize(
    ("question", "is_of_another"),
    [
        ("Why was Rule 204 rejected?", True),
        ("Why was Rule 14 rejected?", False),
        ("Why was Rule 14.0 rejected?", True),
        ("When was Rule 14 rejected?", False),
        # It stands in the passage, but not where the answer is.
        ("Why was Rule 7 rejected?", False),
        ("Why was Rule 2 rejected?", True),
        ("When was Rule 7 rejected?", True),
        # None of these is a name with a number.
        ("List 5 rules that were rejected.", False),
        ("Why were 5 rules rejected?", False),
        ("Why was the Second Rule rejected?", False),
    ],
)
def test_what_a_question_names_by_a_number_is_not_what_has_another(question: str, is_of_another: bool) -> None:
    content = "Rule 14 was rejected in May because foxes sleep.\n\nNothing is known of 2,000 foxes.\n\nRule 7 is older."
    scored = _scored(question, content)
    assert Support(read_question(question), scored).parts(scored[0])["other_number"] == float(is_of_another)


def test_a_document_named_by_its_number_is_what_a_question_names_by_it() -> None:
    content = "The proposal was rejected because foxes sleep."
    assert _parts("Why was PEP 204 rejected?", content, source_uri="pep-0204.rst")["other_number"] == 0.0
    assert _parts("Why was PEP 204 rejected?", content, source_uri="pep-0205.rst")["other_number"] == 1.0
    assert _parts("Why was PEP 0204 rejected?", content, source_uri="pep-0204.rst")["other_number"] == 0.0


@pytest.mark.parametrize(
    ("question", "is_of_another"), [("What does Rust 0.5 add?", 0.0), ("What does Rust 0.6 add?", 1.0)]
)
def test_a_version_may_begin_with_zero(question: str, is_of_another: float) -> None:
    assert _parts(question, "Rust 0.5 adds foxes.")["other_number"] == is_of_another


def test_a_name_that_a_heading_of_the_document_has_is_not_missing_from_its_other_sections() -> None:
    def missing(heading: str) -> float:
        told = make_passage("The tides are set down in 12 rules, only 11 of them kept.", document_id="doc_1")
        other = make_passage("Rule one is about whales.", rank=2, document_id="doc_1", section_heading=heading)
        question = read_question("How many rules are there in the Code of Neptune?")
        scored = score_excerpts(question, find_excerpts([told, other]), [1.0, 0.5])
        return Support(question, scored).parts(scored[0])["missing_name"]

    assert missing("Fishing") == 1.0
    assert missing("The Code of Neptune") == 0.0


def test_a_summary_is_asked_of_a_document_by_its_number() -> None:
    passages = [
        make_passage("Owls.", rank=1, source_uri="pep-4040.rst"),
        make_passage("Foxes.", rank=2, source_uri="pep-0404.rst"),
    ]
    assert named_place("PEP 404", passages) == (passages[1].document_id, "")
    assert named_place("PEP 40", passages) is None


def test_a_summary_holds_no_fields() -> None:
    fields = "RFC: Foxes, foxes of the north\nTitle: Foxes of the north\nAuthor: Ada Lovelace\nStatus: Final\n\n"
    chosen, _ = summarise([make_passage(f"{fields}The foxes of the north eat mice. Foxes hunt alone.")])
    assert chosen
    assert not any(each.field_of for each in chosen)


@pytest.mark.parametrize(
    ("question", "name"),
    [
        ("What does this document cover?", ""),
        ("What does the chapter on owls cover?", "owls"),
        ("What does PEP 8 cover?", "PEP 8"),
        ("What does the employee handbook cover?", "the employee handbook"),
        ("What does operating.md cover?", "operating.md"),
        ("What does the Gold plan cover?", None),
        ("What does the chapter on owls not cover?", None),
        ("What is the Gold plan about?", "the Gold plan"),
    ],
)
def test_what_is_covered_asks_for_a_summary_of_documents_only(question: str, name: str | None) -> None:
    assert document_asked_for(question) == name
