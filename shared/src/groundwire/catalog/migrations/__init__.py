"""Makes a new catalog, or brings one to the schema of this version, in one transaction, or refuses it unchanged.

The schema is said once, in `schema.py`: a new catalog is made of that. A change to it comes with a script in `versions`
that changes catalogs which exist already, and with a new `HEAD`. Alembic runs the scripts, and is imported for nothing
else: that takes a tenth of a start.
"""

from importlib.resources import files
from pathlib import Path

from sqlalchemy import Connection, insert, inspect, select

from groundwire.catalog.index_words import RULES_COUNTER, WORD_RULES
from groundwire.catalog.schema import alembic_version, counters, metadata
from groundwire.catalog.sqlite import reading_engine, writing_engine
from groundwire.kernel.errors import StoreMismatchError

HEAD = "0003_conversations"
"""The newest revision below `versions`, which is what `schema.py` says."""
SCRIPTS = str(files("groundwire.catalog") / "migrations")


def migrate(path: Path) -> None:
    """Bring a file to `HEAD`; a kill in the middle leaves it as it was.

    Raises:
        StoreMismatchError: the file has a revision that this version does not know, or is no catalog.
    """
    revision = _revision(path)
    if revision == HEAD:
        return
    engine = writing_engine(path)
    try:
        # SQLite can roll back what defines tables like everything else.
        with engine.begin() as connection:
            if revision is None:
                metadata.create_all(connection)
                connection.execute(insert(counters).values(name="position", value=0))
                # What is indexed from now on has the words of this version: nothing has to be renewed.
                connection.execute(insert(counters).values(name=RULES_COUNTER, value=WORD_RULES))
                connection.execute(insert(alembic_version).values(version_num=HEAD))
            else:
                _upgrade(connection, revision)
    finally:
        engine.dispose()


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


def _revision(path: Path) -> str | None:
    """Return the revision of the file, None for a new one; reads only, so a refused file stays as it is."""
    engine = reading_engine(path)
    try:
        with engine.connect() as connection:
            tables = inspect(connection).get_table_names()
            revision: str | None = None
            if alembic_version.name in tables:
                revision = connection.execute(select(alembic_version.c.version_num)).scalar()
            if revision is None and tables:
                raise StoreMismatchError(
                    "the file is an SQLite database but no catalog",
                    setting="catalog revision",
                    expected=HEAD,
                    got="none",
                )
            return revision
    finally:
        engine.dispose()
