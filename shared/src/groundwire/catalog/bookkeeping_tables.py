"""The tables of bookkeeping: vectors, request ids, outbox, audit and counters.

Conventions as in `groundwire.catalog.tables`.
"""

from sqlalchemy import CheckConstraint, Column, Index, LargeBinary, Table

from groundwire.catalog.columns import json_text, key, metadata, number, words

embeddings = Table(
    "embeddings",
    metadata,
    words("identity_digest", primary_key=True),
    words("content_hash", primary_key=True),
    Column("vector", LargeBinary, nullable=False),
    number("created_time"),
)
"""Vectors as little-endian float32, by model and content: the embedding cache and the source of index rebuilds."""

requests = Table(
    "requests",
    metadata,
    words("tenant", primary_key=True),
    words("request_id", primary_key=True),
    words("method"),
    words("body_digest"),
    Column("response", LargeBinary, nullable=False),
    number("created_time"),
)
Index("requests_created_time", requests.c.created_time)

outbox = Table(
    "outbox",
    metadata,
    key("id"),
    words("tenant"),
    words("kind"),
    words("engine_name"),
    json_text("numbers"),
    CheckConstraint("kind IN ('delete_points', 'drop_collection')"),
    sqlite_autoincrement=True,
)

audit = Table(
    "audit",
    metadata,
    key("id"),
    words("tenant"),
    number("time"),
    words("action"),
    words("resource"),
    words("outcome"),
    words("request_id"),
    number("position"),
    words("previous_hash"),
    words("hash"),
    sqlite_autoincrement=True,
)
Index("audit_tenant", audit.c.tenant, audit.c.id)

counters = Table(
    "counters",
    metadata,
    words("name", primary_key=True),
    number("value"),
    sqlite_with_rowid=False,
)
