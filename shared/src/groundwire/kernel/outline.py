"""Chapters and sections as runs of chunks."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby


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

    Args:
        chunks: of whole documents, each document's by rising sequence number.
    """
    found: list[Section] = []
    for _, group in groupby(chunks, key=lambda chunk: chunk.document_id):
        held = list(group)
        found += _of_document([chunk for chunk in held if not chunk.upper], [chunk for chunk in held if chunk.upper])
    return found


def _of_document(leaves: Sequence[OutlineChunk], uppers: Sequence[OutlineChunk]) -> Iterator[Section]:
    for chapter, in_chapter in groupby(leaves, key=lambda leaf: leaf.chapter):
        of_chapter = list(in_chapter)
        yield _section((chapter,), of_chapter, uppers)
        for name, in_section in groupby(of_chapter, key=lambda leaf: leaf.section):
            if name is not None:
                yield _section((chapter, name), list(in_section), uppers)


def _section(path: tuple[str, ...], leaves: Sequence[OutlineChunk], uppers: Sequence[OutlineChunk]) -> Section:
    first, last = leaves[0], leaves[-1]
    own = (
        upper for upper in uppers if upper.level == len(path) and upper.start <= first.start and first.end <= upper.end
    )
    lead = next(own, first)
    return Section(first.document_id, path, lead.number, first.sequence_num, last.sequence_num)
