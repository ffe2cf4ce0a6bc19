"""Vectors at length 1, as stores compare them."""

import numpy as np

from groundwire.kernel.embedder import Vectors


def unit_rows(rows: Vectors) -> Vectors:
    """Return the rows at length 1, float32; rows of zeros stay."""
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows / np.where(norms > 0.0, norms, 1.0), dtype=np.float32)


def unit_vector(vector: Vectors) -> Vectors:
    """Return a vector, float32 of shape (d,), at length 1; zeros stay."""
    return np.asarray(vector / (float(np.linalg.norm(vector)) or 1.0), dtype=np.float32)
