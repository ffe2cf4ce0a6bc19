"""Chunks and spans as messages, for every service that returns them."""

from groundwire.api.common.v1 import chunk_pb2, span_pb2
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.spans import Span
from groundwire.kernel.stored_chunk import StoredChunk
from groundwire.rpc.metadata_messages import to_metadata
from groundwire.rpc.times import to_timestamp


def to_chunk_message(stored: StoredChunk, vector: Vectors | None = None) -> chunk_pb2.Chunk:
    """Return the message of a chunk, with its vector (float32, shape (d,)) if one is given."""
    document = stored.document
    message = _to_text_of_chunk(stored.chunk)
    message.MergeFrom(
        chunk_pb2.Chunk(
            chunk_id=stored.chunk_id,
            chunk_number=stored.chunk_number,
            document_id=document.document_id,
            generation=stored.generation,
            source_uri=document.source_uri,
            tokenizer=document.tokenizer,
            prev_chunk_id=stored.links.previous or "",
            next_chunk_id=stored.links.following or "",
            parent_chunk_id=stored.links.parent or "",
            grandparent_chunk_id=stored.links.grandparent or "",
            tags=stored.tags,
            metadata=to_metadata(stored.metadata),
            embedding_model=document.embedding_model,
            embed_time=to_timestamp(stored.embed_time),
            create_time=to_timestamp(stored.ingest_time),
            etag=stored.etag,
            embedding=() if vector is None else vector.tolist(),
        )
    )
    return message


def to_span(span: Span) -> span_pb2.Span:
    """Return the message of a span."""
    return span_pb2.Span(start=span.start, end=span.end, start_byte=span.start_byte, end_byte=span.end_byte)


def _to_text_of_chunk(chunk: Chunk) -> chunk_pb2.Chunk:
    """Return what a chunk says and where it stands in the text."""
    unique_start = min(chunk.span.start + chunk.overlap_prev_chars, chunk.span.end)
    return chunk_pb2.Chunk(
        sequence_num=chunk.sequence_num,
        span=to_span(chunk.span),
        content=chunk.content,
        content_hash=chunk.content_hash,
        chapter=chunk.chapter,
        section=chunk.section or "",
        section_heading=chunk.section_title,
        page_numbers=chunk.page_numbers,
        hierarchy_path=chunk.hierarchy_path,
        level=chunk.level,
        token_count=chunk.token_count,
        word_count=len(chunk.content.split()),
        char_count=len(chunk.content),
        overlap_prev_chars=chunk.overlap_prev_chars,
        overlap_next_chars=chunk.overlap_next_chars,
        unique_content_start=unique_start,
        unique_content_end=max(unique_start, chunk.span.end - chunk.overlap_next_chars),
        undersized=chunk.undersized,
        sentence_index=chunk.sentence_index,
        window_size=chunk.window_size,
    )
