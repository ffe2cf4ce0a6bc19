"""Decides which statements of a draft rest on sources that agree with what is stored."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from groundwire.answer.domain.draft import Source, Statement
from groundwire.kernel.spans import Span


@dataclass(frozen=True, slots=True)
class StoredChunkText:
    """What the catalog holds where a source says it stands: the chunk's identity and span, and the text of the span.

    The chunk is of a live generation; `text` was read from the canonical text, not from the chunk. `page_numbers` are
    the pages of the span, which may be fewer than those of the chunk.
    """

    chunk_id: str
    document_id: str
    generation: int
    chunk_span: Span
    chunk_content: str
    text: str
    page_numbers: tuple[int, ...] = ()


def agrees(source: Source, stored: StoredChunkText | None) -> bool:
    """Tell whether a source is exactly what is stored: chunk, document, generation, text, code points and bytes."""
    if stored is None or source.quote != stored.text:
        return False
    passage, span = source.passage, source.span
    identity = (passage.chunk_id, passage.document_id, passage.generation)
    return identity == (stored.chunk_id, stored.document_id, stored.generation) and span == _span_within(stored, span)


def _span_within(stored: StoredChunkText, span: Span) -> Span | None:
    """Return the span with byte offsets recomputed from the stored chunk; None when it is not inside the chunk."""
    chunk = stored.chunk_span
    if not chunk.start <= span.start < span.end <= chunk.end:
        return None
    front = len(stored.chunk_content[: span.start - chunk.start].encode())
    inside = len(stored.chunk_content[span.start - chunk.start : span.end - chunk.start].encode())
    first = chunk.start_byte + front
    return Span(span.start, span.end, first, first + inside)


def keep_supported(
    statements: Sequence[Statement], stored: Sequence[Sequence[StoredChunkText | None]]
) -> list[Statement]:
    """Return the statements with the sources that agree, and with their pages; one without any is left out.

    Args:
        statements: the draft.
        stored: for each statement, for each of its sources, what is stored there, or None.
    """
    kept = []
    for statement, found in zip(statements, stored, strict=True):
        sources = tuple(
            replace(source, page_numbers=text.page_numbers)
            for source, text in zip(statement.sources, found, strict=True)
            if text is not None and agrees(source, text)
        )
        if sources:
            kept.append(replace(statement, sources=sources))
    return kept
