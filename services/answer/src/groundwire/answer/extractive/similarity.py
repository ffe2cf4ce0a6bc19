"""How similar excerpts are to the question: the model is asked about a few, the others are estimated."""

from collections.abc import Sequence

from groundwire.answer.extractive.excerpts import Excerpt
from groundwire.answer.extractive.question import Question
from groundwire.answer.extractive.scoring import Scored, score_excerpts
from groundwire.answer.extractive.weights import ESTIMATE, MAX_EMBEDDED, RANKING, TESTED_PASSAGES


def estimate_similarities(question: Question, excerpts: Sequence[Excerpt]) -> tuple[list[float], list[int]]:
    """Return an estimate in [0, 1] of the similarity of each excerpt, and the indexes of those to ask the model about.

    These are the ones that score best by their estimates: first the best of each passage that may lead the answer, then
    others, at most `MAX_EMBEDDED`. The model takes nearly all the time of an answer, in proportion to what it reads.
    """
    scored = score_excerpts(question, excerpts, [0.0] * len(excerpts))
    estimates = [_estimate(each) for each in scored]
    value = [each.score + RANKING.similarity * estimate for each, estimate in zip(scored, estimates, strict=True)]
    best_first = sorted(range(len(excerpts)), key=lambda index: (-value[index], index))
    of_passages: dict[int, int] = {}
    for index in best_first:
        of_passages.setdefault(excerpts[index].passage.chunk_number, index)
    leading = list(of_passages.values())[:TESTED_PASSAGES]
    return estimates, list(dict.fromkeys([*leading, *best_first]))[:MAX_EMBEDDED]


def _estimate(scored: Scored) -> float:
    passage = scored.excerpt.passage
    value = (
        ESTIMATE.bias
        + ESTIMATE.coverage * scored.coverage
        + ESTIMATE.relevance * passage.relevance
        + ESTIMATE.rank / passage.rank
    )
    return min(1.0, max(0.0, value))
