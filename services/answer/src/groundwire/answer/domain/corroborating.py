"""Finds the same claim in other documents: more sources make it surer (requirement S1-106)."""

from collections.abc import Sequence

from groundwire.answer.domain.candidates import Candidate
from groundwire.answer.domain.scoring import Scored
from groundwire.answer.domain.thresholds import MAX_CORROBORATIONS
from groundwire.answer.domain.words import NEGATION, content_stems


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
