"""Base of the stores whose engine runs in a separate process and keeps its files in a folder."""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import structlog

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import GroundwireError, StoreMismatchError, StoreUnavailableError
from groundwire.kernel.files import OwnerLock, replace_file
from groundwire.vectorstores.engine_process import EngineProcess
from groundwire.vectorstores.points import EngineAdapter
from groundwire.vectorstores.stored_fields import LAYOUT

_LOCK_FILE = "LOCK"
# How long an engine of a dead owner may take to end.
_OWNER_WAIT_S = 10.0
_FORMAT_FILE = "FORMAT"
_FORMAT = re.compile(r"[a-z-]+ [0-9]+")

_LOOK_S = 0.5
# Pauses before the attempts to restart an engine; the last one repeats.
_PAUSES_S = (0.0, 0.5, 1.0, 2.0, 5.0)
# How long a call without a deadline waits for an engine that is being replaced.
_WAIT_S = 20.0
_STOP_S = 5.0
_SCRUB_WAIT_S = 2.0

_log = structlog.get_logger(__name__)


class OwnedEngine:
    """Keeps one engine running; a thread replaces it when it has ended, even if nobody calls.

    `start` returns an engine that is ready for calls.
    """

    def __init__(self, start: Callable[[], EngineProcess]) -> None:
        self._start = start
        self._changed = threading.Condition()
        self._engine: EngineProcess | None = start()
        self._failure = ""
        self._is_closed = False
        self._keeper = threading.Thread(target=self._keep, name="engine-keeper", daemon=True)
        self._keeper.start()

    def live(self, budget: Budget) -> EngineProcess:
        """Return the engine; wait for a new one when it has just died.

        Raises:
            StoreUnavailableError: the store is closed, or the engine does not start.
            DeadlineError: the deadline of the budget passed.
            CallCancelledError: the budget was cancelled.
        """
        # Without the lock, as on nearly every call: a reference is read whole.
        if (engine := self._live()) is not None:
            return engine
        with self._changed:
            # Not for an engine that has failed to start: it will be tried again, but not for this call.
            budget.wait_for(
                self._changed, lambda: self._live() is not None or self._is_closed or bool(self._failure), _WAIT_S
            )
            if self._is_closed:
                raise StoreUnavailableError("the vector store is closed")
            engine = self._live()
            if engine is None:
                raise StoreUnavailableError(f"the vector engine does not start: {self._reason()}")
            return engine

    def check_responding(self) -> None:
        """Return if the engine responds; never waits.

        Raises:
            StoreUnavailableError: it does not, or it is being replaced.
        """
        with self._changed:
            engine = self._engine
        if engine is None:
            raise StoreUnavailableError(f"the vector engine is being started again: {self._reason()}")
        engine.check_responding()

    def close(self) -> None:
        """Let the engine flush and end; idempotent."""
        with self._changed:
            self._is_closed = True
            engine = self._engine
            self._changed.notify_all()
        # Outside the lock, which the keeper takes once more before it ends.
        if engine is not None:
            engine.close()
        self._keeper.join(_STOP_S)

    def _live(self) -> EngineProcess | None:
        engine = self._engine
        return None if engine is None or engine.is_broken else engine

    def _reason(self) -> str:
        return self._failure or "it has ended"

    def _keep(self) -> None:
        """Replace every engine that ends, until the store is closed."""
        while not self._is_closed:
            engine = self._engine
            if engine is None or not engine.wait_broken(_LOOK_S) or self._is_closed:
                continue
            began_at = time.monotonic()
            _log.warning("the vector engine has ended and is started again")
            # Two engines on one folder would destroy it: the old one must have ended, not merely been killed.
            while not engine.kill():
                if self._paused(_LOOK_S):
                    return
            engine.close()
            with self._changed:
                self._engine = None
            attempt = 0
            while self._engine is None:
                if self._paused(_PAUSES_S[min(attempt, len(_PAUSES_S) - 1)]):
                    return
                attempt += 1
                try:
                    started = self._start()
                except Exception as error:  # noqa: BLE001 - whatever it is, it may go away
                    _log.error("the vector engine does not start", error=str(error), attempt=attempt)
                    with self._changed:
                        self._failure = str(error)
                        self._changed.notify_all()
                    continue
                with self._changed:
                    self._engine, self._failure = started, ""
                    is_closed = self._is_closed
                    self._changed.notify_all()
                # `close` may have come while the engine started, and closed nothing.
                if is_closed:
                    started.close()
                _log.info("the vector engine runs again", after_s=round(time.monotonic() - began_at, 1))

    def _paused(self, seconds: float) -> bool:
        """Wait; tell whether the store was closed."""
        with self._changed:
            return self._changed.wait_for(lambda: self._is_closed, seconds)


class EngineStore(EngineAdapter):
    """Owns the folder, and knows which collections may not be as they were acknowledged.

    Raises:
        StoreOwnedError: another process has the folder open.
        StoreMismatchError: the folder was written by another engine or in another layout.
    """

    _engine: OwnedEngine

    def __init__(self, folder: Path, engine_name: str) -> None:
        self._folder = folder
        self._engine_name = engine_name
        # Guards what the store knows of its collections.
        self._lock = threading.Lock()
        self._unverified: set[str] = set()
        self._examined: set[str] = set()
        folder.mkdir(parents=True, exist_ok=True)
        self._owner = OwnerLock(folder, folder / _LOCK_FILE, "a folder of vectors", wait_s=_OWNER_WAIT_S)
        with ExitStack() as on_failure:
            on_failure.callback(self._owner.release)
            marker, expected = folder / _FORMAT_FILE, f"{engine_name} {LAYOUT}"
            got = marker.read_text(encoding="ascii", errors="replace").strip() if marker.exists() else ""
            if got != expected and _FORMAT.fullmatch(got):
                message = f"the folder {str(folder)!r} holds an index in the format {got!r}, not {expected!r}"
                advice = "name another folder with --vectors, which is then filled from the catalog"
                raise StoreMismatchError(f"{message}: {advice}", setting="format", expected=expected, got=got)
            # A file that a power cut left empty or garbled is rewritten: the engine finds out which collections it can
            # open, and the others are rebuilt from the catalog.
            if got != expected:
                replace_file(marker, f"{expected}\n")
            on_failure.pop_all()

    def check_responding(self) -> None:
        self._engine.check_responding()

    def unverified(self) -> list[str]:
        with self._lock:
            return sorted(self._unverified)

    def distrust(self, collections: Iterable[str]) -> None:
        with self._lock:
            self._unverified.update(collections)

    @contextmanager
    def _examining(self, collection: str, budget: Budget) -> Iterator[bool]:
        """Yield whether this thread is to look for damage: it takes long, so only one thread does it.

        No lock is held meanwhile, so that other calls go on.
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
        """Ask the engine what is wrong with a collection; empty if nothing is, or if the engine cannot tell.

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

    def _patience(self, budget: Budget, *, at_any_size: bool) -> Budget:
        """Return how long to wait for another rewrite of the same files: calls only wait for other calls."""
        return budget if at_any_size else budget.part(at_most_s=_SCRUB_WAIT_S)

    def _being_filled(self) -> StoreUnavailableError:
        message = "the index is being filled from the catalog; repeat the call"
        return StoreUnavailableError(message, engine=self._engine_name)
