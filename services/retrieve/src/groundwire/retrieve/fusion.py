"""Scores of candidates, column by column: similarity and words on one scale, and the order of memories (C10)."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.collection import MemoryWeights
from groundwire.kernel.records import RecordFacts

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]


class Score(NamedTuple):
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
        return replace(self, relevance=relevance).ordered()

    def take(self, at: NDArray[np.intp] | slice) -> "Scores":
        return Scores(*(None if column is None else column[at] for column in self._columns()))  # type: ignore[arg-type]  # in order

    def before(self, others: "Scores") -> "Scores":
        """Return these candidates and the others behind them."""
        columns: list[NDArray[Any] | None] = []
        for first, second in zip(self._columns(), others._columns(), strict=True):  # noqa: SLF001 - the same class
            if first is None and second is None:
                columns.append(None)
                continue
            head = np.full(len(self), np.nan) if first is None else first
            columns.append(np.concatenate([head, np.full(len(others), np.nan) if second is None else second]))
        return Scores(*columns)  # type: ignore[arg-type]  # in order

    def at(self, places: Sequence[int]) -> list[Score]:
        *columns, ranked, rerank = (None if each is None else each[places].tolist() for each in self._columns())
        optional = (
            [None] * len(places) if values is None else [None if math.isnan(each) else each for each in values]
            for values in (ranked, rerank)
        )
        return [Score(*row) for row in zip(*columns, *optional, strict=True)]

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
    return Scores(numbers, relevance, similarities, share, relevance).ordered()


NEUTRAL_IMPORTANCE = 3
"""Of what has none, such as a chunk of a document: the default of memories."""
MOST_IMPORTANT = 5
FULL_INFLUENCE = 0.95
"""Share of the best similarity from which importance and recency count in full."""
NO_INFLUENCE = 0.85
"""Share of the best similarity up to which they do not count. Among 2,000 memories fifty fit 0.8 times as well as the
best one: from there on the answer drowned among important ones (`benchmarks/quality.py memory`)."""
_MS_PER_DAY = 86_400_000.0


@dataclass(frozen=True, slots=True)
class MemoryScore:
    """How the place of a memory came about.

    raw = a * similarity + influence * (b * importance / 5 + W * 0.5^(age_days / H)) + update_bonus, with a, b, W and H
    those of `MemoryWeights`; `recency_bonus` is the last summand in brackets. `update_bonus` is what was missing to the
    best of the older memories that it contradicts. `similarity`, `influence` and `relevance`, which is
    raw / (a + b + W), are in [0, 1]. `age_days` is infinite, and the bonus 0, for what is no record.
    """

    similarity: float
    importance: int
    importance_share: float
    age_days: float
    recency_bonus: float
    influence: float
    raw: float
    relevance: float
    update_bonus: float


def rank_memories(
    scores: Scores,
    records: Mapping[int, RecordFacts],
    weights: MemoryWeights,
    now: datetime,
    contradictions: Mapping[int, Collection[int]] = MappingProxyType({}),
) -> tuple[Scores, Mapping[int, MemoryScore]]:
    """Return the candidates in the order of memories, with the components of each; ties newest first, then by number.

    `influence` grows from 0 at 0.85 of the best similarity to 1 at 0.95 of it, so that among memories that fit about
    equally well importance and recency decide as the formula says, and a memory that fits clearly worse than the best
    one never gets ahead of it, however important and new it is (requirement S0-34). Of two that contradict each other
    the newer one comes first.

    The relevance of the candidates is their similarity. `records` has those of them that are records,
    `contradictions` of each the numbers of those that contradict it; what is newer than `now` counts as new.
    """
    known = [records.get(number) for number in scores.numbers.tolist()]
    importance = np.array([(each and each.importance) or NEUTRAL_IMPORTANCE for each in known], dtype=np.int64)
    times = np.array([-np.inf if each is None else each.time for each in known], dtype=np.float64)
    similarity, share = scores.relevance, importance / MOST_IMPORTANT
    age_days = np.maximum(0.0, epoch_ms(now) - times) / _MS_PER_DAY
    bonus = weights.recency * np.exp2(-age_days / weights.half_life_days)
    best = float(similarity.max(initial=0.0))
    if best == 0.0:
        influence = np.ones(len(similarity))
    else:
        influence = np.clip((similarity / best - NO_INFLUENCE) / (FULL_INFLUENCE - NO_INFLUENCE), 0.0, 1.0)
    own = weights.similarity * similarity + influence * (weights.importance * share + bonus)
    raw, place = own.copy(), {number: at for at, number in enumerate(scores.numbers.tolist())}
    # The oldest first, so that the newest of several gets what each of them has.
    for at in np.argsort(times, kind="stable").tolist() if contradictions else ():
        others = [place[each] for each in contradictions.get(int(scores.numbers[at]), ()) if each in place]
        raw[at] = max([raw[at], *(raw[other] for other in others if times[other] < times[at])])
    # Divided, not cut off at 1, so that the order stays and nothing ties that did not before (requirement C10).
    relevance = np.minimum(raw / (weights.similarity + weights.importance + weights.recency), 1.0)
    order = np.lexsort((scores.numbers, -times, -raw))
    columns = (similarity, importance, share, age_days, bonus, influence, raw, relevance, raw - own)
    rows = zip(*(column[order].tolist() for column in columns), strict=True)
    ordered = scores.take(order)
    components = dict(zip(ordered.numbers.tolist(), (MemoryScore(*row) for row in rows), strict=True))
    return replace(ordered, relevance=relevance[order]), components
