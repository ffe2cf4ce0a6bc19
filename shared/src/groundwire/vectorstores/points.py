"""What every adapter does with points: checks, batches, and cuts of rankings that do not depend on ties."""

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import (
    DimensionMismatchError,
    FieldViolation,
    InvalidRequestError,
    StoreMismatchError,
)
from groundwire.kernel.filters import Filter
from groundwire.kernel.vector_store import PointBatch, ScoredPoint
from groundwire.vectorstores.stored_fields import Stored, restored_payload, stored_fields

_ENGINE_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{1,61}[a-z0-9]")
# Results fetched beyond the limit, so that ties at the cut are usually all seen.
_SPARE = 16
# Among more equal points than this at the cut, the engine chooses.
_MAX_TIES = 4096


def checked_name(collection: str) -> str:
    """Return an engine name if it is 3 to 63 of `[a-z0-9_-]`, first and last alphanumeric.

    Raises:
        InvalidRequestError: naming the field `collection`.
    """
    if _ENGINE_NAME.fullmatch(collection) is None:
        raise InvalidRequestError.of("collection", "must be 3 to 63 of a-z, 0-9, '_' and '-', ends alphanumeric")
    return collection


def checked_dimensions(dimensions: int) -> int:
    """Return the vector length if it is 1 to 65,536.

    Raises:
        InvalidRequestError: naming the field `dimensions`.
    """
    if not 1 <= dimensions <= 65_536:  # noqa: PLR2004 - the limit of Qdrant, the lowest of the engines
        raise InvalidRequestError.of("dimensions", "must be 1 to 65536")
    return dimensions


def check_same(collection: str, setting: str, existing: str | int, expected: str | int) -> None:
    """Return if an existing collection was made with what is expected of it.

    Raises:
        StoreMismatchError: it was not.
    """
    if existing != expected:
        message = f"collection {collection} was made with {setting} {existing}, not {expected}"
        raise StoreMismatchError(message, setting=setting, expected=expected, got=existing)


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
        for field, value in payload.items():
            for element in value if isinstance(value, tuple) else (value,):
                if isinstance(element, float) and not math.isfinite(element):
                    raise InvalidRequestError.of(f"payloads.{field}", "must be finite")


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


def _mismatch(field: str, *, got: int, expected: int) -> DimensionMismatchError:
    violation = FieldViolation(field, f"has {got} dimensions, the collection has {expected}")
    return DimensionMismatchError([violation], got=got, expected=expected)


def slices(points: PointBatch, size: int) -> Iterator[PointBatch]:
    """Yield the batch in pieces of at most `size` points, in order."""
    for start in range(0, len(points.numbers), size):
        piece = slice(start, start + size)
        yield PointBatch(points.numbers[piece], points.vectors[piece], points.payloads[piece])


def as_ints(numbers: Iterable[int]) -> list[int]:
    """Return plain integers, which every engine takes, also for those of numpy."""
    return [int(number) for number in numbers]


def batches(numbers: Iterable[int], size: int) -> Iterator[Sequence[int]]:
    """Yield numbers in lists of at most `size`, in order."""
    remaining = iter(numbers)
    while batch := list(islice(remaining, size)):
        yield batch


def best(query: Callable[[int], list[tuple[int, float]]], limit: int) -> list[tuple[int, float]]:
    """Return (number, score) of the `limit` best points, best first, equal scores by number.

    Engines cut equal scores arbitrarily, so more are fetched until the cut falls between two scores.

    `query` returns that many of the best points as (number, score), best first.
    """
    fetch = limit + _SPARE
    while True:
        found = query(fetch)
        cut_is_clean = len(found) < fetch or found[-1][1] < found[limit - 1][1]
        if cut_is_clean or fetch >= limit + _MAX_TIES:
            return sorted(found, key=lambda point: (-point[1], point[0]))[:limit]
        # Four times as many spare ones each round, so that few rounds suffice even where hundreds are equal.
        fetch = limit + 4 * (fetch - limit)


class EngineAdapter(ABC):
    """What the methods of the port do on every engine: check, split into batches and convert.

    Engines get plain integers, and payloads in their stored form. `_compiled` makes a condition of a filter: True for
    what every point satisfies, False for what none does.
    """

    # Points that one write has at most.
    _batch: int
    _compiled: Callable[[Filter], Any]

    def create_collection(self, collection: str, dimensions: int, budget: Budget) -> None:
        checked_name(collection)
        checked_dimensions(dimensions)
        check_same(collection, "dimensions", self._ensure(collection, dimensions, budget), dimensions)

    def upsert(self, collection: str, points: PointBatch, budget: Budget) -> None:
        check_points(points, self._dimensions_of(collection, budget))
        for part in slices(points, self._batch):
            stored = [stored_fields(payload) for payload in part.payloads]
            self._put(collection, as_ints(part.numbers), part.vectors, stored, budget)

    def search(
        self,
        collection: str,
        vector: Vectors,
        limit: int,
        budget: Budget,
        *,
        where: Filter | None = None,
        within: Sequence[int] | None = None,
    ) -> list[ScoredPoint]:
        check_query(vector, limit, self._dimensions_of(collection, budget))
        condition = True if where is None else self._compiled(where)
        # Nothing can match, and engines disagree on empty conditions.
        if condition is False or (within is not None and len(within) == 0):
            return []
        numbers = None if within is None else as_ints(within)
        found = self._nearest(collection, vector, limit, None if condition is True else condition, numbers, budget)
        # Without calls of min and max: a search has a hundred points, and nearly all are in the range.
        return [
            ScoredPoint(number, cosine if 0.0 <= cosine <= 1.0 else float(cosine > 0.0)) for number, cosine in found
        ]

    def fetch(self, collection: str, numbers: Sequence[int], budget: Budget) -> PointBatch:
        dimensions = self._dimensions_of(collection, budget)
        found, vectors, stored = self._points(collection, sorted(set(as_ints(numbers))), budget)
        return PointBatch(found, vectors.reshape(-1, dimensions), [restored_payload(fields) for fields in stored])

    @abstractmethod
    def _ensure(self, collection: str, dimensions: int, budget: Budget) -> int:
        """Create the collection if it is missing; return the vector length of the collection."""

    @abstractmethod
    def _dimensions_of(self, collection: str, budget: Budget) -> int:
        """Return the vector length.

        Raises:
            CollectionNotFoundError: there is no such collection.
        """

    @abstractmethod
    def _put(
        self, collection: str, numbers: list[int], vectors: Vectors, stored: Sequence[Stored], budget: Budget
    ) -> None: ...

    @abstractmethod
    def _nearest(
        self, collection: str, vector: Vectors, limit: int, condition: Any, within: list[int] | None, budget: Budget
    ) -> Iterable[tuple[int, float]]:
        """Return (number, cosine) of the `limit` most similar points, best first, equal ones by number."""

    @abstractmethod
    def _points(
        self, collection: str, numbers: list[int], budget: Budget
    ) -> tuple[Sequence[int], Vectors, Sequence[Any]]:
        """Return the numbers of those that exist, ascending, with their vectors and stored payloads."""
