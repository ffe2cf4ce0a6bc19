"""What the service says: answers with their claims and citations, the events an answer is made of, and its text."""

import hashlib
import math
import re
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from groundwire.answer.evidence import Passage, Source, Statement, section_at
from groundwire.kernel.records import SOURCE_PREFIX
from groundwire.kernel.spans import Span


class RefusalReason(StrEnum):
    """Why there is no answer from the collection."""

    NO_RESULTS = "NO_RESULTS"
    WEAK_SUPPORT = "WEAK_SUPPORT"
    UNSUPPORTED_CLAIMS = "UNSUPPORTED_CLAIMS"
    RETRIEVAL_DISABLED = "RETRIEVAL_DISABLED"
    OUTSIDE_SELECTION = "OUTSIDE_SELECTION"
    NO_QUESTION = "NO_QUESTION"


REFUSALS = {
    RefusalReason.NO_RESULTS: "The material does not cover this question: nothing in it is relevant to it.",
    RefusalReason.WEAK_SUPPORT: (
        "The material does not cover this question: nothing in it supports an answer well enough."
    ),
    RefusalReason.UNSUPPORTED_CLAIMS: "The material does not cover this question: no statement could be traced to it.",
    RefusalReason.RETRIEVAL_DISABLED: "The material was not searched for this question: retrieval is switched off.",
    RefusalReason.OUTSIDE_SELECTION: "The selected material does not cover this question.",
    RefusalReason.NO_QUESTION: "Noted.",
}
"""The fixed text of each refusal."""

_MAX_NAMED = 3
_MAX_NAME_CHARS = 120
_LIKE_A_MARKER = re.compile(r"\[\d+\]")


def refusal_text(reason: RefusalReason, passages: Sequence[Passage], limit: int) -> tuple[str, frozenset[str]]:
    """Return what a refusal says, at most `limit` code points, and the ids of the documents that it names.

    It has its fixed text and, for weak support, where to look: up to three places of the best passages, each once,
    such as `operating.md (Backup)`.
    """
    text = REFUSALS[reason]
    if reason is not RefusalReason.WEAK_SUPPORT:
        return text, frozenset()
    named, documents = "", set[str]()
    places: dict[str, set[str]] = {}
    for passage in passages:
        source, heading = " ".join(passage.source_uri.split()), " ".join(passage.section_heading.split())
        place = source if not heading or heading in source else f"{source} ({heading})"
        if source.startswith(SOURCE_PREFIX):
            place = heading  # its id says nothing to people
        place = place if len(place) <= _MAX_NAME_CHARS else f"{place[: _MAX_NAME_CHARS - 1]}\u2026"
        places.setdefault(place, set()).add(passage.document_id)
    for place in list(places)[:_MAX_NAMED]:
        longer = f"{named}, {place}" if named else f" Closest to it: {place}"
        # A name with `[1]` in it would read as the marker of a citation.
        if not _LIKE_A_MARKER.search(place) and len(text) + len(longer) + 1 <= limit:
            named = longer
            documents |= places[place]
    return (f"{text}{named}." if named else text), frozenset(documents)


class FinishReason(StrEnum):
    """How the text came to its end."""

    COMPLETE = "COMPLETE"
    LENGTH = "LENGTH"
    REFUSED = "REFUSED"
    INTERRUPTED = "INTERRUPTED"
    ABANDONED = "ABANDONED"


class GroundingPolicy(StrEnum):
    """What becomes of statements that no source supports: left out, or kept and named."""

    STRICT = "STRICT"
    ANNOTATE = "ANNOTATE"


class GenerationFailure(StrEnum):
    """What went wrong with a chat model."""

    UNAVAILABLE = "UNAVAILABLE"
    TIMEOUT = "TIMEOUT"
    INTERRUPTED = "INTERRUPTED"
    INVALID_REPLY = "INVALID_REPLY"
    REJECTED = "REJECTED"
    UNSUPPORTED = "UNSUPPORTED"


@dataclass(frozen=True, slots=True)
class Citation:
    """Evidence that was compared with the stored source: its canonical text at `span` is `quote`, exactly.

    `marker` counts from 1 in order of first use. `relevance` is that of the chunk, `support` how likely the quote
    supports what it is cited for, the best of several claims; both are in [0, 1]. `answer_spans` are the ranges of the
    answer's content that it backs, in order, without markers. `section`, `doi` and `url` may be empty, the other names
    never are.
    """

    marker: int
    collection: str
    document_id: str
    source_uri: str
    generation: int
    chunk_id: str
    chunk_number: int
    quote: str
    span: Span
    relevance: float
    support: float
    chapter: str
    section: str
    section_heading: str
    title: str
    page_numbers: tuple[int, ...] = ()
    creators: tuple[str, ...] = ()
    date_created: datetime | None = None
    doi: str = ""
    url: str = ""
    answer_spans: tuple[Span, ...] = ()

    @property
    def quote_sha256(self) -> str:
        """Return the SHA-256 of the quote's UTF-8 bytes, lower-case hex."""
        return hashlib.sha256(self.quote.encode()).hexdigest()


def cite(marker: int, collection: str, source: Source, answer_span: Span) -> Citation:
    passage = source.passage
    section, section_heading = section_at(passage, source.span.start - passage.span.start)
    return Citation(
        marker=marker,
        collection=collection,
        document_id=passage.document_id,
        source_uri=passage.source_uri,
        generation=passage.generation,
        chunk_id=passage.chunk_id,
        chunk_number=passage.chunk_number,
        quote=source.quote,
        span=source.span,
        relevance=passage.relevance,
        support=source.support,
        chapter=passage.chapter,
        section=section,
        section_heading=section_heading,
        title=passage.title,
        page_numbers=source.page_numbers or passage.page_numbers,
        creators=passage.creators,
        date_created=passage.date_created,
        doi=passage.doi,
        url=passage.url,
        answer_spans=(answer_span,),
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement of an answer, the markers it rests on (rising), and its confidence in [0, 1].

    The confidence is None where no source is needed.
    """

    answer_span: Span
    text: str
    markers: tuple[int, ...]
    confidence: float | None

    @property
    def is_supported(self) -> bool:
        """Return whether it rests on citations or needs none."""
        return bool(self.markers) or self.confidence is None


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds spent; the parts may be less than the total."""

    retrieval_s: float = 0.0
    generation_s: float = 0.0
    verification_s: float = 0.0
    total_s: float = 0.0


@dataclass(frozen=True, slots=True)
class GenerationReport:
    """How a chat model did; `dropped_sentences` counts those left out because no source supports them."""

    model: str
    failure: GenerationFailure | None = None
    dropped_sentences: int = 0


@dataclass(frozen=True, slots=True)
class SearchReport:
    """What a search says about itself.

    `hits`, `documents`, `explain_plan` and `degraded_stages` are the retriever's own messages and numbers, handed on to
    the caller unread; `records` names, in messages as well, the records that it found beside. `document_ids` are the
    documents of all that was found, also where the hits themselves are left out. `snapshot` is the catalog position
    that was read, 0 when nothing was searched. `search_context` is what the search went on from.
    """

    search_text: str
    search_context: str = ""
    hits: tuple[Any, ...] = ()
    documents: tuple[Any, ...] = ()
    document_ids: tuple[str, ...] = ()
    snapshot: int = 0
    degraded_stages: tuple[int, ...] = ()
    explain_plan: Any = None
    records: tuple[Any, ...] = ()

    @property
    def without_hits(self) -> "SearchReport":
        """Return what there is to say to a caller who did not ask for the hits."""
        return replace(self, hits=(), documents=())


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; a refusal has no citations and no claims. `generation` is None where no model was asked.

    `named_documents` are the ids of those that a refusal names; they are known until the answer is stored.
    """

    content: str
    citations: tuple[Citation, ...]
    claims: tuple[Claim, ...]
    confidence: float
    refusal: RefusalReason | None
    finish: FinishReason
    message_id: str
    collection: str
    answer_time: datetime
    generator: str
    search: SearchReport
    session_id: str = ""
    topic_shift: bool = False
    timings: Timings = field(default_factory=Timings)
    generation: GenerationReport | None = None
    named_documents: frozenset[str] = frozenset()

    @property
    def grounded(self) -> bool:
        """Return whether it is no refusal and every claim rests on citations."""
        return bool(self.content) and self.refusal is None and not self.unsupported_spans

    @property
    def unsupported_spans(self) -> tuple[Span, ...]:
        """Return the ranges of the content that should rest on citations and do not."""
        return tuple(claim.answer_span for claim in self.claims if not claim.is_supported)


@dataclass(frozen=True, slots=True)
class Retrieved:
    """The search is done; always the first event."""

    search: SearchReport


@dataclass(frozen=True, slots=True)
class TextDelta:
    """Text appended to the answer at code point `start`."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Cited:
    """A citation of text that was sent before."""

    citation: Citation


@dataclass(frozen=True, slots=True)
class Final:
    """The whole answer; always the last event."""

    answer: Answer


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The answer is still being written, `elapsed_s` seconds after that began."""

    elapsed_s: float


AnswerEvent: TypeAlias = Retrieved | TextDelta | Cited | Heartbeat | Final
"""Order: one Retrieved, then for each statement its TextDelta and its new citations, then one Final.

Heartbeats come anywhere between the first and the last.
"""


async def numbered(events: AsyncGenerator[AnswerEvent, None]) -> AsyncGenerator[tuple[int, AnswerEvent], None]:
    """Yield the events of an answer with their numbers, from 1; heartbeats have 0."""
    sequence = 0
    async with aclosing(events):
        async for event in events:
            is_heartbeat = isinstance(event, Heartbeat)
            sequence += not is_heartbeat
            yield 0 if is_heartbeat else sequence, event


def replayed(answer: Answer) -> Iterator[AnswerEvent]:
    """Yield the events that an answer was sent as, the same ones in the same order, except for hits it does not have.

    Each claim was sent with the separator before it and the markers behind it, then the citations that were new then.
    """
    yield Retrieved(answer.search)
    sent, known = 0, 0
    for claim in answer.claims:
        end = claim.answer_span.end + len(_marks(claim.markers))
        yield TextDelta(answer.content[sent:end], sent)
        sent = end
        fresh = max((known, *claim.markers))
        yield from (Cited(citation) for citation in answer.citations[known:fresh])
        known = fresh
    if sent < len(answer.content):
        yield TextDelta(answer.content[sent:], sent)
    yield Final(answer)


def answer_confidence(supports: Sequence[float]) -> float:
    """Return 0.6 top + 0.4 mean of the supports of what is cited, in [0, 1]; 0 when nothing is cited.

    A sentence without a citation never gets into an answer, so the share of cited sentences plays no part.
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
    citations: tuple[Citation, ...]


class Citations:
    """The citations of a text in the making, and their markers: from 1, in order of first use, without gaps."""

    def __init__(self, collection: str) -> None:
        self._collection = collection
        self._markers: dict[tuple[str, int, int, int], int] = {}
        self.made: list[Citation] = []

    def mark(self, source: Source, text_span: Span) -> int:
        """Return the marker of a source that backs a range of the text: the one it has, or the next."""
        marker = self._markers.setdefault(_key(source), len(self.made) + 1)
        if marker > len(self.made):
            self.made.append(cite(marker, self._collection, source, text_span))
        elif text_span not in (known := self.made[marker - 1]).answer_spans:
            support = max(known.support, source.support)
            self.made[marker - 1] = replace(known, answer_spans=(*known.answer_spans, text_span), support=support)
        return marker

    def markers_of(self, sources: Sequence[Source]) -> tuple[int, ...]:
        """Return the markers that sources have or would get, each once, without giving them any."""
        markers = dict(self._markers)
        return tuple(dict.fromkeys(markers.setdefault(_key(source), len(markers) + 1) for source in sources))


class Composer:
    """An answer in the making, at most `limit` code points long.

    Each statement is followed by its markers, ` [1]`. A statement that does not fit is left out whole, so
    the text always ends with a sentence and its markers, and numbers have no gap (requirement S4-06, T43).
    """

    def __init__(self, collection: str, limit: int) -> None:
        self._limit = limit
        self._cited = Citations(collection)
        self.content = ""
        self.claims: list[Claim] = []
        self.is_cut = False

    @property
    def citations(self) -> list[Citation]:
        return self._cited.made

    def add(self, statement: Statement) -> Addition | None:
        """Append a statement whose sources, if it has any, were all checked; None when it does not fit.

        The very first statement is shortened at a word instead, because an answer has to say something.
        """
        before, known = len(self.content), len(self.citations)
        lead = self.content + (statement.separator if self.content else "")
        marks = _marks(self._cited.markers_of(statement.sources))
        if len(lead) + len(statement.text) + len(marks) > self._limit:
            self.is_cut = True
            if self.content:
                return None
            statement = self._shortened(statement)
        start, start_byte = len(lead), len(lead.encode())
        span = Span(start, start + len(statement.text), start_byte, start_byte + len(statement.text.encode()))
        markers = tuple(dict.fromkeys(self._cited.mark(source, span) for source in statement.sources))
        self.content = lead + statement.text + _marks(markers)
        supports = [source.support for source in statement.sources if not source.goes_on]
        confidence = claim_confidence(supports) if markers or statement.needs_source else None
        self.claims.append(Claim(span, statement.text, tuple(sorted(markers)), confidence))
        return Addition(self.content[before:], before, tuple(self.citations[known:]))

    def _shortened(self, statement: Statement) -> Statement:
        """Return a statement cut at the last word that fits.

        It rests on the passage it was taken from alone, and on the next one where it goes on there: others may continue
        differently. A citation is cut with the text where they are the same; where the source has marks that the text
        has not, it stays whole.
        """
        if not statement.sources:
            return replace(statement, text=_whole_words(statement.text, self._limit))
        first, *others = statement.sources
        second_half = others[:1] if others and others[0].goes_on else []
        own = (first, *second_half, *(source for source in others if source.passage == first.passage))
        kept = _whole_words(statement.text, self._limit - len(_marks(self._cited.markers_of(own))))
        if first.quote != statement.text:
            return replace(statement, text=kept, sources=own)
        start, start_byte = first.span.start, first.span.start_byte
        span = Span(start, start + len(kept), start_byte, start_byte + len(kept.encode()))
        return replace(statement, text=kept, sources=(replace(first, span=span, quote=kept),))


def _whole_words(text: str, room: int) -> str:
    """Return the beginning of a text that is too long, without the word that is cut, if that leaves any."""
    head = text[:room]
    return (head[: len(head) - len(head.split()[-1])] if len(head.split()) > 1 else head).rstrip()


def _key(source: Source) -> tuple[str, int, int, int]:
    return (source.passage.document_id, source.passage.generation, source.span.start, source.span.end)


def _marks(markers: tuple[int, ...]) -> str:
    return "".join(f" [{marker}]" for marker in markers)
