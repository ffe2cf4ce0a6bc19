"""Checks that the file is sound and that its tables agree with each other."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, select

from groundwire.catalog.database import Database
from groundwire.catalog.lexical_check import LexicalCheck
from groundwire.catalog.tables import collections
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import DataLossError, GroundwireError, StoreUnavailableError
from groundwire.kernel.store_findings import FindingKind, StoreFinding

_STEPS_BETWEEN_LOOKS = 200_000
"""Steps of SQLite's machine: some milliseconds."""
_TOLD_OF_EACH = 1000
"""Findings of one rule; a file with more is beyond a list."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """What must not be; the statement yields the key of the collection and the subject of each breach."""

    kind: FindingKind
    message: str
    statement: str


_RULES = (
    _Rule(
        FindingKind.GENERATION_INCONSISTENT,
        "a live generation that has not the chunks it counts",
        """SELECT d.collection_key, document_id FROM generations AS g JOIN documents AS d USING (document_key)
        WHERE state = 'LIVE' AND g.chunk_count <>
        (SELECT count(*) FROM chunks AS c WHERE c.generation_key = g.generation_key AND NOT upper)""",
    ),
    _Rule(
        FindingKind.GENERATION_INCONSISTENT,
        "a superseded generation that still has chunks and is not kept",
        """SELECT d.collection_key, document_id FROM generations AS g JOIN documents AS d USING (document_key)
        WHERE state = 'SUPERSEDED' AND superseded_time IS NULL AND EXISTS
        (SELECT 1 FROM chunks AS c WHERE c.generation_key = g.generation_key)""",
    ),
    _Rule(
        FindingKind.GENERATION_INCONSISTENT,
        "a gap in the sequence numbers of a generation",
        """SELECT d.collection_key, document_id FROM chunks AS c JOIN documents AS d USING (document_key)
        GROUP BY generation_key HAVING min(sequence_num) <> 0 OR max(sequence_num) <> count(*) - 1""",
    ),
    _Rule(
        FindingKind.TEXT_DIFFERS,
        "a generation that has not the text it counts",
        """SELECT d.collection_key, document_id FROM generations AS g JOIN documents AS d USING (document_key)
        WHERE g.total_chars <> coalesce(
        (SELECT sum(length(content)) FROM text_segments AS s WHERE s.generation_key = g.generation_key), 0)""",
    ),
    _Rule(
        FindingKind.GENERATION_INCONSISTENT,
        "a visible document whose live generation is another one",
        """SELECT collection_key, document_id FROM documents AS d WHERE live_generation > 0 AND live_generation IS NOT
        (SELECT generation FROM generations AS g WHERE g.document_key = d.document_key AND state = 'LIVE')""",
    ),
    _Rule(
        FindingKind.GENERATION_INCONSISTENT,
        "a live generation of a document that is not visible",
        """SELECT d.collection_key, document_id FROM documents AS d JOIN generations USING (document_key)
        WHERE d.live_generation = 0 AND state = 'LIVE'""",
    ),
    _Rule(
        FindingKind.GENERATION_INCONSISTENT,
        "an invisible document without a generation",
        """SELECT collection_key, document_id FROM documents AS d WHERE live_generation = 0 AND NOT EXISTS
        (SELECT 1 FROM generations AS g WHERE g.document_key = d.document_key)""",
    ),
)


class Integrity:
    """Reads the whole file: seconds for a large one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def problems(self, budget: Budget | None = None) -> list[StoreFinding]:
        """Return all that is wrong; empty for a sound catalog.

        Raises:
            CallCancelledError: `budget` was cancelled.
            DeadlineError: `budget` is used up.
        """
        budget = budget or Budget()
        return [*self.file(budget), *self.tables(budget), *LexicalCheck(self._database).problems(budget)]

    def file(self, budget: Budget) -> list[StoreFinding]:
        """Return what SQLite says about its file."""
        return self._read(_file_problems, budget)

    def tables(self, budget: Budget) -> list[StoreFinding]:
        """Return where tables contradict one another."""
        return self._read(_table_problems, budget)

    def _read(self, find: Callable[[Connection], Iterator[StoreFinding]], budget: Budget) -> list[StoreFinding]:
        budget.check()
        try:
            with self._database.read() as connection, _interruptible(connection, budget):
                return list(find(connection))
        except StoreUnavailableError:
            budget.check()  # SQLite says "interrupted"; the budget says why
            raise
        except DataLossError as error:
            return [StoreFinding(FindingKind.CATALOG_DAMAGED, "", "", error.message)]


def _file_problems(connection: Connection) -> Iterator[StoreFinding]:
    for said in connection.exec_driver_sql("PRAGMA integrity_check").scalars():
        if said != "ok":
            yield StoreFinding(FindingKind.CATALOG_DAMAGED, "", "", f"integrity check: {said}")
    for row in connection.exec_driver_sql("PRAGMA foreign_key_check"):
        message = f"broken reference from {row[0]} to {row[2]}"
        yield StoreFinding(FindingKind.CATALOG_DAMAGED, "", str(row[1]), message)


def _table_problems(connection: Connection) -> Iterator[StoreFinding]:
    statement = select(collections.c.collection_key, collections.c.name)
    names = {row.collection_key: row.name for row in connection.execute(statement)}
    for rule in _RULES:
        for key, subject in connection.exec_driver_sql(f"{rule.statement} LIMIT {_TOLD_OF_EACH}"):
            yield StoreFinding(rule.kind, names.get(key, ""), str(subject), rule.message)


@contextmanager
def _interruptible(connection: Connection, budget: Budget) -> Iterator[None]:
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
