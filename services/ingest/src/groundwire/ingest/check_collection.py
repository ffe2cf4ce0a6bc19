"""Check one collection: its texts, its points in the engine, and what the engine answers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from groundwire.catalog.collections import Collections
from groundwire.catalog.text_inspection import TextInspection
from groundwire.ingest.build_index import BuildIndex
from groundwire.ingest.check_points import CheckPoints
from groundwire.ingest.check_search import CheckSearch
from groundwire.ingest.domain.ingesting import Progress
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import CollectionNotFoundError, ConflictError, StoreMismatchError
from groundwire.kernel.store_findings import FindingKind, StoreFinding
from groundwire.kernel.vector_store import VectorStore

_ATTEMPTS = 5

Tell = Callable[[StoreFinding], None]


@dataclass(frozen=True, slots=True)
class CheckCollection:
    """Begins anew when another index takes over meanwhile."""

    collections: Collections
    texts: TextInspection
    points: CheckPoints
    search: CheckSearch
    build_index: BuildIndex
    vectors: VectorStore

    def __call__(self, tenant: str, name: str, budget: Budget, tell: Tell, *, repair: bool) -> Iterator[int]:
        """Yield the number of chunks compared so far; ends early when the collection is deleted meanwhile."""
        key = 0
        while (found := self.texts.next_generation(tenant, name, key)) is not None:
            budget.check()
            key = found
            for finding in self.texts.problems(name, key):
                tell(finding)
        for attempt in range(_ATTEMPTS):
            collection = self._find(tenant, name)
            if collection is None:
                return
            try:
                yield from self._check_index(collection, budget, tell, repair=repair)
            except CollectionNotFoundError:
                if attempt + 1 == _ATTEMPTS:
                    raise
            else:
                return

    def _check_index(self, collection: Collection, budget: Budget, tell: Tell, *, repair: bool) -> Iterator[int]:
        lost = self._lost(collection, budget)
        if lost is not None:
            tell(replace(lost, repaired=repair and self._rebuild(collection, budget)))
            if not repair:
                return
            collection = self.collections.get(collection.tenant, collection.name)
        left: list[StoreFinding] = []

        def tell_and_keep(finding: StoreFinding) -> None:
            left.extend([] if finding.repaired else [finding])
            tell(finding)

        yield from self.points(collection, budget, tell_and_keep, repair=repair)
        # Wrong points explain wrong answers.
        wrong = [] if left else self.search(collection, budget)
        repaired = bool(wrong) and repair and self._rebuild(collection, budget)
        for finding in wrong:
            tell(replace(finding, repaired=repaired))

    def _lost(self, collection: Collection, budget: Budget) -> StoreFinding | None:
        """Return that the engine has no collection for the chunks, or one of another kind; make it when it is empty."""
        name = collection.engine_name
        chunks = self.collections.counts(collection.tenant, collection.name).chunks
        is_missing = name not in self.vectors.collections(budget)
        if is_missing and chunks and self._find(collection.tenant, collection.name) == collection:
            message = f"the engine has no collection {name}: the vectors of {chunks} chunks are missing"
            return StoreFinding(FindingKind.VECTOR_MISSING, collection.name, name, message)
        try:
            self.vectors.create_collection(name, collection.identity.dimensions, budget)
        except StoreMismatchError as error:
            return StoreFinding(FindingKind.VECTOR_DIFFERS, collection.name, name, error.message)
        return None

    def _rebuild(self, collection: Collection, budget: Budget) -> bool:
        try:
            self.build_index(collection, collection.identity, budget, _unheard)
        except ConflictError:
            return True  # another build was faster
        return True

    def _find(self, tenant: str, name: str) -> Collection | None:
        try:
            return self.collections.get(tenant, name)
        except CollectionNotFoundError:
            return None


def _unheard(_: Progress) -> None:
    """Drop the progress of a repair."""
