"""What raises candidates after the fusion: their chapter, the section a query names, a better neighbour."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from groundwire.kernel.hit import StoredChunk
from groundwire.retrieve.domain.chapter_rules import ChapterRules, add_support
from groundwire.retrieve.domain.fusion import FusedScore
from groundwire.retrieve.domain.query_types import QueryStrategy
from groundwire.retrieve.domain.section_reference import SectionReference

SECTION_SHARE = 0.3
"""How much of what is missing to 1 the chunks of a named section gain."""


def adjust(
    scores: Sequence[FusedScore],
    live: Mapping[int, StoredChunk],
    rules: ChapterRules,
    strategy: QueryStrategy,
    window: int,
) -> list[FusedScore]:
    """Return the scores with all adjustments, each of which only raises, within [0, 1].

    Args:
        scores: best first; the first `window` of them are in `live`, with `rules` or a section all are.
        live: the chunks by number.
        rules: see `add_support`.
        strategy: what the type of the query changes.
        window: how many of the best can be neighbours of one another.

    Returns:
        Best first; ties by lexical score, then by chunk number.
    """
    adjusted = add_support(scores, live, rules.support)
    if strategy.section is not None:
        adjusted = _ordered(_prefer(score, live[score.number], strategy.section) for score in adjusted)
    if strategy.neighbour_share > 0.0:
        near = _follow_neighbours(adjusted[:window], live, strategy.neighbour_share)
        adjusted = _ordered([*near, *adjusted[window:]])
    return adjusted


def needs_all_chunks(rules: ChapterRules, strategy: QueryStrategy) -> bool:
    """Tell whether adjustments look at every candidate, not only at the best."""
    return rules != ChapterRules() or strategy.section is not None


def _prefer(score: FusedScore, stored: StoredChunk, section: SectionReference) -> FusedScore:
    headings = (stored.chunk.chapter, stored.chunk.section or "", *stored.chunk.hierarchy_path)
    if not section.means(heading for heading in headings if heading):
        return score
    return replace(score, relevance=score.relevance + SECTION_SHARE * (1.0 - score.relevance))


def _follow_neighbours(scores: Sequence[FusedScore], live: Mapping[int, StoredChunk], share: float) -> list[FusedScore]:
    """Raise each chunk by `share` of the distance to its best neighbour, the chunk before or after it."""
    at = {_place(live[score.number]): score.relevance for score in scores}
    raised = []
    for score in scores:
        document, sequence = _place(live[score.number])
        best = max(at.get((document, sequence + step), 0.0) for step in (-1, 1))
        raised.append(replace(score, relevance=score.relevance + share * max(0.0, best - score.relevance)))
    return raised


def _place(stored: StoredChunk) -> tuple[str, int]:
    return stored.document.document_id, stored.chunk.sequence_num


def _ordered(scores: Iterable[FusedScore]) -> list[FusedScore]:
    return sorted(scores, key=lambda score: (-score.relevance, -score.lexical, score.number))
