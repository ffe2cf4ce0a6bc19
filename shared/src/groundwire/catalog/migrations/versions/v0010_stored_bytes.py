"""What a tenant has stored is summed by an index."""

from alembic import op

revision = "0010_stored_bytes"
down_revision = "0009_record_quotes"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("generations_stored", "generations", ["tenant", "total_bytes"])
