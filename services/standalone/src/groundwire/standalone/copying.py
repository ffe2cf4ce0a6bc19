"""Moves an installation whose catalog is a file to a PostgreSQL database."""

from collections.abc import Callable
from pathlib import Path

from groundwire.catalog.database import Database
from groundwire.catalog.transfer import copy_catalog
from groundwire.kernel.errors import PreconditionError
from groundwire.standalone.settings import ServerSettings

CATALOG_FILE = "catalog.db"


def copy_installation(
    folder: Path, target: str, settings: ServerSettings, report: Callable[[str], None]
) -> dict[str, int]:
    """Copy the catalog of a data folder, or of a backup, into an empty database; return the rows of each table.

    Raises:
        PreconditionError: there is no catalog, or the target is not empty.
        StoreOwnedError: a server has the folder open.
        StoreUnavailableError: the database server does not answer.
    """
    if not (folder / CATALOG_FILE).is_file():
        raise PreconditionError(f"there is no {CATALOG_FILE} in {str(folder)!r}: name a data folder or a backup")
    password = settings.catalog_password
    source = Database.open(f"sqlite:{folder / CATALOG_FILE}")
    try:
        filled = Database.open(target, password=password.get_secret_value() if password else None)
        try:
            return copy_catalog(source, filled, report)
        finally:
            filled.close()
    finally:
        source.close()
