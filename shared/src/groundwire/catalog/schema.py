"""The tables, said once: statements are built from them, and a new catalog is made of them.

Times are milliseconds since 1970-01-01T00:00Z, offsets count code points (`char_*`) and UTF-8 bytes (`byte_*`), lists
are JSON arrays. An earlier catalog gets what it lacks from `migrations/versions`.
"""

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    text,
)

from groundwire.catalog.sqlite import BinaryJson

metadata = MetaData()

# SQLite makes a row id only of a column declared INTEGER.
NUMBER = BigInteger().with_variant(Integer(), "sqlite")


def key(name: str) -> Column[int]:
    """Make the key of a table that nobody outside the catalog sees."""
    return Column(name, NUMBER, primary_key=True)


def number(name: str, *, nullable: bool = False, default: int | None = None) -> Column[int]:
    """Make a 64-bit column."""
    return Column(name, NUMBER, nullable=nullable, server_default=None if default is None else text(str(default)))


def words(name: str, *, nullable: bool = False, default: str | None = None, primary_key: bool = False) -> Column[str]:
    """Make a text column."""
    server_default = None if default is None else text(f"'{default}'")
    return Column(name, Text, nullable=nullable, server_default=server_default, primary_key=primary_key)


def json_text(name: str) -> Column[Any]:
    """Make a column of JSON text."""
    return Column(name, JSON, nullable=False)


def belongs_to(column: str, *, primary_key: bool = False) -> Column[int]:
    """Make a reference to `table.column`, of the same name; the row goes when that row goes."""
    name = column.partition(".")[2]
    return Column(name, NUMBER, ForeignKey(column, ondelete="CASCADE"), nullable=False, primary_key=primary_key)


collections = Table(
    "collections",
    metadata,
    key("collection_key"),
    words("uid"),
    words("tenant"),
    words("name"),
    words("engine_name"),
    words("profile"),
    json_text("identity"),
    words("identity_digest"),
    json_text("settings"),
    number("create_time"),
    number("update_time"),
    number("changed_position", default=0),
    number("readable_from", default=0),
    number("rewritten_position", default=0),
    UniqueConstraint("tenant", "name"),
    UniqueConstraint("engine_name"),
    sqlite_autoincrement=True,
)

documents = Table(
    "documents",
    metadata,
    key("document_key"),
    words("document_id"),
    words("tenant"),
    belongs_to("collections.collection_key"),
    number("live_generation", default=0),
    words("source_path"),
    words("source_hash"),
    words("title", nullable=True),
    json_text("creator"),
    json_text("subject"),
    words("description", nullable=True),
    number("date_created", nullable=True),
    words("doc_type"),
    words("language", default="en"),
    words("category", nullable=True),
    json_text("tags"),
    words("project", nullable=True),
    json_text("metadata"),
    number("chunk_count"),
    number("total_chars"),
    number("total_bytes"),
    words("embedding_model"),
    words("rules_digest", default=""),
    words("tokenizer", default=""),
    words("encoding", default=""),
    number("ingestion_date"),
    number("last_modified"),
    number("delete_time", nullable=True),
    number("deleted_generation", default=0),
    number("source_version", nullable=True),
    number("alias_count", default=0),
    number("alias_changes", default=0),
    UniqueConstraint("tenant", "document_id"),
    CheckConstraint("live_generation >= 0 AND deleted_generation >= 0"),
    CheckConstraint("live_generation = 0 OR deleted_generation = 0"),
    CheckConstraint("(delete_time IS NULL) = (deleted_generation = 0)"),
    CheckConstraint("length(source_hash) = 64"),
    CheckConstraint("doc_type IN ('pdf', 'text', 'markdown', 'html', 'docx', 'rst', 'csv', 'jsonl')"),
    CheckConstraint("chunk_count >= 0"),
    CheckConstraint("total_chars >= 0"),
    CheckConstraint("total_bytes >= total_chars"),
    sqlite_autoincrement=True,
)
"""Documents. No reader sees a row with live_generation 0: it waits for its first generation, or it was deleted softly
and deleted_generation is the one that a restoration makes live again."""

Index(
    "documents_source_path",
    documents.c.collection_key,
    documents.c.source_path,
    unique=True,
    sqlite_where=documents.c.live_generation > 0,
)
Index("documents_source_hash", documents.c.collection_key, documents.c.source_hash)
Index("documents_date_created", documents.c.collection_key, documents.c.date_created)

document_aliases = Table(
    "document_aliases",
    metadata,
    belongs_to("collections.collection_key", primary_key=True),
    words("source_path", primary_key=True),
    belongs_to("documents.document_key"),
    sqlite_with_rowid=False,
)
Index("document_aliases_document", document_aliases.c.document_key)

document_tags = Table(
    "document_tags",
    metadata,
    belongs_to("documents.document_key", primary_key=True),
    words("tag", primary_key=True),
    sqlite_with_rowid=False,
)
Index("document_tags_tag", document_tags.c.tag, document_tags.c.document_key)

tombstones = Table(
    "tombstones",
    metadata,
    words("tenant", primary_key=True),
    words("document_id", primary_key=True),
    number("last_generation"),
    number("position"),
    number("deleted_time"),
    sqlite_with_rowid=False,
)
"""Deleted documents: a new document with the same id goes on counting generations, so old citations never match it."""

generations = Table(
    "generations",
    metadata,
    key("generation_key"),
    words("tenant"),
    belongs_to("collections.collection_key"),
    belongs_to("documents.document_key"),
    number("generation"),
    words("state"),
    number("live_from", nullable=True),
    number("live_to", nullable=True),
    number("superseded_time", nullable=True),
    words("source_path"),
    words("source_hash"),
    words("doc_type"),
    json_text("fields"),
    json_text("properties"),
    words("text_hash"),
    words("rules_digest", default=""),
    words("tokenizer", default=""),
    words("encoding", default=""),
    number("chunk_count"),
    number("total_chars"),
    number("total_bytes"),
    number("create_time"),
    UniqueConstraint("document_key", "generation"),
    CheckConstraint("generation > 0"),
    CheckConstraint("state IN ('PENDING', 'LIVE', 'SUPERSEDED', 'DELETED')"),
    CheckConstraint("(state = 'PENDING') = (live_from IS NULL)"),
    CheckConstraint("(state IN ('SUPERSEDED', 'DELETED')) = (live_to IS NOT NULL)"),
    sqlite_autoincrement=True,
)
Index("generations_live", generations.c.document_key, unique=True, sqlite_where=generations.c.state == text("'LIVE'"))
Index("generations_pending", generations.c.state, sqlite_where=generations.c.state == text("'PENDING'"))
Index("generations_collection", generations.c.collection_key, generations.c.state, generations.c.live_from)
Index(
    "generations_superseded",
    generations.c.collection_key,
    generations.c.live_to,
    sqlite_where=generations.c.state == text("'SUPERSEDED'"),
)

text_segments = Table(
    "text_segments",
    metadata,
    belongs_to("generations.generation_key", primary_key=True),
    Column("number", NUMBER, primary_key=True, nullable=False),
    number("char_start"),
    number("byte_start"),
    words("content"),
)
"""Canonical texts, cut every `texts.SEGMENT_CHARS` code points so that a slice reads little."""

text_pages = Table(
    "text_pages",
    metadata,
    belongs_to("generations.generation_key", primary_key=True),
    Column("page", NUMBER, primary_key=True, nullable=False),
    number("char_start"),
    number("char_end"),
    CheckConstraint("page > 0"),
    CheckConstraint("char_start >= 0 AND char_end >= char_start"),
    sqlite_with_rowid=False,
)
"""Where the pages of a source lie in its canonical text; no rows for formats without pages."""

chunks = Table(
    "chunks",
    metadata,
    key("chunk_number"),
    words("tenant"),
    belongs_to("documents.document_key"),
    belongs_to("generations.generation_key"),
    words("chunk_id"),
    number("sequence_num"),
    number("char_start"),
    number("char_end"),
    number("byte_start"),
    number("byte_end"),
    words("content_hash"),
    words("embedding_hash"),
    number("token_count"),
    json_text("page_numbers"),
    words("chapter"),
    words("section", nullable=True),
    words("section_heading"),
    json_text("hierarchy_path"),
    number("level"),
    number("overlap_prev_chars", default=0),
    number("overlap_next_chars", default=0),
    number("undersized", default=0),
    number("sentence_index", nullable=True),
    number("window_size", nullable=True),
    number("parent", nullable=True),
    number("grandparent", nullable=True),
    number("upper", default=0),
    number("indexed", default=1),
    json_text("tags"),
    json_text("metadata"),
    words("embedding_model"),
    number("embedding_timestamp"),
    Column("payload", BinaryJson, nullable=False),
    # Last, so that a scan over payloads does not read the pages that long contents overflow to.
    words("content"),
    UniqueConstraint("generation_key", "sequence_num"),
    UniqueConstraint("generation_key", "chunk_id"),
    CheckConstraint("sequence_num >= 0"),
    CheckConstraint("char_start >= 0 AND char_end > char_start"),
    CheckConstraint("byte_start >= 0 AND byte_end - byte_start >= char_end - char_start"),
    CheckConstraint("length(content_hash) = 64"),
    CheckConstraint("length(embedding_hash) = 64"),
    CheckConstraint("overlap_prev_chars >= 0 AND overlap_next_chars >= 0"),
    CheckConstraint("upper + indexed <= 1"),
    sqlite_autoincrement=True,
)
"""Chunks of generations; who changes which of them are searchable changes the full-text index with them."""

Index("chunks_document", chunks.c.document_key, chunks.c.sequence_num)
Index("chunks_content_hash", chunks.c.content_hash)
Index("chunks_embedding_hash", chunks.c.embedding_hash)
Index("chunks_not_indexed", chunks.c.content_hash, sqlite_where=text("indexed + upper = 0"))
Index("chunks_chunk_id", chunks.c.tenant, chunks.c.chunk_id)
Index("chunks_own_metadata", chunks.c.document_key, sqlite_where=chunks.c.metadata.op("<>")(text("'{}'")))

chunk_pages = Table(
    "chunk_pages",
    metadata,
    belongs_to("chunks.chunk_number", primary_key=True),
    Column("page", NUMBER, primary_key=True, nullable=False),
    CheckConstraint("page > 0"),
    sqlite_with_rowid=False,
)
Index("chunk_pages_page", chunk_pages.c.page)

lexical_segments = Table(
    "lexical_segments",
    metadata,
    key("segment_key"),
    belongs_to("collections.collection_key"),
    Column("generation_key", NUMBER, ForeignKey("generations.generation_key", ondelete="CASCADE")),
    words("state"),
    number("high"),
    number("chunk_count"),
    number("word_count"),
    Column("members", LargeBinary, nullable=False),
    CheckConstraint("state IN ('PENDING', 'LIVE', 'SUPERSEDED')"),
    CheckConstraint("(state = 'PENDING') = (generation_key IS NOT NULL)"),
    sqlite_autoincrement=True,
)
"""Parts of the full-text index: some chunks of a collection, as `lexical_index` describes them."""

Index("lexical_segments_collection", lexical_segments.c.collection_key, lexical_segments.c.state)
Index(
    "lexical_segments_generation",
    lexical_segments.c.generation_key,
    sqlite_where=lexical_segments.c.generation_key.is_not(None),
)

lexical_postings = Table(
    "lexical_postings",
    metadata,
    belongs_to("lexical_segments.segment_key", primary_key=True),
    words("word", primary_key=True),
    Column("postings", LargeBinary, nullable=False),
    # Last, so that a search for words does not read the pages that long rows overflow to.
    Column("positions", LargeBinary, nullable=False),
    sqlite_with_rowid=False,
)

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
