"""How a ranking came about, from what the steps of a search left behind."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from groundwire.kernel.hit import StoredChunk
from groundwire.retrieve.domain.fusion import FusedScore
from groundwire.retrieve.domain.ranking import Ranking
from groundwire.retrieve.domain.screening import Objection
from groundwire.retrieve.domain.searching import (
    ExplainedCandidate,
    Explanation,
    Fate,
    SearchHit,
    StageKind,
    StageTrace,
)
from groundwire.retrieve.domain.selecting import Selected

MAX_CANDIDATES = 100
_OBJECTIONS = {Objection.SOURCE_REJECTED: Fate.SOURCE_REJECTED, Objection.INCOMPLETE: Fate.INCOMPLETE}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the steps left behind.

    `scores` are all candidates, best first; `similarities` and `lexical` are in the order of their retrievers, of which
    the first `dense` similarities were found by the vectors. `live` has the visible candidates that were looked at.
    """

    scores: Sequence[FusedScore]
    similarities: Mapping[int, float]
    dense: int
    lexical: Mapping[int, float]
    live: Mapping[int, StoredChunk]
    ranking: Ranking
    selection: Sequence[Selected]
    hits: Sequence[SearchHit]
    min_relevance: float
    frequencies: Mapping[str, int]
    trace: Mapping[StageKind, StageTrace]
    rerank_weight: float
    engine: str


def listed(scores: Sequence[FusedScore], hits: Sequence[SearchHit]) -> list[int]:
    """Return the numbers of the candidates that an explanation lists: hits by rank, then near misses."""
    returned = [hit.stored.chunk_number for hit in hits]
    others = [score.number for score in scores if score.number not in set(returned)]
    return [*returned, *others][:MAX_CANDIDATES]


def explain(evidence: Evidence) -> Explanation:
    """Return the explanation; doing its arithmetic again gives the returned order."""
    by_number = {score.number: score for score in evidence.scores}
    similarities = list(evidence.similarities.values())
    describe = _Describer(evidence)
    return Explanation(
        stages=tuple(evidence.trace[kind] for kind in StageKind if kind in evidence.trace),
        candidates=tuple(describe(by_number[number]) for number in listed(evidence.scores, evidence.hits)),
        frequencies=evidence.frequencies,
        similarity_min=min(similarities, default=0.0),
        similarity_max=max(similarities, default=0.0),
        lexical_max=max(evidence.lexical.values(), default=0.0),
        candidate_count=len(evidence.scores),
        rerank_weight=evidence.rerank_weight,
        engine=evidence.engine,
    )


class _Describer:
    """Says of one candidate after the other what became of it."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        nearest = list(evidence.similarities)[: evidence.dense]
        self._dense_ranks = {number: rank for rank, number in enumerate(nearest, start=1)}
        self._lexical_ranks = {number: rank for rank, number in enumerate(evidence.lexical, start=1)}
        self._selected = {chosen.score.number: chosen for chosen in evidence.selection}
        self._ranks = {hit.stored.chunk_number: hit.rank for hit in evidence.hits}

    def __call__(self, score: FusedScore) -> ExplainedCandidate:
        number, chosen = score.number, self._selected.get(score.number)
        return ExplainedCandidate(
            score=score,
            fate=self._fate(score),
            stored=self._evidence.live.get(number),
            dense_rank=self._dense_ranks.get(number),
            lexical_rank=self._lexical_ranks.get(number),
            lexical_raw=self._evidence.lexical.get(number),
            rank=self._ranks.get(number),
            selection_step=chosen.step if chosen else None,
            penalty=chosen.penalty if chosen else 0.0,
            duplicate_of=self._evidence.ranking.repeated.get(number),
        )

    def _fate(self, score: FusedScore) -> Fate:
        number, ranking = score.number, self._evidence.ranking
        if number in self._ranks:
            return Fate.RETURNED
        if number not in self._evidence.live:
            return Fate.STALE
        if number in ranking.withheld:
            return _OBJECTIONS[ranking.withheld[number]]
        if number in ranking.repeated:
            return Fate.DUPLICATE
        return Fate.BELOW_THRESHOLD if score.relevance < self._evidence.min_relevance else Fate.BEYOND_TOP_K
