"""Who is at work on what is unfinished, of several processes that share a catalog."""

from alembic import op
from sqlalchemy import Column, text

from groundwire.catalog.schema import NUMBER

revision = "0005_owners"
down_revision = "0004_audit_subjects"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; what is unfinished now is nobody's."""
    for table in ("generations", "operations", "index_builds"):
        op.add_column(table, Column("owner", NUMBER, nullable=False, server_default=text("0")))
