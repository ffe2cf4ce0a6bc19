"""A chunk: a range of one generation's canonical text, with where it stands in the document."""

import hashlib
from dataclasses import dataclass

from groundwire.kernel.spans import Span


@dataclass(frozen=True, slots=True)
class Chunk:
    """A range of a canonical text. `text[span.start:span.end] == content`, exactly, always.

    `sequence_num` counts from 0 within the generation. `chapter`, `section_heading` and `section_title`
    are never empty (fallbacks: first heading, title, file name; requirement C26). `hierarchy_path`
    holds the headings above the chunk, outermost first. `page_numbers` are ascending, from 1, without gaps; empty for
    formats without pages. Overlaps are counts of code points shared with the neighbours.
    """

    sequence_num: int
    span: Span
    content: str
    token_count: int
    chapter: str
    section: str | None
    hierarchy_path: tuple[str, ...]
    level: int
    page_numbers: tuple[int, ...] = ()
    overlap_prev_chars: int = 0
    overlap_next_chars: int = 0
    undersized: bool = False

    @property
    def content_hash(self) -> str:
        """Return the SHA-256 of the content's UTF-8 bytes, lower-case hex."""
        return hashlib.sha256(self.content.encode("utf-8")).hexdigest()

    @property
    def section_title(self) -> str:
        """Return the nearest heading above the chunk, or the chapter."""
        return self.hierarchy_path[-1] if self.hierarchy_path else self.chapter
