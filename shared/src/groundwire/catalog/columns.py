"""The columns that tables are made of, and the catalogue of all tables."""

from typing import Any

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Integer, MetaData, Text, text

metadata = MetaData()

# SQLite makes a row id only of a column declared INTEGER.
NUMBER = BigInteger().with_variant(Integer(), "sqlite")


def key(name: str) -> Column[int]:
    """Make the key of a table that nobody outside the catalog sees."""
    return Column(name, NUMBER, primary_key=True)


def number(name: str, *, nullable: bool = False, default: int | None = None) -> Column[int]:
    """Make a 64-bit column."""
    return Column(name, NUMBER, nullable=nullable, server_default=None if default is None else text(str(default)))


def words(name: str, *, nullable: bool = False, default: str | None = None, primary_key: bool = False) -> Column[str]:
    """Make a text column."""
    server_default = None if default is None else text(f"'{default}'")
    return Column(name, Text, nullable=nullable, server_default=server_default, primary_key=primary_key)


def json_text(name: str) -> Column[Any]:
    """Make a column of JSON text."""
    return Column(name, JSON, nullable=False)


def belongs_to(column: str, *, primary_key: bool = False) -> Column[int]:
    """Make a reference to `table.column`, of the same name; the row goes when that row goes."""
    name = column.partition(".")[2]
    return Column(name, NUMBER, ForeignKey(column, ondelete="CASCADE"), nullable=False, primary_key=primary_key)
