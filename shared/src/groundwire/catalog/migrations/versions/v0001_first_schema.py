"""The schema of 0.1.0, where the history begins: catalogs have had it since they were made, of `schema.py`."""

revision = "0001_first_schema"
down_revision = None
branch_labels = None
depends_on = None
