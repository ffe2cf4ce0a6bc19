"""Checks of names, vectors and payloads that every engine makes before it writes or searches."""

import math
import re

import numpy as np

from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import DimensionMismatchError, FieldViolation, InvalidRequestError
from groundwire.kernel.filters import Payload
from groundwire.kernel.vector_store import PointBatch

_ENGINE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]")


def checked_name(collection: str) -> str:
    """Return an engine name if it is 3 to 63 of `[a-z0-9_-]`, first and last alphanumeric.

    Raises:
        InvalidRequestError: naming the field `collection`.
    """
    if _ENGINE_NAME.fullmatch(collection) is None:
        raise InvalidRequestError.of("collection", "must be 3 to 63 of a-z, 0-9, '_' and '-', ends alphanumeric")
    return collection


def checked_dimensions(dimensions: int) -> int:
    """Return a vector length of 1 to 65,536.

    Raises:
        InvalidRequestError: naming the field `dimensions`.
    """
    if not 1 <= dimensions <= 65_536:  # noqa: PLR2004 - the limit of Qdrant, the lowest of the engines
        raise InvalidRequestError.of("dimensions", "must be 1 to 65536")
    return dimensions


def check_points(points: PointBatch, dimensions: int) -> None:
    """Return if the batch may be written to a collection.

    Raises:
        DimensionMismatchError: the vectors have another length.
        InvalidRequestError: columns of different lengths, or a number that is not finite.
    """
    shape = points.vectors.shape
    if shape[1:] != (dimensions,):
        raise _mismatch("vectors", got=shape[-1] if len(shape) > 1 else 0, expected=dimensions)
    if not len(points.numbers) == len(points.payloads) == shape[0]:
        raise InvalidRequestError.of("vectors", "numbers, vectors and payloads differ in length")
    if not np.isfinite(points.vectors).all():
        raise InvalidRequestError.of("vectors", "must be finite")
    for payload in points.payloads:
        _check_payload(payload)


def check_query(vector: Vectors, limit: int, dimensions: int) -> None:
    """Return if a collection may be searched with this vector.

    Raises:
        DimensionMismatchError: the vector has another length.
        InvalidRequestError: the vector is not finite, or the limit below 1.
    """
    if vector.shape != (dimensions,):
        raise _mismatch("vector", got=vector.shape[-1] if vector.ndim else 0, expected=dimensions)
    if not np.isfinite(vector).all():
        raise InvalidRequestError.of("vector", "must be finite")
    if limit < 1:
        raise InvalidRequestError.of("limit", "must be at least 1")


def _check_payload(payload: Payload) -> None:
    for field, value in payload.items():
        for element in value if isinstance(value, tuple) else (value,):
            if isinstance(element, float) and not math.isfinite(element):
                raise InvalidRequestError.of(f"payloads.{field}", "must be finite")


def _mismatch(field: str, *, got: int, expected: int) -> DimensionMismatchError:
    violation = FieldViolation(field, f"has {got} dimensions, the collection has {expected}")
    return DimensionMismatchError([violation], got=got, expected=expected)
