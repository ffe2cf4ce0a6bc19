"""Put a canonical text together from the blocks of a document, and note where its headings stand."""

import re

from groundwire.ingest.domain.outline import Heading, Outline
from groundwire.kernel.sentences import MAX_HEADING_CHARS

REPLACEMENT = "\ufffd"
_LINE_END = re.compile("\r\n?|\x0b|\x0c|\u0085|\u2028|\u2029")
_NO_CHARACTER = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_SPACE = re.compile(r"\s+")


def clean(text: str) -> str:
    """Return extracted text with a newline for every kind of line end and U+FFFD for what is no character of a text."""
    return _NO_CHARACTER.sub(REPLACEMENT, _LINE_END.sub("\n", text))


def one_line(text: str) -> str:
    """Return the text with runs of white space as single spaces, without any at its ends."""
    return _SPACE.sub(" ", clean(text)).strip()


def without_blank_lines(text: str) -> str:
    """Return the text trimmed and without blank lines, so that a blank line after it ends something larger."""
    return _BLANK_LINES.sub("\n", clean(text)).strip()


class TextBuilder:
    """Joins blocks by blank lines, tight ones such as items of a list by line ends.

    Blocks are cleaned; those of white space only are left out. The same blocks always make the same text.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._after_tight = False
        self._headings: list[Heading] = []
        self._verbatim: list[tuple[int, int]] = []

    def add(self, text: str, *, tight: bool = False) -> tuple[int, int] | None:
        """Add a block as it is; return its code points, None when it holds nothing."""
        block = clean(text)
        if not block.strip():
            return None
        if self._parts:
            self._append("\n" if tight and self._after_tight else "\n\n")
        start = self._length
        self._append(block)
        self._after_tight = tight
        return start, self._length

    def heading(self, level: int, text: str) -> None:
        """Add a heading of level 1 to 6 as a line of its own; chunks below it are told at most MAX_HEADING_CHARS."""
        line = one_line(text)
        added = self.add(line)
        if added is not None:
            self._headings.append(Heading(level, line[:MAX_HEADING_CHARS].rstrip(), *added))

    def verbatim(self, text: str) -> None:
        """Add a block whose lines belong together, such as code."""
        added = self.add(text)
        if added is not None:
            self._verbatim.append(added)

    def text(self) -> str:
        """Return everything that was added."""
        return "".join(self._parts)

    def outline(self) -> Outline:
        """Return the headings and the verbatim blocks."""
        return Outline(tuple(self._headings), tuple(self._verbatim))

    def _append(self, part: str) -> None:
        self._parts.append(part)
        self._length += len(part)
