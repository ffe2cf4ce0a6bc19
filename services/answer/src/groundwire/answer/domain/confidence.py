"""How sure an answer and its claims are (requirement C22)."""

import math
from collections.abc import Sequence


def answer_confidence(relevances: Sequence[float]) -> float:
    """Return 0.6 top + 0.4 mean of the cited relevances, in [0, 1]; 0 when nothing is cited.

    A sentence without a citation never gets into an answer, so the share of cited sentences plays no part.
    """
    if not relevances:
        return 0.0
    value = 0.6 * max(relevances) + 0.4 * sum(relevances) / len(relevances)
    return min(1.0, max(0.0, value))


def claim_confidence(relevances: Sequence[float]) -> float:
    """Return 1 minus the product of (1 - relevance) over the sources of a claim, in [0, 1]; 0 without sources."""
    return min(1.0, max(0.0, 1.0 - math.prod(1.0 - relevance for relevance in relevances)))
