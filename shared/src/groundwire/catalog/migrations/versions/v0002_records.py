"""Records: documents with typed metadata."""

from alembic import op
from sqlalchemy import JSON, CheckConstraint, Column, ForeignKey, UniqueConstraint, text

from groundwire.catalog.dialects import TEXT
from groundwire.catalog.schema import NUMBER

revision = "0002_records"
down_revision = "0001_first_schema"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the metadata of records to documents, and the tables that sort and link them."""
    op.add_column("documents", Column("record", JSON(none_as_null=True), nullable=True))
    # As they were: what is changed in `schema.py` later comes with a migration of its own.
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
