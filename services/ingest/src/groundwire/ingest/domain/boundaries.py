"""Weigh the places where a text can be cut, and find good ones near a wish."""

import re
from bisect import bisect_right
from collections.abc import Sequence

from groundwire.ingest.domain.graphemes import is_cluster_boundary

_BLANK_LINE_END = re.compile(r"(?:\r\n|\r|\n)[ \t]*(?:\r\n|\r|\n)\s*\Z")
_SENTENCE_END = re.compile(r"[.!?\u2026\u3002\uff01\uff1f:;][\"'\u201d\u2019)\]*_`]*\s+\Z")
_RESTART = re.compile(r"(?:\r\n|\r|\n)\s*|[.!?\u2026][\"'\u201d\u2019)\]*_`]*\s+|[\u3002\uff01\uff1f]\s*")
_SPACE = re.compile(r"\s+")
_TAIL_CHARS = 64
AFTER_PARAGRAPH, AFTER_LINE, AFTER_SENTENCE, AFTER_WORD, INSIDE_WORD = 0.1, 0.3, 0.4, 1.5, 5.0
"""Costs of ending a chunk there, on the scale of `packing.pack`; judged on technical books."""
AFTER_HEADING = 3.0
_IN_CODE = 0.5


def cut_cost(text: str, position: int, verbatim: Sequence[tuple[int, int]]) -> float:
    """Return the cost of cutting `text` at `position`; cuts inside code or HTML blocks cost more.

    `verbatim` holds disjoint ranges in ascending order.
    """
    tail = text[max(0, position - _TAIL_CHARS) : position]
    extra = _IN_CODE if _lies_inside(position, verbatim) else 0.0
    if _BLANK_LINE_END.search(tail):
        return AFTER_PARAGRAPH + extra
    if tail.rstrip(" \t").endswith(("\n", "\r")):
        return AFTER_LINE + extra
    if _SENTENCE_END.search(tail):
        return AFTER_SENTENCE + extra
    return AFTER_WORD + extra if tail[-1:].isspace() else INSIDE_WORD


def restart_near(text: str, wish: int, lowest: int, highest: int) -> int | None:
    """Return where text that overlaps the chunk before begins: in lowest..highest, as near to `wish` as it goes.

    Prefers the start of a line or sentence, then of a word, then of a grapheme cluster; None when there is
    none of these.
    """
    for pattern in (_RESTART, _SPACE):
        starts = [found.end() for found in pattern.finditer(text, max(0, lowest - _TAIL_CHARS), highest)]
        inside = [start for start in starts if lowest <= start <= highest and is_cluster_boundary(text, start)]
        if inside:
            return min(inside, key=lambda start: abs(start - wish))
    nearest_first = sorted(range(lowest, highest + 1), key=lambda start: abs(start - wish))
    return next((start for start in nearest_first if is_cluster_boundary(text, start)), None)


def _lies_inside(position: int, ranges: Sequence[tuple[int, int]]) -> bool:
    index = bisect_right(ranges, position, key=lambda item: item[0]) - 1
    return index >= 0 and ranges[index][0] < position < ranges[index][1]
