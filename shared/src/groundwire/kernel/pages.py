"""Where the pages of a source lie in its canonical text."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass


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

    Args:
        pages: all pages of the text in order, without overlaps.
        start: first code point.
        end: code point after the last.
    """
    first = bisect_right(pages, start, key=lambda page: page.end)
    last = bisect_left(pages, end, key=lambda page: page.start) - 1
    while first <= last and pages[first].start == pages[first].end:
        first += 1
    while last >= first and pages[last].start == pages[last].end:
        last -= 1
    return tuple(page.number for page in pages[first : last + 1])
