"""Records: documents with typed metadata."""

from alembic import op
from sqlalchemy import JSON, Column

from groundwire.catalog.schema import record_links, records

revision = "0002_records"
down_revision = "0001_first_schema"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the metadata of records to documents, and the tables that sort and link them."""
    op.add_column("documents", Column("record", JSON(none_as_null=True), nullable=True))
    for table in (records, record_links):
        table.create(op.get_bind())
