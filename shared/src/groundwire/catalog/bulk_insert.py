"""Inserts of many rows in few statements.

The driver gives up the interpreter lock in every step of a statement and has to win it back from busy threads. One
statement for 64 rows does that once instead of 64 times, and skips SQLAlchemy's work on each row.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any

from sqlalchemy import Connection, Table, insert
from sqlalchemy.dialects import sqlite

_ROWS_PER_STATEMENT = 64


def insert_rows(
    connection: Connection,
    table: Table,
    columns: tuple[str, ...],
    rows: Iterable[Sequence[Any]],
    *,
    skip_existing: bool = False,
) -> None:
    """Insert rows, each the values of `columns` as the driver takes them: JSON is given as text.

    `columns` stand in the order of the table.
    """
    remaining = iter(rows)
    while batch := list(islice(remaining, _ROWS_PER_STATEMENT)):
        statement = _statement(table, columns, len(batch), skip_existing)
        connection.exec_driver_sql(statement, tuple(chain.from_iterable(batch)))


@lru_cache(maxsize=512)
def _statement(table: Table, columns: tuple[str, ...], rows: int, skip_existing: bool) -> str:
    if tuple(column.name for column in table.c if column.name in columns) != columns:
        raise ValueError(f"columns of {table.name} must be in the order of the table")
    one = insert(table).values(dict.fromkeys(columns)).compile(dialect=sqlite.dialect(paramstyle="qmark"))
    head, values, row = str(one).partition(" VALUES ")
    return head + values + ", ".join([row] * rows) + (" ON CONFLICT DO NOTHING" if skip_existing else "")
