"""A document in short: the sentences that cover most of what it says, quoted in their order."""

import math
from collections import Counter
from collections.abc import Sequence

from groundwire.answer.evidence import Passage
from groundwire.answer.extractive.excerpt import Excerpt
from groundwire.answer.extractive.excerpts import find_excerpts
from groundwire.answer.extractive.weights import SUMMARY_EXCERPTS
from groundwire.kernel.sentences import BlockKind
from groundwire.kernel.words import content_stems

_SAME_SECTION = 0.5
"""What a further sentence of a section is worth, so that a summary goes through the document."""
_OPENS = 1.5
"""What the first sentence of a section is worth beside the others: it most often says what the section is about."""
_LEAST_GAIN = 0.15
"""Of the gain of the first sentence; what adds less is not worth its place."""


def summarise(passages: Sequence[Passage]) -> tuple[list[Excerpt], float]:
    """Return excerpts of one document in its order, at most SUMMARY_EXCERPTS, and what share of its words they cover.

    Sentences are chosen one after the other for the words they add, the more often the document has a word the more it
    counts (the greedy cover of Lin and Bilmes, "A class of submodular functions for document summarization", 2011).
    The share is weighted in the same way, in [0, 1]. `passages` are of one document, in any order.
    """
    ordered = sorted(passages, key=lambda passage: passage.span.start)
    often = Counter(content_stems(" ".join(passage.content for passage in ordered)))
    worth = {stem: math.log(count) for stem, count in often.items() if count > 1}
    candidates = [
        each
        for each in find_excerpts(ordered)
        if each.kind in {BlockKind.PROSE, BlockKind.LIST_ITEM}
        and not (each.leans or each.is_whole or each.is_joined or each.field_of)
    ]
    chosen: list[Excerpt] = []
    sections = Counter[tuple[str, str]]()
    covered: set[str] = set()

    def gain(each: Excerpt) -> float:
        new = sum(worth.get(stem, 0.0) for stem in each.stems - covered)
        place = (_OPENS if each.opens else 1.0) * _SAME_SECTION ** sections[each.passage.chapter, each.heading]
        return place * new / math.sqrt(len(each.text))

    first = 0.0
    while candidates and len(chosen) < SUMMARY_EXCERPTS:
        best = max(candidates, key=gain)
        if gain(best) <= _LEAST_GAIN * first:
            break
        first = max(first, gain(best))
        candidates.remove(best)
        chosen.append(best)
        covered |= best.stems
        sections[best.passage.chapter, best.heading] += 1
    chosen.sort(key=lambda each: each.passage.span.start + each.start)
    total = sum(worth.values())
    return chosen, sum(worth.get(stem, 0.0) for stem in covered) / total if total else 0.0
