"""The one thread that writes."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection, Engine

from groundwire.catalog.failures import translated_failures
from groundwire.kernel.errors import DrainingError

T = TypeVar("T")


class Writer:
    """Runs units of work one after the other, each in one immediate transaction.

    Attributes:
        position: what `read_position` returned at the end of the last transaction that was committed.
    """

    def __init__(self, engine: Engine, read_position: Callable[[Connection], int]) -> None:
        self._engine = engine
        self._read_position = read_position
        with engine.begin() as connection:
            self.position = read_position(connection)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="catalog-writer")
        self._inside = threading.local()

    def run(self, work: Callable[[Connection], T]) -> T:
        """Run `work` in a transaction; when it returns the changes survive SIGKILL and power loss.

        An exception of `work` rolls everything back and leaves unchanged.

        Raises:
            DrainingError: the database is closed.
        """
        if getattr(self._inside, "active", False):
            raise RuntimeError("a unit of work must not start another one")
        try:
            future = self._thread.submit(self._transact, work)
        except RuntimeError as error:
            raise DrainingError("the catalog is closed") from error
        return future.result()

    def close(self) -> None:
        """Finish the work that was handed in, then stop; idempotent."""
        self._thread.shutdown(wait=True)

    def _transact(self, work: Callable[[Connection], T]) -> T:
        self._inside.active = True
        try:
            with translated_failures(), self._engine.begin() as connection:
                result = work(connection)
                position = self._read_position(connection)
            self.position = position
            return result
        finally:
            self._inside.active = False
