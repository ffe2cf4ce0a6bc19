"""A collection of qdrant-edge: its files, what its store knows of it, and how a new copy is built beside what serves.

One folder holds each copy, and a small file names the serving one:

    <store>/<collection>/CURRENT             {"copy": "copy-1f0c…", "dimensions": 384, "metric": "cosine", …}
    <store>/<collection>/copy-1f0c…/         a shard of qdrant-edge
    <store>/<collection>/copy-1f0c….seal     what its files looked like when it was closed; missing while it is open

CURRENT is replaced by rename, so a kill or a power cut at any moment leaves the old or the new copy. Whatever CURRENT
does not name is a leftover of a killed build and is removed when the store opens (LevelDB's scheme). A collection
whose CURRENT is unusable is gone: it is rebuilt from the catalog.
"""

import json
import shutil
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import (
    CallCancelledError,
    CollectionNotFoundError,
    GroundwireError,
    StoreUnavailableError,
)
from groundwire.kernel.files import replace_file, sync
from groundwire.kernel.vector_store import PointBatch
from groundwire.vectorstores.engine_process import EngineProcess
from groundwire.vectorstores.file_seal import seal_of, sync_tree
from groundwire.vectorstores.points import batches, check_same, slices
from groundwire.vectorstores.stored_fields import stored_fields

_BATCH = 250
_DISCARD_S = 60.0
# Most points that are copied while writers wait: some milliseconds.
_FEW = 25
_CURRENT = "CURRENT"
_COPY = "copy-"
_METRIC = "cosine"


@dataclass(frozen=True, slots=True)
class Current:
    """What the file CURRENT says; `is_complete` is false for a copy that is still being filled from the catalog."""

    copy: str
    dimensions: int
    metric: str = _METRIC
    is_complete: bool = True


def new_copy(collection: Path) -> Path:
    """Return a name for another copy of a collection; only the collection's folder is created yet."""
    collection.mkdir(exist_ok=True)
    return collection / f"{_COPY}{uuid.uuid4().hex[:12]}"


def publish(copy: Path, dimensions: int, *, is_complete: bool = True) -> None:
    """Make a durable copy the serving one of its collection; atomic, and durable on return."""
    current = Current(copy.name, dimensions, is_complete=is_complete)
    replace_file(copy.parent / _CURRENT, json.dumps(asdict(current)))
    # The folder of a new collection is an entry of the store, which has to be on disk as well.
    sync(copy.parent.parent)


def unpublish(collection: Path) -> None:
    """Drop a collection for later openings of the folder; its files stay."""
    (collection / _CURRENT).unlink(missing_ok=True)
    sync(collection)


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_copy(copy: Path) -> None:
    remove(copy)
    remove(seal_of(copy))


def sweep(store: Path) -> Iterator[tuple[Path, Current]]:
    """Remove leftovers and yield the collections; call with the store's lock held and no engine running.

    Folders that hold anything but copies are not ours and stay.

    Raises:
        StoreMismatchError: a collection has another metric than cosine.
    """
    for collection in sorted(path for path in store.iterdir() if path.is_dir()):
        if not all(entry.name.startswith((_CURRENT, _COPY)) for entry in collection.iterdir()):
            continue
        try:
            stored = json.loads((collection / _CURRENT).read_text(encoding="utf-8"))
            current = Current(
                copy=str(stored["copy"]),
                dimensions=int(stored["dimensions"]),
                metric=str(stored["metric"]),
                is_complete=bool(stored["is_complete"]),
            )
        except (OSError, ValueError, TypeError, KeyError):
            current = None  # missing or garbled
        if current is None or not (current.copy.startswith(_COPY) and (collection / current.copy).is_dir()):
            remove(collection)
            continue
        check_same(collection.name, "metric", current.metric, _METRIC)
        used = {_CURRENT, current.copy, seal_of(collection / current.copy).name}
        for leftover in collection.iterdir():
            if leftover.name not in used:
                remove(leftover)
        yield collection, current


class ServedCollection:
    """The state of one collection; thread-safe.

    Readers hold a copy while they use it, writers come one at a time, and `swap` waits for both.

    `folder` is that of all copies, `copy` the one that serves. It is not complete while it is filled from the catalog:
    searches would miss what is not there yet.
    """

    def __init__(self, folder: Path, copy: Path, dimensions: int, *, is_complete: bool = True) -> None:
        self.folder = folder
        self.dimensions = dimensions
        self.is_complete = is_complete
        self.rebuilding = threading.Lock()
        self.removals = 0
        """How often points were removed; `scrubbed` is that count when the files were last rewritten."""
        self.scrubbed = 0
        self.lacks_field_indexes = False
        """Whether filters have to look at so many points that they take long, as far as is known."""
        self.is_dropped = threading.Event()
        self._copy = copy
        # By copy: readers of the old one may outlive the switch to the next.
        self._readers: Counter[Path] = Counter()
        self._changed = threading.Condition()
        self._writing = threading.Lock()
        self._touched: set[int] | None = None

    @contextmanager
    def reading(self) -> Iterator[str]:
        """Hold the current copy and yield its path.

        Raises:
            CollectionNotFoundError: it has been dropped.
        """
        with self._changed:
            self._check_exists()
            copy = self._copy
            self._readers[copy] += 1
        try:
            yield str(copy)
        finally:
            with self._changed:
                self._readers[copy] -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self, budget: Budget, numbers: Iterable[int] = ()) -> Iterator[str]:
        """Hold the current copy as its only writer and yield its path; `numbers` are the points about to change.

        Raises:
            CollectionNotFoundError: it has been dropped.
            DeadlineError: another writer held the copy until the budget ran out.
            CallCancelledError: the budget was cancelled meanwhile.
        """
        with budget.holding(self._writing):
            self._check_exists()
            if self._touched is not None:
                self._touched.update(numbers)
            yield str(self._copy)

    def start_recording(self) -> None:
        """Record from now on which points are written."""
        with self._writing:
            self._touched = set()

    def take_recorded(self) -> set[int]:
        """Return the numbers written since the last call, and forget them."""
        with self._writing:
            return self.take_recorded_within_write()

    def take_recorded_within_write(self) -> set[int]:
        """Do the same as `take_recorded` inside `writing()`."""
        taken, self._touched = self._touched or set(), set()
        return taken

    def stop_recording(self) -> None:
        with self._writing:
            self._touched = None

    def switch(self, copy: Path) -> Path:
        """Send new readers to another copy and return the old one; call inside `writing()`."""
        with self._changed:
            old, self._copy = self._copy, copy
            return old

    def serves(self, copy: Path) -> bool:
        with self._changed:
            return self._copy == copy

    def wait_unread(self, copy: Path) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._readers[copy] == 0)
            del self._readers[copy]

    def drop(self) -> Path:
        """Refuse new readers and writers, wait for the active ones, and return the last copy."""
        # Before the lock: a rebuild, which takes turns with writers, sees it and stops.
        self.is_dropped.set()
        with self._writing:
            self.wait_unread(self._copy)
            return self._copy

    def _check_exists(self) -> None:
        if self.is_dropped.is_set():
            raise CollectionNotFoundError(self.folder.name)


@dataclass(slots=True)
class Rebuild:
    """One rebuild of one collection, in its own engine process; the caller ensures that no second one runs.

    The copy gets every point the caller yields, and every point the serving copy has beyond those: a document that is
    being ingested has vectors before the catalog counts it as live. Points written meanwhile are only noted by number
    and copied from the serving copy afterwards, so the order of writes does not matter.

    Args:
        serving: the engine that serves the collection.
        start_builder: starts the engine that builds.
        collection: what to rebuild.
        index_after: points from which on the copy gets an index of vectors; fewer are scanned.
        budget: checked between batches, and while the index is built.
        is_closing: set when the store is closed, which ends the rebuild as well.
    """

    serving: EngineProcess
    start_builder: Callable[[], EngineProcess]
    collection: ServedCollection
    index_after: int
    budget: Budget
    is_closing: threading.Event
    _copy: Path = field(init=False)
    _is_published: bool = False

    def __post_init__(self) -> None:
        self._copy = new_copy(self.collection.folder)

    def run(self, numbers: Iterable[int], points: Callable[[], Iterable[PointBatch]]) -> None:
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
        self.collection.start_recording()
        try:
            unseen = set(numbers)
            builder = self.start_builder()
            try:
                builder.write(self.budget, "create_indexed", str(self._copy), self.collection.dimensions)
                for batch in points():
                    for part in slices(batch, _BATCH):
                        self._check()
                        stored = [stored_fields(payload) for payload in part.payloads]
                        builder.write(self.budget, "upsert", str(self._copy), part.numbers, part.vectors, stored)
                    unseen.difference_update(batch.numbers)
                # Before the index is built, which takes minutes: little is left to be indexed afterwards.
                self._transfer(unseen | self.collection.take_recorded(), builder)
                if builder.read(self.budget, "count", str(self._copy)) > self.index_after:
                    builder.write(self.budget, "optimize", str(self._copy), should_stop=self._has_to_stop)
                # What was written in these minutes, so that few points are left for the time when writers wait.
                self._transfer(self.collection.take_recorded(), builder)
            finally:
                builder.close()
            sync_tree(self._copy)
            # The writes of the last seconds follow, all but a few of them before writers have to wait.
            recorded = self.collection.take_recorded()
            while len(recorded) > _FEW:
                self._transfer(recorded, self.serving)
                recorded = self.collection.take_recorded()
            self.serving.read(self.budget, "count", str(self._copy))  # opens it, before writers wait
            with self.collection.writing(self.budget):
                self._check()
                self._transfer(recorded | self.collection.take_recorded_within_write(), self.serving)
                publish(self._copy, self.collection.dimensions, is_complete=self.collection.is_complete)
                self._is_published = True
                old = self.collection.switch(self._copy)
            self.collection.wait_unread(old)
            self._discard(old)
        except StoreUnavailableError:
            self._check()  # an engine that was stopped on purpose did not fail
            raise
        finally:
            self.collection.stop_recording()
            if not self._is_published:
                self._discard(self._copy)

    def _transfer(self, numbers: Iterable[int], target: EngineProcess) -> None:
        """Bring points of the new copy to the state they have in the serving one: the same, or absent."""
        for batch in batches(sorted(numbers), _BATCH):
            self._check()
            with self.collection.reading() as serving_copy:
                found, vectors, stored = self.serving.read(self.budget, "points", serving_copy, batch)
            if found:
                target.write(self.budget, "upsert", str(self._copy), found, vectors, stored)
            gone = sorted(set(batch).difference(found))
            if gone:
                target.write(self.budget, "delete", str(self._copy), gone)

    def _discard(self, copy: Path) -> None:
        self.serving.write(Budget(_DISCARD_S), "close", str(copy))
        remove_copy(copy)

    def _check(self) -> None:
        if self.collection.is_dropped.is_set():
            raise CollectionNotFoundError(self.collection.folder.name)
        if self.is_closing.is_set():
            raise CallCancelledError("the vector store is being closed")
        self.budget.check()

    def _has_to_stop(self) -> bool:
        try:
            self._check()
        except GroundwireError:
            return True
        return False
