"""Whose a session is."""

from alembic import op
from sqlalchemy import Column, Text, text

revision = "0006_session_owners"
down_revision = "0005_owners"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns; who began earlier sessions is not known."""
    for name in ("owner", "owner_scopes"):
        op.add_column("sessions", Column(name, Text, nullable=False, server_default=text("''")))
