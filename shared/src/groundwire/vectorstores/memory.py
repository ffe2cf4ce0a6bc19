"""The reference implementation of VectorStore: an exact scan in memory, gone when the process ends."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.kernel.filters import Filter, Payload, matches
from groundwire.kernel.vector_store import PointBatch, ScoredPoint
from groundwire.kernel.vectors import unit_rows
from groundwire.vectorstores.points import (
    check_points,
    check_query,
    check_same,
    checked_dimensions,
    checked_name,
)


@dataclass(slots=True)
class _Points:
    """The points of a collection, column by column; freed rows are filled by the last one.

    `units` is float32 of shape (capacity, dimensions), rows L2-normalised (all zero for a zero vector).
    """

    dimensions: int
    units: Vectors
    rows: dict[int, int] = field(default_factory=dict)
    numbers: list[int] = field(default_factory=list)
    payloads: list[Payload] = field(default_factory=list)


class MemoryVectorStore:
    """A VectorStore without an engine. Filters are the reference evaluator's, results are exact."""

    def __init__(self) -> None:
        self._collections: dict[str, _Points] = {}
        self._lock = threading.Lock()

    def create_collection(self, collection: str, dimensions: int, budget: Budget) -> None:
        budget.check()
        checked_name(collection)
        with self._lock:
            existing = self._collections.get(collection)
            if existing is None:
                units = np.zeros((0, checked_dimensions(dimensions)), dtype=np.float32)
                self._collections[collection] = _Points(dimensions, units)
            else:
                check_same(collection, "dimensions", existing.dimensions, dimensions)

    def drop_collection(self, collection: str, budget: Budget) -> None:
        budget.check()
        with self._lock:
            self._collections.pop(collection, None)

    def collections(self, budget: Budget) -> list[str]:
        budget.check()
        with self._lock:
            return sorted(self._collections)

    def upsert(self, collection: str, points: PointBatch, budget: Budget) -> None:
        """Insert or replace points; see the port. They live as long as the store."""
        budget.check()
        with self._lock:
            held = self._held(collection)
            check_points(points, held.dimensions)
            units = unit_rows(points.vectors)
            for number, unit, payload in zip(points.numbers, units, points.payloads, strict=True):
                row = held.rows.get(number, len(held.numbers))
                if row == len(held.numbers):
                    held.rows[number] = row
                    held.numbers.append(number)
                    held.payloads.append({})
                if row >= len(held.units):
                    # Doubled: growing by one row at a time would copy all rows each time.
                    grown = np.zeros((max(64, 2 * row), held.dimensions), dtype=np.float32)
                    grown[: len(held.units)] = held.units
                    held.units = grown
                held.units[row] = unit
                held.payloads[row] = dict(payload)

    def delete(self, collection: str, numbers: Sequence[int], budget: Budget) -> None:
        budget.check()
        with self._lock:
            held = self._held(collection)
            for number in numbers:
                row = held.rows.pop(number, None)
                if row is None:
                    continue
                last_number, last_payload = held.numbers.pop(), held.payloads.pop()
                if last_number != number:
                    held.units[row] = held.units[len(held.numbers)]
                    held.rows[last_number] = row
                    held.numbers[row] = last_number
                    held.payloads[row] = last_payload

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
        budget.check()
        with self._lock:
            held = self._held(collection)
            check_query(vector, limit, held.dimensions)
            among = range(len(held.numbers)) if within is None else {held.rows[n] for n in within if n in held.rows}
            selected = [row for row in among if where is None or matches(where, held.payloads[row])]
            rows = np.array(selected, dtype=np.intp)
            query = vector.astype(np.float64)
            norm = float(np.linalg.norm(query))
            # Not `@`, which rounds equal rows differently, depending on where they stand: they would not tie.
            cosines = np.asarray(np.einsum("ij,j->i", held.units[rows].astype(np.float64), query / (norm or 1.0)))
            found = np.array([held.numbers[row] for row in rows], dtype=np.int64)
        best = np.lexsort((found, -cosines))[:limit]
        # From 0 to 1, as on every engine: opposite directions count like unrelated ones.
        return [ScoredPoint(int(found[i]), min(1.0, max(0.0, float(cosines[i])))) for i in best]

    def fetch(self, collection: str, numbers: Sequence[int], budget: Budget) -> PointBatch:
        budget.check()
        with self._lock:
            held = self._held(collection)
            known = sorted(held.rows.keys() & set(numbers))
            rows = [held.rows[number] for number in known]
            return PointBatch(known, held.units[rows], [held.payloads[row] for row in rows])

    def numbers(self, collection: str, budget: Budget) -> Iterator[int]:
        budget.check()
        with self._lock:
            return iter(sorted(self._held(collection).rows))

    def count(self, collection: str, budget: Budget) -> int:
        budget.check()
        with self._lock:
            return len(self._held(collection).rows)

    def check_responding(self) -> None:
        """Return at once: there is nothing to wait for."""

    def close(self) -> None:
        """Forget everything; idempotent."""
        with self._lock:
            self._collections.clear()

    def _held(self, collection: str) -> _Points:
        held = self._collections.get(collection)
        if held is None:
            raise CollectionNotFoundError(collection)
        return held
