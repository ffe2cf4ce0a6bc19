"""Chooses the excerpts of an extractive answer, their order, and what else supports them."""

from collections.abc import Mapping, Sequence

from groundwire.answer.extractive.excerpts import Excerpt
from groundwire.answer.extractive.scoring import Scored, covered, resemble
from groundwire.answer.extractive.weights import (
    MAX_CORROBORATIONS,
    MAX_EXCERPTS,
    OTHER_PASSAGE_DROP,
    RANKING,
    SAME_PASSAGE_DROP,
    SHORT_LEAD_WORDS,
)
from groundwire.kernel.records import SOURCE_PREFIX
from groundwire.kernel.sentences import BlockKind
from groundwire.kernel.stems import NEGATION, stem, words

_ARTICLES = frozenset({"a", "an", "the"})


def select_excerpts(
    best: Scored, scored: Sequence[Scored], weights: Mapping[str, float], limit: int = MAX_EXCERPTS
) -> list[Scored]:
    """Return 1 to `limit` excerpts in the order to be read.

    The best comes in first, further ones while they are close to it and say something else: more so in the
    passage of the best, and where they have words of the question that none chosen so far has. The best is read first,
    a sentence together with chosen sentences right before or after it; the others follow document by document, each in
    source order. Equal scores go by rank of the passage, then by place, so the choice is deterministic.

    Args:
        best: the excerpt that leads the answer.
        scored: the excerpts, the best among them.
        weights: the stems of the question with their rarities.
        limit: most excerpts to return.
    """
    chosen = [best]
    # A whole list is an answer of its own, and none beside another.
    others = (
        [] if best.excerpt.is_whole else [each for each in scored if each is not best and not each.excerpt.is_whole]
    )
    while others and len(chosen) < limit:
        unmet = {stem: weight for stem, weight in weights.items() if not any(stem in c.excerpt.stems for c in chosen)}
        open_share = sum(unmet.values()) / sum(weights.values()) if unmet else 0.0
        worth = {
            id(each): _worth(each, best) + RANKING.unmet * open_share * covered(unmet, each.excerpt.stems)
            for each in others
        }
        candidate = min(others, key=lambda each: (-worth[id(each)], each.order()))
        if worth[id(candidate)] < best.score:
            break
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


def in_full(lead: Scored, scored: Sequence[Scored]) -> Scored:
    """Return a short sentence together with the next one where that leans on it, else as it is.

    "There is a command called check." says little without "It compiles the code."
    """
    one = lead.excerpt
    if one.kind is not BlockKind.PROSE or len(words(one.text)) > SHORT_LEAD_WORDS:
        return lead
    return next(
        (
            each
            for each in scored
            if each.excerpt.is_joined
            and (each.excerpt.passage.chunk_number, each.excerpt.start) == (one.passage.chunk_number, one.start)
        ),
        lead,
    )


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


def _worth(item: Scored, best: Scored) -> float:
    """Return the score that competes with that of the best: what stands beside it in its passage is worth more.

    A row, an item or code from elsewhere says little without what stands around it, so that it comes in only
    for words of the question that are still unmet.
    """
    if item.excerpt.passage.chunk_number == best.excerpt.passage.chunk_number:
        drop = SAME_PASSAGE_DROP
    else:
        drop = OTHER_PASSAGE_DROP if item.excerpt.kind is BlockKind.PROSE else 0.0
    return item.score + drop + RANKING.continues_best * _continues(item, best)


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
