"""Choose where a run of small text pieces is cut into chunks: the cheapest cutting, found exactly."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

_UNDERSIZED_COST = 100.0
_MAX_PIECES = 256


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of text that is never cut.

    `size` is at least 1, in the unit of the limits; `maximum` is the largest size of a chunk that begins with
    the piece. `cut_cost` is paid when a chunk ends after the piece, `join_cost` when a chunk goes on
    after it; both are >= 0, the smaller the better.
    """

    start: int
    end: int
    size: int
    maximum: int
    cut_cost: float
    join_cost: float


@dataclass(frozen=True, slots=True)
class Limits:
    """Chunk sizes, 1 <= minimum <= target; `min_chars` counts code points."""

    minimum: int
    target: int
    min_chars: int


def pack(pieces: Sequence[Piece], limits: Limits) -> list[tuple[int, int]]:
    """Return the chunks as ranges of piece indexes (half-open), in order, covering all pieces.

    The cost of a chunk is ((size - target) / target)^2, plus 100 when it is under a minimum, plus the
    costs of its pieces; one piece above the maximum is a chunk of its own. The sum over all chunks is
    minimal among chunks of at most 256 pieces: optimal line breaking by dynamic programming (Knuth and
    Plass, "Breaking Paragraphs into Lines", Software: Practice and Experience 11, 1981), O(pieces x 256).
    """
    sums = list(accumulate((piece.size for piece in pieces), initial=0))
    joins = list(accumulate((piece.join_cost for piece in pieces), initial=0.0))
    largest = max((piece.maximum for piece in pieces), default=0)
    best = [0.0] + [float("inf")] * len(pieces)
    begin = [0] * (len(pieces) + 1)
    for end, last in enumerate(pieces, start=1):
        for start in range(end - 1, max(end - 1 - _MAX_PIECES, -1), -1):
            size = sums[end] - sums[start]
            if size > largest and start < end - 1:
                break
            first = pieces[start]
            if size > first.maximum and start < end - 1:
                continue
            cost = best[start] + joins[end - 1] - joins[start] + last.cut_cost
            cost += _chunk_cost(size, last.end - first.start, limits)
            if cost < best[end]:
                best[end], begin[end] = cost, start
    return _walk_back(begin)


def _chunk_cost(size: int, chars: int, limits: Limits) -> float:
    cost = ((size - limits.target) / limits.target) ** 2
    return cost + (_UNDERSIZED_COST if size < limits.minimum or chars < limits.min_chars else 0.0)


def _walk_back(begin: Sequence[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    end = len(begin) - 1
    while end > 0:
        ranges.append((begin[end], end))
        end = begin[end]
    return ranges[::-1]
