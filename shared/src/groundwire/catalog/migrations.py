"""Makes a new catalog, or brings one to the schema of this version, in one transaction, or refuses it unchanged.

The schema is defined once, in `schema.py`: new catalogs are made of it. A change to it comes with a function here that
changes catalogs which exist already, and with a line in `_REVISIONS`. The functions define tables as they were: what is
changed in `schema.py` later comes with a function of its own.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from sqlalchemy import (
    JSON,
    CheckConstraint,
    Column,
    Connection,
    Engine,
    ForeignKey,
    Text,
    UniqueConstraint,
    insert,
    inspect,
    select,
    text,
    update,
)

from groundwire.catalog.dialects import TEXT
from groundwire.catalog.index_words import RULES_COUNTER, WORD_RULES
from groundwire.catalog.postgresql import CatalogServer
from groundwire.catalog.schema import NUMBER, alembic_version, counters, metadata
from groundwire.catalog.sqlite import CatalogFile
from groundwire.kernel.errors import StoreMismatchError

if TYPE_CHECKING:
    from alembic.operations import Operations


def _add_records(op: "Operations") -> None:
    """Add the metadata of records to documents, and the tables that sort and link them."""
    op.add_column("documents", Column("record", JSON(none_as_null=True), nullable=True))
    op.create_table(
        "records",
        Column("document_key", NUMBER, _of("documents.document_key"), nullable=False, primary_key=True),
        Column("collection_key", NUMBER, _of("collections.collection_key"), nullable=False),
        *(Column(name, TEXT, nullable=False) for name in ("record_id", "record_type", "scope")),
        *(Column(name, TEXT, nullable=True) for name in ("entity", "conversation_id", "role")),
        *(Column(name, NUMBER, nullable=True) for name in ("turn_index", "importance")),
        Column("time", NUMBER, nullable=False),
        Column("access_count", NUMBER, nullable=False, server_default=text("0")),
        Column("last_accessed", NUMBER, nullable=True),
        UniqueConstraint("collection_key", "record_id"),
        CheckConstraint("importance BETWEEN 1 AND 5"),
        sqlite_with_rowid=False,
    )
    op.create_index("records_time", "records", ["collection_key", "time"])
    of_turns = ["collection_key", "conversation_id", "record_type", "turn_index"]
    op.create_index("records_conversation", "records", of_turns)
    op.create_index("records_entity", "records", ["collection_key", "entity"])
    op.create_table(
        "record_links",
        Column("document_key", NUMBER, _of("documents.document_key"), nullable=False, primary_key=True),
        Column("kind", TEXT, nullable=False, primary_key=True),
        Column("target_key", NUMBER, _of("documents.document_key"), nullable=False, primary_key=True),
        CheckConstraint("kind IN ('supports', 'contradicts', 'suggested_contradicts')"),
        CheckConstraint("document_key <> target_key"),
        sqlite_with_rowid=False,
    )
    op.create_index("record_links_target", "record_links", ["target_key"])


def _of(column: str) -> ForeignKey:
    return ForeignKey(column, ondelete="CASCADE")


def _add_conversations(op: "Operations") -> None:
    """Add the conversations of sessions; what was answered before is not recorded."""
    _add_texts(op, "sessions", "conversation_id", "scope")
    op.add_column("messages", Column("unrecorded", NUMBER, nullable=False, server_default=text("0")))
    condition = text("unrecorded = 1")
    op.create_index(
        "messages_unrecorded", "messages", ["message_key"], sqlite_where=condition, postgresql_where=condition
    )


def _add_texts(op: "Operations", table: str, *names: str) -> None:
    for name in names:
        op.add_column(table, Column(name, Text, nullable=False, server_default=text("''")))


def _add_owners(op: "Operations") -> None:
    """Add which process is at work on what is unfinished; what is unfinished now is nobody's."""
    for table in ("generations", "operations", "index_builds"):
        op.add_column(table, Column("owner", NUMBER, nullable=False, server_default=text("0")))


def _order_texts(op: "Operations") -> None:
    """Order texts that earlier revisions added by code points on PostgreSQL too, as in new catalogs."""
    columns = {
        "documents": ("record",),
        "sessions": ("conversation_id", "scope", "owner", "owner_scopes"),
        "audit": ("subject",),
    }
    if op.get_context().dialect.name == "postgresql":
        for table, names in columns.items():
            for name in names:
                op.alter_column(table, name, type_=TEXT)


def _add_record_quotes(op: "Operations") -> None:
    """Add which documents records quote; what records written before quote is not known."""
    op.create_table(
        "record_quotes",
        Column("document_key", NUMBER, _of("documents.document_key"), nullable=False, primary_key=True),
        Column("document_id", TEXT, nullable=False, primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_index("record_quotes_document", "record_quotes", ["document_id"])


def _index_hidden_sources(op: "Operations") -> None:
    """Add the index by which a write finds the softly deleted document of its source without reading all others."""
    hidden = text("deleted_generation > 0")
    columns = ["collection_key", "source_path"]
    op.create_index("documents_hidden", "documents", columns, sqlite_where=hidden, postgresql_where=hidden)


def _index_audit(op: "Operations") -> None:
    """Add the indexes by which the changes of a resource, or by a subject, are found among all of a tenant."""
    for name in ("resource", "subject"):
        op.create_index(f"audit_{name}", "audit", ["tenant", name, "id"])


_REVISIONS: dict[str, Callable[["Operations"], None]] = {
    "0001_first_schema": lambda _op: None,  # catalogs of 0.1.0 were made with it
    "0002_records": _add_records,
    "0003_conversations": _add_conversations,
    # Who made earlier changes, and who began earlier sessions, is not known.
    "0004_audit_subjects": lambda op: _add_texts(op, "audit", "subject"),
    "0005_owners": _add_owners,
    "0006_session_owners": lambda op: _add_texts(op, "sessions", "owner", "owner_scopes"),
    # A context finds the few records of a rare type by it.
    "0007_record_types": lambda op: op.create_index("records_type", "records", ["collection_key", "record_type"]),
    "0008_order_of_texts": _order_texts,
    "0009_record_quotes": _add_record_quotes,
    # What a tenant has stored is summed by it.
    "0010_stored_bytes": lambda op: op.create_index("generations_stored", "generations", ["tenant", "total_bytes"]),
    "0011_hidden_sources": _index_hidden_sources,
    "0012_audit_filters": _index_audit,
}
"""What each revision changes in a catalog of the one before."""
HEAD = list(_REVISIONS)[-1]
"""The newest revision, which is what `schema.py` says."""


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
            # There are no tables, so nothing has to be asked for each of them.
            metadata.create_all(connection, checkfirst=False)
            connection.execute(insert(counters).values(name="position", value=0))
            # What is indexed from now on has the words of this version: nothing has to be renewed.
            connection.execute(insert(counters).values(name=RULES_COUNTER, value=WORD_RULES))
            connection.execute(insert(alembic_version).values(version_num=HEAD))
        elif pending := _pending(revision):
            # Imported for nothing else: that takes a tenth of a start.
            from alembic.migration import MigrationContext  # noqa: PLC0415
            from alembic.operations import Operations  # noqa: PLC0415

            op = Operations(MigrationContext.configure(connection))
            for name in pending:
                _REVISIONS[name](op)
            connection.execute(update(alembic_version).values(version_num=HEAD))


def pending_migrations(reading: Engine) -> list[str]:
    """Return the revisions that `migrate` would bring a catalog to, in order: all of them for a new one. Reads only.

    Raises:
        StoreMismatchError: as `migrate` does.
    """
    return _pending(_revision(reading))


def _pending(revision: str | None) -> list[str]:
    known = list(_REVISIONS)
    if revision is None:
        return known
    if revision not in known:
        raise StoreMismatchError(
            f"the catalog was made or migrated by a later version of groundwire: it has revision {revision}, and this "
            f"version knows those up to {HEAD}",
            setting="catalog revision",
            expected=HEAD,
            got=revision,
        )
    return known[known.index(revision) + 1 :]


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
            "the database belongs to another program: it has tables, and none of them are those of a catalog",
            setting="catalog revision",
            expected=HEAD,
            got="none",
        )
    return revision
