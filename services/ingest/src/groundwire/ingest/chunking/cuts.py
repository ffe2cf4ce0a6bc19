"""What every chunker returns and promises."""

from dataclasses import dataclass
from typing import Protocol

from groundwire.ingest.chunking.headings import Heading, TextOutline


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
    branch: Branch | None = None

    @property
    def is_upper(self) -> bool:
        """Tell whether it stands for a whole document, chapter or section."""
        return self.branch is not None and self.branch.paragraph is None


class TextChunker(Protocol):
    """Cuts texts by one policy; the same text, outline and policy always give the same chunks."""

    def cut(self, text: str, outline: TextOutline, start: int) -> list[Cut]:
        """Return the chunks of `text` from code point `start` on; empty for white space.

        Chunks are exact ranges of the text, in order, and together hold every character but white space. None is
        blank, none ends with white space, none begins inside a grapheme cluster of up to 64 code points, and none is
        larger than the maximum of the policy, unless it is a single grapheme cluster. Those that stand for whole
        documents, chapters and sections follow after all others and have no maximum.
        """


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out white space at the end and blank lines at the start; indentation of the first line stays."""
    source = text[start:end]
    blank = len(source) - len(source.lstrip())
    line_start = max(source.rfind("\n", 0, blank), source.rfind("\r", 0, blank)) + 1
    return start + line_start, start + len(source.rstrip())
