"""Make chunks of what the parser finds."""

from groundwire.ingest.domain.parsing import ParsedChunk, ParsedDocument
from groundwire.kernel.chunk import MAX_CHUNK_CHARS, Chunk


def chunks_of(parsed: ParsedDocument, window_size: int) -> list[Chunk]:
    """Return the chunks of a document in order; `window_size` goes with those that are sentences."""
    return [_chunk(number, chunk, parsed.text, window_size) for number, chunk in enumerate(parsed.chunks)]


def _chunk(number: int, chunk: ParsedChunk, text: str, window_size: int) -> Chunk:
    start, end, path = chunk.span.start, chunk.span.end, chunk.place.path
    is_held = not chunk.upper or end - start <= MAX_CHUNK_CHARS
    return Chunk(
        sequence_num=number,
        span=chunk.span,
        content=text[start:end] if is_held else "",
        token_count=chunk.token_count,
        chapter=chunk.place.chapter,
        section=chunk.place.section,
        hierarchy_path=path if chunk.paragraph is None else (*path, f"para_{chunk.paragraph}"),
        level=chunk.place.level,
        page_numbers=chunk.page_numbers,
        overlap_prev_chars=chunk.overlap_prev_chars,
        overlap_next_chars=chunk.overlap_next_chars,
        undersized=chunk.undersized,
        sentence_index=chunk.sentence,
        window_size=None if chunk.sentence is None else window_size,
        parent=chunk.parent,
        grandparent=chunk.grandparent,
        upper=chunk.upper,
        indexed=not chunk.upper,
    )
