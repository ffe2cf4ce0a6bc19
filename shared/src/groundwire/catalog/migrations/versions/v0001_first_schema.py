"""The first schema: collections, documents, texts, chunks, full-text index, bookkeeping, sessions."""

from pathlib import Path

from alembic import op

revision = "0001_first_schema"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Run the statements of the file beside this one; an empty line ends each."""
    for statement in Path(__file__).with_suffix(".sql").read_text("utf-8").split("\n\n"):
        op.execute(statement)
