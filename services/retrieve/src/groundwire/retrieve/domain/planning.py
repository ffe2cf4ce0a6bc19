"""How a filtered search goes through its data: a rule over how many chunks match and what the engine is good at."""

from dataclasses import dataclass
from enum import StrEnum

SCANNED = 10_000
"""Matching chunks that are compared one by one when their vectors are at hand: about a millisecond."""
SCANNED_AT_FIRST = 1500
"""The same when their vectors have to be read first: about 8 ms."""
OVERFETCHED = 3000
"""Neighbours an engine is asked for at most so that enough of them match: about 20 ms."""
OVERFETCHED_GLADLY = 200
"""Neighbours that cost an engine hardly more than a few."""
_SPARE_SHARE = 1.3
"""Neighbours are asked for as if so much fewer of them matched: matching chunks are not spread evenly."""
_SPARE = 20


class DensePath(StrEnum):
    """How the dense retriever goes through the chunks."""

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


def choose_path(share: float, chunk_count: int, depth: int, *, is_known: bool) -> DensePlan:
    """Return how to search under a filter that the engine is slow at or does not know.

    Few matching chunks are compared one by one; many are found by looking at more neighbours than needed; what is
    between is given to the engine as a list of numbers.

    Args:
        share: of the chunks that match, in [0, 1], measured or estimated.
        chunk_count: of the collection.
        depth: matching neighbours that are wanted.
        is_known: which chunks match has been worked out, so their vectors are probably at hand.
    """
    matching, asked = round(share * chunk_count), neighbours_for(depth, share)
    said = f"{'' if is_known else 'about '}{matching} of {chunk_count} chunks match"
    if matching > SCANNED_AT_FIRST and asked <= OVERFETCHED_GLADLY:
        return DensePlan(DensePath.OVERFETCH, share, f"{said}: asks for {asked} neighbours")
    if matching <= (SCANNED if is_known else SCANNED_AT_FIRST):
        return DensePlan(DensePath.SCAN, share, f"{said}: compares each of them")
    if asked <= OVERFETCHED:
        return DensePlan(DensePath.OVERFETCH, share, f"{said}: asks for {asked} neighbours")
    return DensePlan(DensePath.WITHIN, share, f"{said}: names them to the engine")


def neighbours_for(depth: int, share: float) -> int:
    """Return how many neighbours to ask for so that `depth` of them probably match."""
    return int(min(OVERFETCHED + 1.0, depth / max(share, 1e-9) * _SPARE_SHARE)) + _SPARE
