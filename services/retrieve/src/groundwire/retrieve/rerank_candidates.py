"""Let a model that reads query and passage together order the best candidates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from groundwire.kernel.budget import Budget
from groundwire.kernel.hit import StoredChunk
from groundwire.retrieve.domain.fusion import FusedScore
from groundwire.retrieve.ports import Reranker

_BATCH = 8
"""Passages judged between two looks at deadline and cancellation."""


@dataclass(frozen=True, slots=True)
class RerankCandidates:
    """Orders the `depth` best candidates; `weight` in [0, 1] is the share of the reranker in their relevance."""

    reranker: Reranker
    depth: int
    weight: float

    def __call__(
        self, query: str, scores: Sequence[FusedScore], live: Mapping[int, StoredChunk], budget: Budget
    ) -> list[FusedScore]:
        """Return the scores, best first, the best of them judged anew.

        relevance' = (1 - w) * relevance + w * (r_min + j * (r_max - r_min)), with j the reranker's score brought to
        0 for the worst and 1 for the best, and r_min, r_max over the relevances of the judged: the value stays on the
        scale of the similarity, as in the fusion.
        """
        best = [score for score in scores[: self.depth] if score.number in live]
        if len(best) < 2:  # noqa: PLR2004 - one candidate has no order
            return list(scores)
        judged = self._judge(query, [live[score.number].chunk.content for score in best], budget)
        low, high = best[-1].relevance, best[0].relevance
        worst, span = min(judged), (max(judged) - min(judged)) or 1.0
        moved = []
        for score, raw in zip(best, judged, strict=True):
            share = (raw - worst) / span
            relevance = (1.0 - self.weight) * score.relevance + self.weight * (low + share * (high - low))
            moved.append(replace(score, relevance=relevance, ranked=score.relevance, rerank=share))
        numbers = {score.number for score in best}
        rest = [score for score in scores if score.number not in numbers]
        return sorted([*moved, *rest], key=lambda score: (-score.relevance, -score.lexical, score.number))

    def _judge(self, query: str, passages: Sequence[str], budget: Budget) -> list[float]:
        judged: list[float] = []
        for start in range(0, len(passages), _BATCH):
            budget.check()
            judged.extend(map(float, self.reranker.score(query, passages[start : start + _BATCH], budget)))
        return judged
