"""Copies the file of a SQLite database with nothing but the standard library: clients have no other."""

import sqlite3
from contextlib import closing
from pathlib import Path

from groundwire.kernel.errors import DataLossError, PreconditionError


def copy_file(source: Path, target: Path) -> None:
    """Copy a database as it is at one moment, with what is only in its write-ahead log; its owner may go on writing.

    Raises:
        DataLossError: it is damaged.
        PreconditionError: it cannot be read or the copy not written, as where the disk is full.
    """
    try:
        with closing(sqlite3.connect(source)) as reading, closing(sqlite3.connect(target)) as writing:
            # In one step: a write between two steps would restart the copy, and a busy server writes all the time.
            reading.backup(writing)
    except sqlite3.OperationalError as error:
        raise PreconditionError(f"the catalog {str(source)!r} cannot be copied to {str(target)!r}: {error}") from error
    except sqlite3.DatabaseError as error:
        raise DataLossError(f"the catalog {str(source)!r} cannot be copied: {error}") from error
    settle(target, source)


def settle(path: Path, what: Path) -> None:
    """Let a database that nobody has open be one file, and look at it.

    Raises:
        DataLossError: it is damaged; names `what` it was made of.
        PreconditionError: it cannot be read or written, or is no catalog, as an empty file is none.
    """
    try:
        with closing(sqlite3.connect(path)) as connection:
            (state,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            revisions = connection.execute("SELECT name FROM sqlite_master WHERE name = 'alembic_version'").fetchall()
            connection.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.OperationalError as error:
        raise PreconditionError(f"the copy {str(path)!r} cannot be made: {error}") from error
    except sqlite3.DatabaseError as error:
        raise DataLossError(f"the catalog {str(what)!r} cannot be copied: {error}") from error
    if state != "ok":
        raise DataLossError(f"the catalog {str(what)!r} is damaged: {state}")
    if not revisions:
        raise PreconditionError(f"{str(what)!r} is empty, or no catalog")
