"""The order of memories: how well each fits the question, how much it matters, and how new it is (requirement C10)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

import numpy as np

from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.collection import MemoryWeights
from groundwire.kernel.records import RecordFacts
from groundwire.retrieve.fusion import Floats, Scores

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
    influence = _influence(similarity)
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
    return ordered.with_relevance(relevance[order]), components


def _influence(similarity: Floats) -> Floats:
    best = float(similarity.max(initial=0.0))
    if best == 0.0:
        return np.ones(len(similarity))
    return np.clip((similarity / best - NO_INFLUENCE) / (FULL_INFLUENCE - NO_INFLUENCE), 0.0, 1.0)
