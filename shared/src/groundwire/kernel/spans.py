"""Half-open ranges of a text in code points and UTF-8 bytes, the conversion between the two, and where pages lie."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_CONTINUATION = 0x80


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A range of one canonical text: `text[start:end]` and `utf8[start_byte:end_byte]` are the same characters.

    Both pairs are half-open, 0 <= start < end. `start`/`end` count Unicode code points (what Python
    calls characters), `start_byte`/`end_byte` count bytes of the UTF-8 encoding.
    """

    start: int
    end: int
    start_byte: int
    end_byte: int

    @classmethod
    def of(cls, text: str, start: int = 0, start_byte: int = 0) -> "Span":
        """Return the span of a part of a text, which begins there."""
        return cls(start, start + len(text), start_byte, start_byte + len(text.encode()))


class OffsetMap:
    """Converts offsets of one text between code points and UTF-8 bytes in O(1) after O(n) set-up.

    Costs 4 bytes a code point for texts that are not pure ASCII and nothing for those that are.
    """

    def __init__(self, text: str) -> None:
        self._length = len(text)
        self._byte_of: NDArray[np.uint32] | None = None if text.isascii() else _byte_offsets(text)

    def to_byte(self, codepoint: int) -> int:
        """Return the byte offset of a code point offset in 0..len(text)."""
        if not 0 <= codepoint <= self._length:
            raise IndexError(codepoint)
        return codepoint if self._byte_of is None else int(self._byte_of[codepoint])

    def to_codepoint(self, byte: int) -> int:
        """Return the code point offset of a byte offset.

        Raises:
            ValueError: the offset lies inside a character or past the end.
        """
        found = byte if self._byte_of is None else int(self._byte_of.searchsorted(byte))
        if not 0 <= found <= self._length or self.to_byte(found) != byte:
            raise ValueError(f"byte {byte} is not a character boundary")
        return found

    def span(self, start: int, end: int) -> Span:
        return Span(start, end, self.to_byte(start), self.to_byte(end))


def _byte_offsets(text: str) -> "NDArray[np.uint32]":
    """Return the byte offset of every code point and of the end: uint32, shape (len(text) + 1,)."""
    import numpy as np  # noqa: PLC0415 - the answer service does without it

    utf8 = np.frombuffer(text.encode("utf-8"), dtype=np.uint8)
    # A byte starts a character unless it is a continuation byte 10xxxxxx (RFC 3629, section 3).
    starts = np.flatnonzero((utf8 & 0xC0) != _CONTINUATION).astype(np.uint32)
    return np.append(starts, np.uint32(utf8.size))


@dataclass(frozen=True, slots=True)
class PageSpan:
    """Code points start..end of page `number`, counted from 1; start equals end when the page has no text."""

    number: int
    start: int
    end: int


def pages_between(pages: Sequence[PageSpan], start: int, end: int) -> tuple[int, ...]:
    """Return the numbers of the pages that the code points start..end stand on, from the first to the last with text.

    Pages without text in between are counted in, so that there is no gap (requirement C14). Empty when there are no
    pages or the range lies between two of them.

    `pages` are all of the text in order, without overlaps.
    """
    first = bisect_right(pages, start, key=lambda page: page.end)
    last = bisect_left(pages, end, key=lambda page: page.start) - 1
    # An empty page lies on the border between its neighbours, where a search by position includes it.
    while first <= last and pages[first].start == pages[first].end:
        first += 1
    while last >= first and pages[last].start == pages[last].end:
        last -= 1
    return tuple(page.number for page in pages[first : last + 1])
