"""Compare the points of a collection with the catalog, both ways, and make them equal if told to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from groundwire.catalog.inspection import ExpectedPoint, PointInspection
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.domain.comparing import payload_problem, vector_problem
from groundwire.ingest.embed_missing import EmbedMissing
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.store_findings import FindingKind, StoreFinding
from groundwire.kernel.vector_store import PointBatch, VectorStore

_POINTS_PER_BATCH = 250
_NUMBERS_PER_BATCH = 2000

Problem = tuple[FindingKind, str]


@dataclass(frozen=True, slots=True)
class CheckPoints:
    """Looks twice at whatever seems wrong: the stores change while they are compared.

    `identity` is that of the server's embedder: vectors that the catalog has lost can be made again for its
    collections. `engines` are the locks of those who write filter keys.
    """

    inspection: PointInspection
    cache: VectorCache
    vectors: VectorStore
    embed_missing: EmbedMissing
    identity: EmbeddingIdentity
    engines: KeyedLocks

    def __call__(
        self, collection: Collection, budget: Budget, tell: Callable[[StoreFinding], None], *, repair: bool
    ) -> Iterator[int]:
        """Yield the number of points compared so far.

        Raises:
            CollectionNotFoundError: the engine collection is gone.
            StoreUnavailableError: the engine failed.
        """
        checked = after = 0
        while points := self.inspection.expected(collection, after, _POINTS_PER_BATCH):
            budget.check()
            self._check(collection, points, budget, tell, repair=repair)
            checked, after = checked + len(points), points[-1].number
            yield checked
        for numbers in _batches(self.vectors.numbers(collection.engine_name, budget)):
            budget.check()
            self._check_orphans(collection, numbers, budget, tell, repair=repair)
        self._check_lost_vectors(collection, budget, tell, repair=repair)
        yield checked

    def _check(
        self,
        collection: Collection,
        points: Sequence[ExpectedPoint],
        budget: Budget,
        tell: Callable[[StoreFinding], None],
        *,
        repair: bool,
    ) -> None:
        problems = self._confirmed(collection, self._problems(collection, points, budget), budget)
        if not problems:
            return
        repaired = self._repair(collection, list(problems), budget) if repair else set()
        for number, (chunk_id, (kind, message)) in problems.items():
            tell(StoreFinding(kind, collection.name, chunk_id, message, repaired=number in repaired))

    def _problems(
        self, collection: Collection, points: Sequence[ExpectedPoint], budget: Budget
    ) -> dict[int, tuple[str, Problem]]:
        batch = self.vectors.fetch(collection.engine_name, [point.number for point in points], budget)
        rows = {number: row for row, number in enumerate(batch.numbers)}
        found = {point.number: (point.chunk_id, _problem(point, batch, rows)) for point in points}
        return {number: (chunk_id, problem) for number, (chunk_id, problem) in found.items() if problem is not None}

    def _confirmed(
        self, collection: Collection, problems: Mapping[int, tuple[str, Problem]], budget: Budget
    ) -> dict[int, tuple[str, Problem]]:
        """Return those problems that are still there, of chunks that are still live, and not about to be solved."""
        if not problems:
            return {}
        waiting = self.inspection.waiting(collection)
        suspects = [number for number in problems if number not in waiting]
        points = self.inspection.expected_of(collection, suspects)
        return self._problems(collection, points, budget)

    def _repair(self, collection: Collection, numbers: Sequence[int], budget: Budget) -> set[int]:
        """Write points anew from the catalog; return the numbers of those that are right now."""
        self._make_lost_vectors(collection, numbers, budget)
        points = [point for point in self.inspection.expected_of(collection, numbers) if point.vector is not None]
        with self.engines.hold((collection.engine_name,), budget):
            current = self.cache.points_of(collection, [point.number for point in points])
            self.vectors.upsert(collection.engine_name, current, budget)
        left = self._problems(collection, points, budget)
        return {point.number for point in points if point.number not in left}

    def _make_lost_vectors(self, collection: Collection, numbers: Sequence[int], budget: Budget) -> None:
        if collection.identity != self.identity:
            return
        points = self.inspection.expected_of(collection, numbers)
        lost = [point.embedding_hash for point in points if point.vector is None]
        if lost:
            self.inspection.forget_vectors(collection.identity.digest, lost)
            self.embed_missing(collection, budget, _unheard)

    def _check_lost_vectors(
        self, collection: Collection, budget: Budget, tell: Callable[[StoreFinding], None], *, repair: bool
    ) -> None:
        """Look for chunks that have no point, whose vectors searches from the top down and restorations need."""
        after = 0
        while lost := self.inspection.lost_vectors(collection, after, _POINTS_PER_BATCH):
            budget.check()
            can_repair = repair and collection.identity == self.identity
            if can_repair:
                self.embed_missing(collection, budget, _unheard)
            for _, chunk_id in lost:
                message = "the catalog has no vector of a chunk that is not indexed"
                tell(
                    StoreFinding(FindingKind.EMBEDDING_MISSING, collection.name, chunk_id, message, repaired=can_repair)
                )
            after = lost[-1][0]

    def _check_orphans(
        self,
        collection: Collection,
        numbers: Sequence[int],
        budget: Budget,
        tell: Callable[[StoreFinding], None],
        *,
        repair: bool,
    ) -> None:
        suspects = self.inspection.unexplained(collection, numbers)
        if not suspects:
            return
        # A point whose removal was finished between the two looks is gone by now.
        orphans = list(self.vectors.fetch(collection.engine_name, suspects, budget).numbers)
        if repair and orphans:
            self.vectors.delete(collection.engine_name, orphans, budget)
        finding = StoreFinding(
            FindingKind.VECTOR_ORPHANED, collection.name, "", "the engine has a vector without a live chunk"
        )
        for number in orphans:
            tell(replace(finding, subject=str(number), repaired=repair))


def _problem(point: ExpectedPoint, batch: PointBatch, rows: Mapping[int, int]) -> Problem | None:
    if point.vector is None:
        return FindingKind.EMBEDDING_MISSING, "the catalog has no sound vector of the chunk"
    row = rows.get(point.number)
    if row is None:
        return FindingKind.VECTOR_MISSING, "the engine has no vector of the chunk"
    found = vector_problem(batch.vectors[row], point.vector)
    return found or payload_problem(batch.payloads[row], point.payload)


def _batches(numbers: Iterator[int]) -> Iterator[Sequence[int]]:
    while batch := list(islice(numbers, _NUMBERS_PER_BATCH)):
        yield batch


def _unheard(_done: int, _total: int) -> None:
    """Drop the progress of a repair."""
