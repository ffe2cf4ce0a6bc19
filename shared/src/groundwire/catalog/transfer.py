"""Copies a catalog into an empty one of whichever database, to move an installation to servers."""

from collections.abc import Callable

from sqlalchemy import Connection, delete, func, insert, select

from groundwire.catalog.database import Database
from groundwire.catalog.dialects import BinaryJson, continue_keys
from groundwire.catalog.encoding import decode_json
from groundwire.catalog.schema import alembic_version, collections, counters, documents, metadata, sessions
from groundwire.kernel.errors import PreconditionError

_ROWS = 200
"""Rows that are in memory at a time: one may hold the text of a whole document."""


def copy_catalog(source: Database, target: Database, report: Callable[[str], None]) -> dict[str, int]:
    """Copy all rows in one transaction, all or nothing, and return how many each table has.

    Vectors are among them, so that the vector store of the target is filled from its catalog. `report` gets the name
    of each table before it is copied.

    Raises:
        PreconditionError: the target has collections, documents or sessions; it is left as it was.
        StoreUnavailableError: a database does not answer; the target is left as it was.
    """

    def work(writing: Connection) -> dict[str, int]:
        for table in (collections, documents, sessions):
            if writing.execute(select(func.count()).select_from(table)).scalar_one():
                raise PreconditionError(f"the catalog that is to be filled has {table.name} already")
        writing.execute(delete(counters))
        copied = {}
        with source.read() as reading:
            # In the order of their references, which the database checks with every row.
            for table in metadata.sorted_tables:
                if table is alembic_version:
                    continue
                report(table.name)
                copied[table.name] = 0
                # Read as text and written as values: they are decoded once a search, and encoded once.
                encoded = [column.name for column in table.columns if isinstance(column.type, BinaryJson)]
                for rows in reading.execute(select(table)).mappings().partitions(_ROWS):
                    values = [dict(row) | {name: decode_json(row[name]) for name in encoded} for row in rows]
                    writing.execute(insert(table), values)
                    copied[table.name] += len(rows)
                continue_keys(writing, table)
        return copied

    return target.write(work, alone=True)
