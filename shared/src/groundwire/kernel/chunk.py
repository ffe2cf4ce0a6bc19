"""A chunk: a range of one generation's canonical text, with where it stands in the document."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from groundwire.kernel.embedding_text import embedding_text
from groundwire.kernel.filters import Value
from groundwire.kernel.spans import Span

MAX_CHUNK_CHARS = 65_536
"""No chunk has more code points of content; a longer upper chunk keeps its span and no content."""
LEAD_CHARS = 1_000
"""So many code points of its content stand for an upper chunk, below its headings."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """A range of a canonical text. `text[span.start:span.end] == content`, exactly.

    `sequence_num` counts from 0 within the generation. `chapter`, `section_heading` and `section_title`
    are never empty (fallbacks: first heading, title, file name; requirement C26). `hierarchy_path`
    holds the headings above the chunk, outermost first. `page_numbers` are ascending, from 1, without gaps; empty for
    formats without pages. Overlaps are counts of code points shared with the neighbours. `given_embedding_hash` is what
    the catalog holds, or what a vector that was not made here is to be kept under. `tags` and `metadata` are those of
    the chunk itself, beside and over those of its document.

    A `sentence_index` from 0 and a `window_size` belong to chunks that are sentences. `indexed` says whether a search
    may find the chunk. Where levels have chunks of their own, `parent` and `grandparent` are sequence numbers, the
    last part of the path of a paragraph names the paragraph itself, and `upper` chunks stand for a whole document,
    chapter or section: they are never indexed, come after all others, and have no content when they are longer than
    `MAX_CHUNK_CHARS`. `given_heading` is the heading above when it is not the last of the path.
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
    tags: tuple[str, ...] = ()
    metadata: Mapping[str, Value] = field(default_factory=dict)
    sentence_index: int | None = None
    window_size: int | None = None
    parent: int | None = None
    grandparent: int | None = None
    upper: bool = False
    indexed: bool = True
    given_heading: str | None = field(default=None, compare=False)
    given_embedding_hash: str | None = field(default=None, compare=False)

    @property
    def content_hash(self) -> str:
        """Return the SHA-256 of the content's UTF-8 bytes, lower-case hex."""
        return hashlib.sha256(self.content.encode("utf-8")).hexdigest()

    @property
    def embedding_text(self) -> str:
        """Return the text that the model reads for this chunk."""
        return embedding_text(self.headings, self.content[:LEAD_CHARS] if self.upper else self.content)

    @property
    def embedding_hash(self) -> str:
        """Return the SHA-256 of the UTF-8 bytes of the embedded text, lower-case hex: the key of the vector."""
        return self.given_embedding_hash or hashlib.sha256(self.embedding_text.encode("utf-8")).hexdigest()

    @property
    def section_title(self) -> str:
        """Return the nearest heading above the chunk, or the chapter."""
        return self.given_heading or (self.headings[-1] if self.headings else self.chapter)

    @property
    def headings(self) -> tuple[str, ...]:
        """Return the headings above the chunk, outermost first; of an upper chunk its own is the last."""
        return self.hierarchy_path if self.upper or self.parent is None else self.hierarchy_path[:-1]
