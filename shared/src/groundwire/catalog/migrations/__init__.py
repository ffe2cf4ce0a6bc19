"""Alembic scripts; frozen once released."""
