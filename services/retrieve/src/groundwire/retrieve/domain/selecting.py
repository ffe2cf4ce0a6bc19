"""Which of the ranked candidates become results: the best, unless they resemble what is already selected."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from groundwire.kernel.embedder import Vectors
from groundwire.kernel.hit import StoredChunk
from groundwire.retrieve.domain.chapter_rules import chapter_key
from groundwire.retrieve.domain.fusion import FusedScore


@dataclass(frozen=True, slots=True)
class Selected:
    """A candidate that becomes a result; `step` counts from 1, `penalty` is what it lost when it was selected."""

    score: FusedScore
    stored: StoredChunk
    step: int
    penalty: float


def select(
    candidates: Sequence[tuple[FusedScore, StoredChunk]],
    top_k: int,
    spread: float,
    diversity: float,
    vectors: Mapping[int, Vectors],
) -> list[Selected]:
    """Select up to `top_k` candidates one after the other, each time the one with the highest relevance less penalty.

    penalty = spread * range * n + diversity * s, where range is the difference between the relevances of the first
    and the last candidate, n the number of results already selected of the candidate's chapter, and s its largest
    similarity to a result already selected (the greedy selection of Carbonell, Goldstein, "The Use of MMR", SIGIR
    1998; chapters as in requirement Q6's measurements).

    Args:
        candidates: best first.
        top_k: at least 1.
        spread: in [0, 1].
        diversity: in [0, 1].
        vectors: of candidates by number, of length 1; one without resembles nothing.

    Returns:
        Falling relevance, in the order of the candidates.
    """
    if (spread == 0.0 and diversity == 0.0) or len(candidates) <= top_k:
        return [Selected(score, stored, step, 0.0) for step, (score, stored) in enumerate(candidates[:top_k], start=1)]
    penalties = _Penalties(candidates, spread, diversity, vectors)
    left, chosen = list(range(len(candidates))), {}
    for step in range(1, top_k + 1):
        best = max(left, key=lambda at: candidates[at][0].relevance - penalties.of(at))
        left.remove(best)
        chosen[best] = Selected(*candidates[best], step, penalties.of(best))
        penalties.select(best)
    return [chosen[at] for at in sorted(chosen)]


class _Penalties:
    """What each candidate loses by what has been selected so far."""

    def __init__(
        self,
        candidates: Sequence[tuple[FusedScore, StoredChunk]],
        spread: float,
        diversity: float,
        vectors: Mapping[int, Vectors],
    ) -> None:
        self._per_chunk = spread * (candidates[0][0].relevance - candidates[-1][0].relevance)
        self._diversity = diversity
        self._chapters = [chapter_key(stored) for _, stored in candidates]
        self._vectors = [vectors.get(score.number) for score, _ in candidates]
        self._nearest = [0.0] * len(candidates)
        self._taken: Counter[tuple[str, str]] = Counter()

    def of(self, at: int) -> float:
        return self._per_chunk * self._taken[self._chapters[at]] + self._diversity * self._nearest[at]

    def select(self, at: int) -> None:
        self._taken[self._chapters[at]] += 1
        selected = self._vectors[at]
        if self._diversity > 0.0 and selected is not None:
            for other, vector in enumerate(self._vectors):
                if vector is not None:
                    self._nearest[other] = max(self._nearest[other], float(np.dot(selected, vector)))
