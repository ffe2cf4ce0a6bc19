"""How likely it is that an excerpt answers a question."""

import time
from dataclasses import replace
from typing import Any

import pytest

from groundwire.answer.evidence import Markup
from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.answer.extractive.scoring import (
    Scored,
    Support,
    rarities,
    score_excerpts,
    shortlist,
)
from groundwire.answer.extractive.selection import (
    select_excerpts,
)
from groundwire.answer.extractive.weights import RANKING
from groundwire.answer.question import read_question
from tests.unit.answer.builders import make_passage, make_scored


def test_a_definition_supports_the_answer_to_what_something_is() -> None:
    question = read_question("What is a copay?")
    defining, mentioning = make_scored(
        "What is a copay?", "Ask for your copay, which is a fixed fee.", "Ask for a copay."
    )
    support = Support(question, [defining, mentioning])
    assert support.parts(defining)["defines"] == 1.0
    assert support.parts(mentioning)["defines"] == 0.0


def test_an_operator_of_the_question_is_covered_where_it_stands() -> None:
    question = read_question("What does ~= do for foxes?")
    told, other = score_excerpts(
        question,
        find_excerpts([make_passage("~= finds all foxes."), make_passage("It finds foxes.", rank=2)]),
        [1.0, 1.0],
    )
    support = Support(question, [told, other])
    assert support.parts(told)["coverage_around"] > support.parts(other)["coverage_around"]


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


def test_a_heading_like_the_question_supports_what_stands_below_it() -> None:
    question = read_question("How do I turn on encryption?")
    (scored,) = score_excerpts(question, find_excerpts([make_passage("# TLS\n\nSet a key and a name.")]), [0.4])
    like, unlike = scored.below_heading(question, 0.7), scored.below_heading(question, 0.3)
    assert (unlike.headed, unlike.score) == (0.0, scored.score)
    assert like.score > scored.score
    assert Support(question, [like]).of(like) > Support(question, [unlike]).of(unlike) + 0.1


def test_the_entry_of_a_glossary_has_its_term_for_a_heading() -> None:
    question = read_question("What is a path?")
    entries = find_excerpts([make_passage("- Path: A path is a line.\n- Path of owls: A path is dark.")])
    path, longer, whole = score_excerpts(question, entries, [0.4, 0.4, 0.4])
    assert [each.below_heading(question, 0.3).headed for each in (path, longer, whole)] == [1.0, 0.0, 0.0]


def _parts(question: str, content: str, **fields: Any) -> dict[str, float]:
    excerpts = find_excerpts([make_passage(content, **fields)])
    scored = score_excerpts(read_question(question), excerpts, [0.5])
    return Support(read_question(question), scored).parts(scored[0])


def _support(question: str, content: str) -> float:
    scored = make_scored(question, content)
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
        "- a\n  - b\n",
        "| a |\n|---|\n| b |\n\nc\n",
        "a\n: b\n",
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
        ("What is in $? then?", True),
        ("What is in $@ then?", False),
        ("What does cut -m do?", False),
    ],
)
def test_an_excerpt_with_the_identifiers_of_the_question_is_supported_by_them(
    question: str, is_identified: bool
) -> None:
    parts = _parts(question, "On SIGTERM the calls in progress may finish, and $? tells non-modal ones.")
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


def test_a_version_is_met_by_its_number_behind_a_v() -> None:
    question = "What did version 4 of the owls change?"
    assert _parts(question, "With v4 of the owls the nest did change.")["missing_number"] == 0.0
    assert _parts(question, "With v3 of the owls the nest did change.")["missing_number"] == 1.0


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


def test_what_has_no_date_does_not_say_when_something_happened() -> None:
    released, praised = "Owl 2.8 was released in May 2012.", "Owl 2.8 is an important release, more so than Owl 2.6."
    asked = "When was Owl 2.8 released?"
    assert _support(asked, praised) < 0.36 < _support(asked, released)
    parts = {question: _parts(question, praised)["missing_date"] for question in (asked, "When do owls wake up?")}
    assert parts == {asked: 1.0, "When do owls wake up?": 0.0}


def test_what_lacks_the_thing_asked_for_answers_no_question_for_it() -> None:
    question, other = "Which licence do the owls have?", "What do the owls have?"
    fitting, unfitting = "The owls have a free licence.", "The owls have a large nest."
    lacking = [_parts(asked, text)["missing_asked"] for asked in (question, other) for text in (fitting, unfitting)]
    assert lacking == [0.0, 1.0, 0.0, 0.0]


def test_code_shows_how_without_a_word() -> None:
    content = "Foxes are fed:\n\n```\nfeed --foxes\n```"
    assert _parts("How do I feed foxes?", content)["missing_step"] == 0.0
    assert _parts("How do I feed foxes?", "Foxes are fed by owls.")["missing_step"] == 1.0


def test_a_heading_that_names_somebody_does_not_say_who_did_something() -> None:
    def supported(question: str) -> bool:
        scored = make_scored(question, "Foxes of the Acme Company eat mice with Anna Berg.")
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
    scored = make_scored(question, content)
    assert Support(read_question(question), scored).parts(scored[0])["other_number"] == float(is_of_another)


def test_a_document_named_by_its_number_is_what_a_question_names_by_it() -> None:
    content = "The proposal was rejected because foxes sleep."
    assert _parts("Why was PEP 204 rejected?", content, source_uri="pep-0204.rst")["other_number"] == 0.0
    assert _parts("Why was PEP 204 rejected?", content, source_uri="pep-0205.rst")["other_number"] == 1.0
    assert _parts("Why was PEP 0204 rejected?", content, source_uri="pep-0204.rst")["other_number"] == 0.0
    assert _parts("Why was Python 3 made?", "Python 3.0 was made because foxes sleep.")["other_number"] == 0.0
    assert _parts("Why was Python 3 made?", "Python 30 was made because foxes sleep.")["other_number"] == 1.0


def test_a_date_that_a_sentence_has_too_supports_it() -> None:
    on, whole = "What happened on 16 June 1911?", "Foxes came to Berlin on June 16, 1911."
    assert _parts(on, whole)["dated"] == 1.0
    assert _support(on, whole) > _support(on, "Foxes came to Berlin on June 17, 1911.") + 0.2
    assert _parts("What happened in 1911?", whole)["dated"] == 0.0
    assert "happen" not in read_question(on).stems


def test_a_heading_supports_as_far_as_the_words_of_the_question_are_met() -> None:
    def headed(question: str) -> float:
        item = replace(make_scored(question, "Foxes eat mice.")[0], headed=1.0)
        return Support(read_question(question), [item]).parts(item)["headed"]

    assert headed("How do foxes eat mice?") == 1.0
    assert 0.5 < headed("How do foxes drive?") < 1.0
    assert headed("How do I drive?") == 0.5


def test_a_heading_that_asks_for_a_fact_itself_has_the_answer_below() -> None:
    question = read_question("Where is the nest of the owls?")
    headings = ("Where is the nest of old owls?", "Where is the nest?", "The nest of the owls")
    for heading, is_asked in zip(headings, (True, False, False), strict=True):
        (item,) = make_scored(question.text, f"# {heading}\n\nIn the old school.")
        headed = item.below_heading(question, 1.0)
        assert (headed.score - item.score > RANKING.headed) is is_asked, heading
        assert (Support(question, [headed]).parts(headed)["headed"] > 0) is is_asked, heading


def test_steps_are_headed_by_a_chapter_that_the_question_names() -> None:
    content = "# Owl soup\n\nTakes an hour.\n\n## Preparation\n\n1. Wash the mice.\n2. Boil all of it.\n"

    def headed(question: str) -> list[float]:
        (passage,) = find_excerpts([make_passage(content, chapter="Owl soup")])[-1:]
        items = score_excerpts(read_question(question), [passage], [0.5])
        return [Support(read_question(question), items).parts(each)["headed"] for each in items]

    assert headed("How do I make owl soup?") == [1.0]
    assert headed("How do I make owls?") == [0.0]
    assert headed("What is owl soup?") == [0.0]


@pytest.mark.parametrize(
    ("question", "row", "is_answer"),
    [
        ("How many owls are there?", "Owl | Barn | 14", True),
        ("How many owls are there?", "Owl | Barn | few", False),
        ("How many owls are there in the wood?", "Owl | Barn | 14", False),
        ("What is the place of the owl?", "Owl | Barn | 14", True),
        ("How many birds live in the red barn?", "Owl | Red barn where birds live | 14", True),
        ("What is the age of the owl?", "Owl | Barn | 14", False),
    ],
)
def test_a_row_answers_what_is_asked_of_what_it_names(question: str, row: str, is_answer: bool) -> None:
    content = f"| Bird | Place | Count |\n|---|---|---|\n| {row} |"
    assert _parts(question, content)["asked_field"] == float(is_answer)


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
