"""Builds an indexed copy of a collection in an engine process of its own and swaps to it (design D9b).

The copy gets every point the caller yields, and every point the serving copy has beyond those: a document
that is being ingested has vectors before the catalog counts it as live. Points written meanwhile are only noted by
number and copied from the serving copy afterwards, so the order of writes does not matter.
"""

import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import (
    CallCancelledError,
    CollectionNotFoundError,
    GroundwireError,
    StoreUnavailableError,
)
from groundwire.kernel.vector_store import PointBatch
from groundwire.vectorstores.durable_files import sync_tree
from groundwire.vectorstores.engine_process import EngineProcess
from groundwire.vectorstores.qdrant_edge.folders import new_copy, publish, remove_copy
from groundwire.vectorstores.qdrant_edge.served_collection import ServedCollection
from groundwire.vectorstores.slicing import batches, slices
from groundwire.vectorstores.stored_fields import stored_fields

_BATCH = 250
_DISCARD_S = 60.0
_FEW = 25
"""So many points are copied while writers wait: some milliseconds."""


class Rebuild:
    """One rebuild of one collection; the caller makes sure there is no second one at a time.

    Args:
        serving: the engine that serves the collection.
        start_builder: starts the engine that builds.
        collection: what to rebuild.
        index_after: points from which on the copy gets an index of vectors; fewer are scanned.
        budget: looked at between batches, and all the while the index is built.
        is_closing: set when the store is closed, which ends the rebuild as well.
    """

    def __init__(
        self,
        serving: EngineProcess,
        start_builder: Callable[[], EngineProcess],
        collection: ServedCollection,
        index_after: int,
        budget: Budget,
        is_closing: threading.Event,
    ) -> None:
        self._serving = serving
        self._start_builder = start_builder
        self._collection = collection
        self._index_after = index_after
        self._budget = budget
        self._is_closing = is_closing
        self._copy = new_copy(collection.folder)
        self._is_published = False

    def __call__(self, numbers: Iterable[int], points: Callable[[], Iterable[PointBatch]]) -> None:
        """Build, swap and remove the old copy; leave everything as it was when it fails or has to stop.

        Args:
            numbers: of the points in the serving copy, read after recording has begun.
            points: yields every live point, from the catalog.

        Raises:
            CallCancelledError: the budget was cancelled or the store is being closed.
            DeadlineError: the deadline of the budget passed.
            CollectionNotFoundError: the collection was dropped.
            StoreUnavailableError: an engine failed.
        """
        self._collection.start_recording()
        try:
            self._build(set(numbers), points)
            self._swap()
        except StoreUnavailableError:
            self._check()  # an engine that was stopped on purpose has not failed
            raise
        finally:
            self._collection.stop_recording()
            if not self._is_published:
                self._discard(self._copy)

    def _build(self, unseen: set[int], points: Callable[[], Iterable[PointBatch]]) -> None:
        builder = self._start_builder()
        try:
            builder.write(self._budget, "create_indexed", str(self._copy), self._collection.dimensions)
            for batch in points():
                self._add(builder, batch)
                unseen.difference_update(batch.numbers)
            self._transfer(unseen | self._collection.take_recorded(), builder)
            if builder.read(self._budget, "count", str(self._copy)) > self._index_after:
                builder.write(self._budget, "optimize", str(self._copy), should_stop=self._has_to_stop)
            self._transfer(self._collection.take_recorded(), builder)
        finally:
            builder.close()
        sync_tree(self._copy)

    def _add(self, builder: EngineProcess, batch: PointBatch) -> None:
        for part in slices(batch, _BATCH):
            self._check()
            stored = [stored_fields(payload) for payload in part.payloads]
            builder.write(self._budget, "upsert", str(self._copy), part.numbers, part.vectors, stored)

    def _swap(self) -> None:
        """Catch up with the writes of the last seconds, the last few of them while writers wait."""
        recorded = self._collection.take_recorded()
        while len(recorded) > _FEW:
            self._transfer(recorded, self._serving)
            recorded = self._collection.take_recorded()
        self._serving.read(self._budget, "count", str(self._copy))  # opens it, before writers have to wait
        with self._collection.writing(self._budget):
            self._check()
            self._transfer(recorded | self._collection.take_recorded_within_write(), self._serving)
            publish(self._copy, self._collection.dimensions, is_complete=self._collection.is_complete)
            self._is_published = True
            old = self._collection.switch(self._copy)
        self._collection.wait_unread(old)
        self._discard(old)

    def _transfer(self, numbers: Iterable[int], target: EngineProcess) -> None:
        """Bring points of the new copy to the state they have in the serving one: the same, or absent."""
        for batch in batches(sorted(numbers), _BATCH):
            self._check()
            with self._collection.reading() as serving_copy:
                found, vectors, stored = self._serving.read(self._budget, "points", serving_copy, batch)
            if found:
                target.write(self._budget, "upsert", str(self._copy), found, vectors, stored)
            gone = sorted(set(batch).difference(found))
            if gone:
                target.write(self._budget, "delete", str(self._copy), gone)

    def _discard(self, copy: Path) -> None:
        self._serving.write(Budget(_DISCARD_S), "close", str(copy))
        remove_copy(copy)

    def _check(self) -> None:
        if self._collection.is_dropped.is_set():
            raise CollectionNotFoundError(self._collection.folder.name)
        if self._is_closing.is_set():
            raise CallCancelledError("the vector store is being closed")
        self._budget.check()

    def _has_to_stop(self) -> bool:
        try:
            self._check()
        except GroundwireError:
            return True
        return False
