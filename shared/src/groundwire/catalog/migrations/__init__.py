"""Makes a new catalog, or brings one to the schema of this version, in one transaction, or refuses it unchanged.

The schema is defined once, in `schema.py`: new catalogs are made of it. A change to it comes with a script in
`versions` that changes catalogs which exist already, and with a new `HEAD`. Alembic runs the scripts, and is imported
for nothing else: that takes a tenth of a start.
"""

from importlib.resources import files
from typing import TYPE_CHECKING

from sqlalchemy import Connection, Engine, insert, inspect, select

from groundwire.catalog.index_words import RULES_COUNTER, WORD_RULES
from groundwire.catalog.postgresql import CatalogServer
from groundwire.catalog.schema import alembic_version, counters, metadata
from groundwire.catalog.sqlite import CatalogFile
from groundwire.kernel.errors import StoreMismatchError

if TYPE_CHECKING:
    from alembic.config import Config

HEAD = "0011_hidden_sources"
"""The newest revision below `versions`, which is what `schema.py` says."""
SCRIPTS = str(files("groundwire.catalog") / "migrations")


def migrate(storage: CatalogFile | CatalogServer) -> None:
    """Bring a catalog to `HEAD`; a kill in the middle leaves it as it was.

    Raises:
        StoreMismatchError: it has a revision that this version does not know, or is no catalog.
    """
    if _revision(storage.reading) == HEAD:
        return
    # Both databases can roll back what defines tables like everything else.
    with storage.writing.begin() as connection:
        # Looked at once more: another process may have been waiting for its turn to do the same.
        revision = _revision_of(connection)
        storage.prepare(connection)
        if revision is None:
            metadata.create_all(connection)
            connection.execute(insert(counters).values(name="position", value=0))
            # What is indexed from now on has the words of this version: nothing has to be renewed.
            connection.execute(insert(counters).values(name=RULES_COUNTER, value=WORD_RULES))
            connection.execute(insert(alembic_version).values(version_num=HEAD))
        elif _pending(revision):
            from alembic import command  # noqa: PLC0415 - see above

            config = _config()
            config.attributes["connection"] = connection
            command.upgrade(config, "head")


def pending_migrations(reading: Engine) -> list[str]:
    """Return the revisions that `migrate` would bring a catalog to, in order: all of them for a new one. Reads only.

    Raises:
        StoreMismatchError: as `migrate` does.
    """
    return _pending(_revision(reading))


def _pending(revision: str | None) -> list[str]:
    if revision == HEAD:
        return []
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - see above

    known = [script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()][::-1]
    if revision is None:
        return known
    if revision not in known:
        raise StoreMismatchError(
            f"the catalog was made by another version (revision {revision}, known up to {HEAD})",
            setting="catalog revision",
            expected=HEAD,
            got=revision,
        )
    return known[known.index(revision) + 1 :]


def _config() -> "Config":
    from alembic.config import Config  # noqa: PLC0415 - see above

    config = Config()
    config.set_main_option("script_location", SCRIPTS.replace("%", "%%"))
    return config


def _revision(reading: Engine) -> str | None:
    """Return the revision of a catalog, None for a new one; reads only, so a refused file stays as it is."""
    with reading.connect() as connection:
        return _revision_of(connection)


def _revision_of(connection: Connection) -> str | None:
    tables = inspect(connection).get_table_names()
    revision: str | None = None
    if alembic_version.name in tables:
        revision = connection.execute(select(alembic_version.c.version_num)).scalar()
    if revision is None and tables:
        raise StoreMismatchError(
            "the database is no catalog and holds other tables",
            setting="catalog revision",
            expected=HEAD,
            got="none",
        )
    return revision
