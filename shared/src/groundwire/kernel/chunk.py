"""A chunk: a range of one generation's canonical text, with where it stands in the document, and runs of chunks."""

import hashlib
import sys
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from groundwire.kernel.bounded_cache import bytes_of
from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat
from groundwire.kernel.filters import Payload, Scalar, Value
from groundwire.kernel.identifiers import etag_of
from groundwire.kernel.records import record_keys, record_time
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
        # The model would truncate a chapter or average it over windows; its beginning says best what it is about.
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
        # Where each level has its own chunks, the last element of a paragraph's path is the paragraph itself.
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
    upper: bool = False
    parent: int | None = None
    sentence_index: int | None = None
    window_size: int | None = None


# Chapters and sections as runs of chunks


@dataclass(frozen=True, slots=True)
class OutlineChunk:
    """A chunk as the outline sees it. `upper` chunks stand for a document (level 0), chapter (1) or section (2)."""

    document_id: str
    source_uri: str
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
    source_uri: str
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
        # Those of one level are in the order of the text and do not overlap.
        uppers = {level: [each for each in members if each.upper and each.level == level] for level in (1, 2)}
        for chapter, in_chapter in groupby((each for each in members if not each.upper), key=lambda leaf: leaf.chapter):
            leaves = list(in_chapter)
            sections.append(_section((chapter,), leaves, uppers))
            for name, in_section in groupby(leaves, key=lambda leaf: leaf.section):
                if name is not None:
                    sections.append(_section((chapter, name), list(in_section), uppers))
    return sections


def _section(
    path: tuple[str, ...], leaves: Sequence[OutlineChunk], uppers: Mapping[int, Sequence[OutlineChunk]]
) -> Section:
    first, last = leaves[0], leaves[-1]
    of_level = uppers[len(path)]
    at = bisect_right(of_level, first.start, key=lambda upper: upper.start) - 1
    lead = of_level[at] if at >= 0 and first.end <= of_level[at].end else first
    return Section(first.document_id, first.source_uri, path, lead.number, first.sequence_num, last.sequence_num)


@dataclass(frozen=True, slots=True)
class ChunkLinks:
    """Ids of the neighbours of a chunk in its document, None at the start or end.

    `parent` and `grandparent` are one and two levels up, where levels have chunks of their own; such chunks have no
    `previous` and `following`.
    """

    previous: str | None = None
    following: str | None = None
    parent: str | None = None
    grandparent: str | None = None


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk with its identity in the catalog and the document it belongs to.

    `chunk_number` is unique in the system and never reused, 1 <= n < 2^53. `embed_time` is when its vector was
    made, `ingest_time` when its generation was stored. `memo` keeps what others derive from it, such as its message,
    as long as the chunk itself is kept.
    """

    chunk_number: int
    chunk_id: str
    generation: int
    chunk: Chunk
    document: Document
    embed_time: datetime
    ingest_time: datetime
    links: ChunkLinks = ChunkLinks()
    # No argument, so that `replace` makes a chunk without what was derived from the other one.
    memo: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags of the document and of the chunk itself."""
        return all_tags(self.document.fields, self.chunk)

    @property
    def metadata(self) -> dict[str, Value]:
        """Return the caller's own keys of the document, overlaid by those of the chunk."""
        return all_metadata(self.document.fields, self.chunk)

    @property
    def etag(self) -> str:
        """Return an etag of what callers can change: its tags and metadata, and those of its document."""
        # The number changes with each generation, so an etag of replaced content never matches.
        return etag_of((self.chunk_number, self.chunk.tags, self.tags, self.metadata))

    @property
    def payload(self) -> Payload:
        return chunk_payload(
            document_id=self.document.document_id,
            chunk_id=self.chunk_id,
            chunk_number=self.chunk_number,
            source_uri=self.document.source_uri,
            document_format=self.document.format,
            fields=self.document.fields,
            chunk=self.chunk,
            ingested=self.ingest_time,
        )


def chunk_payload(
    *,
    document_id: str,
    chunk_id: str,
    chunk_number: int,
    source_uri: str,
    document_format: DocumentFormat,
    fields: DocumentFields,
    chunk: Chunk,
    ingested: datetime,
) -> Payload:
    """Return the filter keys of a chunk; keys without a value are left out, never None or empty.

    `ingested` is when the generation of the chunk was stored; of a record, its own time takes the place.
    """
    if fields.record is not None:
        ingested = record_time(fields.record)
    candidates: dict[str, Value | None] = {
        "document_id": document_id,
        "chunk_id": chunk_id,
        "chunk_number": chunk_number,
        "source": source_uri,
        "format": document_format.value,
        "title": fields.title,
        "creators": fields.creators,
        "subjects": fields.subjects,
        "date_created": epoch_ms(fields.date_created) if fields.date_created else None,
        "language": fields.language,
        "category": fields.category,
        "tags": all_tags(fields, chunk),
        "project": fields.project,
        "chapter": chunk.chapter,
        "section": chunk.section,
        "section_title": chunk.section_title,
        "level": chunk.level,
        "sequence_num": chunk.sequence_num,
        "page_numbers": chunk.page_numbers,
        "page_start": chunk.page_numbers[0] if chunk.page_numbers else None,
        "page_end": chunk.page_numbers[-1] if chunk.page_numbers else None,
        "char_start": chunk.span.start,
        "char_end": chunk.span.end,
        "ingested_at": epoch_ms(ingested),
    }
    # The caller's keys come last; none of them has the name of a built-in field.
    if fields.record is not None:
        candidates |= record_keys(source_uri, fields.record)
    built_in = {key: value for key, value in candidates.items() if value is not None and value not in ("", ())}
    return built_in | all_metadata(fields, chunk)


def all_tags(fields: DocumentFields, chunk: Chunk) -> tuple[str, ...]:
    """Return the tags of the document, then those of the chunk itself, each once."""
    return tuple(dict.fromkeys((*fields.tags, *chunk.tags)))


def all_metadata(fields: DocumentFields, chunk: Chunk) -> dict[str, Value]:
    """Return the caller's own keys of the document, overlaid by those of the chunk."""
    return {**fields.metadata, **chunk.metadata}


def same_filter_keys(one: Payload, other: Payload) -> bool:
    """Tell whether two payloads are equal for every comparison of a filter.

    A list of one element counts as that element, the order of a list does not count, and integers and floats of the
    same value are the same.
    """
    return one.keys() == other.keys() and all(_kinds(one[field]) == _kinds(other[field]) for field in one)


def _kinds(value: Value) -> set[tuple[str, Scalar]]:
    """Return the elements, each with a mark that distinguishes `1`, `True` and `"1"`."""
    elements = value if isinstance(value, tuple) else (value,)
    return {("number" if type(each) in {int, float} else type(each).__name__, each) for each in elements}
