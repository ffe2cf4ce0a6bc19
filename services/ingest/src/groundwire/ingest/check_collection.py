"""Check one collection: its texts, its points in the engine, and what the engine answers."""

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from groundwire.catalog.collections import Collections
from groundwire.catalog.inspection import TextInspection
from groundwire.ingest.build_index import BuildIndex
from groundwire.ingest.check_points import CheckPoints
from groundwire.ingest.check_search import CheckSearch
from groundwire.ingest.domain.ingesting import Progress
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import CollectionNotFoundError, ConflictError, StoreMismatchError, StoreUnavailableError
from groundwire.kernel.store_findings import FindingKind, StoreFinding
from groundwire.kernel.vector_store import Recoverable, VectorStore

_ATTEMPTS = 5
_LOOK_EVERY_S = 0.1

_OUR_NAME = re.compile(r"gw-[0-9a-f]{32}")

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
            except StoreUnavailableError:
                if attempt + 1 == _ATTEMPTS or not self._is_damaged(collection):
                    raise
                tell(self._recovered(collection, budget))
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

    def _is_damaged(self, collection: Collection) -> bool:
        return isinstance(self.vectors, Recoverable) and collection.engine_name in self.vectors.unverified()

    def _recovered(self, collection: Collection, budget: Budget) -> StoreFinding:
        """Wait until a collection with damaged files has been filled again, which the server does by itself.

        Raises:
            DeadlineError: that takes longer than the check may.
        """
        while self._is_damaged(collection):
            budget.check()
            time.sleep(_LOOK_EVERY_S)
        name = collection.engine_name
        message = "files of the index were damaged; it was filled again from the catalog"
        return StoreFinding(FindingKind.VECTOR_MISSING, collection.name, name, message, repaired=True)

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

    def strays(self, budget: Budget, *, repair: bool) -> Iterator[StoreFinding]:
        """Yield the engine collections that nothing in the catalog knows, of any tenant; remove them if told to.

        Those on a server are never removed: another installation may use them.
        """
        strays = [name for name in self.vectors.collections(budget) if _OUR_NAME.fullmatch(name)]
        # The engine first: what is made or moved meanwhile is in the catalog before it is in the engine.
        known = self.points.inspection.engine_collections()
        is_ours = isinstance(self.vectors, Recoverable)
        for name in sorted(set(strays).difference(known)):
            if repair and is_ours:
                self.vectors.drop_collection(name, budget)
            message = "the engine has a collection that belongs to nothing in the catalog"
            yield StoreFinding(FindingKind.VECTOR_ORPHANED, "", name, message, repaired=repair and is_ours)


def _unheard(_: Progress) -> None:
    """Drop the progress of a repair."""
