"""Chunks and documents as messages, whole or as far as a view of hits goes (`HitView` in the contract)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from groundwire.api.common.v1 import chunk_pb2, document_pb2, embedding_pb2, span_pb2
from groundwire.api.common.v1 import record_pb2 as pb
from groundwire.api.common.v1.document_format_pb2 import DocumentFormat
from groundwire.api.common.v1.hit_pb2 import HIT_VIEW_FULL, HIT_VIEW_IDS, Hit, HitView
from groundwire.kernel import document as kernel_document
from groundwire.kernel.chunk import StoredChunk
from groundwire.kernel.document import Document, DocumentFields, DocumentReference
from groundwire.kernel.embedder import EmbeddingIdentity, Vectors
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.identifiers import parse_source_uri
from groundwire.kernel.records import HISTORY, QUOTED, RecordLinks, StoredRecord, record_time
from groundwire.kernel.spans import Span
from groundwire.rpc.value_messages import enum_prefix, to_metadata, to_timestamp

_FORMATS = {each: DocumentFormat.Value(f"DOCUMENT_FORMAT_{each.name}") for each in kernel_document.DocumentFormat}


def to_chunk_message(stored: StoredChunk, vector: Vectors | None = None) -> chunk_pb2.Chunk:
    """Return the message of a chunk, with its vector (float32, shape (d,)) if one is given."""
    chunk, document = stored.chunk, stored.document
    # A short chunk may be covered by its two neighbours; then none of its text is its own.
    unique_start = min(chunk.span.start + chunk.overlap_prev_chars, chunk.span.end)
    return chunk_pb2.Chunk(
        **_ids_of(stored),
        **_basics_of(stored),
        content_hash=chunk.content_hash,
        token_count=chunk.token_count,
        tokenizer=document.tokenizer,
        word_count=len(chunk.content.split()),
        char_count=len(chunk.content),
        overlap_prev_chars=chunk.overlap_prev_chars,
        overlap_next_chars=chunk.overlap_next_chars,
        unique_content_start=unique_start,
        unique_content_end=max(unique_start, chunk.span.end - chunk.overlap_next_chars),
        undersized=chunk.undersized,
        sentence_index=chunk.sentence_index,
        window_size=chunk.window_size,
        prev_chunk_id=stored.links.previous or "",
        next_chunk_id=stored.links.following or "",
        parent_chunk_id=stored.links.parent or "",
        grandparent_chunk_id=stored.links.grandparent or "",
        embedding_model=document.embedding_model,
        embed_time=to_timestamp(stored.embed_time),
        create_time=to_timestamp(stored.ingest_time),
        etag=stored.etag,
        embedding=() if vector is None else vector.tolist(),
    )


_ID_FIELDS = ("chunk_id", "chunk_number", "document_id", "generation", "span")


def _ids_of(stored: StoredChunk) -> dict[str, Any]:
    """Return the fields that every view of a chunk shows."""
    return {
        "chunk_id": stored.chunk_id,
        "chunk_number": stored.chunk_number,
        "document_id": stored.document.document_id,
        "generation": stored.generation,
        "span": to_span(stored.chunk.span),
    }


def _basics_of(stored: StoredChunk) -> dict[str, Any]:
    """Return the additional fields of the views from `BASIC` on."""
    chunk = stored.chunk
    return {
        "content": chunk.content,
        "source_uri": stored.document.source_uri,
        "sequence_num": chunk.sequence_num,
        "chapter": chunk.chapter,
        "section": chunk.section or "",
        "section_heading": chunk.section_title,
        "hierarchy_path": chunk.hierarchy_path,
        "level": chunk.level,
        "page_numbers": chunk.page_numbers,
        "tags": stored.tags,
        "metadata": to_metadata(stored.metadata),
    }


def to_span(span: Span) -> span_pb2.Span:
    return span_pb2.Span(start=span.start, end=span.end, start_byte=span.start_byte, end_byte=span.end_byte)


def parse_reference(message: document_pb2.DocumentReference) -> DocumentReference:
    """Return which document is meant.

    Raises:
        InvalidRequestError: neither id nor source is given, or the source cannot be one.
    """
    match message.WhichOneof("reference"):
        case "document_id" if message.document_id:
            return DocumentReference(document_id=message.document_id)
        case "source_uri":
            return DocumentReference(source_uri=parse_source_uri(message.source_uri, "reference.source_uri"))
        case _:
            raise InvalidRequestError.of("reference", "must be given: either document_id or source_uri")


def to_document_message(document: Document) -> document_pb2.Document:
    return document_pb2.Document(
        document_id=document.document_id,
        collection=document.collection,
        source_uri=document.source_uri,
        format=_FORMATS[document.format],
        source_hash=document.source_hash,
        fields=to_fields_message(document.fields),
        generation=document.generation,
        chunk_count=document.chunk_count,
        total_chars=document.total_chars,
        total_bytes=document.total_bytes,
        encoding=document.encoding,
        embedding_model=document.embedding_model,
        ingest_time=to_timestamp(document.ingest_time),
        update_time=to_timestamp(document.update_time),
        display_title=document.display_title,
        alias_uris=document.alias_uris,
        alias_count=document.alias_count,
        source_version=document.source_version,
        delete_time=None if document.delete_time is None else to_timestamp(document.delete_time),
        etag=document.etag,
    )


def to_fields_message(fields: DocumentFields) -> document_pb2.DocumentFields:
    """Return the message of the fields; absent values are left out."""
    return document_pb2.DocumentFields(
        title=fields.title or "",
        creators=fields.creators,
        subjects=fields.subjects,
        description=fields.description or "",
        date_created=to_timestamp(fields.date_created) if fields.date_created else None,
        language=fields.language,
        category=fields.category or "",
        tags=fields.tags,
        project=fields.project or "",
        metadata=to_metadata(fields.metadata),
    )


def to_identity_message(identity: EmbeddingIdentity) -> embedding_pb2.EmbeddingIdentity:
    return embedding_pb2.EmbeddingIdentity(
        provider=identity.provider,
        model_name=identity.model_name,
        revision=identity.revision,
        dimensions=identity.dimensions,
        max_sequence_tokens=identity.max_tokens,
        normalized=identity.normalized,
        probe_digest=identity.probe_digest,
    )


# Views


def chunk_in_view(stored: StoredChunk, view: "HitView.ValueType") -> bytes:
    """Return the serialized message of a chunk as far as the view goes; unspecified means `BASIC`."""
    if view == HIT_VIEW_FULL:
        return to_chunk_message(stored).SerializeToString()
    if view == HIT_VIEW_IDS:
        return chunk_pb2.Chunk(**_ids_of(stored)).SerializeToString()
    # Remembered with the chunk: the same chunks are found again and again, and building takes longer than parsing.
    raw: bytes | None = stored.memo.get("basic")
    if raw is None:
        raw = stored.memo["basic"] = chunk_pb2.Chunk(**_ids_of(stored), **_basics_of(stored)).SerializeToString()
    return raw


def documents_in_view(documents: Iterable[Document], view: "HitView.ValueType") -> Iterator[bytes]:
    """Yield the serialized messages of the documents as far as the view goes, each once, as first mentioned."""
    if view == HIT_VIEW_IDS:
        return
    for document in {each.document_id: each for each in documents}.values():
        if view == HIT_VIEW_FULL:
            yield to_document_message(document).SerializeToString()
            continue
        raw: bytes | None = document.memo.get("basic")
        if raw is None:
            # What the view has none of.
            short = replace(document.fields, subjects=(), description=None, tags=(), metadata={})
            message = document_pb2.Document(
                document_id=document.document_id,
                collection=document.collection,
                source_uri=document.source_uri,
                format=_FORMATS[document.format],
                generation=document.generation,
                display_title=document.display_title,
                fields=to_fields_message(short),
            )
            raw = document.memo["basic"] = message.SerializeToString()
        yield raw


def only_ids(hit: Hit) -> Hit:
    """Return a hit of a larger view as `HIT_VIEW_IDS` shows it."""
    shown = Hit()
    shown.CopyFrom(hit)
    shown.chunk.CopyFrom(chunk_pb2.Chunk(**{name: getattr(hit.chunk, name) for name in _ID_FIELDS}))
    return shown


RECORD_TYPES = ("persona", "faq", "memory", "turn", "summary")
"""Types of records as they are stored; each has details of this name."""
_TYPE, _ORIGIN = pb.RecordType.DESCRIPTOR, pb.RecordOrigin.DESCRIPTOR
_PLACES = {"type": "record_type", "source": "origin", "timestamp": "timestamp", "scope": "scope", "custom": "metadata"}


def record_type_of(message: pb.Record) -> str:
    """Return the stored name of the type of a record, empty for none or one that this version does not know."""
    return _stored_name(_TYPE, message.record_type) if message.record_type in _TYPE.values_by_number else ""


def stored_metadata(message: pb.Record) -> dict[str, Any]:
    """Return the set fields of a message under their stored keys, without time and the caller's own keys."""
    metadata: dict[str, Any] = {"type": record_type_of(message)}
    if message.origin:
        metadata["source"] = _stored_name(_ORIGIN, message.origin)
    if message.scope:
        metadata["scope"] = message.scope
    details = message.WhichOneof("details")
    for field, value in getattr(message, details).ListFields() if details else ():
        is_enum = field.enum_type is not None
        stored = _stored_name(field.enum_type, value) if is_enum else list(value) if field.name == "tags" else value
        metadata[_stored_key(field)] = stored
    return metadata


def place_of(record_type: str, parts: Sequence[int | str]) -> str:
    """Return the path in a message of a stored key and what is below it, such as `memory.tags[1]`."""
    key, *below = parts
    name = _PLACES.get(str(key)) or f"{record_type}.{str(key).removeprefix('_')}"
    return name + "".join(f"[{part!r}]" for part in below)


def to_record_message(record: StoredRecord) -> pb.Record:
    document, metadata = record.document, record.metadata
    record_type, history = metadata["type"], metadata.get(HISTORY, {})
    accessed = record.last_accessed or _moment(history, "last_accessed_time")
    message = pb.Record(
        record_id=record.record_id,
        record_type=pb.RecordType.Value(f"RECORD_TYPE_{record_type.upper()}"),
        text=record.text,
        timestamp=to_timestamp(record_time(metadata)),
        origin=pb.RecordOrigin.Value(f"RECORD_ORIGIN_{metadata['source'].upper()}"),
        scope=metadata["scope"],
        metadata=to_metadata(document.fields.metadata),
        links=to_links_message(record.links),
        access_count=record.access_count + history.get("access_count", 0),
        last_accessed_time=None if accessed is None else to_timestamp(accessed),
        create_time=to_timestamp(_moment(history, "create_time") or document.ingest_time),
        update_time=to_timestamp(document.update_time),
        delete_time=None if document.delete_time is None else to_timestamp(document.delete_time),
        etag=document.etag,
        document_id=document.document_id,
        generation=document.generation,
        token_count=record.token_count,
        quoted_document_ids=metadata.get(QUOTED, ()),
    )
    details = getattr(message, record_type)
    details.SetInParent()
    for field in details.DESCRIPTOR.fields:
        value: Any = document.fields.tags if field.name == "tags" else metadata.get(_stored_key(field))
        if value is None:
            continue
        if field.name == "tags":
            details.tags.extend(value)
        elif field.enum_type is not None:
            name = enum_prefix(field.enum_type) + value.upper()
            setattr(details, field.name, field.enum_type.values_by_name[name].number)
        else:
            setattr(details, field.name, value)
    return message


def _moment(history: Mapping[str, Any], name: str) -> datetime | None:
    return datetime.fromisoformat(history[name]) if name in history else None


def to_links_message(links: RecordLinks) -> pb.RecordLinks:
    return pb.RecordLinks(**asdict(links))


def _stored_key(field: FieldDescriptor) -> str:
    # Two FAQ keys begin with an underscore, which only the JSON name of a proto field can have (trap T20).
    return field.json_name if field.json_name.startswith("_") else field.name


def _stored_name(enum: EnumDescriptor, number: int) -> str:
    """Return the stored spelling of a value of an enum, the number of one that this version does not know."""
    if number not in enum.values_by_number:
        return str(number)
    return enum.values_by_number[number].name.removeprefix(enum_prefix(enum)).lower()
