"""Which documents records quote."""

from alembic import op
from sqlalchemy import Column, ForeignKey

from groundwire.catalog.dialects import TEXT
from groundwire.catalog.schema import NUMBER

revision = "0009_record_quotes"
down_revision = "0008_order_of_texts"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the table; what records written before quote is not known."""
    of_document = ForeignKey("documents.document_key", ondelete="CASCADE")
    op.create_table(
        "record_quotes",
        Column("document_key", NUMBER, of_document, nullable=False, primary_key=True),
        Column("document_id", TEXT, nullable=False, primary_key=True),
        sqlite_with_rowid=False,
    )
    op.create_index("record_quotes_document", "record_quotes", ["document_id"])
