"""Compare a point as an engine holds it with the same point as the catalog has it."""

import numpy as np

from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filters import Payload
from groundwire.kernel.store_findings import FindingKind
from groundwire.kernel.stored_chunk import same_filter_keys

_LENGTH_TOLERANCE = 0.01
_COSINE_TOLERANCE = 1e-3
"""Engines keep float32, some bring vectors to length 1 again; half precision would still pass."""


def payload_problem(held: Payload, expected: Payload) -> tuple[FindingKind, str] | None:
    """Return what is wrong with the filter keys of a point, None when they are right."""
    if same_filter_keys(held, expected):
        return None
    fields = sorted(held.keys() | expected.keys())
    differing = [field for field in fields if not _same_field(held, expected, field)]
    return FindingKind.PAYLOAD_DIFFERS, f"filter keys differ: {', '.join(differing)}"


def vector_problem(held: Vectors, expected: Vectors) -> tuple[FindingKind, str] | None:
    """Return what is wrong with the vector of a point, None when it is right; float32, shape (dimensions,) both."""
    if held.shape != expected.shape:
        return FindingKind.VECTOR_DIFFERS, f"the vector has {held.size} numbers, not {expected.size}"
    if not np.isfinite(held).all():
        return FindingKind.VECTOR_DIFFERS, "the vector is not finite"
    if not expected.any():
        return None if not held.any() else (FindingKind.VECTOR_DIFFERS, "the vector should be all zero")
    if not held.any():
        return FindingKind.VECTOR_DIFFERS, "the vector is all zero"
    length = float(np.linalg.norm(held.astype(np.float64)))
    if abs(length - 1.0) > _LENGTH_TOLERANCE:
        return FindingKind.VECTOR_DIFFERS, f"the vector has the length {length:.3f}, not 1"
    cosine = float(held.astype(np.float64) @ expected.astype(np.float64)) / length
    if cosine < 1.0 - _COSINE_TOLERANCE:
        return FindingKind.VECTOR_DIFFERS, f"the vector is another one: cosine {cosine:.3f}"
    return None


def _same_field(held: Payload, expected: Payload, field: str) -> bool:
    one = {field: held[field]} if field in held else {}
    other = {field: expected[field]} if field in expected else {}
    return same_filter_keys(one, other)
