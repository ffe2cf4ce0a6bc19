"""How similar excerpts are to the question: the model is asked about a few, the others are estimated."""

from collections.abc import Sequence

from groundwire.answer.extractive.excerpt import Excerpt
from groundwire.answer.extractive.scoring import Scored, score_excerpts
from groundwire.answer.extractive.weights import ESTIMATE, MAX_BEHIND, MAX_EMBEDDED, TESTED_PASSAGES
from groundwire.answer.question import Question


def estimate_similarities(question: Question, excerpts: Sequence[Excerpt]) -> tuple[list[Scored], list[int]]:
    """Return the excerpts scored by estimates of their similarity, and the indexes of those to ask the model about.

    These are the ones that score best by their estimates: first the best of each passage that may lead the answer, then
    others, at most `MAX_EMBEDDED`, and none that scores so far below the best that its similarity would change nothing.
    The model takes most of the time of an answer, in proportion to what it reads.
    """
    scored = []
    for each in score_excerpts(question, excerpts, [0.0] * len(excerpts)):
        passage = each.excerpt.passage
        estimate = ESTIMATE.bias + ESTIMATE.coverage * each.coverage
        estimate += ESTIMATE.relevance * question.scale.of(passage.relevance) + ESTIMATE.rank / passage.rank
        scored.append(each.with_similarity(min(1.0, max(0.0, estimate))))
    best_first = sorted(range(len(excerpts)), key=lambda index: (-scored[index].score, index))
    of_passages: dict[int, int] = {}
    for index in best_first:
        of_passages.setdefault(excerpts[index].passage.chunk_number, index)
    leading = list(of_passages.values())[:TESTED_PASSAGES]
    asked = list(dict.fromkeys([*leading, *best_first]))[:MAX_EMBEDDED]
    least = max((each.score for each in scored), default=0.0) - MAX_BEHIND
    return scored, [index for index in asked if scored[index].score >= least]
