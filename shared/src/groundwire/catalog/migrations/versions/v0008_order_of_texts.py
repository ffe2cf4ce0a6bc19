"""Texts that earlier migrations added are ordered by code points on PostgreSQL as well."""

from alembic import op

from groundwire.catalog.dialects import TEXT

revision = "0008_order_of_texts"
down_revision = "0007_record_types"
branch_labels = None
depends_on = None

_COLUMNS = {
    "documents": ("record",),
    "sessions": ("conversation_id", "scope", "owner", "owner_scopes"),
    "audit": ("subject",),
}


def upgrade() -> None:
    """Give the columns the type and order of new catalogs; those of SQLite have them already."""
    if op.get_context().dialect.name != "postgresql":
        return
    for table, columns in _COLUMNS.items():
        for column in columns:
            op.alter_column(table, column, type_=TEXT)
