"""How the chapters of a collection weigh in when its chunks are ranked and selected."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from groundwire.kernel.collection import ProfileName, SearchMode
from groundwire.kernel.hit import StoredChunk
from groundwire.retrieve.domain.fusion import FusedScore

_WITNESSES = 2


@dataclass(frozen=True, slots=True)
class ChapterRules:
    """How much chapters count.

    `support` in [0, 1] is the share of a chunk's relevance that its chapter decides. `spread` in [0, 1] is what each
    further chunk of a chapter must be better by to be selected, as a share of the range of all relevances.
    """

    support: float = 0.0
    spread: float = 0.0


CHAPTER_RULES: Mapping[ProfileName, ChapterRules] = MappingProxyType(
    {ProfileName.BOOK: ChapterRules(support=0.7, spread=0.4)}
)
"""Measured on a book with `benchmarks/quality.py book`, where five chunks of one chapter answer fewer questions than
chunks of five chapters. Other profiles rank chunk by chunk."""


def rules_for(profile: ProfileName, mode: SearchMode) -> ChapterRules:
    """Return the rules of a profile; searches by one retriever alone rank by its score and nothing else."""
    return CHAPTER_RULES.get(profile, ChapterRules()) if mode is SearchMode.HYBRID else ChapterRules()


def add_support(scores: Sequence[FusedScore], live: Mapping[int, StoredChunk], share: float) -> list[FusedScore]:
    """Raise chunks whose chapter has a second good chunk.

    relevance' = (1 - share) * relevance + share * (mean of the chapter's two best relevances). A chapter
    with one candidate counts the lowest relevance of all as its second, unless its document has no other
    chunk. The value stays within the range of the relevances before.

    Args:
        scores: of live chunks.
        live: the chunks by number.
        share: in [0, 1]; 0 changes nothing.

    Returns:
        Best first; ties by lexical score, then by chunk number.
    """
    if not scores or share == 0.0:
        return list(scores)
    lowest = min(score.relevance for score in scores)
    of_chapter: dict[tuple[str, str], list[float]] = defaultdict(list)
    for score in scores:
        of_chapter[chapter_key(live[score.number])].append(score.relevance)
    raised = []
    for score in scores:
        chapter = _mean_of_best(of_chapter, live[score.number], lowest)
        raised.append(replace(score, relevance=(1.0 - share) * score.relevance + share * chapter, chapter=chapter))
    return sorted(raised, key=lambda score: (-score.relevance, -score.lexical, score.number))


def chapter_key(stored: StoredChunk) -> tuple[str, str]:
    """Return what chunks of one chapter of one document have in common."""
    return stored.document.document_id, stored.chunk.chapter


def _mean_of_best(of_chapter: Mapping[tuple[str, str], list[float]], stored: StoredChunk, lowest: float) -> float:
    best = sorted(of_chapter[chapter_key(stored)], reverse=True)[:_WITNESSES]
    wanted = min(_WITNESSES, stored.document.chunk_count)
    return (sum(best) + lowest * (wanted - len(best))) / wanted
