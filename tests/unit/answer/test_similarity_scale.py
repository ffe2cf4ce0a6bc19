"""Cosines of other models are put on the scale of the default one."""

from array import array
from collections.abc import Sequence

import numpy as np
import pytest

from groundwire.answer.grounding.sentence_vectors import SentenceVectors
from groundwire.answer.grounding.similarity_scale import (
    ANSWERS,
    PARAPHRASES,
    QUESTIONS,
    Scales,
    cosine,
    measure,
)
from groundwire.answer.ports import Vector
from groundwire.embedders.hashing import HashingEmbedder
from tests.conformance.embedder import opened
from tests.unit.answer.builders import LocalEmbeddings


class _Cone:
    """Gives texts that belong together a cosine of 0.9, others 0.75; paraphrases 0.95. Counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    async def embed(self, queries: Sequence[str], texts: Sequence[str]) -> list[Vector]:
        self.calls += 1
        assert (queries, texts) == (QUESTIONS, [*ANSWERS, *PARAPHRASES])
        size = len(QUESTIONS)
        common = np.full((size, 1), np.sqrt(0.75))
        own = np.eye(size)
        shares = ((0.6, 0.8), (1.0, 0.0), (0.8, 0.6))  # of 0.25: 0.15 and 0.2 on top of 0.75
        rows = [np.hstack([common, own * 0.5 * near, own * 0.5 * far]) for near, far in shares]
        return [array("f", row.tolist()) for row in np.vstack(rows)]


async def test_the_cosines_of_a_narrow_model_are_spread() -> None:
    model = _Cone()
    vectors = SentenceVectors(model)
    scales = await vectors.scales()
    assert scales.questions.of(0.75) == pytest.approx(0.05, abs=1e-5)
    assert scales.questions.of(0.9) == pytest.approx(0.68, abs=1e-5)
    assert scales.statements.of(0.75) == pytest.approx(0.05, abs=1e-5)
    assert scales.statements.of(0.95) == pytest.approx(0.86, abs=1e-5)
    assert (scales.questions.of(0.0), scales.questions.of(1.0)) == (0.0, 1.0)
    assert await vectors.scales() is scales
    assert model.calls == 1


async def test_those_of_the_default_model_stay_as_they_are() -> None:
    scales = await SentenceVectors(LocalEmbeddings(opened("sentence-transformers:all-MiniLM-L6-v2"))).scales()
    assert scales == Scales()
    assert [scales.questions.of(each) for each in (0.0, 0.42, 1.0)] == [0.0, 0.42, 1.0]


async def test_those_of_hashed_words_stay_as_they_are() -> None:
    """They set a question hardly apart from what does not answer it."""
    assert await SentenceVectors(LocalEmbeddings(HashingEmbedder(384))).scales() == Scales()


def _measured(unrelated: float, question: float, statement: float, difference: float = 0.0) -> Scales:
    """Return the scales of a model with these mean cosines of texts that do not belong together, and of those that do.

    The cosines of every second question and its answer lie above their mean by the difference, the others below it.
    """
    size = len(QUESTIONS)
    near = np.diag([question + (difference if place % 2 else -difference) for place in range(size)])
    statements, both = np.eye(size) * statement, near * statement
    related = np.block([[np.eye(size), near, both], [near, np.eye(size), statements], [both, statements, np.eye(size)]])
    rows = np.linalg.cholesky(np.where(related == 0.0, unrelated, related)).tolist()
    return measure(rows[:size], rows[size : 2 * size], rows[2 * size :])


@pytest.mark.parametrize(("unrelated", "question"), [(0.05, 0.78), (0.15, 0.68)])
def test_a_model_that_differs_in_one_of_two_means_has_its_cosines_moved(unrelated: float, question: float) -> None:
    scales = _measured(unrelated, question, 0.86)
    assert scales.questions.of(unrelated) == pytest.approx(0.05)
    assert scales.questions.of(question) == pytest.approx(0.68)
    assert scales.statements.of(0.86) == pytest.approx(0.86)


def test_questions_have_to_stand_apart_by_three_standard_deviations() -> None:
    # The means are 0.5 apart, and only the cosines of pairs differ: they have half of the variance.
    one = 0.5 * np.sqrt(2)
    assert _measured(0.2, 0.7, 0.9, difference=one / 4).questions.of(0.7) == pytest.approx(0.68)
    assert _measured(0.2, 0.7, 0.9, difference=one / 2.8) == Scales()


def test_a_model_that_does_not_set_statements_apart_keeps_its_cosines() -> None:
    assert _measured(0.2, 0.7, 0.2) == Scales()


def test_a_cosine_is_neither_negative_nor_above_one() -> None:
    assert (cosine([1.0, 0.0], [-1.0, 0.0]), cosine([1.0001], [1.0001])) == (0.0, 1.0)
