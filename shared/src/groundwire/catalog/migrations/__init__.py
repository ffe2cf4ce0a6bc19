"""Makes a new catalog, or brings one to the schema of this version, in one transaction, or refuses it unchanged.

The schema is said once, in `schema.py`: a new catalog is made of that. A change to it comes with a script in `versions`
that changes catalogs which exist already, and with a new `HEAD`. Alembic runs the scripts, and is imported for nothing
else: that takes a tenth of a start.
"""

from importlib.resources import files

from sqlalchemy import Connection, Engine, insert, inspect, select

from groundwire.catalog.index_words import RULES_COUNTER, WORD_RULES
from groundwire.catalog.postgresql import CatalogServer
from groundwire.catalog.schema import alembic_version, counters, metadata
from groundwire.catalog.sqlite import CatalogFile
from groundwire.kernel.errors import StoreMismatchError

HEAD = "0006_session_owners"
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
        if revision is None:
            metadata.create_all(connection)
            connection.execute(insert(counters).values(name="position", value=0))
            # What is indexed from now on has the words of this version: nothing has to be renewed.
            connection.execute(insert(counters).values(name=RULES_COUNTER, value=WORD_RULES))
            connection.execute(insert(alembic_version).values(version_num=HEAD))
        elif revision != HEAD:
            _upgrade(connection, revision)
        storage.prepare(connection)


def _upgrade(connection: Connection, revision: str) -> None:
    from alembic import command  # noqa: PLC0415 - see above
    from alembic.config import Config  # noqa: PLC0415 - see above
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - see above

    config = Config()
    config.set_main_option("script_location", SCRIPTS.replace("%", "%%"))
    if revision not in {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}:
        raise StoreMismatchError(
            f"the catalog was made by another version (revision {revision}, known up to {HEAD})",
            setting="catalog revision",
            expected=HEAD,
            got=revision,
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


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
