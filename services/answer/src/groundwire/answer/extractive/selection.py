"""Chooses the excerpts of an extractive answer, their order, and what else supports them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from groundwire.answer.extractive.cues import is_announcement, kind_match, lists_in_words
from groundwire.answer.extractive.definitions import INTRODUCED_AS_TERM, LABEL, defines, is_name_of
from groundwire.answer.extractive.excerpt import Excerpt
from groundwire.answer.extractive.scoring import Scored, covered, resemble
from groundwire.answer.extractive.weights import (
    CODE_DROP,
    COMPARED_WITH_CLAIM,
    CONTEXT_CHARS,
    DENIED_SHARE,
    ELSEWHERE_DROP,
    LIST_DROP,
    MAX_CORROBORATIONS,
    MAX_EXCERPTS,
    MAX_OPPOSING,
    NEARLY_AS_GOOD,
    OPENED_BY,
    RANKING,
    SAME_LIST_DROP,
    SAME_PARAGRAPH_DROP,
    SHORT_LEAD_WORDS,
    SHOWN_WITHIN,
)
from groundwire.answer.question import EXPLAINED, Question, QuestionKind
from groundwire.kernel.contradictions import contradiction
from groundwire.kernel.facts import Discrepancy, FactKind
from groundwire.kernel.records import SOURCE_PREFIX
from groundwire.kernel.sentences import BlockKind
from groundwire.kernel.words import NEGATION, content_stems, stem, words

_BLANK_LINE = re.compile(r"\n[^\S\n]*\n")
# What follows these words is another side of the matter or an example of it.
_MOVES_ON = re.compile(
    r" (?:however|but|for (?:example|instance)|on the other hand|in contrast|likewise)\b", re.IGNORECASE
)
_ARTICLES = frozenset({"a", "an", "the"})


def select_excerpts(
    leads: Sequence[Scored], scored: Sequence[Scored], weights: Mapping[str, float], limit: int = MAX_EXCERPTS
) -> list[Scored]:
    """Return 1 to `limit` excerpts in the order to be read.

    The leads come in first, the best of them at the head. A further one comes in while its score is close to that of
    the best, it says something else, and it belongs there: it stands in a paragraph, list or table that is quoted, or
    it has words of the question that none chosen so far has. A second sentence that is nearly as good comes in as well:
    either may be the answer. The best is read first, a sentence together with chosen sentences right before or after
    it; the others follow document by document, each in source order. Equal scores go by rank of the passage, then by
    place, so the choice is deterministic.

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
            is_prose = each.excerpt.kind is BlockKind.PROSE
            # How far below the best it may score: a row, an item or code from elsewhere says little without what
            # stands around it.
            if is_beside:
                allowance = SAME_PARAGRAPH_DROP if is_prose else SAME_LIST_DROP
            elif not unmet.keys().isdisjoint(each.excerpt.stems):
                allowance = ELSEWHERE_DROP if is_prose else 0.0
            elif is_prose and len(chosen) == 1 and best.definition < INTRODUCED_AS_TERM:
                allowance = NEARLY_AS_GOOD
            else:
                continue
            worth[id(each)] = each.score + allowance + RANKING.unmet * open_share * covered(unmet, each.excerpt.stems)
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
    is_named = lead.excerpt.header or lead.excerpt.kind is BlockKind.LIST_ITEM
    label = LABEL.match(lead.excerpt.text) if is_named else None
    for side in question.sides:
        own = side.difference(*(other for other in question.sides if other != side)) or side
        # "purge: also removes what was configured" is about one side, whatever else it mentions.
        is_of_other = label is not None and not is_name_of(label["term"], side)
        if any(own <= each.excerpt.stems for each in chosen) and not is_of_other:
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


def with_context(question: Question, lead: Scored, excerpts: Sequence[Excerpt]) -> list[Scored]:
    """Return a sentence that is to explain something with what its section says around it, in the order to be read.

    Where the heading says what was asked, the section opens with what it is about. What introduces steps or code does
    not say how to do something without them.
    """
    one = lead.excerpt
    if one.kind is not BlockKind.PROSE or one.is_joined or question.kind not in EXPLAINED:
        return [lead]
    section = sorted((each for each in excerpts if _shares_section(each, one)), key=_source_position)
    before = [each for each in section if _source_end(each) <= _source_position(one)]
    opening = next((each for each in before if each.opens and each.kind is BlockKind.PROSE), None)
    has_opening = (
        opening is not None
        and lead.headed >= OPENED_BY
        and lead.definition < INTRODUCED_AS_TERM
        and len(opening.text) + len(one.text) <= CONTEXT_CHARS
        and 2 * len(opening.stems.intersection(question.stems)) >= len(question.stems)
        and not (opening.leans or is_announcement(opening.text))
    )
    context = [opening, one] if opening is not None and has_opening else [one]
    is_how = question.kind is QuestionKind.PROCEDURE
    shown = next((each for each in section if _introduces(one, each, is_how=is_how)), None)
    if shown is not None:
        context[-1:] = [shown] if _source_position(shown) <= _source_position(one) else [one, shown]
    return [replace(lead, excerpt=each) for each in context]


def with_list(question: Question, leads: Sequence[Scored], scored: Sequence[Scored]) -> list[Scored]:
    """Return the leads of an answer to what there is with the list of that, where they only speak of it.

    A sentence may have the list as well: "There are three kinds: a, b and c."
    """
    one = leads[0]
    if question.kind is not QuestionKind.ENUMERATION or any(_lists(each) for each in leads):
        return [*leads]
    lists = [
        each
        for each in scored
        if _lists(each)
        and each.score >= one.score - LIST_DROP
        and _shares_section(each.excerpt, one.excerpt)
        and (distance := _source_position(each.excerpt) - _source_end(one.excerpt)) >= 0
        and (distance <= SHOWN_WITHIN or not each.excerpt.is_whole)
    ]
    return [*leads, *sorted(lists, key=Scored.order)[:1]]


def _lists(item: Scored) -> bool:
    is_sentence = item.excerpt.kind is BlockKind.PROSE
    return item.excerpt.is_whole or (is_sentence and item.coverage == 1.0 and lists_in_words(item.excerpt.text))


def with_code(question: Question, leads: Sequence[Scored], scored: Sequence[Scored]) -> list[Scored]:
    """Return the leads of an answer to how something is done with code that shows it, where none of them does."""
    if question.kind is not QuestionKind.PROCEDURE or any(each.excerpt.kind is not BlockKind.PROSE for each in leads):
        return [*leads]
    least = leads[0].score - CODE_DROP
    shown = [
        each
        for each in scored
        if each.excerpt.kind is BlockKind.CODE
        and not each.excerpt.leans
        and each.score >= least
        and (each.coverage == 1.0 or _shares_section(each.excerpt, leads[0].excerpt))
        and not any(_says_the_same(each.excerpt, other.excerpt) for other in leads)
    ]
    return [*leads, *sorted(shown, key=Scored.order)[:1]]


def completed(question: Question, lead: Scored, excerpts: Sequence[Excerpt]) -> Scored:
    """Return a sentence that is all of an answer with the one that leans on it and says more of what was asked.

    What something is, a whole definition says by itself, unless it is as short as "There is a command called check."
    """
    one = lead.excerpt
    is_short = question.kind is QuestionKind.DEFINITION and len(words(one.text)) <= SHORT_LEAD_WORDS
    is_whole = lead.definition == 1.0 and not is_short
    if one.kind is not BlockKind.PROSE or one.is_joined or is_whole or question.kind not in EXPLAINED:
        return lead
    for each in excerpts:
        is_longer = each.is_joined and _source_position(each) == _source_position(one)
        if is_longer and each.passage.document_id == one.passage.document_id and len(each.text) <= CONTEXT_CHARS:
            added = each.text[len(one.text) :]
            says_more = is_short or not set(question.stems).isdisjoint(content_stems(added))
            return replace(lead, excerpt=each) if says_more and not _MOVES_ON.match(added) else lead
    return lead


def _shares_section(one: Excerpt, other: Excerpt) -> bool:
    places = [
        (each.passage.document_id, each.passage.generation, each.passage.section_heading, each.heading)
        for each in (one, other)
    ]
    return places[0] == places[1]


def _introduces(sentence: Excerpt, shown: Excerpt, *, is_how: bool) -> bool:
    """Tell whether a sentence introduces a list or, where a way is asked for, stands right before code or steps."""
    is_list = shown.kind is BlockKind.LIST_ITEM and shown.is_whole
    if not (is_list or (is_how and shown.kind is BlockKind.CODE)) or is_announcement(shown.text):
        return False
    is_part = _source_position(shown) <= _source_position(sentence) < _source_end(shown)
    return is_part or (is_how and 0 <= _source_position(shown) - _source_end(sentence) <= SHOWN_WITHIN)


def of_named_document(question: Question, lead: Scored, scored: Sequence[Scored]) -> list[Scored]:
    """Return the excerpts without those of other documents than the lead's, where the question names that.

    "What does Health Plus cover?" names `Health_Plus.pdf`; what `Standard.pdf` says is none of it, unless it speaks of
    Health Plus.
    """
    asked = set(pairwise(words(question.text)))
    named = asked.intersection(pairwise(_name(lead.excerpt)))

    def is_of_it(item: Scored) -> bool:
        return named.issubset([*pairwise(_name(item.excerpt)), *pairwise(words(item.excerpt.text))])

    return [item for item in scored if is_of_it(item)]


def _name(excerpt: Excerpt) -> list[str]:
    return [*words(excerpt.passage.title), "", *words(excerpt.passage.source_uri)]


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


def contradicting(claim: Scored, scored: Sequence[Scored]) -> list[tuple[Scored, Discrepancy]]:
    """Return at most `MAX_OPPOSING` sentences that contradict a claim, one of each other document, best first.

    Each has as many words of the question, so that what differs is what was asked for: when the office in Paris closes
    is not contradicted by the hours of the one in London. What differs is a number, a date or a negation: another name
    or word mostly tells of something else, as rows and items in the same words do. A negation is one of the whole
    sentence only where both say hardly anything else ("restored as long as it is not purged" denies no restoring).
    """
    if claim.excerpt.kind is not BlockKind.PROSE:
        return []
    competing = [
        each
        for each in sorted(scored, key=Scored.order)
        if each.excerpt.passage.document_id != claim.excerpt.passage.document_id
        and each.coverage >= claim.coverage
        and each.excerpt.kind is BlockKind.PROSE
        and not each.excerpt.rest  # what goes on in the next chunk has no single place to show
    ]
    found: dict[str, tuple[Scored, Discrepancy]] = {}
    for each in competing[:COMPARED_WITH_CLAIM]:
        discrepancy = contradiction(claim.excerpt.text, each.excerpt.text)
        if discrepancy is None:
            continue
        ours, theirs = (frozenset(content_stems(text)) for text in (claim.excerpt.text, each.excerpt.text))
        is_denial = discrepancy.kind is FactKind.NEGATION
        is_denial = is_denial and len(ours & theirs) >= DENIED_SHARE * max(len(ours), len(theirs))
        if is_denial or discrepancy.kind in {FactKind.NUMBER, FactKind.DATE}:
            found.setdefault(each.excerpt.passage.document_id, (each, discrepancy))
    return list(found.values())[:MAX_OPPOSING]


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


def _source_end(excerpt: Excerpt) -> int:
    return excerpt.passage.span.start + excerpt.end


def _said(text: str) -> tuple[list[str], int]:
    return [stem(word) for word in words(text) if word not in _ARTICLES], len(NEGATION.findall(text))
