"""The dense retriever: the nearest chunks that may be returned, by the cheapest path that finds them all."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np

from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import UnsupportedFilterError
from groundwire.kernel.vector_store import FiltersByIndex, ScoredPoint, VectorStore
from groundwire.retrieve.domain.comparing import merge, nearest, unit_rows
from groundwire.retrieve.domain.planning import SCANNED_AT_FIRST, DensePath, DensePlan, choose_path, neighbours_for
from groundwire.retrieve.filter_gate import FilterGate
from groundwire.retrieve.ports import Numbers, SearchView

_MATRIX_NUMBERS = 20_000
"""More stored vectors than this are read in parts and not remembered."""


@dataclass(frozen=True, slots=True)
class DenseFound:
    """Nearest first. `is_all`: there are no more that may be returned."""

    points: Sequence[ScoredPoint]
    is_all: bool


class SearchVectors:
    """The dense retriever of one search.

    Args:
        engine: of the vectors.
        view: what is read of the catalog.
        gate: the filter.
        budget: of the search.
        exact: compare with every vector.
        exact_chunks: a collection of up to so many chunks is compared one by one, whatever the engine.
    """

    def __init__(
        self,
        engine: VectorStore,
        view: SearchView,
        gate: FilterGate,
        budget: Budget,
        *,
        exact: bool,
        exact_chunks: int = SCANNED_AT_FIRST,
    ) -> None:
        self._engine = engine
        self._view = view
        self._gate = gate
        self._budget = budget
        self._exact = exact
        self._exact_chunks = exact_chunks
        self._name = view.collection.engine_name
        self._unsupported = False
        self.resolved_clause = ""

    def plan(self, depth: int) -> DensePlan:
        """Return how to find `depth` chunks."""
        if self._exact:
            return DensePlan(DensePath.EXACT, detail="asked for")
        total = self._view.chunk_count()
        if total <= self._exact_chunks:
            # Engines approximate differently, also in what they leave out. Here none of them needs to.
            path = DensePath.EXACT if self._gate.where is None else DensePath.SCAN
            return DensePlan(path, detail=f"{total} chunks are compared one by one, on every engine")
        if self._gate.where is None:
            return DensePlan(DensePath.APPROXIMATE)
        if isinstance(self._engine, FiltersByIndex) and not self._unsupported:
            return DensePlan(DensePath.ENGINE_FILTER, detail="the engine has indexes for filters")
        share = self._gate.share()
        return choose_path(share, total, depth, is_known=self._gate.is_known)

    def __call__(self, vector: Vectors, limit: int) -> tuple[DenseFound, DensePlan]:
        """Return the `limit` nearest chunks that may be returned, or all, and how they were found.

        Chunks that the engine still has and the catalog does not may be among them.

        Raises:
            StoreUnavailableError: the engine failed.
        """
        plan = self.plan(limit)
        found = self._run(plan, vector, limit)
        if found is None:
            self._unsupported = True
            plan = self.plan(limit)
            found = self._run(plan, vector, limit) or self._scan(vector, limit)
        return self._with_superseded(found, vector, limit), plan

    def similarities(self, vector: Vectors, numbers: Sequence[int], *, asks_engine: bool) -> dict[int, float]:
        """Return the similarities of those chunks whose vectors the catalog has, or the engine where it is asked."""
        if not numbers:
            return {}
        stored, rows, missing = self._stored(numbers)
        points = self._compare(vector, stored, rows, missing if asks_engine else missing[:0], len(numbers))
        return {point.number: point.similarity for point in points}

    def _run(self, plan: DensePlan, vector: Vectors, limit: int) -> DenseFound | None:
        """Take one path; None when the engine does not know the filter, or not what it is about yet."""
        match plan.path:
            case DensePath.EXACT | DensePath.SCAN:
                return self._scan(vector, limit)
            case DensePath.WITHIN:
                points = self._engine.search(
                    self._name, vector, limit, self._budget, within=self._gate.numbers().tolist()
                )
                return DenseFound(points, len(points) < limit)
            case DensePath.OVERFETCH:
                return self._overfetch(vector, limit, plan.share or 0.0)
            case _:
                return self._ask_engine(vector, limit)

    def _ask_engine(self, vector: Vectors, limit: int) -> DenseFound | None:
        try:
            points = self._engine.search(self._name, vector, limit, self._budget, where=self._gate.where)
        except UnsupportedFilterError as error:
            if self._gate.where is None:
                raise
            self.resolved_clause = error.metadata.get("clause", "")
            return None
        if self._gate.where is not None and not self._view.engine_keeps_up():
            return None  # filter keys are being changed; the catalog has all of them or none
        return DenseFound(points, len(points) < limit)

    def _overfetch(self, vector: Vectors, limit: int, share: float) -> DenseFound:
        asked = neighbours_for(limit, share)
        points = self._engine.search(self._name, vector, asked, self._budget)
        numbers = np.array([point.number for point in points], dtype=np.int64)
        kept = list(compress(points, self._gate.first_passing(numbers, limit)))
        is_all = len(points) < asked
        if len(kept) < limit and not is_all:
            return self._scan(vector, limit)
        return DenseFound(kept[:limit], is_all and len(kept) <= limit)

    def _scan(self, vector: Vectors, limit: int) -> DenseFound:
        """Compare with every chunk that may be returned."""
        numbers = self._gate.numbers()
        if len(numbers) <= _MATRIX_NUMBERS:
            stored, rows = self._gate.vectors()
            points = self._compare(vector, stored, rows, _missing(numbers, stored), limit)
            return DenseFound(points, len(numbers) <= limit)
        points = []
        for start in range(0, len(numbers), _MATRIX_NUMBERS):
            part = self._stored(numbers[start : start + _MATRIX_NUMBERS])
            points = merge(points, self._compare(vector, *part, limit), limit)
        return DenseFound(points, len(numbers) <= limit)

    def _with_superseded(self, found: DenseFound, vector: Vectors, limit: int) -> DenseFound:
        """Add what the view still sees and is not live any more; the engine has forgotten it."""
        numbers = self._view.superseded(self._gate.where)
        if len(numbers) == 0:
            return found
        known = {point.number for point in found.points}
        left = numbers[~np.isin(numbers, list(known))]
        points = self._compare(vector, *self._stored(left), limit)
        return DenseFound(merge(found.points, points, limit), found.is_all and len(points) + len(known) <= limit)

    def _stored(self, numbers: Sequence[int] | Numbers) -> tuple[Numbers, Vectors, Numbers]:
        """Return the stored vectors of chunks at length 1, and the numbers of those that have none."""
        stored, rows = self._view.vectors(numbers)
        return stored, unit_rows(rows), _missing(np.asarray(numbers, dtype=np.int64), stored)

    def _compare(
        self, vector: Vectors, stored: Numbers, rows: Vectors, missing: Numbers, limit: int
    ) -> list[ScoredPoint]:
        """Compare with stored vectors, and let the engine compare with those that are not stored."""
        points = nearest(stored, rows, vector, limit)
        if len(missing) == 0:
            return points
        return merge(
            points, self._engine.search(self._name, vector, limit, self._budget, within=missing.tolist()), limit
        )


def _missing(numbers: Numbers, stored: Numbers) -> Numbers:
    return numbers if len(stored) == 0 else np.setdiff1d(numbers, stored)
