"""The tables of sessions and their messages.

Conventions as in `groundwire.catalog.tables`.
"""

from sqlalchemy import CheckConstraint, Column, Index, LargeBinary, Table, UniqueConstraint

from groundwire.catalog.columns import belongs_to, json_text, key, metadata, number, words

sessions = Table(
    "sessions",
    metadata,
    key("session_key"),
    words("tenant"),
    words("session_id"),
    words("collection"),
    words("user_id", default=""),
    json_text("labels"),
    number("idle_timeout"),
    words("state"),
    words("head", default=""),
    number("message_count", default=0),
    number("create_time"),
    number("last_activity"),
    number("active_steady"),
    json_text("transitions"),
    UniqueConstraint("tenant", "session_id"),
    CheckConstraint("state IN ('CREATED', 'ACTIVE', 'EXPIRED', 'ENDED')"),
    CheckConstraint("idle_timeout > 0"),
    sqlite_autoincrement=True,
)
Index("sessions_last_activity", sessions.c.tenant, sessions.c.last_activity, sessions.c.session_id)
Index("sessions_user", sessions.c.tenant, sessions.c.user_id, sessions.c.last_activity, sessions.c.session_id)

messages = Table(
    "messages",
    metadata,
    key("message_key"),
    belongs_to("sessions.session_key"),
    words("tenant"),
    number("sequence"),
    words("message_id"),
    words("related_message_id", default=""),
    words("role"),
    words("state"),
    words("content"),
    number("time"),
    Column("answer", LargeBinary, nullable=True),
    Column("found", LargeBinary, nullable=True),
    UniqueConstraint("session_key", "sequence"),
    UniqueConstraint("session_key", "message_id"),
    CheckConstraint("role IN ('user', 'assistant')"),
    CheckConstraint("state IN ('COMPLETE', 'REDACTED')"),
    sqlite_autoincrement=True,
)

message_documents = Table(
    "message_documents",
    metadata,
    belongs_to("messages.message_key", primary_key=True),
    words("document_id", primary_key=True),
    words("tenant"),
    number("cited"),
    sqlite_with_rowid=False,
)
"""The documents whose text a message holds: in its content and answer (`cited`), or only in what was found for it."""
Index("message_documents_document", message_documents.c.tenant, message_documents.c.document_id)
