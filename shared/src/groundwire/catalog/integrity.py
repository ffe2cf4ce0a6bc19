"""Checks that the file is sound and that its tables agree with each other."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, select
from sqlalchemy.exc import DatabaseError

from groundwire.catalog.database import Database
from groundwire.catalog.full_text_rebuild import interruptible
from groundwire.catalog.tables import collections
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import DataLossError, StoreUnavailableError
from groundwire.kernel.store_findings import FindingKind, StoreFinding

_FULL_TEXT = "chunks_fts"
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
        FindingKind.FULL_TEXT_DIFFERS,
        "a full-text row without a searchable chunk",
        """SELECT abs(id) >> 40, abs(id) & ((1 << 40) - 1) FROM chunks_fts_docsize
        WHERE id NOT IN (SELECT search_key FROM searchable_chunks)""",
    ),
    _Rule(
        FindingKind.FULL_TEXT_DIFFERS,
        "a searchable chunk without a full-text row",
        """SELECT abs(search_key) >> 40, chunk_id FROM searchable_chunks
        WHERE search_key NOT IN (SELECT id FROM chunks_fts_docsize)""",
    ),
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
    """Reads the whole file: seconds for a large one. Only `full_text` makes writers wait."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def problems(self, budget: Budget | None = None) -> list[StoreFinding]:
        """Return all that is wrong; empty for a sound catalog.

        Raises:
            CallCancelledError: `budget` was cancelled.
            DeadlineError: `budget` is used up.
        """
        budget = budget or Budget()
        return [*self.file(budget), *self.tables(budget), *self.full_text(budget)]

    def file(self, budget: Budget) -> list[StoreFinding]:
        """Return what SQLite says about its file."""
        return self._read(_file_problems, budget)

    def tables(self, budget: Budget) -> list[StoreFinding]:
        """Return where tables contradict one another."""
        return self._read(_table_problems, budget)

    def full_text(self, budget: Budget) -> list[StoreFinding]:
        """Return whether the words in the full-text index are not those of the chunks; writers wait meanwhile."""

        # On the writer's connection: FTS5 checks against the structure that its connection last read.
        def work(connection: Connection) -> list[StoreFinding]:
            budget.check()
            with interruptible(connection, budget):
                return _full_text_problems(connection, budget)

        return self._database.write(work, alone=True)

    def _read(self, find: Callable[[Connection], Iterator[StoreFinding]], budget: Budget) -> list[StoreFinding]:
        budget.check()
        try:
            with self._database.read() as connection, interruptible(connection, budget):
                return list(find(connection))
        except StoreUnavailableError:
            budget.check()  # SQLite says "interrupted"; the budget says why
            raise
        except DataLossError as error:
            return [StoreFinding(FindingKind.CATALOG_DAMAGED, "", "", error.message)]


def _file_problems(connection: Connection) -> Iterator[StoreFinding]:
    for said in _integrity_check(connection):
        # The full-text index is checked apart, because it can be built anew.
        if said != "ok" and _FULL_TEXT not in said:
            yield StoreFinding(FindingKind.CATALOG_DAMAGED, "", "", f"integrity check: {said}")
    for row in connection.exec_driver_sql("PRAGMA foreign_key_check"):
        message = f"broken reference from {row[0]} to {row[2]}"
        yield StoreFinding(FindingKind.CATALOG_DAMAGED, "", str(row[1]), message)


def _integrity_check(connection: Connection) -> list[str]:
    try:
        # A query makes FTS5 read its structure anew: the check would look for what a former snapshot had.
        connection.exec_driver_sql("SELECT 1 FROM chunks_fts WHERE chunks_fts MATCH 'any' LIMIT 1").all()
        return list(connection.exec_driver_sql("PRAGMA integrity_check").scalars())
    except DatabaseError:
        # A damaged full-text index ends the check of the file, that of any other table does not.
        tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'"
        names = connection.exec_driver_sql(tables).scalars().all()
        checks = [f"PRAGMA integrity_check({name})" for name in names]
        return [said for check in checks for said in connection.exec_driver_sql(check).scalars()]


def _table_problems(connection: Connection) -> Iterator[StoreFinding]:
    statement = select(collections.c.collection_key, collections.c.name)
    names = {row.collection_key: row.name for row in connection.execute(statement)}
    for rule in _RULES:
        for key, subject in connection.exec_driver_sql(f"{rule.statement} LIMIT {_TOLD_OF_EACH}"):
            yield StoreFinding(rule.kind, names.get(key, ""), str(subject), rule.message)


def _full_text_problems(connection: Connection, budget: Budget) -> list[StoreFinding]:
    try:
        connection.exec_driver_sql("INSERT INTO chunks_fts (chunks_fts, rank) VALUES ('integrity-check', 1)")
    except DatabaseError:
        budget.check()  # an interruption fails in the same way
        message = "the full-text index differs from the searchable chunks"
        return [StoreFinding(FindingKind.FULL_TEXT_DIFFERS, "", "", message)]
    return []
