"""The model is asked about a few excerpts of an answer, those that are the most likely to lead it."""

import pytest

from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.answer.extractive.scoring import score_excerpts
from groundwire.answer.extractive.similarity import estimate_similarities
from groundwire.answer.extractive.weights import MAX_EMBEDDED, TESTED_PASSAGES
from groundwire.answer.question import read_question
from tests.unit.answer.builders import make_passage

_QUESTION = read_question("What do foxes eat in winter?")
_PASSAGES = [
    make_passage(
        f"Foxes eat mice in winter, says report {rank}. Foxes eat berries {rank}. Owls hunt at night in field {rank}.",
        rank=rank,
        relevance=0.9 - rank / 40,
    )
    for rank in range(1, 8)
]
_EXCERPTS = find_excerpts(_PASSAGES)


def test_few_are_asked_about_among_them_the_best_of_each_passage_that_may_lead() -> None:
    _, places = estimate_similarities(_QUESTION, _EXCERPTS)
    assert len(places) == len(set(places)) == MAX_EMBEDDED < len(_EXCERPTS)
    leading = [_EXCERPTS[place] for place in places[:TESTED_PASSAGES]]
    assert [each.passage.rank for each in leading] == [1, 2, 3, 4, 5]
    assert all("mice in winter" in each.text for each in leading)


def test_all_are_asked_about_where_there_are_few_that_score_alike() -> None:
    excerpts = [each for each in find_excerpts(_PASSAGES[:1]) if "Foxes" in each.text]
    assert len(excerpts) == 2
    _, places = estimate_similarities(_QUESTION, excerpts)
    assert sorted(places) == list(range(len(excerpts)))


def test_what_scores_far_below_the_best_is_not_asked_about() -> None:
    excerpts = find_excerpts(_PASSAGES[:2])
    _, places = estimate_similarities(_QUESTION, excerpts)
    assert {excerpts[place].text for place in places} == {each.text for each in excerpts if "Foxes" in each.text}


def test_more_of_the_question_in_a_better_passage_is_taken_for_more_similar() -> None:
    scored, _ = estimate_similarities(_QUESTION, _EXCERPTS)
    assert [each.excerpt for each in scored] == _EXCERPTS
    by_text = {each.excerpt.text: each.similarity for each in scored}
    assert by_text["Foxes eat berries 1."] > by_text["Owls hunt at night in field 1."]
    assert by_text["Foxes eat berries 1."] > by_text["Foxes eat berries 7."]
    assert all(0.0 <= estimate <= 1.0 for estimate in by_text.values())


def test_an_excerpt_scores_with_another_similarity_as_if_that_had_been_known() -> None:
    scored, _ = estimate_similarities(_QUESTION, _EXCERPTS)
    known = score_excerpts(_QUESTION, _EXCERPTS, [0.8] * len(_EXCERPTS))
    again = [each.with_similarity(0.8) for each in scored]
    assert [each.similarity for each in again] == [0.8] * len(_EXCERPTS)
    assert [each.score for each in again] == pytest.approx([each.score for each in known])
