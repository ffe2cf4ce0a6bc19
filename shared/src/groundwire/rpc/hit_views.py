"""How much of chunks and documents each view of hits shows (`HitView` in the contract)."""

from collections.abc import Iterable

from groundwire.api.common.v1 import chunk_pb2, document_pb2
from groundwire.api.common.v1.document_format_pb2 import DocumentFormat
from groundwire.api.common.v1.hit_pb2 import HIT_VIEW_FULL, HIT_VIEW_IDS, Hit, HitView
from groundwire.kernel.document import Document
from groundwire.kernel.stored_chunk import StoredChunk
from groundwire.rpc.chunk_messages import to_chunk_message, to_span
from groundwire.rpc.document_messages import to_document_message
from groundwire.rpc.metadata_messages import to_metadata
from groundwire.rpc.times import to_timestamp


def chunk_in_view(stored: StoredChunk, view: "HitView.ValueType") -> chunk_pb2.Chunk:
    """Return the message of a chunk as far as the view goes; unspecified means `BASIC`."""
    if view == HIT_VIEW_FULL:
        return to_chunk_message(stored)
    message = chunk_pb2.Chunk(
        chunk_id=stored.chunk_id,
        chunk_number=stored.chunk_number,
        document_id=stored.document.document_id,
        generation=stored.generation,
        span=to_span(stored.chunk.span),
    )
    if view == HIT_VIEW_IDS:
        return message
    chunk = stored.chunk
    message.MergeFrom(
        chunk_pb2.Chunk(
            content=chunk.content,
            source_uri=stored.document.source_uri,
            sequence_num=chunk.sequence_num,
            chapter=chunk.chapter,
            section=chunk.section or "",
            section_heading=chunk.section_title,
            hierarchy_path=chunk.hierarchy_path,
            level=chunk.level,
            page_numbers=chunk.page_numbers,
            tags=stored.tags,
            metadata=to_metadata(stored.metadata),
        )
    )
    return message


def documents_in_view(documents: Iterable[Document], view: "HitView.ValueType") -> list[document_pb2.Document]:
    """Return the messages of the documents as far as the view goes, each once, in the order of their first mention."""
    if view == HIT_VIEW_IDS:
        return []
    to_message = to_document_message if view == HIT_VIEW_FULL else _to_basic_document
    return [to_message(document) for document in {each.document_id: each for each in documents}.values()]


def only_ids(hit: Hit) -> Hit:
    """Return a hit of a larger view as `HIT_VIEW_IDS` shows it."""
    chunk = hit.chunk
    shown = Hit()
    shown.CopyFrom(hit)
    shown.chunk.CopyFrom(
        chunk_pb2.Chunk(
            chunk_id=chunk.chunk_id,
            chunk_number=chunk.chunk_number,
            document_id=chunk.document_id,
            generation=chunk.generation,
            span=chunk.span,
        )
    )
    return shown


def _to_basic_document(document: Document) -> document_pb2.Document:
    fields = document.fields
    return document_pb2.Document(
        document_id=document.document_id,
        collection=document.collection,
        source_uri=document.source_uri,
        format=DocumentFormat.Value(f"DOCUMENT_FORMAT_{document.format.name}"),
        generation=document.generation,
        display_title=document.display_title,
        fields=document_pb2.DocumentFields(
            title=fields.title or "",
            creators=fields.creators,
            date_created=to_timestamp(fields.date_created) if fields.date_created else None,
            language=fields.language,
            category=fields.category or "",
            project=fields.project or "",
        ),
    )
