"""VectorStore on embedded Chroma: vectors, ids and filter keys; never documents, never a model of Chroma's.

The library runs in an engine process, because it holds the interpreter lock while it writes to disk.
"""

import importlib.util
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import structlog

from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    GroundwireError,
    MissingExtraError,
    StoreUnavailableError,
)
from groundwire.vectorstores.chroma.records import Facts, checked_dimensions_of, compile_filter
from groundwire.vectorstores.engine_process import HUNG_AFTER_S, EngineProcess
from groundwire.vectorstores.engine_store import EngineStore, OwnedEngine
from groundwire.vectorstores.points import as_ints, batches
from groundwire.vectorstores.stored_fields import Stored

_ENGINE = "chroma"
# The library of the graph writes all the memory it has reserved to its file, used or not. The C library fills what is
# given back with this byte, so that what was deleted, a vector or a title, does not come to a file that way. Small
# pieces it fills only where it has no cache of them for each thread.
_ENVIRONMENT = {"MALLOC_PERTURB_": "165", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
# Limit for opening a folder: the library loads in 2 to 5 s, on a busy machine in 20.
_START_S = 120.0

_log = structlog.get_logger(__name__)


class ChromaVectorStore(EngineStore):
    """VectorStore, Recoverable and Scrubbable over one folder, which it owns until `close()`.

    Record ids are the numbers as text.

    Args:
        folder: made if missing.
        scrub_at_once: largest collection, in records, that is rewritten within a call: 0.5 to 1 ms each.
        hung_after_s: seconds without a sign of life after which the engine is killed and started again.

    Raises:
        MissingExtraError: chromadb is not installed.
        StoreOwnedError: another process has the folder open.
        StoreMismatchError: the folder was written by another engine, in another layout or with another metric.
        StoreUnavailableError: Chroma cannot open the folder.
    """

    # Searches wait for the batch before them: 20 ms for Chroma's log and 0.4 to 0.8 ms a record.
    _batch = 64
    _compiled = staticmethod(compile_filter)

    def __init__(self, folder: Path, *, scrub_at_once: int = 1_000, hung_after_s: float = HUNG_AFTER_S) -> None:
        if importlib.util.find_spec("chromadb") is None:
            raise MissingExtraError("chroma needs the package chromadb: groundwire[chroma]", extra="chroma")
        super().__init__(folder, _ENGINE)
        self._scrub_at_once = scrub_at_once
        self._hung_after_s = hung_after_s
        self._writing = threading.Lock()
        self._scrubbing = threading.Lock()
        # For a collection that is being rewritten: the records that the copy lacks or has in an older version.
        self._touched: dict[str, set[int]] = {}
        self._dimensions: dict[str, int] = {}
        self._incomplete: set[str] = set()
        try:
            self._engine = OwnedEngine(self._start)
        except BaseException:
            self._owner.release()
            raise

    def drop_collection(self, collection: str, budget: Budget) -> None:
        """Remove a collection, record by record first; see the port."""
        budget.check()
        with budget.holding(self._lock), budget.holding(self._writing):
            # Forgotten first, so that no search starts on a collection that is being removed.
            dimensions = self._dimensions.pop(collection, None)
            if dimensions is None:
                return
            try:
                self._engine.live(budget).write(budget, "drop", collection)
            except GroundwireError:
                self._dimensions.setdefault(collection, dimensions)
                raise
            self._incomplete.discard(collection)
            self._unverified.discard(collection)

    def collections(self, budget: Budget) -> list[str]:
        budget.check()
        with budget.holding(self._lock):
            return sorted(self._dimensions)

    def delete(self, collection: str, numbers: Sequence[int], budget: Budget) -> None:
        self._dimensions_of(collection)
        for batch in batches(numbers, self._batch):
            self._write(budget, "delete", collection, as_ints(batch))

    def scrub(self, collection: str, budget: Budget, *, at_any_size: bool = False) -> bool:
        """Rewrite a collection beside the serving copy, and then Chroma's catalog; see the port."""
        with self._patience(budget, at_any_size=at_any_size).holding(self._scrubbing):
            try:
                if not at_any_size and self.count(collection, budget) > self._scrub_at_once:
                    return False
                # Copied in parts, so that others can write in between.
                touched: set[int] = set()
                try:
                    with budget.holding(self._writing):
                        self._dimensions_of(collection)
                        engine = self._engine.live(budget)
                        engine.write(budget, "begin_rewrite", collection)
                        touched.update(engine.read(budget, "numbers", collection))
                        self._touched[collection] = touched
                    while len(touched) > self._batch:
                        with budget.holding(self._writing):
                            self._dimensions_of(collection)
                            part = list(islice(touched, self._batch))
                            engine.write(budget, "copy", collection, part)
                            touched.difference_update(part)
                    with budget.holding(self._writing):
                        self._dimensions_of(collection)
                        engine.write(budget, "end_rewrite", collection, list(touched))
                finally:
                    self._touched.pop(collection, None)
            except CollectionNotFoundError:
                with budget.holding(self._writing):
                    self._engine.live(budget).write(budget, "clean")
        return True

    def numbers(self, collection: str, budget: Budget) -> Iterator[int]:
        self._dimensions_of(collection)
        with budget.holding(self._writing):
            return iter(self._read(budget, "numbers", collection))

    def count(self, collection: str, budget: Budget) -> int:
        self._dimensions_of(collection)
        return int(self._read(budget, "count", collection))

    def close(self) -> None:
        """End the engine and let others own the folder; idempotent."""
        self._engine.close()
        self._owner.release()

    def mark_verified(self, collection: str, budget: Budget) -> None:
        budget.check()
        with budget.holding(self._lock), budget.holding(self._writing):
            if collection in self._incomplete:
                self._engine.live(budget).write(budget, "complete", collection)
                self._incomplete.discard(collection)
            self._unverified.discard(collection)

    def _ensure(self, collection: str, dimensions: int, budget: Budget) -> int:
        with budget.holding(self._lock):
            if collection not in self._dimensions:
                # A collection that is gone has to be filled before it can be searched.
                is_complete = collection not in self._unverified
                facts = self._engine.live(budget).write(budget, "create", collection, dimensions, is_complete)
                self._learn({collection: facts})
            return self._dimensions[collection]

    def _put(
        self, collection: str, numbers: list[int], vectors: Vectors, stored: Sequence[Stored], budget: Budget
    ) -> None:
        self._write(budget, "upsert", collection, numbers, vectors, stored)

    def _nearest(
        self, collection: str, vector: Vectors, limit: int, condition: Any, within: list[int] | None, budget: Budget
    ) -> Any:
        """Return the most similar points, approximately above some hundred."""
        if collection in self._incomplete:
            raise self._being_filled()
        return self._read(budget, "search", collection, vector, limit, condition, within)

    def _points(self, collection: str, numbers: list[int], budget: Budget) -> Any:
        return self._read(budget, "points", collection, numbers)

    def _read(self, budget: Budget, method: str, collection: str, *arguments: Any) -> Any:
        try:
            return self._engine.live(budget).read(budget, method, collection, *arguments)
        except StoreUnavailableError as error:
            raise self._explained(collection, error) from error

    def _write(self, budget: Budget, method: str, collection: str, numbers: list[int], *rest: Any) -> None:
        try:
            with budget.holding(self._writing):
                self._dimensions_of(collection)
                # Noted before it is written: a write that fails half way is copied once more, too.
                self._touched.get(collection, set()).update(numbers)
                self._engine.live(budget).write(budget, method, collection, numbers, *rest)
        except StoreUnavailableError as error:
            raise self._explained(collection, error) from error

    def _explained(self, collection: str, failure: StoreUnavailableError) -> StoreUnavailableError:
        """Return a failure of a request as its caller should see it; a damaged collection is recreated empty.

        Raises:
            CollectionNotFoundError: it has been dropped meanwhile.
        """
        self._dimensions_of(collection)
        # Not with the budget of the call, which may be nearly used up: every other call waits for the empty collection.
        budget = Budget(_START_S)
        with self._examining(collection, budget) as is_first:
            damage = self._damage("damage", collection, budget) if is_first else ""
            if not damage:
                return failure
            _log.error("the files of a collection are damaged", collection=collection, damage=damage)
            try:
                with budget.holding(self._writing):
                    self._dimensions_of(collection)
                    self._incomplete.add(collection)
                    self._engine.live(budget).write(budget, "renew", collection)
            finally:
                self.distrust([collection])
        return self._being_filled()

    def _start(self, method: str = "open") -> EngineProcess:
        """Start an engine on the folder and read its collections, or discard them when they cannot be opened."""
        engine = EngineProcess(
            _ENGINE,
            "groundwire.vectorstores.chroma.engine",
            self._folder,
            inherited=(self._owner.descriptor,),
            hung_after_s=self._hung_after_s,
            environment=_ENVIRONMENT,
        )
        try:
            found, was_closed = engine.write(Budget(_START_S), method, str(self._folder))
            self._dimensions = {}
            self._learn(found)
            self._unverified.update(self._incomplete if was_closed else self._dimensions)
        except StoreUnavailableError as error:
            engine.close()
            # No space on the disk is no damage.
            if method == "open_anew" or "what" in error.metadata:
                raise
            _log.error("the files of the vector store cannot be opened and are made anew", error=error.message)
            return self._start("open_anew")
        except BaseException:
            engine.close()
            raise
        return engine

    def _learn(self, found: Mapping[str, Facts]) -> None:
        for name, facts in found.items():
            self._dimensions[name] = checked_dimensions_of(name, facts)
            if not facts.is_complete:
                self._incomplete.add(name)

    def _dimensions_of(self, collection: str, _budget: Budget | None = None) -> int:
        dimensions = self._dimensions.get(collection)
        if dimensions is None:
            raise CollectionNotFoundError(collection)
        return dimensions
