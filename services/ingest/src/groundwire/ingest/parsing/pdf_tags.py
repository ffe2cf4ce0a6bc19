"""Read the headings of a tagged PDF (ISO 32000-1, section 14.8), as word processors write it."""

import ctypes
import re
from collections.abc import Iterator
from typing import Any

from groundwire.ingest.parsing.pdf_structure import Bookmark

_HEADING = re.compile(r"H([1-6]?)")
_TYPE_BYTES = 32
_LINE = re.compile(r"\S[^\r\n]*")
_UNMARKED = -1  # text outside of the structure, and elements, where they are asked for their mark
# Elements of damaged documents may contain themselves.
_DEEPEST = 30
# All pages have parts in the same few elements, and PDFium takes about a microsecond for each part on every page.
_MOST_PARTS = 10_000_000


class HeadingTags:
    """The headings that the tags of a document name: all of them, or none where it has too many elements.

    Half of the headings would be worse than none: what follows the last one would count as its section.
    """

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._left = _MOST_PARTS
        self._headings: list[Bookmark] = []

    def as_bookmarks(self) -> list[Bookmark]:
        """Return the headings of all pages that were read, in order."""
        return self._headings if self._left >= 0 else []

    def read(self, page: Any, content: Any, text: str, page_index: int) -> None:
        """Read the headings on a page; none when its characters cannot be found by their index.

        Args:
            page: the handle of the page.
            content: the handle of its text.
            text: all of its text, lines ending in CR LF.
            page_index: from 0.
        """
        raw = self._raw
        if self._left < 0 or raw.FPDFText_CountChars(content) != len(text):
            return
        tree = raw.FPDF_StructTree_GetForPage(page)
        if not tree:
            return
        try:
            roots = (
                raw.FPDF_StructTree_GetChildAtIndex(tree, n) for n in range(raw.FPDF_StructTree_CountChildren(tree))
            )
            found = [each for root in roots if root for each in self._in(root, 0)]
        finally:
            raw.FPDF_StructTree_Close(tree)
        of_mark = {mark: number for number, (_, marks) in enumerate(found) for mark in marks}
        titles: list[list[str]] = [[] for _ in found]
        for line in _LINE.finditer(text) if found else ():
            mark = raw.FPDFPageObj_GetMarkedContentID(raw.FPDFText_GetTextObject(content, line.start()))
            if mark != _UNMARKED and mark in of_mark:
                titles[of_mark[mark]].append(line[0])
        self._headings += (
            Bookmark(depth, " ".join(title), page_index)
            for (depth, _), title in zip(found, titles, strict=True)
            if title
        )

    def _in(self, element: Any, depth: int) -> Iterator[tuple[int, list[int]]]:
        """Yield the level from 0 of each heading in an element, and the identifiers of the marked content in it."""
        name = ctypes.create_string_buffer(_TYPE_BYTES)
        self._raw.FPDF_StructElement_GetType(element, name, _TYPE_BYTES)
        heading = _HEADING.fullmatch(name.raw.decode("utf-16-le", "ignore").partition("\0")[0])
        if heading is not None:
            yield int(heading[1] or 1) - 1, list(self._marks(element, depth))
            return
        for part in self._parts(element, depth):
            yield from self._in(part, depth + 1)

    def _marks(self, element: Any, depth: int) -> Iterator[int]:
        for index in range(self._raw.FPDF_StructElement_GetMarkedContentIdCount(element)):
            yield self._raw.FPDF_StructElement_GetMarkedContentIdAtIndex(element, index)
        for part in self._parts(element, depth):
            yield from self._marks(part, depth + 1)

    def _parts(self, element: Any, depth: int) -> Iterator[Any]:
        """Yield the elements in an element that have content on the page."""
        count = self._raw.FPDF_StructElement_CountChildren(element)
        self._left -= max(count, 0)
        for index in range(count if depth < _DEEPEST and self._left >= 0 else 0):
            part = self._raw.FPDF_StructElement_GetChildAtIndex(element, index)
            if part:
                yield part
