"""The filter keys of a chunk, which engines index and filters name (requirements S1-10 to S1-26)."""

from datetime import datetime

from groundwire.kernel.chunk import Chunk
from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.filters import Payload, Scalar, Value


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

    `ingested` is when the generation of the chunk was stored.
    """
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
        **_place(chunk),
        "ingested_at": epoch_ms(ingested),
    }
    built_in = {key: value for key, value in candidates.items() if value is not None and value not in ("", ())}
    return built_in | all_metadata(fields, chunk)


def _place(chunk: Chunk) -> dict[str, Value | None]:
    """Return where a chunk stands in its document."""
    return {
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
    }


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
