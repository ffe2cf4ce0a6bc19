"""A collection as the store serves it: which copy is current, who reads it, and what changes during a rebuild."""

import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CollectionNotFoundError


class ServedCollection:
    """The state of one collection; thread-safe.

    Readers hold a copy while they use it, writers come one at a time, and `swap` waits for both.

    Args:
        folder: of all copies.
        copy: the one that serves.
        dimensions: of its vectors.
        is_complete: false while it is being filled from the catalog: searches would miss what is not there yet.
    """

    def __init__(self, folder: Path, copy: Path, dimensions: int, *, is_complete: bool = True) -> None:
        self.folder = folder
        self.dimensions = dimensions
        self.is_complete = is_complete
        self.rebuilding = threading.Lock()
        self.removals = 0
        """So many times points were removed; `scrubbed` is that number when the files were last written anew."""
        self.scrubbed = 0
        self.is_dropped = threading.Event()
        self._copy = copy
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
        """Hold the current copy alone among writers and yield its path; `numbers` are those about to change.

        Raises:
            CollectionNotFoundError: it has been dropped.
            DeadlineError: another writer was at work for as long as the budget lasts.
            CallCancelledError: the budget was cancelled meanwhile.
        """
        with budget.holding(self._writing):
            self._check_exists()
            if self._touched is not None:
                self._touched.update(numbers)
            yield str(self._copy)

    def start_recording(self) -> None:
        """Remember from now on which points are written."""
        with self._writing:
            self._touched = set()

    def take_recorded(self) -> set[int]:
        """Return the numbers written since the last call, and forget them."""
        with self._writing:
            return self._take()

    def take_recorded_within_write(self) -> set[int]:
        """Do the same inside `writing()`."""
        return self._take()

    def stop_recording(self) -> None:
        """Remember no longer."""
        with self._writing:
            self._touched = None

    def switch(self, copy: Path) -> Path:
        """Send new readers to another copy and return the old one; call inside `writing()`."""
        with self._changed:
            old, self._copy = self._copy, copy
            return old

    def serves(self, copy: Path) -> bool:
        """Tell whether a copy is the current one."""
        with self._changed:
            return self._copy == copy

    def wait_unread(self, copy: Path) -> None:
        """Return when nobody reads a copy any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._readers[copy] == 0)
            del self._readers[copy]

    def drop(self) -> Path:
        """Refuse new readers and writers, wait for those at work, and return the last copy."""
        self.is_dropped.set()
        with self._writing:
            self.wait_unread(self._copy)
            return self._copy

    def _take(self) -> set[int]:
        taken, self._touched = self._touched or set(), set()
        return taken

    def _check_exists(self) -> None:
        if self.is_dropped.is_set():
            raise CollectionNotFoundError(self.folder.name)
