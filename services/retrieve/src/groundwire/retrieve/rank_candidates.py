"""Rank candidates: fuse, join with the catalog, keep each text once, and go deeper while results are missing."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from groundwire.kernel.budget import Budget
from groundwire.retrieve.domain.adjusting import adjust, needs_all_chunks
from groundwire.retrieve.domain.fusion import FusedScore, fuse
from groundwire.retrieve.domain.ranking import Ranking, rank
from groundwire.retrieve.domain.screening import Objection
from groundwire.retrieve.domain.searching import SearchCounts, SearchPlan
from groundwire.retrieve.find_candidates import Candidates, FindCandidates

_JOINED_PER_RESULT = 3
_JOINED_AT_LEAST = 16


@dataclass(frozen=True, slots=True)
class RankCandidates:
    """Ranks the candidates of one search; `pool_size` candidates are asked of each leg at first."""

    find_candidates: FindCandidates
    pool_size: int

    def __call__(self, plan: SearchPlan, budget: Budget, *, collapse: bool) -> tuple[Ranking, SearchCounts]:
        """Return at least `plan.top_k` live candidates, best first, or all there are.

        Raises:
            StoreUnavailableError: the engine failed.
        """
        depth = max(self.pool_size, 2 * plan.top_k)
        if not needs_all_chunks(plan.rules, plan.strategy):
            found = self._from_the_top(plan, self.find_candidates(plan, depth), collapse=collapse)
            if found is not None:
                return found
        while True:
            candidates, live, stale = self.find_candidates.live(plan, depth, budget)
            scores = fuse(candidates.similarities, candidates.lexical, plan.dense_weight)
            adjusted = adjust(scores, live, plan.rules, plan.strategy, _window(plan))
            ranking = rank(adjusted, live, collapse=collapse, screen=plan.screen)
            if candidates.exhausted or len(ranking.candidates) >= plan.top_k:
                return ranking, _counts(plan, [score for score, _ in ranking.candidates], ranking, stale)
            depth *= 2

    def _from_the_top(
        self, plan: SearchPlan, candidates: Candidates, *, collapse: bool
    ) -> tuple[Ranking, SearchCounts] | None:
        """Join only the best candidates, which is nearly always enough and five times cheaper than all of them.

        None when one of them is not live, since then more may be, or when too few are left.
        """
        scores = fuse(candidates.similarities, candidates.lexical, plan.dense_weight)
        top = scores[: _window(plan)]
        live = self.find_candidates.join(plan, [score.number for score in top])
        is_all = candidates.exhausted and len(top) == len(scores)
        if len(live) < len(top):
            return None
        adjusted = adjust(top, live, plan.rules, plan.strategy, len(top))
        ranking = rank(adjusted, live, collapse=collapse, screen=plan.screen)
        if len(ranking.candidates) < plan.top_k and not is_all:
            return None
        return ranking, _counts(plan, scores, ranking, stale=0)


def _window(plan: SearchPlan) -> int:
    """Return how many of the best candidates are looked at as chunks, not only as scores."""
    return max(_JOINED_AT_LEAST, _JOINED_PER_RESULT * plan.top_k)


def _counts(plan: SearchPlan, scores: Sequence[FusedScore], ranking: Ranking, stale: int) -> SearchCounts:
    below = sum(score.relevance < plan.min_relevance for score in scores)
    objections = Counter(ranking.withheld.values())
    return SearchCounts(
        candidates=len(scores) + stale,
        stale=stale,
        duplicates=ranking.duplicates,
        below_threshold=below,
        rejected=objections[Objection.SOURCE_REJECTED],
        incomplete=objections[Objection.INCOMPLETE],
    )
