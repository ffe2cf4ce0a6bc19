"""The model is asked about a few excerpts of an answer, those that are the most likely to lead it."""

from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.answer.extractive.question import read_question
from groundwire.answer.extractive.similarity import estimate_similarities
from groundwire.answer.extractive.weights import MAX_EMBEDDED, TESTED_PASSAGES
from tests.unit.answer.builders import make_passage

_QUESTION = read_question("What do foxes eat in winter?")
_PASSAGES = [
    make_passage(
        f"Foxes eat mice in winter, says report {rank}. Foxes eat berries {rank}. Owls hunt at night in field {rank}.",
        rank=rank,
        relevance=0.9 - rank / 20,
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


def test_all_are_asked_about_where_there_are_few() -> None:
    excerpts = find_excerpts(_PASSAGES[:2])
    _, places = estimate_similarities(_QUESTION, excerpts)
    assert sorted(places) == list(range(len(excerpts)))


def test_more_of_the_question_in_a_better_passage_is_taken_for_more_similar() -> None:
    estimates, _ = estimate_similarities(_QUESTION, _EXCERPTS)
    by_text = {each.text: estimate for each, estimate in zip(_EXCERPTS, estimates, strict=True)}
    assert by_text["Foxes eat berries 1."] > by_text["Owls hunt at night in field 1."]
    assert by_text["Foxes eat berries 1."] > by_text["Foxes eat berries 7."]
    assert all(0.0 <= estimate <= 1.0 for estimate in estimates)
