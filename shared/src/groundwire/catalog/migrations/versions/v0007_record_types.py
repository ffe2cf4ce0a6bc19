"""An index of the types of records."""

from alembic import op

revision = "0007_record_types"
down_revision = "0006_session_owners"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index by which a context finds the few records of a rare type."""
    op.create_index("records_type", "records", ["collection_key", "record_type"])
