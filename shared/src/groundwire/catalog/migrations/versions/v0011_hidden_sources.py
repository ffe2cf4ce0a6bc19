"""An index of the sources of softly deleted documents."""

from alembic import op
from sqlalchemy import text

revision = "0011_hidden_sources"
down_revision = "0010_stored_bytes"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the index by which a write finds the softly deleted document of its source without reading all others."""
    hidden = text("deleted_generation > 0")
    op.create_index(
        "documents_hidden",
        "documents",
        ["collection_key", "source_path"],
        sqlite_where=hidden,
        postgresql_where=hidden,
    )
