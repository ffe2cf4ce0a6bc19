"""Brings a catalog file to the schema of this version, in one transaction, or refuses it unchanged."""

from importlib.resources import files
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect

from groundwire.catalog.connections import reading_engine, writing_engine
from groundwire.kernel.errors import StoreMismatchError


def migrate(path: Path) -> None:
    """Run the missing migrations; a kill in the middle leaves the file as it was.

    Raises:
        StoreMismatchError: the file has a revision that this version does not know, or is no catalog.
    """
    config = Config()
    config.set_main_option("script_location", str(files("groundwire.catalog") / "migrations").replace("%", "%%"))
    scripts = ScriptDirectory.from_config(config)
    if _revision(path, scripts) == scripts.get_current_head():
        return
    engine = writing_engine(path)
    try:
        with engine.begin() as connection:
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
    finally:
        engine.dispose()


def _revision(path: Path, scripts: ScriptDirectory) -> str | None:
    """Return the revision of the file, None for a new one; reads only, so a refused file stays as it is."""
    engine = reading_engine(path, connections=1)
    try:
        with engine.connect() as connection:
            revision = MigrationContext.configure(connection).get_current_revision()
            _refuse_unknown(connection, revision, scripts)
            return revision
    finally:
        engine.dispose()


def _refuse_unknown(connection: Connection, revision: str | None, scripts: ScriptDirectory) -> None:
    known = {script.revision for script in scripts.walk_revisions()}
    head = str(scripts.get_current_head())
    if revision is None and inspect(connection).get_table_names():
        raise StoreMismatchError(
            "the file is an SQLite database but no catalog", setting="catalog revision", expected=head, got="none"
        )
    if revision is not None and revision not in known:
        raise StoreMismatchError(
            f"the catalog was made by another version (revision {revision}, known up to {head})",
            setting="catalog revision",
            expected=head,
            got=revision,
        )
