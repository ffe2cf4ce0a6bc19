"""Rank candidates: fuse, join with the catalog, keep each text once, and go deeper while results are missing."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from groundwire.kernel.budget import Budget
from groundwire.kernel.hit import StoredChunk
from groundwire.retrieve.domain.adjusting import adjust, needs_all_chunks
from groundwire.retrieve.domain.fusion import FusedScore, fuse, fuse_words
from groundwire.retrieve.domain.ranking import Ranking, rank
from groundwire.retrieve.domain.screening import Objection
from groundwire.retrieve.domain.searching import SearchCounts, SearchPlan, StageKind, StageTrace
from groundwire.retrieve.rerank_candidates import RerankCandidates
from groundwire.retrieve.retrievers import Candidates, Retrievers

_JOINED_PER_RESULT = 3
_JOINED_AT_LEAST = 16
_JOINED_FOR_DIVERSITY = 50
_SPARE = 2
"""Candidates looked at beyond the results, for those that repeat others."""


@dataclass(frozen=True, slots=True)
class Ranked:
    """What was ranked: all scores best first, those of candidates that may become results, and the candidates."""

    ranking: Ranking
    scores: Sequence[FusedScore]
    candidates: Candidates
    live: Mapping[int, StoredChunk]
    stale: int

    def counts(self, min_relevance: float) -> SearchCounts:
        """Count what became of the candidates."""
        objections = Counter(self.ranking.withheld.values())
        return SearchCounts(
            candidates=len(self.scores) + self.stale,
            stale=self.stale,
            duplicates=len(self.ranking.repeated),
            below_threshold=sum(score.relevance < min_relevance for score in self.scores),
            rejected=objections[Objection.SOURCE_REJECTED],
            incomplete=objections[Objection.INCOMPLETE],
        )


@dataclass(frozen=True, slots=True)
class RankCandidates:
    """Ranks the candidates of one search; `pool_size` candidates are asked of each retriever at first."""

    pool_size: int
    rerank: RerankCandidates | None = None

    def depth(self, top_k: int, *, is_hybrid: bool) -> int:
        """Return how many candidates each retriever brings at first; one alone needs little more than the results."""
        return max(self.pool_size if is_hybrid else _JOINED_AT_LEAST, 2 * top_k)

    def __call__(
        self, retrievers: Retrievers, plan: SearchPlan, query: str, budget: Budget, *, collapse: bool
    ) -> Ranked:
        """Return at least `plan.top_k` live candidates, best first, or all there are.

        Raises:
            StoreUnavailableError: the engine failed.
        """
        depth = self.depth(plan.top_k, is_hybrid=plan.is_hybrid)
        if not needs_all_chunks(plan.rules, plan.strategy):
            found = self._from_the_top(retrievers, plan, query, depth, budget, collapse=collapse)
            if found is not None:
                return found
        while True:
            candidates, live, stale = retrievers.live(plan, depth, budget)
            scores = _fused(candidates, plan)
            scores = self._order(retrievers, plan, query, scores, live, budget)
            ranking = rank(scores, live, collapse=collapse, screen=plan.screen)
            if candidates.exhausted or len(ranking.candidates) >= plan.top_k:
                return Ranked(ranking, scores, candidates, live, stale)
            depth *= 2

    def _from_the_top(
        self, retrievers: Retrievers, plan: SearchPlan, query: str, depth: int, budget: Budget, *, collapse: bool
    ) -> Ranked | None:
        """Join only the best candidates, which is nearly always enough and five times cheaper than all of them.

        None when one of them is not live, since then more may be, or when too few are left.
        """
        candidates = retrievers.candidates(plan, depth)
        scores = _fused(candidates, plan)
        for window in sorted({self._first_window(plan), self._window(plan)}):
            found = self._within(retrievers, plan, query, candidates, scores, window, budget, collapse=collapse)
            if found is not None:
                return found
        return None

    def _within(
        self,
        retrievers: Retrievers,
        plan: SearchPlan,
        query: str,
        candidates: Candidates,
        scores: Sequence[FusedScore],
        window: int,
        budget: Budget,
        *,
        collapse: bool,
    ) -> Ranked | None:
        top = scores[:window]
        live = retrievers.join([score.number for score in top])
        is_all = candidates.exhausted and len(top) == len(scores)
        if len(live) < len(top):
            return None
        top = self._order(retrievers, plan, query, top, live, budget)
        ranking = rank(top, live, collapse=collapse, screen=plan.screen)
        if len(ranking.candidates) < plan.top_k and not is_all:
            return None
        return Ranked(ranking, [*top, *scores[len(top) :]], candidates, live, stale=0)

    def _order(
        self,
        retrievers: Retrievers,
        plan: SearchPlan,
        query: str,
        scores: Sequence[FusedScore],
        live: Mapping[int, StoredChunk],
        budget: Budget,
    ) -> list[FusedScore]:
        adjusted = adjust(scores, live, plan.rules, plan.strategy, min(len(scores), self._window(plan)))
        if not plan.reranks or self.rerank is None:
            return adjusted
        started = time.perf_counter()
        judged = self.rerank(query, adjusted, live, budget)
        elapsed = time.perf_counter() - started
        retrievers.trace[StageKind.RERANK] = StageTrace(StageKind.RERANK, min(self.rerank.depth, len(judged)), elapsed)
        return judged

    def _first_window(self, plan: SearchPlan) -> int:
        """Return how many are looked at first: where chunks do not change one another's rank, few more than results."""
        is_plain = plan.strategy.neighbour_share == 0.0 and plan.diversity == 0.0 and not plan.reranks
        return plan.top_k + _SPARE if is_plain else self._window(plan)

    def _window(self, plan: SearchPlan) -> int:
        """Return how many of the best candidates are looked at as chunks, not only as scores."""
        judged = self.rerank.depth if plan.reranks and self.rerank is not None else 0
        diverse = _JOINED_FOR_DIVERSITY if plan.diversity > 0.0 else 0
        return max(_JOINED_AT_LEAST, _JOINED_PER_RESULT * plan.top_k, judged, diverse)


def _fused(candidates: Candidates, plan: SearchPlan) -> list[FusedScore]:
    if plan.vector is None:
        return fuse_words(candidates.lexical)
    return fuse(candidates.similarities, candidates.lexical, plan.dense_weight)
