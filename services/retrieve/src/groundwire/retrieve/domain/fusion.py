"""Bring the scores of the dense and the lexical retriever onto one scale."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FusedScore:
    """The scores of one candidate, all in [0, 1], higher is better.

    `lexical` is the share of the best lexical score of the query, 0 when no term matched. `relevance` is what
    results are ordered by: the fused score, to which later steps add. `fused` keeps the fused score, `chapter` what
    the chapter contributed, `ranked` the relevance before the reranker and `rerank` the reranker's score; None where
    the step did not run.
    """

    number: int
    relevance: float
    similarity: float
    lexical: float
    fused: float = 0.0
    chapter: float | None = None
    ranked: float | None = None
    rerank: float | None = None


def fuse_words(lexical: Mapping[int, float]) -> list[FusedScore]:
    """Return the scores of a search by words whose query has no vector: the share of the best lexical score.

    Best first, ties by chunk number; the similarities are 0, since nothing was compared.
    """
    best = max(lexical.values(), default=1.0)
    scores = [
        FusedScore(number, score / best, 0.0, score / best, fused=score / best) for number, score in lexical.items()
    ]
    return sorted(scores, key=lambda score: (-score.relevance, score.number))


def fuse(similarities: Mapping[int, float], lexical: Mapping[int, float], dense_weight: float) -> list[FusedScore]:
    """Merge what two retrievers found by a weighted sum of scores normalised per query.

    relevance = w * s + (1 - w) * (s_min + l * (s_max - s_min)), with s the similarity, l the lexical score
    divided by the best one, and s_min, s_max over all candidates. The order is that of the min-max
    normalised sum (Bruch, Gai, Ingber, "An Analysis of Fusion Functions for Hybrid Retrieval", ACM TOIS
    2023, section 4), while the value stays on the scale of the similarity, so that thresholds keep their meaning.

    Args:
        similarities: chunk number to similarity in [0, 1], for every candidate.
        lexical: chunk number to positive lexical score, for those that matched a term; a subset of the candidates.
        dense_weight: w in [0, 1].

    Returns:
        Best first; ties by lexical score, then by chunk number.
    """
    if not similarities:
        return []
    low, high = min(similarities.values()), max(similarities.values())
    best = max(lexical.values(), default=0.0)
    scores = []
    for number, similarity in similarities.items():
        share = lexical.get(number, 0.0) / best if best > 0.0 else 0.0
        relevance = dense_weight * similarity + (1.0 - dense_weight) * (low + share * (high - low))
        bounded = min(1.0, max(0.0, relevance))
        scores.append(FusedScore(number, bounded, similarity, share, fused=bounded))
    return sorted(scores, key=lambda score: (-score.relevance, -score.lexical, score.number))
