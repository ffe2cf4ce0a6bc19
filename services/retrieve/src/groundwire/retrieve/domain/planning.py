"""How a filtered search goes through its data: a rule over how many chunks match and what the engine is good at."""

from dataclasses import dataclass
from enum import StrEnum

SCANNED = 5000
"""Matching chunks whose stored vectors are compared one by one: up to 4 ms, and more to read them at first."""
OVERFETCHED = 2000
"""Neighbours an engine is asked for at most so that enough of them match."""
_SPARE_SHARE = 1.3
"""Neighbours are asked for as if so much fewer of them matched: matching chunks are not spread evenly."""
_SPARE = 20


class DensePath(StrEnum):
    """How the dense leg goes through the chunks."""

    APPROXIMATE = "approximate"
    EXACT = "exact"
    ENGINE_FILTER = "engine_filter"
    SCAN = "scan"
    WITHIN = "within"
    OVERFETCH = "overfetch"


@dataclass(frozen=True, slots=True)
class DensePlan:
    """The path that was chosen.

    `share` is the share of chunks that match as the planner saw it, None when it did not look; `detail` says
    why, for people.
    """

    path: DensePath
    share: float | None = None
    detail: str = ""


def choose_path(share: float, chunk_count: int, depth: int) -> DensePlan:
    """Return how to search under a filter that the engine is slow at or does not know.

    Few matching chunks are compared one by one; many are found by looking at more neighbours than needed; what is
    between is given to the engine as a list of numbers.

    Args:
        share: of the chunks that match, in [0, 1], measured or estimated.
        chunk_count: of the collection.
        depth: matching neighbours that are wanted.
    """
    matching = round(share * chunk_count)
    asked = neighbours_for(depth, share)
    if matching > SCANNED and asked <= OVERFETCHED:
        return DensePlan(
            DensePath.OVERFETCH, share, f"about {matching} of {chunk_count} chunks match: asks for {asked}"
        )
    if matching <= SCANNED:
        return DensePlan(DensePath.SCAN, share, f"about {matching} of {chunk_count} chunks match: compares each")
    return DensePlan(DensePath.WITHIN, share, f"about {matching} of {chunk_count} chunks match: names them")


def neighbours_for(depth: int, share: float) -> int:
    """Return how many neighbours to ask for so that `depth` of them probably match."""
    return OVERFETCHED + 1 if share <= 0.0 else int(depth / share * _SPARE_SHARE) + _SPARE
