"""Builds the full-text index anew from the chunks, for all collections: it is one index."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection

from groundwire.catalog.database import Database
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import GroundwireError, StoreUnavailableError

_STEPS_BETWEEN_LOOKS = 200_000
"""Steps of SQLite's machine: some milliseconds."""


class FullTextRebuild:
    """One transaction: readers use the old index until it ends, writers wait."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def __call__(self, budget: Budget) -> None:
        """Rebuild; about a second for 20,000 chunks.

        Raises:
            CallCancelledError: `budget` was cancelled; nothing has changed.
            DeadlineError: `budget` is used up; nothing has changed.
        """

        def work(connection: Connection) -> None:
            budget.check()
            with interruptible(connection, budget):
                connection.exec_driver_sql("INSERT INTO chunks_fts (chunks_fts) VALUES ('rebuild')")

        try:
            self._database.write(work, alone=True)
        except StoreUnavailableError:
            budget.check()  # SQLite says "interrupted"; the budget says why
            raise


@contextmanager
def interruptible(connection: Connection, budget: Budget) -> Iterator[None]:
    """Let statements of the connection fail soon after the budget has ended."""
    driver = connection.connection.driver_connection
    if driver is None:
        raise RuntimeError("the connection is closed")

    def is_over() -> bool:
        try:
            budget.check()
        except GroundwireError:
            return True
        return False

    driver.set_progress_handler(is_over, _STEPS_BETWEEN_LOOKS)
    try:
        yield
    finally:
        driver.set_progress_handler(None, 0)
