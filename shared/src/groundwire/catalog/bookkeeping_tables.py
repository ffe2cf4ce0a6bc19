"""The tables of bookkeeping: vectors, request ids, uploads, outbox, audit and counters.

Conventions as in `groundwire.catalog.tables`.
"""

from sqlalchemy import CheckConstraint, Column, Float, Index, LargeBinary, Table, UniqueConstraint

from groundwire.catalog.columns import json_text, key, metadata, number, words

embeddings = Table(
    "embeddings",
    metadata,
    words("identity_digest", primary_key=True),
    words("embedding_hash", primary_key=True),
    Column("vector", LargeBinary, nullable=False),
    number("create_time"),
    number("create_steady"),
)
"""Vectors as little-endian float32, by model and embedded text: a cache, and what indexes are rebuilt from."""

requests = Table(
    "requests",
    metadata,
    words("tenant", primary_key=True),
    words("request_id", primary_key=True),
    words("method"),
    words("body_digest"),
    Column("response", LargeBinary, nullable=False),
    words("resource_id", default=""),
    number("create_time"),
)
"""Answers of calls; one that tells of a document or session is emptied when that is deleted for good."""
Index("requests_resource", requests.c.tenant, requests.c.resource_id)
Index("requests_create_time", requests.c.create_time)

operations = Table(
    "operations",
    metadata,
    key("operation_key"),
    words("tenant"),
    words("operation_id"),
    words("method"),
    words("collection"),
    Column("request", LargeBinary, nullable=False),
    number("cancel_requested", default=0),
    number("done_count", default=0),
    Column("outcome", LargeBinary, nullable=True),
    words("resource_id", default=""),
    number("create_time"),
    number("end_time", nullable=True),
    number("end_steady", nullable=True),
    UniqueConstraint("tenant", "operation_id"),
    sqlite_autoincrement=True,
)
Index(
    "operations_resource_id", operations.c.tenant, operations.c.resource_id, sqlite_where=operations.c.resource_id != ""
)
"""Long work: what was asked for, and its outcome once it has ended."""
Index("operations_tenant", operations.c.tenant, operations.c.operation_key)
Index("operations_end_steady", operations.c.end_steady)

uploads = Table(
    "uploads",
    metadata,
    words("tenant", primary_key=True),
    words("upload_id", primary_key=True),
    Column("header", LargeBinary, nullable=False),
    number("total_bytes"),
    number("durable_bytes", default=0),
    words("source_hash", default=""),
    number("create_time"),
    number("update_time"),
    CheckConstraint("durable_bytes BETWEEN 0 AND total_bytes"),
)
Index("uploads_updated_time", uploads.c.update_time)

outbox = Table(
    "outbox",
    metadata,
    key("id"),
    words("tenant"),
    words("kind"),
    words("engine_name"),
    json_text("numbers"),
    number("queued_steady"),
    CheckConstraint("kind IN ('delete_points', 'drop_collection', 'match_points')"),
    sqlite_autoincrement=True,
)
Index("outbox_engine_name", outbox.c.engine_name, outbox.c.id)

deletions = Table(
    "deletions",
    metadata,
    key("id"),
    words("deletion_id"),
    words("tenant"),
    words("collection"),
    words("collection_uid"),
    words("engine_name"),
    number("permanent"),
    number("documents"),
    number("chunks"),
    json_text("stores"),
    Column("traces", LargeBinary, nullable=False),
    number("last_task"),
    number("hide_time"),
    number("hidden_steady"),
    number("complete_time", nullable=True),
    UniqueConstraint("tenant", "deletion_id"),
    sqlite_autoincrement=True,
)
"""Receipts of deletions; `traces` says what a final search looks for, and is emptied when nothing of it is left."""
Index(
    "deletions_waiting",
    deletions.c.tenant,
    deletions.c.id,
    sqlite_where=deletions.c.complete_time.is_(None),
)

index_builds = Table(
    "index_builds",
    metadata,
    words("engine_name", primary_key=True),
    words("tenant"),
    words("collection_uid"),
    words("identity_digest"),
    number("create_time"),
    sqlite_with_rowid=False,
)
"""Engine collections that are being filled beside the serving ones; those of a dead process are dropped."""

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
    number("steady_time", default=0),
    sqlite_autoincrement=True,
)
Index("audit_tenant", audit.c.tenant, audit.c.id)

query_logs = Table(
    "query_logs",
    metadata,
    key("id"),
    words("log_id"),
    words("tenant"),
    words("collection"),
    words("collection_uid"),
    words("query_text"),
    words("query_type", nullable=True),
    number("result_count"),
    Column("average_relevance", Float, nullable=False),
    number("processing_us"),
    number("log_time"),
    number("log_steady"),
    words("user_agent"),
    words("mode", nullable=True),
    words("error_reason"),
    UniqueConstraint("log_id"),
    CheckConstraint("result_count >= 0"),
    CheckConstraint("average_relevance BETWEEN 0 AND 1"),
    CheckConstraint("processing_us >= 0"),
    CheckConstraint("query_type IN ('conceptual', 'factual', 'section-based')"),
    sqlite_autoincrement=True,
)
"""Queries that were served or failed; those of a collection, by its uid, go with it."""
Index("query_logs_collection", query_logs.c.collection_uid)
Index("query_logs_time", query_logs.c.tenant, query_logs.c.log_time, query_logs.c.id)
Index("query_logs_age", query_logs.c.log_steady)

counters = Table(
    "counters",
    metadata,
    words("name", primary_key=True),
    number("value"),
    sqlite_with_rowid=False,
)
