"""Who made a change, in the audit."""

from alembic import op
from sqlalchemy import Column, Text, text

revision = "0004_audit_subjects"
down_revision = "0003_conversations"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; who made earlier changes is not known."""
    op.add_column("audit", Column("subject", Text, nullable=False, server_default=text("''")))
