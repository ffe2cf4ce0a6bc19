"""Chunks and spans as messages, for every service that returns them."""

from groundwire.api.common.v1 import chunk_pb2, span_pb2
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.spans import Span


def to_text_of_chunk(chunk: Chunk) -> chunk_pb2.Chunk:
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


def to_span(span: Span) -> span_pb2.Span:
    """Return the message of a span."""
    return span_pb2.Span(start=span.start, end=span.end, start_byte=span.start_byte, end_byte=span.end_byte)
