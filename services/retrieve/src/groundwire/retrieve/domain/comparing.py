"""Exact comparison of a query's vector with stored ones."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from groundwire.kernel.embedder import Vectors
from groundwire.kernel.vector_store import ScoredPoint

_DECIMALS = 7
"""Equal rows may differ in the last bits of float32, depending on where they stand; they must tie."""


def compare(numbers: NDArray[np.int64], rows: Vectors, vector: Vectors) -> list[ScoredPoint]:
    """Return the similarity of every row to the vector, best first, equal similarities by number.

    Args:
        numbers: shape (n,).
        rows: float32, shape (n, dimensions), of any length each.
        vector: float32, shape (dimensions,), of any length.
    """
    if len(numbers) == 0:
        return []
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64)) * float(np.linalg.norm(vector))
    cosines = np.clip((rows @ vector).astype(np.float64) / np.where(norms > 0.0, norms, 1.0), 0.0, 1.0)
    cosines = np.round(cosines, _DECIMALS)
    order = np.lexsort((numbers, -cosines))
    return [ScoredPoint(int(numbers[row]), float(cosines[row])) for row in order]


def merge(first: Sequence[ScoredPoint], second: Sequence[ScoredPoint], limit: int) -> list[ScoredPoint]:
    """Return the best of two disjoint lists, best first, equal similarities by number."""
    return sorted([*first, *second], key=lambda point: (-point.similarity, point.number))[:limit]
