"""What a search found of a quote, compared by code points."""

import json

import pytest

from groundwire.api.common.v1.chunk_pb2 import Chunk
from groundwire.api.common.v1.span_pb2 import Span
from groundwire.cli.evaluation import LabelledQuestion, outcome_of, read_questions, summary
from groundwire.kernel.errors import InvalidRequestError

_ASKED = LabelledQuestion(1, "What causes tides?", "tides.txt", "the moon")


def test_only_line_ends_end_a_question() -> None:
    # JSON may hold these characters as they are, and Python takes them for line ends.
    questions = ["Why do tides\u2028rise?", "Why do tides\x85fall?"]
    lines = [json.dumps({"question": each, "source": "tides.txt"}, ensure_ascii=False) for each in questions]
    assert [each.question for each in read_questions("\n\n".join(lines), "questions")] == questions


@pytest.mark.parametrize(
    "line",
    ["[]", '{"question": 1, "source": "a"}', '{"question": " ", "source": "a"}', '{"question": "Why?", "source": ""}'],
)
def test_a_line_that_is_no_question_is_named(line: str) -> None:
    with pytest.raises(InvalidRequestError, match="questions: line 2 "):
        read_questions(f"\n{line}", "questions")


def chunk(document_id: str, start: int, end: int) -> Chunk:
    return Chunk(document_id=document_id, span=Span(start=start, end=end))


def test_a_quote_is_covered_by_results_together() -> None:
    results = [chunk("other", 100, 200), chunk("tides", 90, 120), chunk("tides", 110, 150)]
    found = outcome_of(_ASKED, "tides", [(100, 200)], results)
    assert found.covered == pytest.approx(0.5)
    assert found.rank == 2
    assert found.characters == 100 + 30 + 40
    assert found.redundancy == pytest.approx(10 / 170)


def test_the_place_of_a_quote_that_is_covered_best_counts() -> None:
    found = outcome_of(_ASKED, "tides", [(0, 10), (100, 110)], [chunk("tides", 40, 60), chunk("tides", 95, 110)])
    assert (found.covered, found.rank) == (1.0, 2)


def test_a_chunk_inside_two_others_is_redundant_once() -> None:
    results = [chunk("tides", 0, 30), chunk("tides", 10, 40), chunk("tides", 5, 35)]
    assert outcome_of(_ASKED, "tides", [], results).redundancy == pytest.approx((20 + 30) / 90)


def test_a_quote_that_is_held_in_part_is_not_recalled() -> None:
    figures = summary([outcome_of(_ASKED, "tides", [(0, 10)], [chunk("tides", 5, 20)])])
    assert (figures["recall"], figures["covered"], figures["mrr"]) == (0.0, 0.5, 1.0)


def test_without_results_nothing_is_covered() -> None:
    found = outcome_of(_ASKED, "tides", [(0, 10)], [])
    assert (found.covered, found.rank, found.redundancy, found.characters) == (0.0, 0, 0.0, 0)
