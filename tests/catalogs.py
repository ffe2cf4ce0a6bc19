"""Catalogs for tests: migrated once in each process, and copied where a new one is wanted.

Their statements are compiled once in each process as well, as those of a server are, which has one catalog.
"""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Engine

from groundwire.catalog.database import Database
from groundwire.catalog.migrations import migrate
from groundwire.kernel.clock import Clock


def open_database(path: Path, clock: Clock | None = None) -> Database:
    """Open the catalog in a file, a new one where there is none."""
    if not path.exists():
        path.write_bytes(_new_catalog())
    database = Database.open(f"sqlite:{path}", clock)
    for engine in (database._writer._engine, database._readers._engine):
        if not _first_engine:
            _first_engine.append(engine)
        engine.dialect, engine._compiled_cache = _first_engine[0].dialect, _first_engine[0]._compiled_cache
    return database


# The one whose statements serve all others: a compiled statement belongs to a dialect, and to its engine's cache.
_first_engine: list[Engine] = []


@cache
def _new_catalog() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "catalog.db")
        path.touch()
        migrate(path)
        return path.read_bytes()
