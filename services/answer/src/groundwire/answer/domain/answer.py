"""What the service says: answers with their claims and citations, and the events an answer is made of."""

import hashlib
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from groundwire.answer.domain.draft import Source
from groundwire.answer.domain.headings import section_at
from groundwire.kernel.spans import Span


class RefusalReason(StrEnum):
    """Why there is no answer from the collection."""

    NO_RESULTS = "NO_RESULTS"
    WEAK_SUPPORT = "WEAK_SUPPORT"
    UNSUPPORTED_CLAIMS = "UNSUPPORTED_CLAIMS"
    RETRIEVAL_DISABLED = "RETRIEVAL_DISABLED"
    OUTSIDE_SELECTION = "OUTSIDE_SELECTION"


class FinishReason(StrEnum):
    """How the text came to its end."""

    COMPLETE = "COMPLETE"
    LENGTH = "LENGTH"
    REFUSED = "REFUSED"


@dataclass(frozen=True, slots=True)
class Citation:
    """Evidence that was compared with the stored source: its canonical text at `span` is `quote`, exactly.

    `marker` counts from 1 in order of first use. `relevance` is that of the chunk, in [0, 1]. `answer_spans`
    are the ranges of the answer's content that it backs, in order, without markers. `section`, `doi` and
    `url` may be empty, the other names never are.
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
    """Make the citation of a checked source."""
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
    """One statement of an answer, the markers it rests on (rising), and its confidence in [0, 1]."""

    answer_span: Span
    text: str
    markers: tuple[int, ...]
    confidence: float


@dataclass(frozen=True, slots=True)
class Timings:
    """Seconds spent; the parts may be less than the total."""

    retrieval_s: float = 0.0
    generation_s: float = 0.0
    verification_s: float = 0.0
    total_s: float = 0.0


@dataclass(frozen=True, slots=True)
class SearchReport:
    """What a search says about itself.

    `hits`, `documents`, `explain_plan` and `degraded_stages` are the retriever's own messages and numbers, handed on to
    the caller unread. `document_ids` are the documents of all hits, also where the hits themselves are left out.
    `snapshot` is the catalog position that was read, 0 when nothing was searched.
    """

    search_text: str
    hits: tuple[Any, ...] = ()
    documents: tuple[Any, ...] = ()
    document_ids: tuple[str, ...] = ()
    snapshot: int = 0
    degraded_stages: tuple[int, ...] = ()
    explain_plan: Any = None

    @property
    def without_hits(self) -> "SearchReport":
        """Return what there is to say to a caller who did not ask for the hits."""
        return replace(self, hits=(), documents=())


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer; a refusal has no citations and no claims."""

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

    @property
    def grounded(self) -> bool:
        """Return whether it is no refusal and every claim rests on citations."""
        return self.refusal is None and all(claim.markers for claim in self.claims)


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


AnswerEvent: TypeAlias = Retrieved | TextDelta | Cited | Final
"""Order: one Retrieved, then for each statement its TextDelta and its new citations, then one Final."""
