"""The tables, defined once: statements are built from them, and so is a new catalog.

Times are milliseconds since 1970-01-01T00:00Z, offsets count code points (`char_*`) and UTF-8 bytes (`byte_*`), lists
are JSON arrays. An earlier catalog gets what it lacks from `migrations.py`.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    UniqueConstraint,
    text,
)

from groundwire.catalog.dialects import INDEXED_WORD, JSON_OR_NULL, JSON_TEXT, TEXT, BinaryJson

metadata = MetaData()

# SQLite makes a row id only of a column declared INTEGER. Tables whose keys others remember (the engine, page tokens,
# citations) have `sqlite_autoincrement`, so that the key of a deleted row is never given again. Tables that are little
# more than their key go `sqlite_with_rowid=False`: the row is in the tree of the key, and not in a second one.
NUMBER = BigInteger().with_variant(Integer(), "sqlite")


def key(name: str) -> Column[int]:
    """Make the primary key of a table, which nobody outside the catalog sees."""
    return Column(name, NUMBER, primary_key=True)


def number(
    *names: str, nullable: bool = False, default: int | None = None, primary_key: bool = False
) -> list[Column[int]]:
    """Make 64-bit columns."""
    server_default = None if default is None else text(str(default))
    return [
        Column(name, NUMBER, nullable=nullable, server_default=server_default, primary_key=primary_key)
        for name in names
    ]


def words(
    *names: str, nullable: bool = False, default: str | None = None, primary_key: bool = False
) -> list[Column[str]]:
    server_default = None if default is None else text(f"'{default}'")
    return [
        Column(name, TEXT, nullable=nullable, server_default=server_default, primary_key=primary_key) for name in names
    ]


def blob(*names: str, nullable: bool = False) -> list[Column[bytes]]:
    return [Column(name, LargeBinary, nullable=nullable) for name in names]


def json_text(*names: str) -> list[Column[Any]]:
    return [Column(name, JSON_TEXT, nullable=False) for name in names]


def belongs_to(column: str, *, primary_key: bool = False) -> Column[int]:
    """Make a foreign key to `table.column`, of the same name, with ON DELETE CASCADE."""
    name = column.partition(".")[2]
    return Column(name, NUMBER, ForeignKey(column, ondelete="CASCADE"), nullable=False, primary_key=primary_key)


def partial_index(name: str, *columns: str, where: str, unique: bool = False) -> Index:
    """Make a partial index; a statement uses it only when it repeats the condition word for word."""
    return Index(name, *columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


collections = Table(
    "collections",
    metadata,
    key("collection_key"),
    *words("uid", "tenant", "name", "engine_name", "profile"),
    *json_text("identity"),
    *words("identity_digest"),
    *json_text("settings"),
    *number("create_time", "update_time"),
    *number("changed_position", "readable_from", "rewritten_position", default=0),
    UniqueConstraint("tenant", "name"),
    UniqueConstraint("engine_name"),
    sqlite_autoincrement=True,
)

documents = Table(
    "documents",
    metadata,
    key("document_key"),
    *words("document_id", "tenant"),
    belongs_to("collections.collection_key"),
    *number("live_generation", default=0),
    *words("source_path", "source_hash"),
    *words("title", nullable=True),
    *json_text("creator", "subject"),
    *words("description", nullable=True),
    *number("date_created", nullable=True),
    *words("doc_type"),
    *words("language", default="en"),
    *words("category", nullable=True),
    *json_text("tags"),
    *words("project", nullable=True),
    *json_text("metadata"),
    *number("chunk_count", "total_chars", "total_bytes"),
    *words("embedding_model"),
    *words("rules_digest", "tokenizer", "encoding", default=""),
    *number("ingestion_date", "last_modified"),
    *number("delete_time", nullable=True),
    *number("deleted_generation", default=0),
    *number("source_version", nullable=True),
    *number("alias_count", "alias_changes", default=0),
    Column("record", JSON_OR_NULL, nullable=True),
    UniqueConstraint("tenant", "document_id"),
    # A defect of the code is to fail the write that has it, and not some reader of what it wrote.
    CheckConstraint("live_generation >= 0 AND deleted_generation >= 0"),
    CheckConstraint("live_generation = 0 OR deleted_generation = 0"),
    CheckConstraint("(delete_time IS NULL) = (deleted_generation = 0)"),
    CheckConstraint("length(source_hash) = 64"),
    CheckConstraint("doc_type IN ('pdf', 'text', 'markdown', 'html', 'docx', 'rst', 'csv', 'jsonl')"),
    CheckConstraint("chunk_count >= 0"),
    CheckConstraint("total_chars >= 0"),
    CheckConstraint("total_bytes >= total_chars"),
    # Hidden documents and those that wait for their first generation do not occupy their source.
    partial_index("documents_source_path", "collection_key", "source_path", where="live_generation > 0", unique=True),
    partial_index("documents_hidden", "collection_key", "source_path", where="deleted_generation > 0"),
    Index("documents_source_hash", "collection_key", "source_hash"),
    Index("documents_date_created", "collection_key", "date_created"),
    sqlite_autoincrement=True,
)
"""Documents. No reader sees a row with live_generation 0: it waits for its first generation, or it was deleted softly
and deleted_generation is the one that a restoration makes live again."""

document_aliases = Table(
    "document_aliases",
    metadata,
    belongs_to("collections.collection_key", primary_key=True),
    *words("source_path", primary_key=True),
    belongs_to("documents.document_key"),
    Index("document_aliases_document", "document_key"),
    sqlite_with_rowid=False,
)

document_tags = Table(
    "document_tags",
    metadata,
    belongs_to("documents.document_key", primary_key=True),
    *words("tag", primary_key=True),
    Index("document_tags_tag", "tag", "document_key"),
    sqlite_with_rowid=False,
)

records = Table(
    "records",
    metadata,
    belongs_to("documents.document_key", primary_key=True),
    belongs_to("collections.collection_key"),
    *words("record_id", "record_type", "scope"),
    *words("entity", "conversation_id", "role", nullable=True),
    *number("turn_index", "importance", nullable=True),
    *number("time"),
    *number("access_count", default=0),
    *number("last_accessed", nullable=True),
    UniqueConstraint("collection_key", "record_id"),
    CheckConstraint("importance BETWEEN 1 AND 5"),
    Index("records_time", "collection_key", "time"),
    Index("records_conversation", "collection_key", "conversation_id", "record_type", "turn_index"),
    Index("records_entity", "collection_key", "entity"),
    Index("records_type", "collection_key", "record_type"),
    sqlite_with_rowid=False,
)
"""What is sorted and linked by of the documents that are records; all of their metadata is in `documents.record`."""

record_links = Table(
    "record_links",
    metadata,
    belongs_to("documents.document_key", primary_key=True),
    *words("kind", primary_key=True),
    Column(
        "target_key", NUMBER, ForeignKey("documents.document_key", ondelete="CASCADE"), nullable=False, primary_key=True
    ),
    CheckConstraint("kind IN ('supports', 'contradicts', 'suggested_contradicts')"),
    CheckConstraint("document_key <> target_key"),
    Index("record_links_target", "target_key"),
    sqlite_with_rowid=False,
)
"""Links that were added; those that follow from what records say are worked out when they are read."""

record_quotes = Table(
    "record_quotes",
    metadata,
    belongs_to("documents.document_key", primary_key=True),
    *words("document_id", primary_key=True),
    Index("record_quotes_document", "document_id"),
    sqlite_with_rowid=False,
)
"""The documents whose text a record holds, by their ids: it is deleted for good with the first of them."""

tombstones = Table(
    "tombstones",
    metadata,
    *words("tenant", "document_id", primary_key=True),
    *number("last_generation", "position", "deleted_time"),
    sqlite_with_rowid=False,
)
"""Deleted documents: a new document with the same id goes on counting generations, so old citations never match it."""

generations = Table(
    "generations",
    metadata,
    key("generation_key"),
    *words("tenant"),
    belongs_to("collections.collection_key"),
    belongs_to("documents.document_key"),
    *number("generation"),
    *words("state"),
    *number("live_from", "live_to", "superseded_time", nullable=True),
    *words("source_path", "source_hash", "doc_type"),
    *json_text("fields", "properties"),
    *words("text_hash"),
    *words("rules_digest", "tokenizer", "encoding", default=""),
    *number("chunk_count", "total_chars", "total_bytes", "create_time"),
    *number("owner", default=0),
    UniqueConstraint("document_key", "generation"),
    CheckConstraint("generation > 0"),
    CheckConstraint("state IN ('PENDING', 'LIVE', 'SUPERSEDED', 'DELETED')"),
    CheckConstraint("(state = 'PENDING') = (live_from IS NULL)"),
    CheckConstraint("(state IN ('SUPERSEDED', 'DELETED')) = (live_to IS NOT NULL)"),
    # At most one, even where our code is wrong.
    partial_index("generations_live", "document_key", where="state = 'LIVE'", unique=True),
    partial_index("generations_pending", "state", where="state = 'PENDING'"),
    Index("generations_collection", "collection_key", "state", "live_from"),
    # Sums what a tenant has stored without reading a row.
    Index("generations_stored", "tenant", "total_bytes"),
    partial_index("generations_superseded", "collection_key", "live_to", where="state = 'SUPERSEDED'"),
    sqlite_autoincrement=True,
)

text_segments = Table(
    "text_segments",
    metadata,
    belongs_to("generations.generation_key", primary_key=True),
    *number("number", primary_key=True),
    *number("char_start", "byte_start"),
    *words("content"),
)
"""Canonical texts, cut every `texts.SEGMENT_CHARS` code points so that a slice reads little."""

text_pages = Table(
    "text_pages",
    metadata,
    belongs_to("generations.generation_key", primary_key=True),
    *number("page", primary_key=True),
    *number("char_start", "char_end"),
    CheckConstraint("page > 0"),
    CheckConstraint("char_start >= 0 AND char_end >= char_start"),
    sqlite_with_rowid=False,
)
"""Where the pages of a source lie in its canonical text; no rows for formats without pages."""

chunks = Table(
    "chunks",
    metadata,
    key("chunk_number"),
    *words("tenant"),
    belongs_to("documents.document_key"),
    belongs_to("generations.generation_key"),
    *words("chunk_id"),
    *number("sequence_num", "char_start", "char_end", "byte_start", "byte_end"),
    *words("content_hash", "embedding_hash"),
    *number("token_count"),
    *json_text("page_numbers"),
    *words("chapter"),
    *words("section", nullable=True),
    *words("section_heading"),
    *json_text("hierarchy_path"),
    *number("level"),
    *number("overlap_prev_chars", "overlap_next_chars", "undersized", default=0),
    *number("sentence_index", "window_size", "parent", "grandparent", nullable=True),
    *number("upper", default=0),
    *number("indexed", default=1),
    *json_text("tags", "metadata"),
    *words("embedding_model"),
    *number("embedding_timestamp"),
    Column("payload", BinaryJson, nullable=False),
    # Last, so that a scan over payloads does not read the pages that long contents overflow to.
    *words("content"),
    UniqueConstraint("generation_key", "sequence_num"),
    UniqueConstraint("generation_key", "chunk_id"),
    CheckConstraint("sequence_num >= 0"),
    CheckConstraint("char_start >= 0 AND char_end > char_start"),
    CheckConstraint("byte_start >= 0 AND byte_end - byte_start >= char_end - char_start"),
    CheckConstraint("length(content_hash) = 64"),
    CheckConstraint("length(embedding_hash) = 64"),
    CheckConstraint("overlap_prev_chars >= 0 AND overlap_next_chars >= 0"),
    CheckConstraint("upper + indexed <= 1"),
    Index("chunks_document", "document_key", "sequence_num"),
    Index("chunks_content_hash", "content_hash"),
    Index("chunks_embedding_hash", "embedding_hash"),
    partial_index("chunks_not_indexed", "content_hash", where="indexed + upper = 0"),
    Index("chunks_chunk_id", "tenant", "chunk_id"),
    partial_index("chunks_own_metadata", "document_key", where="metadata <> '{}'"),
    sqlite_autoincrement=True,
)
"""Chunks of generations; who changes which of them are searchable changes the full-text index with them."""

chunk_pages = Table(
    "chunk_pages",
    metadata,
    belongs_to("chunks.chunk_number", primary_key=True),
    *number("page", primary_key=True),
    CheckConstraint("page > 0"),
    Index("chunk_pages_page", "page"),
    sqlite_with_rowid=False,
)

lexical_segments = Table(
    "lexical_segments",
    metadata,
    key("segment_key"),
    belongs_to("collections.collection_key"),
    Column("generation_key", NUMBER, ForeignKey("generations.generation_key", ondelete="CASCADE")),
    *words("state"),
    *number("high", "chunk_count", "word_count"),
    *blob("members"),
    CheckConstraint("state IN ('PENDING', 'LIVE', 'SUPERSEDED')"),
    CheckConstraint("(state = 'PENDING') = (generation_key IS NOT NULL)"),
    Index("lexical_segments_collection", "collection_key", "state"),
    partial_index("lexical_segments_generation", "generation_key", where="generation_key IS NOT NULL"),
    sqlite_autoincrement=True,
)
"""Parts of the full-text index: some chunks of a collection, as `lexical_index` describes them."""

lexical_postings = Table(
    "lexical_postings",
    metadata,
    belongs_to("lexical_segments.segment_key", primary_key=True),
    Column("word", INDEXED_WORD, primary_key=True),
    *blob("postings"),
    # Last, so that a search for words does not read the pages that long rows overflow to.
    *blob("positions"),
    sqlite_with_rowid=False,
)

embeddings = Table(
    "embeddings",
    metadata,
    *words("identity_digest", "embedding_hash", primary_key=True),
    *blob("vector"),
    *number("create_time", "create_steady"),
)
"""Vectors as little-endian float32, by model and embedded text: a cache, and what indexes are rebuilt from."""

requests = Table(
    "requests",
    metadata,
    *words("tenant", "request_id", primary_key=True),
    *words("method", "body_digest"),
    *blob("response"),
    *words("resource_id", default=""),
    *number("create_time"),
    Index("requests_resource", "tenant", "resource_id"),
    Index("requests_create_time", "create_time"),
)
"""Answers of calls; one about a document or session is emptied when that is deleted for good."""

operations = Table(
    "operations",
    metadata,
    key("operation_key"),
    *words("tenant", "operation_id", "method", "collection"),
    *blob("request"),
    *number("cancel_requested", "done_count", default=0),
    *blob("outcome", nullable=True),
    *words("resource_id", default=""),
    *number("create_time"),
    *number("end_time", "end_steady", nullable=True),
    *number("owner", default=0),
    UniqueConstraint("tenant", "operation_id"),
    partial_index("operations_resource_id", "tenant", "resource_id", where="resource_id != ''"),
    Index("operations_tenant", "tenant", "operation_key"),
    Index("operations_end_steady", "end_steady"),
    sqlite_autoincrement=True,
)
"""Long work: what was asked for, and its outcome once it has ended."""

uploads = Table(
    "uploads",
    metadata,
    *words("tenant", "upload_id", primary_key=True),
    *blob("header"),
    *number("total_bytes"),
    *number("durable_bytes", default=0),
    *words("source_hash", default=""),
    *number("create_time", "update_time"),
    CheckConstraint("durable_bytes BETWEEN 0 AND total_bytes"),
    Index("uploads_updated_time", "update_time"),
)

outbox = Table(
    "outbox",
    metadata,
    key("id"),
    *words("tenant", "kind", "engine_name"),
    *json_text("numbers"),
    *number("queued_steady"),
    CheckConstraint("kind IN ('delete_points', 'drop_collection', 'match_points')"),
    Index("outbox_engine_name", "engine_name", "id"),
    sqlite_autoincrement=True,
)

deletions = Table(
    "deletions",
    metadata,
    key("id"),
    *words("deletion_id", "tenant", "collection", "collection_uid", "engine_name"),
    *number("permanent", "documents", "chunks"),
    *json_text("stores"),
    *blob("traces"),
    *number("last_task", "hide_time", "hidden_steady"),
    *number("complete_time", nullable=True),
    UniqueConstraint("tenant", "deletion_id"),
    partial_index("deletions_waiting", "tenant", "id", where="complete_time IS NULL"),
    sqlite_autoincrement=True,
)
"""Receipts of deletions; `traces` says what a final search looks for, and is emptied when nothing of it is left."""

index_builds = Table(
    "index_builds",
    metadata,
    *words("engine_name", primary_key=True),
    *words("tenant", "collection_uid", "identity_digest"),
    *number("create_time"),
    *number("owner", default=0),
    sqlite_with_rowid=False,
)
"""Engine collections that are being filled beside the serving ones; those of a dead process are dropped."""

audit = Table(
    "audit",
    metadata,
    key("id"),
    *words("tenant"),
    *number("time"),
    *words("action", "resource", "outcome", "request_id"),
    *number("position"),
    *words("previous_hash", "hash"),
    *number("steady_time", default=0),
    *words("subject", default=""),
    Index("audit_tenant", "tenant", "id"),
    Index("audit_resource", "tenant", "resource", "id"),
    Index("audit_subject", "tenant", "subject", "id"),
    sqlite_autoincrement=True,
)

query_logs = Table(
    "query_logs",
    metadata,
    key("id"),
    *words("log_id", "tenant", "collection", "collection_uid", "query_text"),
    *words("query_type", nullable=True),
    *number("result_count"),
    Column("average_relevance", Float, nullable=False),
    *number("processing_us", "log_time", "log_steady"),
    *words("user_agent"),
    *words("mode", nullable=True),
    *words("error_reason"),
    UniqueConstraint("log_id"),
    CheckConstraint("result_count >= 0"),
    CheckConstraint("average_relevance BETWEEN 0 AND 1"),
    CheckConstraint("processing_us >= 0"),
    CheckConstraint("query_type IN ('conceptual', 'factual', 'section-based')"),
    Index("query_logs_collection", "collection_uid"),
    Index("query_logs_time", "tenant", "log_time", "id"),
    Index("query_logs_age", "log_steady"),
    sqlite_autoincrement=True,
)
"""Queries that were served or failed; those of a collection, by its uid, go with it."""

counters = Table(
    "counters",
    metadata,
    *words("name", primary_key=True),
    *number("value"),
    sqlite_with_rowid=False,
)

sessions = Table(
    "sessions",
    metadata,
    key("session_key"),
    *words("tenant", "session_id", "collection"),
    *words("user_id", default=""),
    *json_text("labels"),
    *number("idle_timeout"),
    *words("state"),
    *words("head", default=""),
    *number("message_count", default=0),
    *number("create_time", "last_activity", "active_steady"),
    *json_text("transitions"),
    *words("conversation_id", "scope", default=""),
    *words("owner", "owner_scopes", default=""),
    UniqueConstraint("tenant", "session_id"),
    CheckConstraint("state IN ('CREATED', 'ACTIVE', 'EXPIRED', 'ENDED')"),
    CheckConstraint("idle_timeout > 0"),
    Index("sessions_last_activity", "tenant", "last_activity", "session_id"),
    Index("sessions_user", "tenant", "user_id", "last_activity", "session_id"),
    sqlite_autoincrement=True,
)

messages = Table(
    "messages",
    metadata,
    key("message_key"),
    belongs_to("sessions.session_key"),
    *words("tenant"),
    *number("sequence"),
    *words("message_id"),
    *words("related_message_id", default=""),
    *words("role", "state", "content"),
    *number("time"),
    *blob("answer", "found", nullable=True),
    *number("unrecorded", default=0),
    UniqueConstraint("session_key", "sequence"),
    UniqueConstraint("session_key", "message_id"),
    CheckConstraint("role IN ('user', 'assistant')"),
    CheckConstraint("state IN ('COMPLETE', 'REDACTED')"),
    partial_index("messages_unrecorded", "message_key", where="unrecorded = 1"),
    sqlite_autoincrement=True,
)
"""`unrecorded` is 1 for an answer whose exchange is still to be written to its conversation: the outbox of records."""

message_documents = Table(
    "message_documents",
    metadata,
    belongs_to("messages.message_key", primary_key=True),
    *words("document_id", primary_key=True),
    *words("tenant"),
    *number("cited"),
    Index("message_documents_document", "tenant", "document_id"),
    sqlite_with_rowid=False,
)
"""The documents whose text a message holds: in its content and answer (`cited`), or only in what was found for it."""

alembic_version = Table(
    "alembic_version",
    metadata,
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""Which migrations the file has seen; named and made as alembic does it."""
