"""The engine process of a store: replaced when it has died, closed once."""

import threading
from collections.abc import Callable

from groundwire.kernel.errors import StoreUnavailableError
from groundwire.vectorstores.engine_process import EngineProcess


class OwnedEngine:
    """Keeps one engine running.

    Args:
        start: starts an engine, ready for calls.
    """

    def __init__(self, start: Callable[[], EngineProcess]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._engine = start()
        self._is_closed = False

    def live(self) -> EngineProcess:
        """Return the engine, or a new one if it has died.

        Raises:
            StoreUnavailableError: the store is closed, or the engine does not start.
        """
        if not self._engine.is_broken:
            return self._engine
        with self._lock:
            if self._is_closed:
                raise StoreUnavailableError("the vector store is closed")
            if self._engine.is_broken:
                self._engine.kill()
                self._engine.close()
                self._engine = self._start()
            return self._engine

    def close(self) -> None:
        """Let the engine flush and end; idempotent."""
        with self._lock:
            self._is_closed = True
            self._engine.close()
