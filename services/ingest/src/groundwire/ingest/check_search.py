"""Ask an engine questions whose answers the catalog knows: counts, chunks by their own vectors, filters."""

from collections.abc import Sequence
from dataclasses import dataclass

from groundwire.catalog.inspection import ExpectedPoint, PointInspection
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import UnsupportedFilterError
from groundwire.kernel.filters import Comparator, Comparison
from groundwire.kernel.store_findings import FindingKind, StoreFinding
from groundwire.kernel.vector_store import VectorStore

_SAMPLES = 20
_DEPTH = 100
"""Copies of a text share their vector: more of them than results may stand before the one that is asked for."""
_MISSED_SHARE = 0.2
"""An approximate index does not find everything; one that misses more of what it holds than this is damaged."""
_ATTEMPTS = 3
_MOST_POINTS_OF_A_DOCUMENT = 10_000


@dataclass(frozen=True, slots=True)
class CheckSearch:
    """Answers are compared only if nothing was written meanwhile."""

    inspection: PointInspection
    vectors: VectorStore

    def __call__(self, collection: Collection, budget: Budget) -> list[StoreFinding]:
        """Return what an engine answers wrongly about points that were found to be right.

        Raises:
            CollectionNotFoundError: the engine collection is gone.
            StoreUnavailableError: the engine failed.
        """
        for _ in range(_ATTEMPTS):
            before = self.inspection.changed_position(collection)
            found = self._ask(collection, budget)
            is_quiet = before is not None and before == self.inspection.changed_position(collection)
            if is_quiet and not self.inspection.waiting(collection):
                return found
        return []

    def _ask(self, collection: Collection, budget: Budget) -> list[StoreFinding]:
        numbers = list(self.vectors.numbers(collection.engine_name, budget))
        samples = self.inspection.expected_of(collection, numbers[:: max(1, len(numbers) // _SAMPLES)])
        wrong = [
            *self._miscounted(collection, numbers, budget),
            *self._lost(collection, samples, budget),
            *self._filtered_wrongly(collection, samples, budget),
        ]
        return [StoreFinding(FindingKind.SEARCH_DIFFERS, collection.name, "", message) for message in wrong]

    def _miscounted(self, collection: Collection, numbers: Sequence[int], budget: Budget) -> list[str]:
        count = self.vectors.count(collection.engine_name, budget)
        # A document that is being written has points before it counts as a change.
        is_quiet = count == len(numbers) or numbers == list(self.vectors.numbers(collection.engine_name, budget))
        differs = count != len(numbers) and is_quiet
        return [f"the engine counts {count} points and lists {len(numbers)}"] if differs else []

    def _lost(self, collection: Collection, samples: Sequence[ExpectedPoint], budget: Budget) -> list[str]:
        """Return what is not found by its own vector: at all, or, where that is too much, by a search of everything."""
        lost: list[str] = []
        missed: list[str] = []
        for point in samples:
            if point.vector is None or not point.vector.any():
                continue
            hits = self.vectors.search(collection.engine_name, point.vector, _DEPTH, budget)
            is_full_of_equals = len(hits) == _DEPTH and hits[-1].similarity >= hits[0].similarity
            if point.number in {hit.number for hit in hits} or is_full_of_equals:
                continue
            is_held = self.vectors.search(collection.engine_name, point.vector, 1, budget, within=[point.number])
            (missed if is_held else lost).append(f"chunk {point.chunk_id} is not found by its own vector")
        return lost + (missed if len(missed) > _MISSED_SHARE * len(samples) else [])

    def _filtered_wrongly(self, collection: Collection, samples: Sequence[ExpectedPoint], budget: Budget) -> list[str]:
        wrong = []
        for document_id in sorted({point.document_id for point in samples})[: _SAMPLES // 2]:
            point = next(point for point in samples if point.document_id == document_id)
            if point.vector is None or not self._agrees(collection, point, budget):
                wrong.append(f"a filter on document {document_id} finds other chunks than the catalog")
        return wrong

    def _agrees(self, collection: Collection, point: ExpectedPoint, budget: Budget) -> bool:
        expected = self.inspection.of_document(collection, point.document_id, _MOST_POINTS_OF_A_DOCUMENT)
        if len(expected) == _MOST_POINTS_OF_A_DOCUMENT or point.vector is None:
            return True
        where = Comparison("document_id", Comparator.EQ, point.document_id)
        limit = 2 * len(expected) + _SAMPLES
        try:
            hits = self.vectors.search(collection.engine_name, point.vector, limit, budget, where=where)
        except UnsupportedFilterError:
            return True
        found = {hit.number for hit in hits}
        missing = sorted(set(expected).difference(found)) if len(hits) < limit else []
        if missing:  # an approximate index misses some; among these alone it finds them
            again = self.vectors.search(
                collection.engine_name, point.vector, len(missing), budget, where=where, within=missing
            )
            missing = sorted(set(missing).difference(hit.number for hit in again))
        # Points of a generation that is being written match as well, and only those of live chunks count.
        return not missing and not self.inspection.expected_of(collection, sorted(found.difference(expected)))
