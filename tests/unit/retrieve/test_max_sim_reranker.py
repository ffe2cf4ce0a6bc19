"""The reranker on the token vectors of the default model."""

import pytest

from groundwire.embedders.token_vectors import TokenVectors
from groundwire.kernel.budget import Budget
from groundwire.retrieve.reranker import open_reranker


def test_token_vectors_put_the_passage_first_that_answers_word_by_word() -> None:
    reranker = open_reranker("max-sim:all-MiniLM-L6-v2", TokenVectors)
    assert reranker is not None
    passages = [
        "Foxes are small to medium-sized omnivorous mammals.",
        "The vixen feeds her cubs in the den for the first four weeks.",
        "The owner of the house pays the tax within four weeks.",
    ]
    scores = reranker.score("How long does a mother fox nurse her young?", passages, Budget(60))
    assert max(scores) == scores[1]
    assert all(0.0 <= score <= 1.0 for score in scores)
    alone = [reranker.score("How long does a mother fox nurse her young?", [each], Budget(60))[0] for each in passages]
    assert alone == pytest.approx(list(scores), abs=1e-4)
    assert reranker.score("?", [""], Budget(60)) == [0.0]
