"""Bring similarities and lexical scores onto one scale; scores are columns, so that ranking works on numbers alone."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Score:
    """The scores of one candidate, all in [0, 1], higher is better.

    `lexical` is the share of the best lexical score of the query, 0 when no term matched. `relevance` is what
    results are ordered by: the fused score, to which later steps add. `fused` keeps the fused score, `ranked` the
    relevance before the reranker and `rerank` the reranker's score; None where the step did not run.
    """

    number: int
    relevance: float
    similarity: float
    lexical: float
    fused: float
    ranked: float | None = None
    rerank: float | None = None


@dataclass(frozen=True, slots=True)
class Scores:
    """The scores of candidates column by column, each of shape (n,); see `Score`.

    Of `ranked` and `rerank` a column is None when the step did not run, a value NaN when it left out the
    candidate.
    """

    numbers: Numbers
    relevance: Floats
    similarity: Floats
    lexical: Floats
    fused: Floats
    ranked: Floats | None = None
    rerank: Floats | None = None

    def __len__(self) -> int:
        return len(self.numbers)

    def ordered(self) -> "Scores":
        """Return the candidates best first; ties by lexical score, then by chunk number."""
        return self.take(np.lexsort((self.numbers, -self.lexical, -self.relevance)))

    def raised(self, relevance: Floats) -> "Scores":
        """Return the candidates with another relevance, best first."""
        return self.with_relevance(relevance).ordered()

    def with_relevance(self, relevance: Floats) -> "Scores":
        """Return the candidates with another relevance, in the same order."""
        return replace(self, relevance=relevance)

    def take(self, at: NDArray[np.intp] | NDArray[np.bool_]) -> "Scores":
        """Return the candidates at these places."""
        return Scores(*(None if column is None else column[at] for column in self._columns()))  # type: ignore[arg-type]  # in order

    def before(self, others: "Scores") -> "Scores":
        """Return these candidates and the others behind them."""

        def joined(first: Floats | None, second: Floats | None) -> Floats | None:
            if first is None and second is None:
                return None
            head = np.full(len(self), np.nan) if first is None else first
            return np.concatenate([head, np.full(len(others), np.nan) if second is None else second])

        columns = zip(self._columns(), others._columns(), strict=True)  # noqa: SLF001 - the same class
        return Scores(*(joined(*pair) for pair in columns))  # type: ignore[arg-type]  # in order

    def score(self, at: int) -> Score:
        """Return the scores of the candidate at a place."""
        ranked, rerank = (
            None if column is None or np.isnan(column[at]) else float(column[at])
            for column in (self.ranked, self.rerank)
        )
        return Score(
            number=int(self.numbers[at]),
            relevance=float(self.relevance[at]),
            similarity=float(self.similarity[at]),
            lexical=float(self.lexical[at]),
            fused=float(self.fused[at]),
            ranked=ranked,
            rerank=rerank,
        )

    def _columns(self) -> tuple[Numbers | Floats | None, ...]:
        first = (self.numbers, self.relevance, self.similarity, self.lexical, self.fused)
        return *first, self.ranked, self.rerank


def fuse(numbers: Numbers, similarities: Floats | None, lexical: Floats, dense_weight: float) -> Scores:
    """Merge similarities and lexical scores by a weighted sum of scores normalised per query.

    relevance = w * s + (1 - w) * (s_min + l * (s_max - s_min)), with s the similarity, l the lexical score
    divided by the best one, and s_min, s_max over all candidates. The order is that of the min-max
    normalised sum (Bruch, Gai, Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS
    2023, section 4), while the value stays on the scale of the similarity, so that thresholds keep their meaning.

    `similarities`, in [0, 1], are None when nothing was compared; then the lexical share alone is the relevance.
    `lexical` has BM25 scores, 0 where no term matched. `dense_weight` is w in [0, 1].

    Returns:
        Best first; ties by lexical score, then by chunk number.
    """
    best = float(lexical.max(initial=0.0))
    share = lexical / best if best > 0.0 else np.zeros(len(numbers))
    if similarities is None:
        return Scores(numbers, share, np.zeros(len(numbers)), share, share).ordered()
    low, high = (float(similarities.min()), float(similarities.max())) if len(similarities) else (0.0, 0.0)
    relevance = dense_weight * similarities + (1.0 - dense_weight) * (low + share * (high - low))
    # Rounding may lead out of the unit range by a bit.
    bounded = np.clip(relevance, 0.0, 1.0)
    return Scores(numbers, bounded, similarities, share, bounded).ordered()
