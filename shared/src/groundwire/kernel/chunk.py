"""A chunk: a range of one generation's canonical text, with where it stands in the document, and runs of chunks."""

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from groundwire.kernel.bounded_cache import bytes_of
from groundwire.kernel.filters import Value
from groundwire.kernel.spans import Span

MAX_CHUNK_CHARS = 65_536
"""No chunk has more code points of content; a longer upper chunk keeps its span and no content."""
LEAD_CHARS = 1_000
"""Code points of its content that are embedded for an upper chunk, below its headings."""


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
        # The model would truncate a whole chapter or average it over windows; its beginning says what it is about.
        return embedding_text(self.headings, self.content[:LEAD_CHARS] if self.upper else self.content)

    @property
    def embedding_hash(self) -> str:
        """Return the SHA-256 of the UTF-8 bytes of the embedded text, lower-case hex: the key of the vector."""
        return self.given_embedding_hash or hashlib.sha256(self.embedding_text.encode("utf-8")).hexdigest()

    @property
    def held_bytes(self) -> int:
        """Return roughly the memory that its large parts take."""
        texts = sys.getsizeof(self.content) + sys.getsizeof(self.chapter)
        return texts + bytes_of(self.section, self.hierarchy_path, self.page_numbers, self.tags, self.metadata)

    @property
    def section_title(self) -> str:
        """Return the nearest heading above the chunk, or the chapter."""
        return self.given_heading or (self.headings[-1] if self.headings else self.chapter)

    @property
    def headings(self) -> tuple[str, ...]:
        """Return the headings above the chunk, outermost first; of an upper chunk its own is the last."""
        # Where levels have chunks of their own, the last part of the path of a paragraph is the paragraph itself.
        return self.hierarchy_path if self.upper or self.parent is None else self.hierarchy_path[:-1]


def embedding_text(hierarchy_path: Sequence[str], content: str) -> str:
    """Return the text whose vector stands for a chunk: the headings above it, one on each line, and its content.

    A chunk in the middle of a section does not say what it is about; its headings do. They are repeated also where
    the content begins with one of them, so that neighbours of a section are embedded alike.

    `hierarchy_path` has the headings, outermost first; empty leaves the content as it is.
    """
    return "\n".join((*hierarchy_path, "", content)) if hierarchy_path else content


@dataclass(frozen=True, slots=True)
class ChunkLocation:
    """One chunk without its text; fields as in `Chunk`.

    `upper` chunks stand for a whole document, chapter or section; `parent` is the sequence number of the one above.
    """

    sequence_num: int
    span: Span
    hierarchy_path: tuple[str, ...]
    level: int
    upper: bool = False
    parent: int | None = None
    sentence_index: int | None = None
    window_size: int | None = None


# Chapters and sections as runs of chunks


@dataclass(frozen=True, slots=True)
class OutlineChunk:
    """A chunk as the outline sees it. `upper` chunks stand for a document (level 0), chapter (1) or section (2)."""

    document_id: str
    number: int
    sequence_num: int
    start: int
    end: int
    chapter: str
    section: str | None
    level: int
    upper: bool


@dataclass(frozen=True, slots=True)
class Section:
    """The chunks `first` to `last` of a document, by sequence number, which stand below `path`.

    A path of one part is a chapter, of two a section in it. `lead` is the number of the chunk whose vector stands for
    it: its own where it has one, else its first.
    """

    document_id: str
    path: tuple[str, ...]
    lead: int
    first: int
    last: int


def sections_of(chunks: Sequence[OutlineChunk]) -> list[Section]:
    """Return the chapters and sections, each chapter before its sections.

    `chunks` are of whole documents, those of each by rising sequence number.
    """
    sections: list[Section] = []
    for _, of_document in groupby(chunks, key=lambda chunk: chunk.document_id):
        members = list(of_document)
        uppers = [chunk for chunk in members if chunk.upper]
        for chapter, in_chapter in groupby((each for each in members if not each.upper), key=lambda leaf: leaf.chapter):
            leaves = list(in_chapter)
            sections.append(_section((chapter,), leaves, uppers))
            for name, in_section in groupby(leaves, key=lambda leaf: leaf.section):
                if name is not None:
                    sections.append(_section((chapter, name), list(in_section), uppers))
    return sections


def _section(path: tuple[str, ...], leaves: Sequence[OutlineChunk], uppers: Sequence[OutlineChunk]) -> Section:
    first, last = leaves[0], leaves[-1]
    own = (
        upper for upper in uppers if upper.level == len(path) and upper.start <= first.start and first.end <= upper.end
    )
    lead = next(own, first)
    return Section(first.document_id, path, lead.number, first.sequence_num, last.sequence_num)
