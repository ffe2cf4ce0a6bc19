"""A chunk as the catalog has it, with its document, and its filter keys (requirements S1-10 to S1-26)."""

from dataclasses import dataclass
from datetime import datetime

from groundwire.kernel.chunk import Chunk
from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat
from groundwire.kernel.filters import Payload, Scalar, Value
from groundwire.kernel.identifiers import etag_of
from groundwire.kernel.records import record_keys, record_time


@dataclass(frozen=True, slots=True)
class ChunkLinks:
    """Ids of the chunks around one in its document, None where there is none.

    `parent` and `grandparent` are one and two levels up, where levels have chunks of their own; such chunks have no
    `previous` and `following`.
    """

    previous: str | None = None
    following: str | None = None
    parent: str | None = None
    grandparent: str | None = None


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk with its identity in the catalog and the document it belongs to.

    `chunk_number` is unique in the system and never reused, 1 <= n < 2^53. `embed_time` is when its vector was
    made, `ingest_time` when its generation was stored.
    """

    chunk_number: int
    chunk_id: str
    generation: int
    chunk: Chunk
    document: Document
    embed_time: datetime
    ingest_time: datetime
    links: ChunkLinks = ChunkLinks()

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags of the document and of the chunk itself."""
        return all_tags(self.document.fields, self.chunk)

    @property
    def metadata(self) -> dict[str, Value]:
        """Return the caller's own keys of the document, overlaid by those of the chunk."""
        return all_metadata(self.document.fields, self.chunk)

    @property
    def etag(self) -> str:
        """Return a tag of all about it that callers can change: its tags and metadata, and those of its document."""
        # The number is another one with each generation, so that an etag of replaced content never fits.
        return etag_of((self.chunk_number, self.chunk.tags, self.tags, self.metadata))

    @property
    def payload(self) -> Payload:
        """Return the filter keys, made anew."""
        return chunk_payload(
            document_id=self.document.document_id,
            chunk_id=self.chunk_id,
            chunk_number=self.chunk_number,
            source_uri=self.document.source_uri,
            document_format=self.document.format,
            fields=self.document.fields,
            chunk=self.chunk,
            ingested=self.ingest_time,
        )


def chunk_payload(
    *,
    document_id: str,
    chunk_id: str,
    chunk_number: int,
    source_uri: str,
    document_format: DocumentFormat,
    fields: DocumentFields,
    chunk: Chunk,
    ingested: datetime,
) -> Payload:
    """Return the filter keys of a chunk; keys without a value are left out, never None or empty.

    `ingested` is when the generation of the chunk was stored; of a record, its own time takes the place.
    """
    if fields.record is not None:
        ingested = record_time(fields.record)
    candidates: dict[str, Value | None] = {
        "document_id": document_id,
        "chunk_id": chunk_id,
        "chunk_number": chunk_number,
        "source": source_uri,
        "format": document_format.value,
        "title": fields.title,
        "creators": fields.creators,
        "subjects": fields.subjects,
        "date_created": epoch_ms(fields.date_created) if fields.date_created else None,
        "language": fields.language,
        "category": fields.category,
        "tags": all_tags(fields, chunk),
        "project": fields.project,
        "chapter": chunk.chapter,
        "section": chunk.section,
        "section_title": chunk.section_title,
        "level": chunk.level,
        "sequence_num": chunk.sequence_num,
        "page_numbers": chunk.page_numbers,
        "page_start": chunk.page_numbers[0] if chunk.page_numbers else None,
        "page_end": chunk.page_numbers[-1] if chunk.page_numbers else None,
        "char_start": chunk.span.start,
        "char_end": chunk.span.end,
        "ingested_at": epoch_ms(ingested),
    }
    # The keys of the caller come last; none of them has the name of a built-in one.
    if fields.record is not None:
        candidates |= record_keys(source_uri, fields.record)
    built_in = {key: value for key, value in candidates.items() if value is not None and value not in ("", ())}
    return built_in | all_metadata(fields, chunk)


def all_tags(fields: DocumentFields, chunk: Chunk) -> tuple[str, ...]:
    """Return the tags of the document, then those of the chunk itself, each once."""
    return tuple(dict.fromkeys((*fields.tags, *chunk.tags)))


def all_metadata(fields: DocumentFields, chunk: Chunk) -> dict[str, Value]:
    """Return the caller's own keys of the document, overlaid by those of the chunk."""
    return {**fields.metadata, **chunk.metadata}


def same_filter_keys(one: Payload, other: Payload) -> bool:
    """Tell whether no equality or order of a filter tells two payloads apart.

    A list of one element counts as that element, the order of a list does not count, and integers and floats of the
    same value are the same.
    """
    return one.keys() == other.keys() and all(_kinds(one[field]) == _kinds(other[field]) for field in one)


def _kinds(value: Value) -> set[tuple[str, Scalar]]:
    """Return the elements, each with what tells `1`, `True` and `"1"` apart."""
    elements = value if isinstance(value, tuple) else (value,)
    return {("number" if type(each) in {int, float} else type(each).__name__, each) for each in elements}
