"""Chooses the excerpts of an extractive answer, their order, and what else supports them."""

import re
from collections.abc import Mapping, Sequence

from groundwire.answer.extractive.cues import INTRODUCED_AS_TERM, defines, kind_match
from groundwire.answer.extractive.excerpts import Excerpt
from groundwire.answer.extractive.question import Question, QuestionKind
from groundwire.answer.extractive.scoring import Scored, covered, resemble
from groundwire.answer.extractive.weights import (
    ELSEWHERE_DROP,
    MAX_CORROBORATIONS,
    MAX_EXCERPTS,
    RANKING,
    SAME_LIST_DROP,
    SAME_PARAGRAPH_DROP,
    SHORT_LEAD_WORDS,
)
from groundwire.kernel.records import SOURCE_PREFIX
from groundwire.kernel.sentences import BlockKind
from groundwire.kernel.stems import NEGATION, stem, words

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
_ARTICLES = frozenset({"a", "an", "the"})


def select_excerpts(
    leads: Sequence[Scored], scored: Sequence[Scored], weights: Mapping[str, float], limit: int = MAX_EXCERPTS
) -> list[Scored]:
    """Return 1 to `limit` excerpts in the order to be read.

    The leads come in first, the best of them at the head. A further one comes in while its score is close to that of
    the best, it says something else, and it belongs there: it stands in a paragraph, list or table that is quoted, or
    it has words of the question that none chosen so far has. The best is read first, a sentence together with chosen
    sentences right before or after it; the others follow document by document, each in source order. Equal scores go by
    rank of the passage, then by place, so the choice is deterministic.

    Args:
        leads: the excerpt that leads the answer, and what belongs to it.
        scored: the excerpts, the best among them.
        weights: the stems of the question with their rarities.
        limit: most excerpts to return.
    """
    best, *_ = chosen = list(leads)
    # A whole list is an answer of its own, and none beside another.
    others = (
        [] if best.excerpt.is_whole else [each for each in scored if each not in chosen and not each.excerpt.is_whole]
    )
    while len(chosen) < limit:
        unmet = {stem: weight for stem, weight in weights.items() if not any(stem in c.excerpt.stems for c in chosen)}
        open_share = sum(unmet.values()) / sum(weights.values()) if unmet else 0.0
        worth = {}
        for each in others:
            is_beside = any(_shares_block(each, other) for other in chosen)
            if is_beside or not unmet.keys().isdisjoint(each.excerpt.stems):
                gain = RANKING.unmet * open_share * covered(unmet, each.excerpt.stems)
                worth[id(each)] = each.score + _allowance(each, is_beside) + gain
        fitting = [each for each in others if id(each) in worth and worth[id(each)] >= best.score]
        if not fitting:
            break
        candidate = min(fitting, key=lambda each: (-worth[id(each)], each.order()))
        others.remove(candidate)
        if not any(_says_the_same(candidate.excerpt, other.excerpt) for other in chosen):
            chosen.append(candidate)
    lead = [best]
    # Only sentences are read on from one another; a row of a table that was asked for comes before its neighbours.
    sentences = [item for item in chosen if item.excerpt.kind is best.excerpt.kind is BlockKind.PROSE]
    while earlier := [item for item in sentences if _continues(lead[0], item)]:
        lead.insert(0, earlier[0])
    while later := [item for item in sentences if _continues(item, lead[-1])]:
        lead.append(later[0])
    rest = [item for item in chosen if item not in lead]
    documents = list(dict.fromkeys(item.excerpt.passage.document_id for item in rest))
    rest.sort(key=lambda item: (documents.index(item.excerpt.passage.document_id), _source_position(item.excerpt)))
    return [*lead, *rest]


def of_each_side(question: Question, lead: Scored, scored: Sequence[Scored]) -> list[Scored]:
    """Return the lead of a comparison and, for each thing compared that it does not speak of, the best that does.

    That is a sentence that sets the two apart, or one that says what the thing is: texts seldom do the former. A whole
    list stands alone, as in `select_excerpts`.
    """
    chosen = [lead]
    if lead.excerpt.is_whole:
        return chosen
    both = frozenset().union(*question.sides)
    for side in question.sides:
        own = side.difference(*(other for other in question.sides if other != side)) or side
        if any(own <= each.excerpt.stems for each in chosen):
            continue
        speaking = [
            each
            for each in scored
            if not (each.excerpt.is_whole or any(_says_the_same(each.excerpt, other.excerpt) for other in chosen))
            and (
                (both <= each.excerpt.stems and kind_match(question, each.excerpt.text) > 0)
                or defines(side, each.excerpt.text, each.excerpt.text) >= INTRODUCED_AS_TERM
            )
        ]
        if speaking:
            chosen.append(min(speaking, key=Scored.order))
    return chosen


def in_full(question: Question, lead: Scored, scored: Sequence[Scored]) -> Scored:
    """Return a lead together with what it needs to be understood, where an excerpt has both, else as it is.

    A short definition such as "There is a command called check." says little without "It compiles the code.", and what
    introduces steps or code does not say how to do it without them.
    """
    one = lead.excerpt
    is_short = question.kind is QuestionKind.DEFINITION and len(words(one.text)) <= SHORT_LEAD_WORDS
    if one.kind is not BlockKind.PROSE or one.is_joined or not (is_short or question.kind is QuestionKind.PROCEDURE):
        return lead
    longer = [
        each
        for each in scored
        if (each.excerpt.passage.chunk_number, each.excerpt.start) == (one.passage.chunk_number, one.start)
        and each.excerpt.is_joined == is_short
        and each is not lead
    ]
    return min(longer, key=Scored.order, default=lead)


def corroborations(claim: Excerpt, scored: Sequence[Scored]) -> list[Scored]:
    """Return at most `MAX_CORROBORATIONS` excerpts that say the same, one of each other document, best first.

    The same means the same words in the same order, whatever their endings, and the same negation: more sources make a
    claim surer (requirement S1-106). Small words count too: "under 5 kg" is not "over 5 kg", nor "may" "must".
    """
    said = _said(claim.text)
    found: dict[str, Scored] = {}
    for item in sorted(scored, key=Scored.order):
        document_id = item.excerpt.passage.document_id
        # A memory and the turn that it was derived from are one source.
        is_record = all(each.source_uri.startswith(SOURCE_PREFIX) for each in (claim.passage, item.excerpt.passage))
        if document_id != claim.passage.document_id and not is_record and _said(item.excerpt.text) == said:
            found.setdefault(document_id, item)
    return list(found.values())[:MAX_CORROBORATIONS]


def _allowance(item: Scored, is_beside: bool) -> float:
    """Return how far below the best an excerpt may score.

    A row, an item or code from elsewhere says little without what stands around it.
    """
    if item.excerpt.kind is BlockKind.PROSE:
        return SAME_PARAGRAPH_DROP if is_beside else ELSEWHERE_DROP
    return SAME_LIST_DROP if is_beside else 0.0


def _shares_block(item: Scored, other: Scored) -> bool:
    """Tell whether two excerpts stand in one paragraph, list or table."""
    passage = item.excerpt.passage
    if item.excerpt.kind is not other.excerpt.kind or passage.chunk_number != other.excerpt.passage.chunk_number:
        return False
    first, last = sorted((item.excerpt, other.excerpt), key=lambda each: each.start)
    return _BLANK_LINE.search(passage.content, first.end, last.start) is None


def _continues(item: Scored, other: Scored) -> bool:
    same = item.excerpt.passage.chunk_number == other.excerpt.passage.chunk_number
    return same and item.excerpt.place == other.excerpt.place + 1


def _says_the_same(one: Excerpt, other: Excerpt) -> bool:
    if one.passage.document_id == other.passage.document_id and one.passage.generation == other.passage.generation:
        first, last = sorted((one, other), key=_source_position)
        if _source_position(last) < first.passage.span.start + first.end:
            return True  # one holds the other, or both share a sentence
    return resemble(one, other)


def _source_position(excerpt: Excerpt) -> int:
    return excerpt.passage.span.start + excerpt.start


def _said(text: str) -> tuple[list[str], int]:
    return [stem(word) for word in words(text) if word not in _ARTICLES], len(NEGATION.findall(text))
