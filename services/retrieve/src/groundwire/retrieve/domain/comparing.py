"""Exact comparison of a query's vector with stored ones."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from groundwire.kernel.embedder import Vectors
from groundwire.kernel.vector_store import ScoredPoint

_DECIMALS = 7
"""Equal rows may differ in the last bits of float32, depending on where they stand; they must tie."""


def unit_rows(rows: Vectors) -> Vectors:
    """Return the rows at length 1; rows of zeros stay."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0.0, norms, 1.0), dtype=np.float32)


def nearest(numbers: NDArray[np.int64], units: Vectors, vector: Vectors, limit: int) -> list[ScoredPoint]:
    """Return the `limit` most similar rows, best first, equal similarities by number.

    Args:
        numbers: shape (n,).
        units: float32, shape (n, dimensions), rows of length 1.
        vector: float32, shape (dimensions,), of any length.
        limit: of the result.
    """
    if len(numbers) == 0 or limit <= 0:
        return []
    length = float(np.linalg.norm(vector)) or 1.0
    products = (units @ vector).astype(np.float64) / length
    cosines = np.round(np.clip(products, 0.0, 1.0), _DECIMALS)
    rows = np.arange(len(numbers))
    if limit < len(numbers):
        # All that tie with the last one are kept, so that the order of numbers decides among them.
        rows = rows[cosines >= np.partition(cosines, -limit)[-limit]]
    order = rows[np.lexsort((numbers[rows], -cosines[rows]))][:limit]
    return [ScoredPoint(int(numbers[row]), float(cosines[row])) for row in order]


def merge(first: Sequence[ScoredPoint], second: Sequence[ScoredPoint], limit: int) -> list[ScoredPoint]:
    """Return the best of two disjoint lists, best first, equal similarities by number."""
    return sorted([*first, *second], key=lambda point: (-point.similarity, point.number))[:limit]
