"""Catalogs for tests: migrated once in each process, and copied where a new one is wanted.

They are SQLite files, unless `GROUNDWIRE_TEST_CATALOG` or `catalogs_are` says `postgresql`: then each path stands for a
database of the server that `tests.postgresql` starts. Their statements are compiled once in each process as well, as
those of a server are, which has one catalog.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import Engine

from groundwire.catalog.database import Database, Storage
from groundwire.catalog.inspection import Inspection
from groundwire.catalog.lexical_index import LexicalCheck
from groundwire.catalog.migrations import migrate
from groundwire.catalog.postgresql import CatalogServer
from groundwire.catalog.sqlite import CatalogFile
from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import Clock
from groundwire.kernel.store_findings import StoreFinding
from tests.postgresql import server

SQLITE, POSTGRESQL = "sqlite", "postgresql"
_kind = [os.environ.get("GROUNDWIRE_TEST_CATALOG", SQLITE)]


def catalog_kind() -> str:
    """Return which database the catalogs of this moment have."""
    return _kind[-1]


@contextmanager
def catalogs_are(kind: str) -> Iterator[None]:
    """Let the catalogs that are opened inside the block be of a kind."""
    _kind.append(kind)
    try:
        yield
    finally:
        _kind.pop()


def open_database(path: Path, clock: Clock | None = None) -> Database:
    """Open the catalog in a file, a new one where there is none."""
    url, kind = catalog_url(path), catalog_kind()
    database = Database.open(url, clock, folder=path.parent)
    storage = database._storage
    for engine in (storage.writing, storage.reading):
        first = _first_engines.setdefault(kind, engine)
        engine.dialect, engine._compiled_cache = first.dialect, first._compiled_cache
    if isinstance(storage, CatalogFile) and storage._writing is not None:
        storage._writing.dialect = storage.writing.dialect  # it is open already, and would compile by that of its own
    return database


def catalog_url(path: Path) -> str:
    """Return the URL of the catalog that a path stands for, made where there is none."""
    if catalog_kind() == POSTGRESQL:
        if path not in _databases:
            _databases[path] = server().new_database(_template())
        return _databases[path]
    if not path.exists():
        path.write_bytes(_new_catalog())
    return f"sqlite:{path}"


def new_storage(path: Path) -> Storage:
    """Return a database without the tables of a catalog; to be closed."""
    if catalog_kind() == SQLITE:
        return CatalogFile(path)
    storage = CatalogServer(server().new_database())
    with storage.writing.begin() as connection:
        storage.prepare(connection)
    return storage


# Those whose statements serve all others: a compiled statement belongs to a dialect, and to its engine's cache.
_first_engines: dict[str, Engine] = {}
_databases: dict[Path, str] = {}


@cache
def _new_catalog() -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder, "catalog.db")
        storage = CatalogFile(path)
        migrate(storage)
        storage.close()
        return path.read_bytes()


@cache
def _template() -> str:
    url = server().new_database()
    Database.open(url).close()
    return url.rpartition("/")[2]


def problems_of(database: Database) -> list[StoreFinding]:
    """Return all that is wrong in a catalog; empty for a sound one."""
    inspection, budget = Inspection(database), Budget()
    return [
        *inspection.file_problems(budget),
        *inspection.table_problems(budget),
        *LexicalCheck(database).problems(budget),
    ]
