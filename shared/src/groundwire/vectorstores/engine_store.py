"""What all stores have in common whose engine runs in a process of its own and keeps its files in a folder."""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import GroundwireError, StoreUnavailableError
from groundwire.vectorstores.engine_process import EngineProcess
from groundwire.vectorstores.folder_format import claim_folder
from groundwire.vectorstores.owned_engine import OwnedEngine
from groundwire.vectorstores.owner_lock import OwnerLock


class EngineStore:
    """Owns the folder, and knows which collections may not be as they were acknowledged.

    Raises:
        StoreOwnedError: another process has the folder open.
        StoreMismatchError: the folder was written by another engine or in another layout.
    """

    _engine: OwnedEngine

    def __init__(self, folder: Path, engine_name: str) -> None:
        self._folder = folder
        self._engine_name = engine_name
        self._lock = threading.Lock()
        """Guards what the store knows of its collections."""
        self._unverified: set[str] = set()
        self._examined: set[str] = set()
        self._owner = OwnerLock(folder)
        try:
            claim_folder(folder, engine_name)
        except BaseException:
            self._owner.release()
            raise

    def check_responding(self) -> None:
        """Return if the engine responds; see the port."""
        self._engine.check_responding()

    def unverified(self) -> list[str]:
        """Return what was not closed or found damaged; see the port."""
        with self._lock:
            return sorted(self._unverified)

    def distrust(self, collections: Iterable[str]) -> None:
        """Count collections among the unverified; see the port."""
        with self._lock:
            self._unverified.update(collections)

    @contextmanager
    def _examining(self, collection: str, budget: Budget) -> Iterator[bool]:
        """Yield whether this thread is the one to look for damage: it takes long, and one that waits for it is enough.

        Nobody holds a lock meanwhile, so that other calls go on.
        """
        with budget.holding(self._lock):
            is_first = collection not in self._examined
            self._examined.add(collection)
        try:
            yield is_first
        finally:
            if is_first:
                with self._lock:
                    self._examined.discard(collection)

    def _damage(self, method: str, argument: str, budget: Budget) -> str:
        """Ask the engine what is wrong with a collection; an empty text if nothing is, or if that cannot be told.

        One that ends the engine whenever it is read is damaged too.
        """
        engine: EngineProcess | None = None
        try:
            engine = self._engine.live(budget)
            return str(engine.read(budget, method, argument))
        except StoreUnavailableError as error:
            # Silent, or out of space on the disk: that says nothing of the collection.
            is_its_doing = engine is not None and engine.is_broken and "what" not in error.metadata
            return error.message if is_its_doing else ""
        except GroundwireError:
            return ""

    def _being_filled(self) -> StoreUnavailableError:
        message = "the index is being filled from the catalog; repeat the call"
        return StoreUnavailableError(message, engine=self._engine_name)
