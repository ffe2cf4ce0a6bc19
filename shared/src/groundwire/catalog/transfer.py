"""Copies a snapshot of a catalog into an empty one, on either database: to back it up or to move it."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Connection, delete, func, insert, select

from groundwire.catalog.database import Database, Storage
from groundwire.catalog.dialects import BinaryJson, continue_keys, last_key, stored_word
from groundwire.catalog.encoding import decode_json
from groundwire.catalog.file_copy import copy_file
from groundwire.catalog.index_words import RULES_COUNTER
from groundwire.catalog.migrations import HEAD, migrate, pending_migrations
from groundwire.catalog.postgresql import OWN_COUNTERS, CatalogServer, is_shortened
from groundwire.catalog.schema import (
    alembic_version,
    collections,
    counters,
    documents,
    generations,
    index_builds,
    lexical_postings,
    metadata,
    operations,
    sessions,
)
from groundwire.catalog.sqlite import CatalogFile
from groundwire.kernel.catalog_urls import file_of, is_on_server
from groundwire.kernel.errors import PreconditionError, StoreMismatchError

# Rows in memory at a time: a single row may hold the text of a whole document.
_ROWS = 200
# PostgreSQL indexes a digest of it, SQLite all of it.
_LONG_WORD = "x" * 10_000


@contextmanager
def snapshot(url: str, password: str | None = None) -> Iterator[Connection]:
    """Give a connection that sees one state of a catalog, which others may go on writing; leaves it as it is.

    Of a file this is a copy in a temporary folder (TMPDIR), which may be of an earlier version.

    Raises:
        DataLossError: the file is damaged.
        StoreMismatchError: it is no catalog, or the database of a server has not the schema of this version.
        StoreUnavailableError: the server does not answer.
    """
    storage: Storage
    with ExitStack() as stack:
        if is_on_server(url):
            storage = CatalogServer(url, password)
            stack.callback(storage.close)
            if pending := pending_migrations(storage.reading):
                raise StoreMismatchError(
                    f"the catalog has an earlier schema, {len(pending)} migrations behind: run `groundwire migrate`",
                    setting="catalog revision",
                    expected=HEAD,
                    got=f"before {pending[0]}",
                )
        else:
            folder = stack.enter_context(TemporaryDirectory(prefix="groundwire-copy-"))
            copied = Path(folder, "catalog.db")
            copy_file(file_of(url), copied)
            # The copy is migrated, not the catalog: a server of an earlier version may have that open.
            storage = CatalogFile(copied)
            stack.callback(storage.close)
            migrate(storage)
        connection = stack.enter_context(storage.reading.connect())
        storage.begin_snapshot(connection)
        yield connection


def copy_catalog(source: Connection, target: Database, report: Callable[[str], None]) -> dict[str, int]:
    """Copy all rows in one transaction, all or nothing, and return how many each table has.

    Vectors are among them, so that the vector store of the target is filled from its catalog. Time of service, and keys
    that rows no longer have, go on in the target where they are in the source.

    `source` comes from `snapshot`; `report` gets the name of each table before it is copied.

    Raises:
        PreconditionError: the target has collections, documents or sessions; it is left as it was.
        StoreUnavailableError: a database does not answer; the target is left as it was.
    """
    # Otherwise the driver would fetch whole tables.
    streaming = source.execution_options(stream_results=True)

    def work(writing: Connection) -> dict[str, int]:
        for table in (collections, documents, sessions):
            if writing.execute(select(func.count()).select_from(table)).scalar_one():
                raise PreconditionError(f"the catalog that is to be filled has {table.name} already")
        # Internal counters of a database mean nothing to another one.
        writing.execute(delete(counters).where(counters.c.name.not_in(OWN_COUNTERS)))
        copied, has_shortened = {}, False
        # In the order of their foreign keys, which the database checks for every row.
        for table in metadata.sorted_tables:
            if table is alembic_version:
                continue
            report(table.name)
            copied[table.name] = 0
            statement = select(table).order_by(*table.primary_key.columns)
            if table is counters:
                statement = statement.where(counters.c.name.not_in(OWN_COUNTERS))
            # Columns of this type are read as JSON text but written as values.
            encoded = [column.name for column in table.columns if isinstance(column.type, BinaryJson)]
            # Unfinished work has no owner in the copy.
            orphaned = {"owner": 0} if table in (generations, operations, index_builds) else {}
            for rows in streaming.execute(statement).mappings().partitions(_ROWS):
                values = [dict(row) | {name: decode_json(row[name]) for name in encoded} | orphaned for row in rows]
                writing.execute(insert(table), values)
                copied[table.name] += len(rows)
                has_shortened |= table is lexical_postings and any(is_shortened(row["word"]) for row in rows)
            continue_keys(writing, table, last_key(source, table))
        if has_shortened and stored_word(writing, _LONG_WORD) == _LONG_WORD:
            # The index is rebuilt in the background, as after a change of the word rules.
            writing.execute(delete(counters).where(counters.c.name == RULES_COUNTER))
        target.steady.resume(writing)
        return copied

    return target.write(work, alone=True)
