"""Brings a catalog file to the schema of this version, in one transaction, or refuses it unchanged.

A file of this version, which almost every one is, is recognised without alembic: importing that takes a tenth of a
start.
"""

from importlib.resources import files
from pathlib import Path

from sqlalchemy import inspect, text

from groundwire.catalog.sqlite import reading_engine, writing_engine
from groundwire.kernel.errors import StoreMismatchError

HEAD = "0001_first_schema"
"""The newest revision below `migrations/versions`."""


def migrate(path: Path) -> None:
    """Run the missing migrations; a kill in the middle leaves the file as it was.

    Raises:
        StoreMismatchError: the file has a revision that this version does not know, or is no catalog.
    """
    revision = _revision(path)
    if revision == HEAD:
        return
    from alembic import command  # noqa: PLC0415 - see above
    from alembic.config import Config  # noqa: PLC0415 - see above
    from alembic.script import ScriptDirectory  # noqa: PLC0415 - see above

    config = Config()
    config.set_main_option("script_location", str(files("groundwire.catalog") / "migrations").replace("%", "%%"))
    known = {script.revision for script in ScriptDirectory.from_config(config).walk_revisions()}
    if revision is not None and revision not in known:
        raise StoreMismatchError(
            f"the catalog was made by another version (revision {revision}, known up to {HEAD})",
            setting="catalog revision",
            expected=HEAD,
            got=revision,
        )
    engine = writing_engine(path)
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    finally:
        engine.dispose()


def _revision(path: Path) -> str | None:
    """Return the revision of the file, None for a new one; reads only, so a refused file stays as it is."""
    engine = reading_engine(path, connections=1)
    try:
        with engine.connect() as connection:
            tables = inspect(connection).get_table_names()
            revision: str | None = None
            if "alembic_version" in tables:
                revision = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
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
