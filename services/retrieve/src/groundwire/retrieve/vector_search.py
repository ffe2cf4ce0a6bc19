"""The chunks nearest to a query among those that may be returned, by the cheapest path that finds them all."""

from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from groundwire.catalog.search_view import SearchView
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import UnsupportedFilterError
from groundwire.kernel.filters import Filter
from groundwire.kernel.vector_store import FiltersByIndex, VectorStore
from groundwire.retrieve.filters import FilterMatches
from groundwire.retrieve.ranking import Floats, Numbers

SCANNED = 10_000
"""Matching chunks that are compared one by one when their vectors are at hand: about a millisecond."""
SCANNED_AT_FIRST = 1500
"""The same when their vectors have to be read first: about 8 ms."""
OVERFETCHED = 3000
"""Neighbours an engine is asked for at most so that enough of them match: about 20 ms."""
OVERFETCHED_CHEAPLY = 200
"""So many neighbours cost an engine little more than a few."""
_SPARE_SHARE = 1.3
"""Neighbours are asked for as if the share of matches were smaller by this: matching chunks are not spread evenly."""
_SPARE = 20
_MATRIX_NUMBERS = 20_000
"""More stored vectors than this are read in parts and not remembered."""
_DECIMALS = 7
"""Equal rows may differ in the last bits of float32, depending on where they stand; they must tie."""


class VectorPath(StrEnum):
    """How a search by vector goes through the chunks."""

    APPROXIMATE = "approximate"
    EXACT = "exact"
    ENGINE_FILTER = "engine_filter"
    SCAN = "scan"
    WITHIN = "within"
    OVERFETCH = "overfetch"


@dataclass(frozen=True, slots=True)
class VectorPlan:
    """The path that was chosen.

    `share` is the share of chunks that match as the planner saw it, None when it did not look; `detail` says
    why, for people.
    """

    path: VectorPath
    share: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Chunks with their similarities in [0, 1], nearest first. `is_all`: there are no more that may be returned."""

    numbers: Numbers
    similarities: Floats
    is_all: bool = True

    def __len__(self) -> int:
        return len(self.numbers)


def choose_path(share: float, chunk_count: int, depth: int, *, is_known: bool, seen_share: float = 1.0) -> VectorPlan:
    """Return how to search under a filter that the engine is slow at or does not know.

    Few matching chunks are compared one by one; many are found by looking at more neighbours than needed; what is
    between is given to the engine as a list of numbers.

    `share` of the chunks that match, in [0, 1], is measured or estimated; `is_known` says that it has been worked out
    which ones match, so that their vectors are probably at hand. `chunk_count` is that of the collection as far as the
    caller sees it, and `seen_share` the share of the engine's chunks that the caller sees, in [0, 1].
    """
    matching, asked = round(share * chunk_count), neighbours_for(depth, share * seen_share)
    # How many neighbours have to be asked for would tell how much there is that the caller must not see.
    neighbours = f"{asked} neighbours" if seen_share == 1.0 else "neighbours"
    said = f"{'' if is_known else 'about '}{matching} of {chunk_count} chunks match"
    # Checked first: so few neighbours cost less than comparing thousands of chunks, even with their vectors at hand.
    if matching > SCANNED_AT_FIRST and asked <= OVERFETCHED_CHEAPLY:
        return VectorPlan(VectorPath.OVERFETCH, share, f"{said}: asks for {neighbours}")
    if matching <= (SCANNED if is_known else SCANNED_AT_FIRST):
        return VectorPlan(VectorPath.SCAN, share, f"{said}: compares each of them")
    if asked <= OVERFETCHED:
        return VectorPlan(VectorPath.OVERFETCH, share, f"{said}: asks for {neighbours}")
    return VectorPlan(VectorPath.WITHIN, share, f"{said}: names them to the engine")


def neighbours_for(depth: int, share: float) -> int:
    """Return how many neighbours to ask for so that `depth` of them probably match."""
    # One above the most that is asked for rules the path out; a share near 0 would ask for any number.
    return int(min(OVERFETCHED + 1.0, depth / max(share, 1e-9) * _SPARE_SHARE)) + _SPARE


@dataclass(slots=True)
class VectorSearch:
    """The search by vector of one call.

    `exact` compares with every vector. A collection of up to `exact_chunks` chunks is compared one by one, whatever the
    engine.
    """

    engine: VectorStore
    view: SearchView
    matches: FilterMatches
    budget: Budget
    exact: bool
    exact_chunks: int
    resolved_clause: str = field(default="", init=False)
    _unsupported: bool = field(default=False, init=False)

    def nearest(self, vector: Vectors, limit: int) -> tuple[Neighbours, VectorPlan]:
        """Return the `limit` nearest chunks that may be returned, or all, and how they were found.

        Chunks that the engine still has and the catalog does not may be among them.

        Raises:
            StoreUnavailableError: the engine failed.
        """
        plan = self._plan(limit)
        near = self._run(plan, vector, limit)
        if near is None:
            self._unsupported = True
            plan = self._plan(limit)
            # The engine cannot filter, so one of the other paths is left; a comparison with all always works.
            near = self._run(plan, vector, limit) or self._scan(vector, limit)
        if self.matches.where is None and plan.path not in {VectorPath.EXACT, VectorPath.APPROXIMATE}:
            # The caller gave no filter, and is not to learn that there are records it must not see.
            plan = VectorPlan(VectorPath.APPROXIMATE)
        superseded = self.view.superseded(self.matches.where)
        if len(superseded) > 0:
            # The view still sees chunks that are no longer live, and the engine has forgotten them.
            others = superseded[~np.isin(superseded, near.numbers)]
            further = self.compare(vector, others, *self.view.vectors(others), limit)
            merged = merge(near, further, limit)
            near = Neighbours(merged.numbers, merged.similarities, near.is_all and len(further) + len(near) <= limit)
        return near, plan

    def compare(
        self,
        vector: Vectors,
        numbers: Numbers,
        stored: Numbers,
        rows: Vectors,
        limit: int,
        *,
        asks_engine: bool = True,
    ) -> Neighbours:
        """Return the `limit` nearest of some chunks, each given once; the engine compares what has no stored vector.

        `stored` are those of them that have a vector in the catalog, and `rows` these vectors at length 1.
        """
        near = nearest(stored, rows, vector, limit)
        if not asks_engine or len(stored) == len(numbers):
            return near
        return merge(near, self._ask(vector, limit, within=np.setdiff1d(numbers, stored)), limit)

    def _plan(self, depth: int) -> VectorPlan:
        if self.exact:
            return VectorPlan(VectorPath.EXACT, detail="asked for")
        if self.matches.is_rare:
            return VectorPlan(VectorPath.SCAN, detail="few chunks match: compares each of them")
        total = self.view.chunk_count()
        if total <= self.exact_chunks:
            # Engines approximate differently, also in what they leave out. Here none of them needs to.
            path = VectorPath.EXACT if self.matches.where is None else VectorPath.SCAN
            return VectorPlan(path, detail=f"{total} chunks are compared one by one, on every engine")
        if self.matches.is_open:
            return VectorPlan(VectorPath.APPROXIMATE)
        if (
            not self._unsupported
            and isinstance(self.engine, FiltersByIndex)
            and self.engine.filters_by_index(self.view.collection.engine_name)
        ):
            return VectorPlan(VectorPath.ENGINE_FILTER, detail="the engine evaluates the filter")
        share = self.matches.share()
        return choose_path(share, total, depth, is_known=self.matches.is_known, seen_share=self.view.seen_share())

    def _run(self, plan: VectorPlan, vector: Vectors, limit: int) -> Neighbours | None:
        """Take one path; None when the engine cannot evaluate the filter, or has not stored the new filter keys yet."""
        match plan.path:
            case VectorPath.EXACT | VectorPath.SCAN:
                return self._scan(vector, limit)
            case VectorPath.WITHIN:
                return self._ask(vector, limit, within=self.matches.numbers())
            case VectorPath.OVERFETCH:
                near = self._ask(vector, neighbours_for(limit, (plan.share or 0.0) * self.view.seen_share()))
                passing = self.matches.first_passing(near.numbers, limit)
                count = int(passing.sum())
                # The share was an estimate and too high: only a comparison with all that match finds them all.
                if count < limit and not near.is_all:
                    return self._scan(vector, limit)
                numbers, similarities = near.numbers[passing][:limit], near.similarities[passing][:limit]
                return Neighbours(numbers, similarities, near.is_all and count <= limit)
            case _:
                where = self.matches.engine_filter
                try:
                    near = self._ask(vector, limit, where=where)
                except UnsupportedFilterError as error:
                    if where is None:
                        raise
                    self.resolved_clause = error.metadata.get("clause", "")
                    return None
                if where is not None and not self.view.engine_keeps_up():
                    return None  # filter keys are being changed; the catalog has all of them or none
                return near

    def _ask(
        self, vector: Vectors, limit: int, *, where: Filter | None = None, within: Numbers | None = None
    ) -> Neighbours:
        points = self.engine.search(
            self.view.collection.engine_name,
            vector,
            limit,
            self.budget,
            where=where,
            within=None if within is None else within.tolist(),
        )
        numbers = np.array([point.number for point in points], dtype=np.int64)
        similarities = np.array([point.similarity for point in points], dtype=np.float64)
        return Neighbours(numbers, similarities, len(points) < limit)

    def _scan(self, vector: Vectors, limit: int) -> Neighbours:
        """Compare with every chunk that may be returned."""
        numbers = self.matches.numbers()
        is_all = len(numbers) <= limit
        if len(numbers) <= _MATRIX_NUMBERS:
            near = self.compare(vector, numbers, *self.matches.vectors(), limit)
            return Neighbours(near.numbers, near.similarities, is_all)
        # Part by part, so that the vectors of a large collection are never in memory together.
        near = Neighbours(numbers[:0], np.zeros(0))
        for start in range(0, len(numbers), _MATRIX_NUMBERS):
            part = numbers[start : start + _MATRIX_NUMBERS]
            near = merge(near, self.compare(vector, part, *self.view.vectors(part), limit), limit)
        return Neighbours(near.numbers, near.similarities, is_all)


def nearest(numbers: Numbers, units: Vectors, vector: Vectors, limit: int) -> Neighbours:
    """Return the `limit` most similar rows, nearest first, equal similarities by number.

    `units` is float32, shape (n, dimensions), rows of length 1; `vector` float32, shape (dimensions,), of any length.
    """
    if len(numbers) == 0:
        return Neighbours(np.zeros(0, dtype=np.int64), np.zeros(0))
    length = float(np.linalg.norm(vector)) or 1.0
    products = (units @ vector).astype(np.float64) / length
    # Below 0 counts as 0, as in the similarities of engines (`ScoredPoint`).
    cosines = np.asarray(np.round(np.clip(products, 0.0, 1.0), _DECIMALS), dtype=np.float64)
    rows = np.arange(len(numbers))
    if limit < len(numbers):
        # All that tie with the last one stay, so that the order of numbers decides among them.
        rows = rows[cosines >= np.partition(cosines, -limit)[-limit]]
    order = rows[np.lexsort((numbers[rows], -cosines[rows]))][:limit]
    return Neighbours(numbers[order], cosines[order])


def merge(first: Neighbours, second: Neighbours, limit: int) -> Neighbours:
    """Return the nearest of two disjoint lists, nearest first, equal similarities by number."""
    numbers = np.concatenate([first.numbers, second.numbers])
    similarities = np.concatenate([first.similarities, second.similarities])
    order = np.lexsort((numbers, -similarities))[:limit]
    return Neighbours(numbers[order], similarities[order])
