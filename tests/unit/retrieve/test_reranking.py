"""What a reranker's judgement does to the order."""

from collections.abc import Sequence

import pytest

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CallCancelledError
from groundwire.retrieve.ranking import rerank
from tests.unit.retrieve.ranked_chunks import scores_of


class ByLength:
    """Judges a passage by its length."""

    name = "length"

    def score(self, query: str, passages: Sequence[str], budget: Budget) -> Sequence[float]:
        return [len(passage) for passage in passages]


def _reranked(relevances: dict[int, float], passages: Sequence[str], budget: Budget | None = None) -> dict[int, float]:
    scores = rerank(ByLength(), 0.5, "q", scores_of(relevances), passages, budget or Budget())
    return dict(zip(scores.numbers.tolist(), scores.relevance.tolist(), strict=True))


def test_the_judged_are_ordered_anew_on_the_scale_of_their_relevance() -> None:
    found = _reranked({1: 0.8, 2: 0.7, 3: 0.6, 4: 0.1}, ["a", "aaaa", "aaa"])
    assert list(found) == [2, 1, 3, 4]
    assert found == pytest.approx({2: 0.75, 1: 0.7, 3: 0.6 + 1 / 15, 4: 0.1})


def test_one_candidate_alone_is_not_judged() -> None:
    scores = scores_of({1: 0.8, 2: 0.4})
    assert rerank(ByLength(), 0.5, "q", scores, ["a"], Budget()) is scores


def test_the_order_stays_where_all_are_judged_alike() -> None:
    assert list(_reranked({1: 0.8, 2: 0.4}, ["a", "b"])) == [1, 2]


def test_a_cancelled_call_is_judged_no_further() -> None:
    budget = Budget()
    budget.cancel()
    with pytest.raises(CallCancelledError):
        _reranked({1: 0.8, 2: 0.4}, ["a", "b"], budget)
