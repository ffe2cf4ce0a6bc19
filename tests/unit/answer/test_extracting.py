"""Which sentences stand in an extractive answer: cues, candidates, scores, choice."""

import time

import numpy as np
import pytest

from groundwire.answer.extractive.question import QuestionKind, read_question
from groundwire.answer.extractive.scoring import (
    Scored,
    covered,
    definition_match,
    rarities,
    score_candidates,
    shortlist,
    support,
)
from groundwire.answer.extractive.selection import select_sentences
from groundwire.answer.extractive.statements import Candidate, find_candidates
from groundwire.answer.words import content_stems, stem
from groundwire.kernel.embedder import Vectors
from tests.unit.answer.builders import make_passage


def _texts(candidates: list[Candidate]) -> list[str]:
    return [candidate.text for candidate in candidates]


def _scored(question: str, *contents: str) -> list[Scored]:
    """Score by words alone: every vector is the same."""
    asked = read_question(question)
    passages = [make_passage(content, rank=rank) for rank, content in enumerate(contents, 1)]
    candidates = find_candidates(passages, asked)
    ones: Vectors = np.full((len(candidates), 4), 0.5, dtype=np.float32)
    return score_candidates(asked, candidates, ones[0], ones)


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("What is ownership?", QuestionKind.DEFINITION),
        ("What does shadowing mean?", QuestionKind.DEFINITION),
        ("Define lifetimes", QuestionKind.DEFINITION),
        ("How do I create a project?", QuestionKind.PROCEDURE),
        ("Why is it safe?", QuestionKind.REASON),
        ("Who wrote it?", QuestionKind.PERSON),
        ("When was it written?", QuestionKind.TIME),
        ("Where is it stored?", QuestionKind.PLACE),
        ("How many threads are there?", QuestionKind.QUANTITY),
        ("Does it compile?", QuestionKind.OTHER),
    ],
)
def test_kinds_of_questions(question: str, kind: QuestionKind) -> None:
    assert read_question(question).kind is kind


def test_the_subject_of_a_definition() -> None:
    assert read_question("What is a smart pointer in Rust?").subject == ("smart", "pointer")
    assert read_question("How many smart pointers are there?").subject == ()


@pytest.mark.parametrize(
    ("one", "other"), [("borrows", "borrowing"), ("copies", "copied"), ("running", "runs"), ("classes", "class")]
)
def test_forms_of_a_word_have_one_stem(one: str, other: str) -> None:
    assert stem(one) == stem(other)


def test_words_are_folded_and_identifiers_cut() -> None:
    assert content_stems("What is HashMap, the `hash_map`?") == ["hash", "map", "hash", "map"]


def test_only_statements_are_candidates() -> None:
    content = (
        "# A heading of words\n\nA true statement stands here. Is this a question of yours? Too short.\n\n"
        "Figure 3: a caption of a picture.\n\n- a list item of words\n\n```\nlet code = here;\n```\n\n"
        "See the array [12] of numbers.\n\n[one link](a.md) [two link](b.md)"
    )
    found = find_candidates([make_passage(content)], read_question("What stands here?"))
    assert _texts(found) == ["A true statement stands here.", "a list item of words"]


def test_code_is_a_candidate_when_asked_for() -> None:
    content = "Prose about code here.\n\n```rust\nlet x = 1;\n```"
    found = find_candidates([make_passage(content)], read_question("Show me the code"))
    assert _texts(found) == ["Prose about code here.", "```rust\nlet x = 1;\n```"]


def test_each_row_of_a_table_is_one_candidate_and_rules_are_none() -> None:
    content = "| Name | Age of person |\n|------|-----|\n| Ada | 36 years old |"
    found = find_candidates([make_passage(content)], read_question("How old is Ada?"))
    assert _texts(found) == ["| Name | Age of person |", "| Ada | 36 years old |"]


def test_fragments_at_the_borders_of_a_chunk_are_left_out() -> None:
    content = "of the sentence before this one. A whole sentence is here. And one that is cut in the"
    found = find_candidates([make_passage(content)], read_question("What is here?"))
    assert _texts(found) == ["A whole sentence is here."]


def test_text_that_two_chunks_share_is_one_candidate() -> None:
    first = make_passage("One sentence here. The shared sentence stands.")
    second = make_passage("The shared sentence stands.", rank=2, start=19, document_id="doc_1")
    found = find_candidates([first, second], read_question("What stands?"))
    assert _texts(found) == ["One sentence here.", "The shared sentence stands."]


def test_rare_words_weigh_more() -> None:
    question = read_question("borrow checker errors")
    candidates = find_candidates(
        [make_passage("The checker runs here. The checker stops here. The borrow is over.")], question
    )
    weights = rarities(question, candidates)
    assert weights["error"] > weights["borrow"] > weights["checker"]
    assert covered(frozenset({"error", "borrow", "checker"}), weights) == pytest.approx(1.0)
    assert covered(frozenset(), {}) == 0.0


def test_a_definition_beats_a_mention() -> None:
    scored = _scored(
        "What is ownership?", "We talk about ownership at length later on. Ownership is a set of rules for memory."
    )
    assert min(scored, key=Scored.order).candidate.text == "Ownership is a set of rules for memory."


def test_a_person_beats_a_sentence_without_one() -> None:
    scored = _scored("Who founded the company?", "They founded the company here. In 1999 Ada founded the company.")
    assert min(scored, key=Scored.order).candidate.text == "In 1999 Ada founded the company."


def test_an_announcement_loses_to_the_thing() -> None:
    scored = _scored(
        "How do traits work?", "In this chapter we show how traits work. All traits work by dispatch here."
    )
    assert min(scored, key=Scored.order).candidate.text == "All traits work by dispatch here."


def _ranked(content: str, *scores: float) -> list[Scored]:
    passage = make_passage(content)
    candidates = find_candidates([passage], read_question("What do foxes eat?"))
    assert len(candidates) == len(scores)
    return [Scored(candidate, 0.5, 0.5, score) for candidate, score in zip(candidates, scores, strict=True)]


def test_the_best_sentence_comes_first_and_the_others_in_source_order() -> None:
    content = "Mice are often found near barns. Owls sleep in old trees. Foxes eat small mice. Bears wake in spring."
    chosen = select_sentences(_ranked(content, 0.99, 0.1, 1.0, 0.1))
    assert [item.candidate.text for item in chosen] == ["Foxes eat small mice.", "Mice are often found near barns."]


def test_sentences_next_to_the_best_stay_in_source_order_around_it() -> None:
    content = "Mice are often found near barns. Foxes eat small mice. Bears wake up in spring."
    chosen = select_sentences(_ranked(content, 0.98, 1.0, 0.99))
    assert [item.candidate.position for item in chosen] == [0, 1, 2]


def test_the_best_three_are_read_document_by_document_in_source_order() -> None:
    scored = _scored(
        "What do red foxes eat?",
        "Red foxes live in holes. Other animals do not. Red foxes eat small mice.",
        "When winter comes red foxes eat berries too.",
    )
    chosen = [item.candidate.text for item in select_sentences(scored)]
    assert chosen[0] == "Red foxes eat small mice."
    assert "When winter comes red foxes eat berries too." in chosen
    assert len(chosen) <= 3


def test_near_duplicates_are_said_once() -> None:
    scored = _scored("What do foxes eat?", "Foxes eat small mice.", "Foxes eat the small mice.")
    assert len(select_sentences(scored)) == 1


def test_far_worse_sentences_stay_out_and_nothing_gives_nothing() -> None:
    scored = _scored("What do foxes eat?", "Foxes eat small mice. The weather was fine that day.")
    assert [item.candidate.text for item in select_sentences(scored)] == ["Foxes eat small mice."]
    assert select_sentences([]) == []


def test_a_shortlist_keeps_the_best_by_words_in_order() -> None:
    question = read_question("What do foxes eat?")
    candidates = find_candidates(
        [make_passage("The weather was fine. Foxes eat small mice. Birds can fly. Foxes eat berries.")], question
    )
    assert _texts(shortlist(question, candidates, 2)) == ["Foxes eat small mice.", "Foxes eat berries."]
    assert shortlist(question, candidates, 9) == candidates


def _support(question: str, content: str) -> float:
    asked, passages = read_question(question), [make_passage(content)]
    return support(asked, _scored(question, content)[0], passages)


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
    ],
)
def test_hostile_text_is_read_in_no_time(piece: str) -> None:
    content = piece * (20_000 // len(piece))
    question = read_question("What is a? Why 1.0 and not a_b? " + content[:400])
    began = time.thread_time()
    candidates = find_candidates([make_passage(content)], question)[:64]
    ones: Vectors = np.full((len(candidates), 4), 0.5, dtype=np.float32)
    scored = score_candidates(question, candidates, np.full(4, 0.5, dtype=np.float32), ones)
    select_sentences(scored)
    assert time.thread_time() - began < 2.0


@pytest.mark.parametrize(
    ("better", "worse"),
    [
        ("Closures are a kind of function.", "Closures are typically short."),
        ("_Closures_, on the other hand, are functions that capture.", "We use closures in many places."),
        ("Such functions are called _closures_ in Rust.", "We saw closures in many places."),
        ("Fundamentally, closures let us pass code around.", "Fundamentally, we like closures a lot."),
    ],
)
def test_how_far_a_sentence_defines(better: str, worse: str) -> None:
    question = read_question("What are closures?")
    assert definition_match(question, better) > definition_match(question, worse)


def test_a_name_of_code_that_the_passage_lacks_weakens_support() -> None:
    content = "The pin project crate pins fields of a project."
    assert _support("What does the pin_project crate do?", content) < _support("What does the crate do?", content)
