"""The reranker on the token vectors of the default model."""

import re
from collections.abc import Sequence

import numpy as np
import pytest

from groundwire.embedders.token_vectors import TokenVectors
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.retrieve.reranker import open_reranker


class _Axes:
    """Gives each word of a text an axis of its own."""

    _words = ("the", "fox", "hen", "?")

    def __init__(self, name: str) -> None:
        self.name = name

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return [found.span() for found in re.finditer(r"\S+", text)]

    def of(self, texts: Sequence[str]) -> list[Vectors]:
        return [np.eye(4, dtype=np.float32)[[self._words.index(word) for word in text.split()]] for text in texts]


def test_words_that_every_passage_has_do_not_count_unless_there_are_no_others() -> None:
    reranker = open_reranker("max-sim:axes", _Axes)
    assert reranker is not None
    assert reranker.score("the fox ?", ["the hen ?", "fox", ""], Budget(60)) == [0.0, 1.0, 0.0]
    assert reranker.score("the ?", ["the hen", "fox"], Budget(60)) == [0.5, 0.0]
    assert reranker.score("", ["the hen", "fox"], Budget(60)) == [0.0, 0.0]


def test_token_vectors_put_the_passage_first_that_answers_word_by_word() -> None:
    reranker = open_reranker("max-sim:all-MiniLM-L6-v2", TokenVectors)
    assert reranker is not None
    passages = [
        "Foxes are small to medium-sized omnivorous mammals.",
        "The vixen feeds her cubs in the den for the first four weeks.",
        "The owner of the house pays the tax within four weeks.",
    ]
    scores = reranker.score("How long does a mother fox nurse her young?", passages, Budget(60))
    assert scores[1] > max(scores[0], scores[2])
    assert all(0.0 <= score <= 1.0 for score in scores)
    alone = [reranker.score("How long does a mother fox nurse her young?", [each], Budget(60))[0] for each in passages]
    assert alone == pytest.approx(list(scores), abs=1e-4)
    assert reranker.score("?", [""], Budget(60)) == [0.0]
