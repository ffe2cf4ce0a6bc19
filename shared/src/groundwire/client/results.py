"""What the methods of a collection return: plain values, each with the message of the contract behind it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias, overload

from google.longrunning import operations_pb2

from groundwire.api.answer.v1 import answer_pb2, answer_service_pb2, citation_pb2, session_pb2
from groundwire.api.common.v1 import document_pb2, hit_pb2, span_pb2
from groundwire.api.common.v1.degraded_stage_pb2 import DegradedStage
from groundwire.api.ingest.v1 import (
    collection_pb2,
    deletion_pb2,
    ingest_result_pb2,
    ingest_service_pb2,
    progress_pb2,
)
from groundwire.api.retrieve.v1 import retrieve_service_pb2
from groundwire.client.values import MetadataValue, enum_name, filled, held_by, named_value
from groundwire.kernel.errors import AlreadyExistsError, GroundwireError

_UTF_16_BYTES = 2


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of the text of a document, in code points and in bytes of UTF-8."""

    start: int
    end: int
    start_byte: int
    end_byte: int

    @classmethod
    def of(cls, message: span_pb2.Span) -> "Span":
        return filled(cls, message)

    def in_utf_16(self, text: str) -> tuple[int, int]:
        """Return start and end in UTF-16 units, which strings of JavaScript, Java and C# count; `text` is the whole."""
        before, within = text[: self.start], text[self.start : self.end]
        start = len(before.encode("utf-16-le")) // _UTF_16_BYTES
        return start, start + len(within.encode("utf-16-le")) // _UTF_16_BYTES

    def to_message(self) -> span_pb2.Span:
        return span_pb2.Span(start=self.start, end=self.end, start_byte=self.start_byte, end_byte=self.end_byte)


@dataclass(frozen=True, slots=True)
class Hit:
    """A chunk that a search found; `score` is its relevance from 0 to 1, `rank` counts from 1."""

    rank: int
    score: float
    text: str
    source: str
    chunk_id: str
    document_id: str
    generation: int
    title: str
    path: tuple[str, ...]
    """Headings above the text, the outermost first."""
    pages: tuple[int, ...]
    span: Span
    metadata: Mapping[str, MetadataValue]
    message: hit_pb2.Hit = field(repr=False, compare=False)

    @classmethod
    def of(cls, message: hit_pb2.Hit, document: document_pb2.Document) -> "Hit":
        chunk = message.chunk
        return filled(
            cls,
            chunk,
            rank=message.rank,
            score=message.relevance_score,
            text=chunk.content,
            source=chunk.source_uri,
            title=document.display_title,
            path=tuple(chunk.hierarchy_path),
            pages=tuple(chunk.page_numbers),
            span=Span.of(chunk.span),
            message=message,
        )


def joined(hits: Iterable[hit_pb2.Hit], documents: Iterable[document_pb2.Document]) -> tuple[Hit, ...]:
    """Return hits with what the documents of the same response say about theirs."""
    by_id = {document.document_id: document for document in documents}
    return tuple(Hit.of(hit, by_id.get(hit.chunk.document_id, document_pb2.Document())) for hit in hits)


def _stages(message: retrieve_service_pb2.RetrieveResponse | answer_pb2.Answer) -> tuple[str, ...]:
    return tuple(enum_name(DegradedStage.DESCRIPTOR, stage) for stage in message.degraded_stages)


@dataclass(frozen=True, slots=True)
class SearchResults(Sequence[Hit]):
    """The hits of a search, best first; `len`, indexes and loops are those of the hits.

    `snapshot` is the position of the catalog that was read: give it to another search to read the same again.
    `degraded` names the parts of the search that failed and were left out, such as `rerank`.
    """

    hits: tuple[Hit, ...]
    message: retrieve_service_pb2.RetrieveResponse = field(repr=False, compare=False)

    @property
    def snapshot(self) -> int:
        return self.message.snapshot

    @property
    def degraded(self) -> tuple[str, ...]:
        return _stages(self.message)

    @classmethod
    def of(cls, message: retrieve_service_pb2.RetrieveResponse) -> "SearchResults":
        return cls(joined(message.results, message.documents), message)

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.hits)

    @overload
    def __getitem__(self, index: int) -> Hit: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Hit]: ...
    def __getitem__(self, index: int | slice) -> Hit | Sequence[Hit]:
        """Return the hit, or the hits, at an index that counts from 0."""
        return self.hits[index]


@dataclass(frozen=True, slots=True)
class Citation:
    """A passage of a stored text: `quote` is exactly its characters at `span`.

    What `verify` needs are `document_id`, `generation`, `quote` and `span`, so that a citation can be kept as plain
    data and made again.
    """

    document_id: str
    generation: int
    quote: str
    span: Span
    marker: int = 0
    source: str = ""
    chunk_id: str = ""
    title: str = ""
    heading: str = ""
    pages: tuple[int, ...] = ()
    collection: str = ""
    support: float = 0.0
    """How likely the quote supports what it is cited for, from 0 to 1."""
    message: citation_pb2.Citation | None = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, message: citation_pb2.Citation) -> "Citation":
        return filled(
            cls,
            message,
            span=Span.of(message.span),
            source=message.source_uri,
            heading=message.section_heading or message.chapter,
            pages=tuple(message.page_numbers),
            support=message.support_score,
        )

    def to_message(self) -> citation_pb2.Citation:
        """Return the message it was made from, else one of what can be verified."""
        if self.message is not None:
            return self.message
        return citation_pb2.Citation(
            document_id=self.document_id,
            generation=self.generation,
            quote=self.quote,
            span=self.span.to_message(),
            marker=self.marker,
            chunk_id=self.chunk_id,
            collection=self.collection,
        )


@dataclass(frozen=True, slots=True)
class Opposing:
    """A place that contradicts the statement `claim` of an answer: its quote has `instead` where that has `text`.

    Of a denial one of the two is the negation, and the other the words that it denies.
    """

    claim: str
    citation: Citation
    text: str
    instead: str


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with its citations; `str` of it is its text.

    `grounded` says that every statement is supported; `refusal` why there is no answer, such as `no_results`, and is
    empty where there is one. `confidence` is from 0 to 1. `session_id` is empty outside of sessions. `generator` is who
    wrote it, `extractive` or the name of a chat model, whose sentences without support are in `unsupported`. `opposing`
    are places that contradict what it says. `snapshot` is the position of the catalog that was read. `degraded` names
    the parts that failed and were left out, such as `rerank`.
    """

    text: str
    citations: tuple[Citation, ...]
    grounded: bool
    confidence: float
    refusal: str
    session_id: str
    message_id: str
    generator: str
    unsupported: tuple[str, ...]
    snapshot: int
    opposing: tuple[Opposing, ...]
    message: answer_pb2.Answer = field(repr=False, compare=False)

    @classmethod
    def of(cls, message: answer_pb2.Answer) -> "Answer":
        citations = tuple(map(Citation.of, message.citations))
        cited = {each.marker: each for each in (*citations, *map(Citation.of, message.opposing_citations))}
        return filled(
            cls,
            message,
            text=message.content,
            citations=citations,
            opposing=tuple(
                Opposing(claim.text, cited[each.marker], each.discrepancy.text, each.discrepancy.instead)
                for claim in message.claims
                for each in claim.opposing
            ),
            refusal=held_by(message, "refusal_reason"),
            unsupported=tuple(message.content[span.start : span.end] for span in message.unsupported_spans),
        )

    @property
    def degraded(self) -> tuple[str, ...]:
        return _stages(self.message)

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class TextDelta:
    """The next piece of the text of an answer that is being generated."""

    text: str
    message: answer_service_pb2.AnswerEvent = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Sources:
    """What was found for an answer that is being generated."""

    hits: tuple[Hit, ...]
    message: answer_service_pb2.AnswerEvent = field(repr=False, compare=False)


AnswerEvent: TypeAlias = Sources | TextDelta | Citation | Answer
"""What `ask_stream` yields: what was found, pieces of the text and citations as they come, and the whole answer."""


@dataclass(frozen=True, slots=True)
class FailedQuestion:
    """A question of a conversation that has no answer, and why."""

    question: str
    error: GroundwireError


def answer_event(message: answer_service_pb2.AnswerEvent) -> AnswerEvent | None:
    """Return the event of a message; None for one of a later version."""
    match message.WhichOneof("event"):
        case "retrieved":
            return Sources(joined(message.retrieved.hits, message.retrieved.documents), message)
        case "text_delta":
            return TextDelta(message.text_delta.text, message)
        case "citation":
            return Citation.of(message.citation.citation)
        case "final":
            return Answer.of(message.final.answer)
        case _:
            return None


@dataclass(frozen=True, slots=True)
class CheckedCitation:
    """What became of a citation: `verified` says that the stored text has its quote at its place.

    `failure` is why not, such as `text_differs`. `is_current` says that the generation it cites is the live one.
    `state` is what became of the quote there: `in_place`, `moved` or `gone`; `message.live_span` says where it is now.
    """

    citation: Citation
    verified: bool
    failure: str
    is_current: bool
    state: str
    message: citation_pb2.CitationVerification = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Verification:
    """The citations of an answer compared with the stored texts; `verified` says that all of them are exact."""

    verified: bool
    citations: tuple[CheckedCitation, ...]
    message: answer_service_pb2.VerifyCitationsResponse = field(repr=False, compare=False)

    @classmethod
    def of(cls, message: answer_service_pb2.VerifyCitationsResponse, citations: Sequence[Citation]) -> "Verification":
        """Return the verification of a message for the citations that were sent."""
        checked = tuple(
            CheckedCitation(
                citation,
                verified=each.verdict == citation_pb2.CITATION_VERDICT_EXACT,
                failure=held_by(each, "failure"),
                is_current=each.generation_live,
                state=held_by(each, "quote_state"),
                message=each,
            )
            for citation, each in zip(citations, message.verifications, strict=True)
        )
        return cls(message.all_verified, checked, message)


@dataclass(frozen=True, slots=True)
class Document:
    """A stored document; `generation` counts its versions from 1, times are in UTC."""

    document_id: str
    source: str
    title: str
    creators: tuple[str, ...]
    tags: tuple[str, ...]
    metadata: Mapping[str, MetadataValue]
    generation: int
    chunk_count: int
    char_count: int
    update_time: datetime | None
    delete_time: datetime | None
    message: document_pb2.Document = field(repr=False, compare=False)

    @classmethod
    def of(cls, message: document_pb2.Document) -> "Document":
        return filled(
            cls,
            message,
            source=message.source_uri,
            title=message.fields.title or message.display_title,
            char_count=message.total_chars,
            **{name: held_by(message.fields, name) for name in ("creators", "tags", "metadata")},
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a long operation: `stage`, such as `embedding`, and how much of `total` is done; 0 if unknown."""

    stage: str
    done: int
    total: int
    message: progress_pb2.Progress = field(repr=False, compare=False)

    @classmethod
    def of(cls, message: progress_pb2.Progress) -> "Progress":
        return filled(cls, message, done=message.done_count, total=message.total_count)


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What an ingest did: `outcome` is created, replaced, unchanged or reused.

    `chunk_count` is the size of the live generation and `embedded_count` the number of texts embedded for it.
    """

    outcome: str
    document: Document
    chunk_count: int
    embedded_count: int
    warnings: tuple[str, ...]
    message: ingest_result_pb2.IngestResult = field(repr=False, compare=False)

    @classmethod
    def of(cls, message: ingest_result_pb2.IngestResult) -> "IngestResult":
        return filled(
            cls,
            message,
            document=Document.of(message.document),
            chunk_count=message.counts.chunk_count,
            embedded_count=message.counts.embedded_count,
            warnings=tuple(warning.message for warning in message.warnings),
        )


@dataclass(frozen=True, slots=True)
class IngestOperation:
    """An ingest that runs on the server; its name is all that `wait` and `cancel` need."""

    name: str
    message: operations_pb2.Operation = field(repr=False, compare=False)

    @classmethod
    def of(cls, message: operations_pb2.Operation) -> "IngestOperation":
        return filled(cls, message)


@dataclass(frozen=True, slots=True)
class Deletion:
    """What a deletion did; `purged` says that it cannot be undone."""

    purged: bool
    document_count: int
    chunk_count: int
    message: deletion_pb2.DeletionReceipt = field(repr=False, compare=False)

    @classmethod
    def of(cls, message: deletion_pb2.DeletionReceipt) -> "Deletion":
        return filled(cls, message)


@dataclass(frozen=True, slots=True)
class Purge:
    """What a purge deleted; where it only counted, `sample` has the sources of the first 100 documents."""

    document_count: int
    sample: tuple[str, ...]
    message: ingest_service_pb2.PurgeDocumentsResponse = field(repr=False, compare=False)

    @classmethod
    def of(cls, message: ingest_service_pb2.PurgeDocumentsResponse) -> "Purge":
        return cls(message.purge_count, tuple(message.purge_sample), message)


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """Facts about a collection; `profile` is general, documents, conversations, memory, web or book.

    `document_count` includes the records.
    """

    name: str
    profile: str
    document_count: int
    record_count: int
    chunk_count: int
    embedding_model: str
    message: collection_pb2.Collection = field(repr=False, compare=False)

    @classmethod
    def of(cls, message: collection_pb2.Collection) -> "CollectionInfo":
        return filled(cls, message, embedding_model=message.embedding.model_name)

    def check_profile(self, profile: str | None) -> None:
        """Check that the collection has this profile; None takes any.

        Raises:
            AlreadyExistsError: it has another one.
        """
        if profile is not None and named_value("profile", collection_pb2.Profile, profile) != self.message.profile:
            message = f"collection {self.name!r} exists with the profile {self.profile}, not {profile}"
            raise AlreadyExistsError(message, resource=self.name)


@dataclass(frozen=True, slots=True)
class Session:
    """A conversation, in which a question is understood in the light of earlier ones."""

    session_id: str
    collection: str
    message: session_pb2.Session = field(repr=False, compare=False)

    @classmethod
    def of(cls, message: session_pb2.Session) -> "Session":
        return filled(cls, message)
