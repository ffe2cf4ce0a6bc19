"""Compose answers: their text, claims and citations, and the events they are streamed as.

Answers, citations and events are messages of the contract: what is sent is also what is stored.
"""

import hashlib
import math
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import takewhile
from operator import attrgetter

from groundwire.answer.evidence import OpposingSource, Passage, Source, Statement, section_at
from groundwire.api.answer.v1 import answer_pb2, citation_pb2, grounding_pb2
from groundwire.api.answer.v1.answer_service_pb2 import (
    AnswerEvent,
    CitationEvent,
    FinalEvent,
    RetrievedEvent,
    TextDelta,
)
from groundwire.kernel.facts import Discrepancy
from groundwire.kernel.records import SOURCE_PREFIX
from groundwire.kernel.spans import Span
from groundwire.rpc.messages import to_span
from groundwire.rpc.value_messages import to_timestamp

REFUSALS = {
    answer_pb2.REFUSAL_REASON_NO_RESULTS: "The material does not cover this question: nothing in it is relevant to it.",
    answer_pb2.REFUSAL_REASON_WEAK_SUPPORT: (
        "The material does not cover this question: nothing in it supports an answer well enough."
    ),
    answer_pb2.REFUSAL_REASON_UNSUPPORTED_CLAIMS: (
        "The material does not cover this question: no statement could be traced to it."
    ),
    answer_pb2.REFUSAL_REASON_RETRIEVAL_DISABLED: (
        "The material was not searched for this question: retrieval is switched off."
    ),
    answer_pb2.REFUSAL_REASON_OUTSIDE_SELECTION: "The selected material does not cover this question.",
    answer_pb2.REFUSAL_REASON_NO_QUESTION: "Noted.",
}
"""The fixed text of each refusal."""

_UNCLEAR = "The material does not clearly answer this question."
_MAX_NAMED = 3
_MAX_NAME_CHARS = 120
# A name or quote with `[1]` in it would read as the marker of a citation.
_LIKE_A_MARKER = re.compile(r"\[\d+\]")


def refusal_text(
    reason: answer_pb2.RefusalReason.ValueType,
    passages: Sequence[Passage],
    limit: int,
    closest: Statement | None = None,
) -> tuple[str, frozenset[str]]:
    """Return the text of a refusal, at most `limit` code points, and the ids of the documents that it names.

    For weak support, it also says where to look: up to three distinct places of the best passages, such as
    `operating.md (Backup)`. What came `closest` is quoted before, without a citation: it is no answer.
    """
    text = REFUSALS[reason]
    if reason is not answer_pb2.REFUSAL_REASON_WEAK_SUPPORT:
        return text, frozenset()
    said_in = [closest.sources[0].passage] if closest is not None else []
    places: dict[str, set[str]] = {}
    for passage in (*said_in, *passages):
        places.setdefault(_place(passage), set()).add(passage.document_id)
    named = [place for place in places if not _LIKE_A_MARKER.search(place)][:_MAX_NAMED]
    tries = [
        (f"{text} Closest to it: {', '.join(named[:count])}.", named[:count]) for count in range(len(named), 0, -1)
    ]
    if closest is not None and named and named[0] == _place(said_in[0]) and not _LIKE_A_MARKER.search(closest.text):
        quoting = f'{_UNCLEAR} Closest to it, in {named[0]}: "{closest.text}"'
        further = [(f"{quoting} See also {', '.join(named[1:])}.", named)] if named[1:] else []
        tries = [*further, (quoting, named[:1]), *tries]
    for longer, shown in tries:
        if len(longer) <= limit:
            return longer, frozenset().union(*(places[place] for place in shown))
    return text, frozenset()


def _place(passage: Passage) -> str:
    """Return where a passage stands, for people: `operating.md (Backup)`."""
    source, heading = " ".join(passage.source_uri.split()), " ".join(passage.section_heading.split())
    place = source if not heading or heading in source else f"{source} ({heading})"
    if source.startswith(SOURCE_PREFIX):
        place = heading  # its id says nothing to people
    return place if len(place) <= _MAX_NAME_CHARS else f"{place[: _MAX_NAME_CHARS - 1]}\u2026"


class GenerationFailure(StrEnum):
    """Why a chat model did not write the answer."""

    UNAVAILABLE = "UNAVAILABLE"
    TIMEOUT = "TIMEOUT"
    INTERRUPTED = "INTERRUPTED"
    INVALID_REPLY = "INVALID_REPLY"
    REJECTED = "REJECTED"
    UNSUPPORTED = "UNSUPPORTED"


def cite(marker: int, collection: str, source: Source, answer_span: Span) -> citation_pb2.Citation:
    """Return the citation of a source whose quote has been compared with the stored text."""
    passage = source.passage
    section, section_heading = section_at(passage, source.span.start - passage.span.start)
    return citation_pb2.Citation(
        marker=marker,
        collection=collection,
        document_id=passage.document_id,
        source_uri=passage.source_uri,
        generation=passage.generation,
        chunk_id=passage.chunk_id,
        chunk_number=passage.chunk_number,
        quote=source.quote,
        quote_sha256=hashlib.sha256(source.quote.encode()).hexdigest(),
        span=to_span(source.span),
        relevance_score=passage.relevance,
        support_score=source.support,
        chapter=passage.chapter,
        section=section,
        section_heading=section_heading,
        title=passage.title,
        page_numbers=source.page_numbers or passage.page_numbers,
        creators=passage.creators,
        date_created=to_timestamp(passage.date_created) if passage.date_created else None,
        doi=passage.doi,
        url=passage.url,
        answer_spans=[to_span(answer_span)],
        verdict=citation_pb2.CITATION_VERDICT_EXACT,
    )


def to_discrepancy(discrepancy: Discrepancy) -> grounding_pb2.Discrepancy:
    kind = grounding_pb2.FactKind.Value(f"FACT_KIND_{discrepancy.kind}")
    return grounding_pb2.Discrepancy(kind=kind, text=discrepancy.text, instead=discrepancy.instead)


def is_supported(claim: answer_pb2.Claim) -> bool:
    """Tell whether a claim rests on citations or needs none."""
    return bool(claim.markers) or not claim.HasField("confidence")


# The events of an answer: one `retrieved`, then for each statement its `text_delta` and its new citations, then one
# `final`. Heartbeats come anywhere between the first and the last.


def retrieved_event(answer: answer_pb2.Answer) -> AnswerEvent:
    retrieved = RetrievedEvent(
        hits=answer.hits,
        search_text=answer.search_text,
        search_context=answer.search_context,
        documents=answer.documents,
    )
    return AnswerEvent(retrieved=retrieved)


async def numbered(events: AsyncGenerator[AnswerEvent, None]) -> AsyncGenerator[AnswerEvent, None]:
    """Number the events of an answer from 1 as they come; heartbeats have 0."""
    sequence = 0
    async with aclosing(events):
        async for event in events:
            if not event.HasField("heartbeat"):
                sequence += 1
                event.sequence = sequence
            yield event


def replayed(answer: answer_pb2.Answer) -> Iterator[AnswerEvent]:
    """Yield the events of a stored answer again, in their first order, but without hits that were not stored.

    Each claim was sent with the separator before it and the markers after it, followed by its new citations.
    """
    yield retrieved_event(answer)
    sent, known = 0, 0
    for claim in answer.claims:
        end = claim.answer_span.end + len(_marks(claim.markers))
        yield AnswerEvent(text_delta=TextDelta(text=answer.content[sent:end], start=sent))
        sent = end
        fresh = max((known, *claim.markers))
        for citation in answer.citations[known:fresh]:
            yield AnswerEvent(citation=CitationEvent(citation=citation))
        known = fresh
    if sent < len(answer.content):
        yield AnswerEvent(text_delta=TextDelta(text=answer.content[sent:], start=sent))
    yield AnswerEvent(final=FinalEvent(answer=answer))


def answer_confidence(supports: Sequence[float]) -> float:
    """Return 0.6 top + 0.4 mean of the supports of the cited sources, in [0, 1]; 0 if nothing is cited.

    An answer never contains a sentence without a citation, so the share of cited sentences does not matter.
    """
    if not supports:
        return 0.0
    value = 0.6 * max(supports) + 0.4 * sum(supports) / len(supports)
    return min(1.0, max(0.0, value))


def claim_confidence(supports: Sequence[float]) -> float:
    """Return 1 minus the product of (1 - support) over the sources of a claim, in [0, 1]; 0 without sources."""
    return min(1.0, max(0.0, 1.0 - math.prod(1.0 - support for support in supports)))


@dataclass(frozen=True, slots=True)
class Addition:
    """What a statement added: `text` at code point `start` of the content, and citations not seen before."""

    text: str
    start: int
    citations: tuple[citation_pb2.Citation, ...]


class Citations:
    """The citations of a text as it grows; markers count from 1 in order of first use, without gaps.

    With `after`, they go on after as many others.
    """

    def __init__(self, collection: str, after: int = 0) -> None:
        self._collection = collection
        self._after = after
        self._markers: dict[tuple[str, int, int, int], int] = {}
        self.made: list[citation_pb2.Citation] = []

    def mark(self, source: Source, text_span: Span) -> int:
        """Return the marker of a source that supports a range of the text; a new source gets the next free one."""
        made = self._after + len(self.made)
        marker = self._markers.setdefault(_key(source), made + 1)
        if marker > made:
            self.made.append(cite(marker, self._collection, source, text_span))
        elif (span := to_span(text_span)) not in (known := self.made[marker - 1 - self._after]).answer_spans:
            known.answer_spans.append(span)
            # A source that supports several statements counts as the best of them.
            known.support_score = max(known.support_score, source.support)
        return marker

    def markers_of(self, sources: Sequence[Source]) -> tuple[int, ...]:
        """Return the markers that sources have or would get, each once, without assigning any."""
        markers = dict(self._markers)
        return tuple(dict.fromkeys(markers.setdefault(_key(source), len(markers) + 1) for source in sources))


class Composer:
    """Builds the text of an answer, at most `limit` code points long.

    Each statement is followed by its markers, ` [1]`. A statement that does not fit is left out whole, so
    the text always ends with a sentence and its markers, and numbers have no gap (requirement S4-06, T43).
    """

    def __init__(self, collection: str, limit: int) -> None:
        self._collection = collection
        self._limit = limit
        self._cited = Citations(collection)
        self.citations = self._cited.made
        self.content = ""
        self.claims: list[answer_pb2.Claim] = []
        self._opposing: list[tuple[Span, tuple[OpposingSource, ...]]] = []
        self.is_cut = False

    def add(self, statement: Statement) -> Addition | None:
        """Append a statement whose sources have all been checked; return None when it does not fit.

        The very first statement is shortened at a word instead, because an answer has to say something.
        """
        before, known = len(self.content), len(self.citations)
        lead = self.content + (statement.separator if self.content else "")
        marks = _marks(self._cited.markers_of(statement.sources))
        if len(lead) + len(statement.text) + len(marks) > self._limit:
            self.is_cut = True
            if self.content:
                return None
            # What is left of it may not be what they contradict.
            statement = replace(statement, opposing=())
            if not statement.sources:
                statement = replace(statement, text=_whole_words(statement.text, self._limit))
            else:
                first, *others = statement.sources
                same = (source for source in others if source.passage == first.passage)
                own = (first, *takewhile(attrgetter("goes_on"), others), *same)
                kept = _whole_words(statement.text, self._limit - len(_marks(self._cited.markers_of(own))))
                if first.quote != statement.text:
                    statement = replace(statement, text=kept, sources=own)
                else:
                    span = Span.of(kept, first.span.start, first.span.start_byte)
                    statement = replace(statement, text=kept, sources=(replace(first, span=span, quote=kept),))
        span = Span.of(statement.text, len(lead), len(lead.encode()))
        markers = tuple(dict.fromkeys(self._cited.mark(source, span) for source in statement.sources))
        self.content = lead + statement.text + _marks(markers)
        supports = [source.support for source in statement.sources if not source.goes_on]
        confidence = claim_confidence(supports) if markers or statement.needs_source else None
        self.claims.append(
            answer_pb2.Claim(
                answer_span=to_span(span), text=statement.text, markers=sorted(markers), confidence=confidence
            )
        )
        self._opposing.append((span, statement.opposing))
        return Addition(self.content[before:], before, tuple(self.citations[known:]))

    def cite_opposing(self) -> list[citation_pb2.Citation]:
        """Say in the claims what contradicts them; return the citations of that, but for what the text cites itself.

        Their markers go on after those of the text, so call it when the text is complete or given up.
        """
        further = Citations(self._collection, after=len(self.citations))
        for claim, (span, opposing) in zip(self.claims, self._opposing, strict=True):
            del claim.opposing[:]
            for each in opposing:
                (marker,) = self._cited.markers_of([each.source])
                if marker > len(self.citations):
                    marker = further.mark(each.source, span)
                claim.opposing.add(marker=marker, discrepancy=to_discrepancy(each.discrepancy))
        return further.made


def _whole_words(text: str, room: int) -> str:
    """Return the beginning of a text that is too long, cut between words where possible."""
    head = text[:room]
    return (head[: len(head) - len(head.split()[-1])] if len(head.split()) > 1 else head).rstrip()


def _key(source: Source) -> tuple[str, int, int, int]:
    return (source.passage.document_id, source.passage.generation, source.span.start, source.span.end)


def _marks(markers: Sequence[int]) -> str:
    return "".join(f" [{marker}]" for marker in markers)
