"""Catalogs for tests: migrated once in each process, and copied where a new one is wanted."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from groundwire.catalog.database import Database
from groundwire.catalog.migrations import migrate
from groundwire.kernel.clock import Clock


def open_database(path: Path, clock: Clock | None = None) -> Database:
    """Open the catalog in a file, a new one where there is none."""
    if not path.exists():
        path.write_bytes(_new_catalog())
    return Database.open(f"sqlite:{path}", clock)


@cache
def _new_catalog() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "catalog.db")
        path.touch()
        migrate(path)
        return path.read_bytes()
