"""Passages and statements with defaults."""

from dataclasses import replace

from groundwire.answer.evidence import Passage, Source, Statement
from groundwire.kernel.spans import Span


def make_passage(
    content: str, *, rank: int = 1, start: int = 0, start_byte: int | None = None, **fields: object
) -> Passage:
    first = start if start_byte is None else start_byte
    passage = Passage(
        rank=rank,
        chunk_id=f"doc_{rank}#chunk_000",
        chunk_number=rank,
        document_id=f"doc_{rank}",
        generation=1,
        source_uri=f"{rank}.md",
        title=f"Title {rank}",
        chapter="Chapter 1",
        section="",
        section_heading="Heading",
        page_numbers=(),
        span=Span(start, start + len(content), first, first + len(content.encode())),
        content=content,
        relevance=0.6,
    )
    return replace(passage, **fields)  # type: ignore[arg-type]  # a builder takes any field


def make_statement(passage: Passage, text: str, separator: str = " ") -> Statement:
    start = passage.content.index(text)
    return Statement(text, (Source(passage, passage.span_of(start, start + len(text)), text),), separator)
