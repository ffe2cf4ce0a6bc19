"""Copying and migrating a whole catalog, outside of its servers, with the password that those are set to."""

from collections.abc import Callable
from contextlib import closing

from sqlalchemy import select

from groundwire.catalog.database import Database
from groundwire.catalog.file_copy import settle
from groundwire.catalog.migrations import pending_migrations
from groundwire.catalog.postgresql import CatalogServer
from groundwire.catalog.schema import collections
from groundwire.catalog.sqlite import reading_engine, translated_failures
from groundwire.catalog.transfer import copy_catalog, snapshot
from groundwire.kernel.catalog_urls import file_of, is_on_server
from groundwire.standalone.settings import load_settings


def copy_installation(source: str, target: str, report: Callable[[str], None]) -> dict[str, int]:
    """Copy a catalog into an empty one, while its servers may run; return the rows of each table.

    Args:
        source: `sqlite:FILE` or `postgresql://…`.
        target: the same; a new file is a single file, without its log and lock, as a restored one.
        report: gets the name of each table before it is copied.

    Raises:
        PreconditionError: the target is not empty.
        StoreMismatchError: the source is no catalog, or on a server and not of this version.
        StoreUnavailableError: a server does not answer.
    """
    secret = _password()
    with snapshot(source, secret) as reading:
        filled = Database.open(target, password=secret)
        with closing(filled):
            copied = copy_catalog(reading, filled, report)
    if not filled.is_shared:
        settle(filled.path, filled.path)
        filled.path.with_name(filled.path.name + ".lock").unlink()
    return copied


def migrate_catalog(url: str, *, only_check: bool) -> list[str]:
    """Return the pending revisions of a catalog in order, after applying them unless `only_check`.

    A check changes nothing, and the owner of a file may have it open. Servers may have a database open while it is
    migrated; they go on with the new schema.

    Raises:
        StoreMismatchError: it is of a later version, or no catalog.
        StoreOwnedError: a server has the file open that is to be migrated.
        StoreUnavailableError: the server does not answer, or others write for too long.
    """
    secret = _password()
    if is_on_server(url):
        with closing(CatalogServer(url, secret)) as storage, storage.translated_failures():
            pending = pending_migrations(storage.reading)
    else:
        with translated_failures(file_of(url)):
            pending = pending_migrations(reading_engine(file_of(url)))
    if pending and not only_check:
        Database.open(url, password=secret).close()
    return pending


def tenants_of(url: str) -> list[str]:
    """Return the tenants that have collections in a catalog, by name. Reads only.

    Raises:
        StoreUnavailableError: the server does not answer.
    """
    secret, names = _password(), select(collections.c.tenant).distinct().order_by(collections.c.tenant)
    if is_on_server(url):
        with (
            closing(CatalogServer(url, secret)) as storage,
            storage.translated_failures(),
            storage.reading.connect() as connection,
        ):
            return list(connection.scalars(names))
    with translated_failures(file_of(url)), reading_engine(file_of(url)).connect() as connection:
        return list(connection.scalars(names))


def _password() -> str | None:
    given = load_settings().server.catalog_password
    return given.get_secret_value() if given else None
