"""What travels between ingest and the catalog while a generation is written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TypeAlias, TypeVar

from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.filters import Payload
from groundwire.kernel.pages import PageSpan
from groundwire.kernel.payload import chunk_payload

T = TypeVar("T")


class GenerationState(StrEnum):
    """PENDING until all its vectors are in the engine, then LIVE, then SUPERSEDED by the next one.

    DELETED while its document is deleted softly; a restoration makes it LIVE again.
    """

    PENDING = "PENDING"
    LIVE = "LIVE"
    SUPERSEDED = "SUPERSEDED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class GenerationDraft:
    """A generation to be written.

    `document_id` None makes a new id. `expected_generation` is the live generation the caller saw, 0 for
    a document that did not exist. `source_hash` is the SHA-256 of the original bytes in lower-case hex.
    `pages` are those of the source in order, `properties` what the source says about itself. `rules_digest`
    identifies the rules that the chunks were made by, `tokenizer` is the name of the counter of their tokens,
    `encoding` that of the encoding of the bytes, empty where they are no text.
    `chunk_ids` are those the caller made, None for ids in the scheme of the server. `source_version` None keeps that of
    the document.
    """

    document_id: str | None
    source_uri: str
    format: DocumentFormat
    source_hash: str
    fields: DocumentFields
    text: str
    chunks: Sequence[Chunk]
    expected_generation: int
    pages: Sequence[PageSpan] = ()
    properties: DocumentFields = field(default_factory=DocumentFields)
    rules_digest: str = ""
    tokenizer: str = ""
    encoding: str = ""
    chunk_ids: Sequence[str] | None = None
    source_version: int | None = None

    def payloads(
        self, document_id: str, numbers: Sequence[int], chunk_ids: Sequence[str], ingested: datetime
    ) -> list[Payload]:
        """Return the filter keys of each chunk, given the ids of the document and of the chunks, in order."""
        return [
            chunk_payload(
                document_id=document_id,
                chunk_id=chunk_id,
                chunk_number=number,
                source_uri=self.source_uri,
                document_format=self.format,
                fields=self.fields,
                chunk=chunk,
                ingested=ingested,
            )
            for number, chunk_id, chunk in zip(numbers, chunk_ids, self.chunks, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class PendingGeneration:
    """A generation that is written and not visible yet; item i of each sequence belongs to chunk i of the draft.

    `key` is the catalog's own key. Of leftovers of a dead process the payloads are not read: they are empty.
    """

    key: int
    document_id: str
    generation: int
    expected_generation: int
    tenant: str
    collection: Collection
    numbers: Sequence[int]
    chunk_ids: Sequence[str]
    payloads: Sequence[Payload]
    source_version: int | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is remembered of a call with a request id, so that a repetition gets the same answer.

    `body_digest` identifies the body of the request, `response` is the serialised answer.
    """

    request_id: str
    method: str
    body_digest: str
    response: bytes


Receipted: TypeAlias = Receipt | Callable[[T], Receipt] | None
"""A receipt, or how to make it from the result, or none for a call without request id."""
