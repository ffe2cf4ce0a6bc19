"""What every chunker returns, and what they have in common."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from groundwire.ingest.domain.outline import Heading, Outline, Section


@dataclass(frozen=True, slots=True)
class Cut:
    """A chunk-to-be: code points start..end, of which start..core_start repeats the chunk before.

    `path` holds the headings above the text; `token_count` counts the whole of start..end. `sentence` is the number of
    the sentence, from 0. `branch` is set where levels have chunks of their own.
    """

    start: int
    end: int
    core_start: int
    path: tuple[Heading, ...]
    undersized: bool
    token_count: int = 0
    sentence: int | None = None
    branch: "Branch | None" = None

    @property
    def is_upper(self) -> bool:
        """Tell whether it stands for a whole document, chapter or section."""
        return self.branch is not None and self.branch.paragraph is None


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a chunk stands in the tree of a document.

    `level` is 0 document, 1 chapter, 2 section, 3 paragraph. `parent` and `grandparent` are indexes in the list of
    chunks. `paragraph` counts from 1 below the parent; None for a chunk that stands for a whole document, chapter or
    section.
    """

    level: int
    parent: int | None
    grandparent: int | None
    paragraph: int | None


class TextChunker(Protocol):
    """Cuts texts by one policy."""

    def cut(self, text: str, outline: Outline, start: int) -> list[Cut]:
        """Return the chunks of `text` from code point `start` on; empty for white space.

        Chunks are in order, cover every character but white space, and none is blank. Those that stand for whole
        documents, chapters and sections follow after all others.
        """
        ...


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out white space at the end and blank lines at the start; indentation of the first line stays."""
    source = text[start:end]
    blank = len(source) - len(source.lstrip())
    line_start = max(source.rfind("\n", 0, blank), source.rfind("\r", 0, blank)) + 1
    return start + line_start, start + len(source.rstrip())


@dataclass(frozen=True, slots=True)
class SectionPaths:
    """Finds the headings above a part of a text."""

    text: str
    sections: Sequence[Section]
    starts: Sequence[int]

    @classmethod
    def of(cls, text: str, sections: Sequence[Section]) -> "SectionPaths":
        """Make it of sections in order."""
        return cls(text, sections, [section.start for section in sections])

    def path(self, start: int, end: int) -> tuple[Heading, ...]:
        """Return the headings above the first text of start..end that is no heading, else above its first heading."""
        touched = self.sections[max(0, bisect_right(self.starts, start) - 1) : bisect_left(self.starts, end)]
        for section in touched:
            if self.text[max(start, section.body_start) : min(end, section.end)].strip():
                return section.path
        return touched[0].path
