"""Cuts a ranking at a limit so that equal scores at the cut are decided by number, not by the engine."""

from collections.abc import Callable

_SPARE = 16
"""Results fetched beyond the limit, so that ties at the cut are usually all seen."""
_MAX_TIES = 4096
"""Among more equal points than this at the cut, the engine chooses."""


def best(query: Callable[[int], list[tuple[int, float]]], limit: int) -> list[tuple[int, float]]:
    """Return (number, score) of the `limit` best points, best first, equal scores by number.

    Args:
        query: returns so many of the best points as (number, score), best first.
        limit: at least 1.
    """
    fetch = limit + _SPARE
    while True:
        found = query(fetch)
        cut_is_clean = len(found) < fetch or found[-1][1] < found[limit - 1][1]
        if cut_is_clean or fetch >= limit + _MAX_TIES:
            return sorted(found, key=lambda point: (-point[1], point[0]))[:limit]
        fetch = limit + 4 * (fetch - limit)
