"""A retrieved chunk as the answer service reads it."""

from dataclasses import dataclass
from datetime import datetime

from groundwire.kernel.spans import Span


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk that a search found, with what a citation says about it.

    `content` is the canonical text of `document_id` in `generation` at `span`. `relevance` is in [0, 1],
    higher is better. `chapter`, `section_heading`, `title` and `source_uri` are never empty, `section` may be.
    `has_headings`: the content is Markdown, so that a line like `## text` is a heading.
    """

    rank: int
    chunk_id: str
    chunk_number: int
    document_id: str
    generation: int
    source_uri: str
    title: str
    chapter: str
    section: str
    section_heading: str
    page_numbers: tuple[int, ...]
    span: Span
    content: str
    relevance: float
    has_headings: bool = True
    creators: tuple[str, ...] = ()
    date_created: datetime | None = None
    doi: str = ""
    url: str = ""

    def span_of(self, start: int, end: int) -> Span:
        """Return the span in the canonical text of `content[start:end]`, code points within the content."""
        first = self.span.start_byte + len(self.content[:start].encode())
        return Span(
            start=self.span.start + start,
            end=self.span.start + end,
            start_byte=first,
            end_byte=first + len(self.content[start:end].encode()),
        )
