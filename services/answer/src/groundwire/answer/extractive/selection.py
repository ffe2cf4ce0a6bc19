"""Chooses the sentences of an extractive answer, their order, and what else supports them."""

from collections.abc import Sequence

from groundwire.answer.extractive.scoring import Scored
from groundwire.answer.extractive.statements import Candidate
from groundwire.answer.extractive.thresholds import (
    MAX_CORROBORATIONS,
    MAX_SENTENCES,
    NEAR_DUPLICATE,
    RANKING,
    SCORE_DROP,
)
from groundwire.answer.words import NEGATION, content_stems


def select_sentences(scored: Sequence[Scored], limit: int = MAX_SENTENCES) -> list[Scored]:
    """Return 1 to `limit` sentences in the order to be read, none for an empty input.

    The best by score comes in first, further ones while they are close to it in score and say something
    else. The best is read first, together with chosen sentences that stand right before or after it; the others follow
    document by document, each in source order. Equal scores go by rank of the passage, then by place,
    so the choice is deterministic.
    """
    if not scored:
        return []
    ranked = sorted(scored, key=Scored.order)
    best = ranked[0]
    chosen = [best]
    followers = sorted(ranked[1:], key=lambda item: -_with_bonus(item, best))
    for item in followers:
        if len(chosen) == limit or _with_bonus(item, best) < best.score - SCORE_DROP:
            break
        if not any(_says_the_same(item, other) for other in chosen):
            chosen.append(item)
    lead = _run_around(best, chosen)
    return [*lead, *_in_reading_order([item for item in chosen if item not in lead])]


def _with_bonus(item: Scored, best: Scored) -> float:
    """Return the score, with the bonus when the sentence directly continues the best one."""
    return item.score + RANKING.follows_best * _follows(item, best)


def _follows(item: Scored, other: Scored) -> bool:
    same = item.candidate.passage.chunk_number == other.candidate.passage.chunk_number
    return same and item.candidate.position == other.candidate.position + 1


def _run_around(best: Scored, chosen: Sequence[Scored]) -> list[Scored]:
    """Return the unbroken run of chosen sentences that the best one is part of, in source order."""
    run = [best]
    while earlier := [item for item in chosen if _follows(run[0], item)]:
        run.insert(0, earlier[0])
    while later := [item for item in chosen if _follows(item, run[-1])]:
        run.append(later[0])
    return run


def _says_the_same(item: Scored, other: Scored) -> bool:
    mine, theirs = item.candidate.stems, other.candidate.stems
    return len(mine & theirs) >= NEAR_DUPLICATE * max(1, len(mine | theirs))


def _in_reading_order(chosen: Sequence[Scored]) -> list[Scored]:
    documents = list(dict.fromkeys(item.candidate.passage.document_id for item in chosen))
    return sorted(chosen, key=lambda item: (documents.index(item.candidate.passage.document_id), _place(item)))


def _place(item: Scored) -> int:
    return item.candidate.passage.span.start + item.candidate.sentence.start


def corroborations(claim: Candidate, scored: Sequence[Scored]) -> list[Candidate]:
    """Return at most `MAX_CORROBORATIONS` sentences that say the same, one of each other document, best first.

    The same means the same words that carry meaning in the same order, whatever their endings, and the same negation.
    """
    said = _said(claim.text)
    found: dict[str, Candidate] = {}
    for item in sorted(scored, key=Scored.order):
        document_id = item.candidate.passage.document_id
        if document_id != claim.passage.document_id and _said(item.candidate.text) == said:
            found.setdefault(document_id, item.candidate)
    return list(found.values())[:MAX_CORROBORATIONS]


def _said(text: str) -> tuple[list[str], int]:
    return content_stems(text), len(NEGATION.findall(text))
