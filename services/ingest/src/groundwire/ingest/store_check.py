"""Compare the stores with the catalog in both directions, and repair them on request."""

import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TypeAlias

import numpy as np

from groundwire.catalog.catalog import Catalog
from groundwire.catalog.inspection import ExpectedPoint
from groundwire.ingest.embedding import ChunkEmbedder
from groundwire.ingest.index_builds import IndexBuilder, SharedRuns
from groundwire.ingest.ingesting import Progress, Stage
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import same_filter_keys
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    ConflictError,
    DataLossError,
    StoreMismatchError,
    StoreUnavailableError,
    UnavailableError,
    UnsupportedFilterError,
)
from groundwire.kernel.filters import Comparator, Comparison, Payload
from groundwire.kernel.store_findings import FindingKind, StoreFinding
from groundwire.kernel.vector_store import Recoverable, VectorStore

_POINTS_PER_BATCH = 250
# Numbers alone, without vectors and filter keys, take little memory.
_NUMBERS_PER_BATCH = 2000
_SAMPLES = 20
# Copies of a text share their vector: more of them than results may stand before the one that is asked for.
_DEPTH = 100
# An approximate index does not find everything; one that misses more of what it holds than this is damaged.
_MISSED_SHARE = 0.2
# Answers count only if nothing was written meanwhile, which a busy collection may never allow.
_ATTEMPTS = 3
_MOST_POINTS_OF_A_DOCUMENT = 10_000
_LENGTH_TOLERANCE = 0.01
# Engines keep float32, some bring vectors to length 1 again; half precision would still pass.
_COSINE_TOLERANCE = 1e-3

Problem: TypeAlias = tuple[FindingKind, str]
FindingReport: TypeAlias = Callable[[StoreFinding], None]
_NAMES_PER_PAGE = 500
# A build may move the collection to another index during the check.
_ATTEMPTS_BESIDE_BUILDS = 5
_LOOK_EVERY_S = 0.1
_OUR_NAME = re.compile(r"gw-[0-9a-f]{32}")
CheckEvent: TypeAlias = Progress | StoreFinding
CheckReport: TypeAlias = Callable[[CheckEvent], None]
"""Gets how far a check is, and what it finds."""


@dataclass(frozen=True, slots=True)
class PointCheck:
    """Looks twice at whatever seems wrong: the stores change while they are compared.

    Vectors that the catalog has lost can be made again for collections of the server's own model. `engines` are the
    locks of those who write filter keys.
    """

    catalog: Catalog
    vectors: VectorStore
    embedder: ChunkEmbedder
    engines: KeyedLocks

    def check(self, collection: Collection, budget: Budget, report: FindingReport, *, repair: bool) -> Iterator[int]:
        """Yield the number of points compared so far.

        Raises:
            CollectionNotFoundError: the engine collection is gone.
            StoreUnavailableError: the engine failed.
        """
        checked = after = 0
        while points := self.catalog.inspection.expected(collection, after, _POINTS_PER_BATCH):
            budget.check()
            self._check(collection, points, budget, report, repair=repair)
            checked, after = checked + len(points), points[-1].number
            yield checked
        held = self.vectors.numbers(collection.engine_name, budget)
        while numbers := list(islice(held, _NUMBERS_PER_BATCH)):
            budget.check()
            suspects = self.catalog.inspection.unexplained(collection, numbers)
            # A point whose removal was finished between the two looks is gone by now.
            orphans = self.vectors.fetch(collection.engine_name, suspects, budget).numbers if suspects else ()
            if repair and len(orphans):
                self.vectors.delete(collection.engine_name, list(orphans), budget)
            for number in orphans:
                message = "the engine has a vector without a live chunk"
                report(
                    StoreFinding(FindingKind.VECTOR_ORPHANED, collection.name, str(number), message, repaired=repair)
                )
        # Chunks that have no point: searches from the top down and restorations need their vectors all the same.
        lost: list[tuple[int, str]] = []
        while page := self.catalog.inspection.lost_vectors(collection, lost[-1][0] if lost else 0, _POINTS_PER_BATCH):
            budget.check()
            lost += page
        can_repair = repair and collection.identity == self.embedder.embedder.identity
        # After all were counted: it makes every vector that is missing.
        if lost and can_repair:
            self.embedder.embed_missing(collection, budget)
        for _, chunk_id in lost:
            message = "the catalog has no vector of a chunk that is not indexed"
            report(StoreFinding(FindingKind.EMBEDDING_MISSING, collection.name, chunk_id, message, repaired=can_repair))
        yield checked

    def _check(
        self,
        collection: Collection,
        points: Sequence[ExpectedPoint],
        budget: Budget,
        report: FindingReport,
        *,
        repair: bool,
    ) -> None:
        found = self._problems(collection, points, budget)
        if not found:
            return
        # Tasks of the outbox will solve these: they are lag, not damage. What is still wrong of the others, and of
        # chunks that are still live, is damage.
        waiting = self.catalog.inspection.waiting(collection)
        suspects = [number for number in found if number not in waiting]
        problems = self._problems(collection, self.catalog.inspection.expected_of(collection, suspects), budget)
        repaired: set[int] = set()
        if repair and problems:
            expected = self.catalog.inspection.expected_of(collection, list(problems))
            lost = [point.embedding_hash for point in expected if point.vector is None]
            if lost and collection.identity == self.embedder.embedder.identity:
                # What is there of them is garbled: only a vector that is missing is made again.
                self.catalog.inspection.forget_vectors(collection.identity.digest, lost)
                self.embedder.embed_missing(collection, budget)
                expected = self.catalog.inspection.expected_of(collection, list(problems))
            sound = [point for point in expected if point.vector is not None]
            # Read and written under the lock, so that an update of filter keys in between is not undone.
            with self.engines.hold((collection.engine_name,), budget):
                current = self.catalog.embeddings.points_of(collection, [point.number for point in sound])
                self.vectors.upsert(collection.engine_name, current, budget)
            repaired = {point.number for point in sound}.difference(self._problems(collection, sound, budget))
        for number, (chunk_id, (kind, message)) in problems.items():
            report(StoreFinding(kind, collection.name, chunk_id, message, repaired=number in repaired))

    def _problems(
        self, collection: Collection, points: Sequence[ExpectedPoint], budget: Budget
    ) -> dict[int, tuple[str, Problem]]:
        batch = self.vectors.fetch(collection.engine_name, [point.number for point in points], budget)
        rows = {number: row for row, number in enumerate(batch.numbers)}
        found: dict[int, tuple[str, Problem]] = {}
        for point in points:
            row = rows.get(point.number)
            problem: Problem | None
            if point.vector is None:
                problem = FindingKind.EMBEDDING_MISSING, "the catalog has no sound vector of the chunk"
            elif row is None:
                problem = FindingKind.VECTOR_MISSING, "the engine has no vector of the chunk"
            else:
                problem = vector_problem(batch.vectors[row], point.vector)
                problem = problem or payload_problem(batch.payloads[row], point.payload)
            if problem is not None:
                found[point.number] = point.chunk_id, problem
        return found

    def wrong_answers(self, collection: Collection, budget: Budget) -> list[StoreFinding]:
        """Return what an engine answers wrongly about points that were found to be right.

        Answers are compared only if nothing was written meanwhile.

        Raises:
            CollectionNotFoundError: the engine collection is gone.
            StoreUnavailableError: the engine failed.
        """
        for _ in range(_ATTEMPTS):
            before = self.catalog.inspection.changed_position(collection)
            found = self._ask(collection, budget)
            is_quiet = before is not None and before == self.catalog.inspection.changed_position(collection)
            if is_quiet and not self.catalog.inspection.waiting(collection):
                return found
        return []

    def _ask(self, collection: Collection, budget: Budget) -> list[StoreFinding]:
        numbers = list(self.vectors.numbers(collection.engine_name, budget))
        # Spread over the whole index: damage tends to be in one place.
        samples = self.catalog.inspection.expected_of(collection, numbers[:: max(1, len(numbers) // _SAMPLES)])
        count = self.vectors.count(collection.engine_name, budget)
        # A document that is being written has points before it counts as a change.
        is_quiet = count == len(numbers) or numbers == list(self.vectors.numbers(collection.engine_name, budget))
        # An engine keeps its count apart from its points, so one may be damaged without the other.
        differs = count != len(numbers) and is_quiet
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
        wrong = [f"the engine counts {count} points and lists {len(numbers)}"] if differs else []
        # Where more than a few are missed, the index approximates too much.
        wrong += lost + (missed if len(missed) > _MISSED_SHARE * len(samples) else [])
        of_documents = {point.document_id: point.vector for point in samples if point.vector is not None}
        # Half as many, because each may take two searches.
        for document_id in sorted(of_documents)[: _SAMPLES // 2]:
            vector = of_documents[document_id]
            expected = self.catalog.inspection.of_document(collection, document_id, _MOST_POINTS_OF_A_DOCUMENT)
            if len(expected) == _MOST_POINTS_OF_A_DOCUMENT:
                continue  # there may be more, which the engine would find rightly
            where, limit = Comparison("document_id", Comparator.EQ, document_id), 2 * len(expected) + _SAMPLES
            try:
                hits = self.vectors.search(collection.engine_name, vector, limit, budget, where=where)
            except UnsupportedFilterError:
                continue  # searches with such a filter ask the catalog instead
            found = {hit.number for hit in hits}
            missing = sorted(set(expected).difference(found))
            if missing:  # an approximate index misses some; among these alone it finds them
                hits = self.vectors.search(
                    collection.engine_name, vector, len(missing), budget, where=where, within=missing
                )
                missing = sorted(set(missing).difference(hit.number for hit in hits))
            # Points of a generation that is being written match as well, but only live chunks count.
            if missing or self.catalog.inspection.expected_of(collection, sorted(found.difference(expected))):
                wrong.append(f"a filter on document {document_id} finds other chunks than the catalog")
        return [StoreFinding(FindingKind.SEARCH_DIFFERS, collection.name, "", message) for message in wrong]


def payload_problem(held: Payload, expected: Payload) -> tuple[FindingKind, str] | None:
    """Return what is wrong with the filter keys of a point, None when they are right."""
    if same_filter_keys(held, expected):
        return None
    fields = sorted(held.keys() | expected.keys())
    differing = [
        field
        for field in fields
        if not same_filter_keys(
            {name: value for name, value in held.items() if name == field},
            {name: value for name, value in expected.items() if name == field},
        )
    ]
    return FindingKind.PAYLOAD_DIFFERS, f"filter keys differ: {', '.join(differing)}"


def vector_problem(held: Vectors, expected: Vectors) -> tuple[FindingKind, str] | None:
    """Return what is wrong with the vector of a point, None when it is right; float32, shape (dimensions,) both."""
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


@dataclass(frozen=True, slots=True)
class StoreReport:
    """The totals of a check; `checked` chunks were compared."""

    checked: int
    findings: int
    repaired: int


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """Works while everything else goes on, in batches: first the catalog in itself, then the engine against it.

    What can be repaired from the catalog itself is, with `repair`. `sweep` does the tasks of the outbox.
    """

    catalog: Catalog
    points: PointCheck
    builder: IndexBuilder
    vectors: VectorStore
    runs: SharedRuns
    sweep: Callable[[Budget], int]

    def check(self, tenant: str, name: str, budget: Budget, report: CheckReport, *, repair: bool) -> StoreReport:
        """Check one collection, or with an empty name all of the tenant and what they share.

        A check of the same kind that is going on is joined. Repairs only ever make derived data equal to the catalog.

        Raises:
            StoreUnavailableError: the vector store does not answer.
        """
        work = partial(self._check, tenant, name, repair=repair)
        return self.runs(("check", tenant, name, repair), "check", work, budget, report)

    def _check(self, tenant: str, name: str, budget: Budget, report: CheckReport, *, repair: bool) -> StoreReport:
        findings: list[bool] = []

        def add(finding: StoreFinding) -> None:
            findings.append(finding.repaired)
            report(finding)

        names = [name] if name else []
        while not name and (page := self.catalog.collections.page(tenant, names[-1] if names else "", _NAMES_PER_PAGE)):
            names += [collection.name for collection in page]
        total = sum(self.catalog.collections.counts(tenant, each).chunks for each in names)
        report(Progress(Stage.CHECKING, 0, total))
        for finding in self._check_catalog(tenant, names, budget, repair=repair):
            add(finding)
        checked = 0
        for each in names:
            done = 0
            for done in self._check_collection(tenant, each, budget, add, repair=repair):
                report(Progress(Stage.CHECKING, checked + done, max(total, checked + done)))
            checked += done
        if not name:
            for finding in self._check_shared(tenant, budget, repair=repair):
                add(finding)
        return StoreReport(checked, len(findings), sum(findings))

    def _check_catalog(
        self, tenant: str, names: Sequence[str], budget: Budget, *, repair: bool
    ) -> Iterator[StoreFinding]:
        """Yield contradictions between tables, differences in full-text indexes, and generations nobody writes."""
        yield from (
            finding for finding in self.catalog.inspection.table_problems(budget, tenant) if finding.collection in names
        )
        for name in names:
            damaged = list(self.catalog.lexical_check.problems(budget, tenant, [name]))
            if damaged and repair:
                self.catalog.lexical_check.rebuild(tenant, name, budget)
                is_left = any(self.catalog.lexical_check.problems(budget, tenant, [name]))
                damaged = [replace(finding, repaired=not is_left) for finding in damaged]
            yield from damaged
        for pending in self.catalog.documents.leftovers():
            if pending.collection.tenant != tenant or pending.collection.name not in names:
                continue
            if repair:
                self.catalog.documents.abandon(pending)
            message = f"generation {pending.generation} was left unfinished"
            yield StoreFinding(
                FindingKind.GENERATION_UNFINISHED,
                pending.collection.name,
                pending.document_id,
                message,
                repaired=repair,
            )

    def _check_shared(self, tenant: str, budget: Budget, *, repair: bool) -> Iterator[StoreFinding]:
        """Yield what concerns no single collection.

        That is the file, overdue tasks, requests, sessions, the audit record, and the engine collections, of any
        tenant, that nothing in the catalog knows. Those on a server are never removed: another installation may use
        them.
        """
        yield from self.catalog.inspection.file_problems(budget)
        overdue = list(self.catalog.inspection.overdue(tenant))
        if repair and overdue:
            with suppress(UnavailableError, DataLossError):  # the tasks stay, and are reported as not repaired
                self.sweep(budget)
            left = {finding.message for finding in self.catalog.inspection.overdue(tenant)}
            overdue = [replace(finding, repaired=finding.message not in left) for finding in overdue]
        yield from overdue
        yield from self.catalog.inspection.repeated_requests(tenant)
        yield from self.catalog.inspection.incomplete_sessions(tenant)
        yield from self.catalog.inspection.broken_audit(tenant, budget)
        strays = [name for name in self.vectors.collections(budget) if _OUR_NAME.fullmatch(name)]
        # The engine is listed first: a collection made or moved meanwhile is in the catalog before the engine.
        known = self.catalog.inspection.engine_collections()
        is_ours = isinstance(self.vectors, Recoverable)
        for name in sorted(set(strays).difference(known)):
            if repair and is_ours:
                self.vectors.drop_collection(name, budget)
            message = "the engine has a collection that belongs to nothing in the catalog"
            yield StoreFinding(FindingKind.VECTOR_ORPHANED, "", name, message, repaired=repair and is_ours)

    def _check_collection(
        self, tenant: str, name: str, budget: Budget, report: FindingReport, *, repair: bool
    ) -> Iterator[int]:
        """Yield the number of chunks compared so far; ends early when the collection is deleted meanwhile."""
        key = 0
        while (found := self.catalog.inspection.next_generation(tenant, name, key)) is not None:
            budget.check()
            key = found
            for finding in self.catalog.inspection.text_problems(name, key):
                report(finding)
        for attempt in range(_ATTEMPTS_BESIDE_BUILDS):
            collection = self.catalog.collections.find(tenant, name)
            if collection is None:
                return
            if repair:
                # Otherwise it would list, chunk by chunk, what the server is about to fill, as after a restoration.
                self._await_refill(collection, budget)
            try:
                yield from self._check_index(collection, budget, report, repair=repair)
            except CollectionNotFoundError:
                if attempt + 1 == _ATTEMPTS_BESIDE_BUILDS:
                    raise
            except StoreUnavailableError:
                if attempt + 1 == _ATTEMPTS_BESIDE_BUILDS or not self._is_damaged(collection):
                    raise
                self._await_refill(collection, budget)
                engine_name = collection.engine_name
                message = "the index was missing or damaged; the server filled it again from the catalog"
                report(StoreFinding(FindingKind.VECTOR_MISSING, collection.name, engine_name, message, repaired=True))
            else:
                return

    def _check_index(
        self, collection: Collection, budget: Budget, report: FindingReport, *, repair: bool
    ) -> Iterator[int]:
        name = collection.engine_name
        chunks = self.catalog.collections.counts(collection.tenant, collection.name).chunks
        lost: StoreFinding | None = None
        if name not in self.vectors.collections(budget):
            # Asked once more: a collection that was deleted or moved meanwhile has lost nothing.
            if self.catalog.inspection.changed_position(collection) is None:
                raise CollectionNotFoundError(name)
            if not chunks:
                return  # the first write makes it
            message = f"the engine has no collection {name}: the vectors of {chunks} chunks are missing"
            lost = StoreFinding(FindingKind.VECTOR_MISSING, collection.name, name, message)
        else:
            try:  # changes nothing, but refuses one of another kind
                self.vectors.create_collection(name, collection.identity.dimensions, budget)
            except StoreMismatchError as error:
                lost = StoreFinding(FindingKind.VECTOR_DIFFERS, collection.name, name, error.message)
        if lost is not None:
            if repair:
                self._rebuild(collection, budget)
            report(replace(lost, repaired=repair))
            if not repair:
                return
            collection = self.catalog.collections.get(collection.tenant, collection.name)
        unrepaired = 0

        def report_and_count(finding: StoreFinding) -> None:
            nonlocal unrepaired
            unrepaired += not finding.repaired
            report(finding)

        yield from self.points.check(collection, budget, report_and_count, repair=repair)
        if unrepaired:
            return  # wrong points explain wrong answers
        wrong = self.points.wrong_answers(collection, budget)
        if wrong and repair:
            self._rebuild(collection, budget)
        for finding in wrong:
            report(replace(finding, repaired=repair))

    def _await_refill(self, collection: Collection, budget: Budget) -> None:
        """Wait until the server has filled a collection with damaged or lost files, which it does by itself."""
        while self._is_damaged(collection):
            budget.check()
            time.sleep(_LOOK_EVERY_S)

    def _is_damaged(self, collection: Collection) -> bool:
        return isinstance(self.vectors, Recoverable) and collection.engine_name in self.vectors.unverified()

    def _rebuild(self, collection: Collection, budget: Budget) -> None:
        with suppress(ConflictError):  # another build was faster
            self.builder.build(collection, collection.identity, budget, lambda _: None)
