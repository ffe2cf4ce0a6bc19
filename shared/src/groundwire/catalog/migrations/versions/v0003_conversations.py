"""Sessions that are part of a conversation, and which of their exchanges are still to be recorded."""

from alembic import op
from sqlalchemy import Column, Text, text

from groundwire.catalog.schema import NUMBER

revision = "0003_conversations"
down_revision = "0002_records"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; what was answered before is not recorded."""
    for name in ("conversation_id", "scope"):
        op.add_column("sessions", Column(name, Text, nullable=False, server_default=text("''")))
    op.add_column("messages", Column("unrecorded", NUMBER, nullable=False, server_default=text("0")))
    condition = text("unrecorded = 1")
    op.create_index(
        "messages_unrecorded", "messages", ["message_key"], sqlite_where=condition, postgresql_where=condition
    )
