CREATE TABLE audit (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    time INTEGER NOT NULL,
    action TEXT NOT NULL,
    resource TEXT NOT NULL,
    outcome TEXT NOT NULL,
    request_id TEXT NOT NULL,
    position INTEGER NOT NULL,
    previous_hash TEXT NOT NULL,
    hash TEXT NOT NULL,
    steady_time INTEGER DEFAULT 0 NOT NULL
)

CREATE INDEX audit_tenant ON audit (tenant, id)

CREATE TABLE collections (
    collection_key INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    uid TEXT NOT NULL,
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    engine_name TEXT NOT NULL,
    profile TEXT NOT NULL,
    identity JSON NOT NULL,
    identity_digest TEXT NOT NULL,
    settings JSON NOT NULL,
    create_time INTEGER NOT NULL,
    update_time INTEGER NOT NULL,
    changed_position INTEGER DEFAULT 0 NOT NULL,
    readable_from INTEGER DEFAULT 0 NOT NULL,
    rewritten_position INTEGER DEFAULT 0 NOT NULL,
    UNIQUE (tenant, name),
    UNIQUE (engine_name)
)

CREATE TABLE counters (
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (name)
) WITHOUT ROWID

CREATE TABLE deletions (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    deletion_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    collection TEXT NOT NULL,
    collection_uid TEXT NOT NULL,
    engine_name TEXT NOT NULL,
    permanent INTEGER NOT NULL,
    documents INTEGER NOT NULL,
    chunks INTEGER NOT NULL,
    stores JSON NOT NULL,
    traces BLOB NOT NULL,
    last_task INTEGER NOT NULL,
    hide_time INTEGER NOT NULL,
    hidden_steady INTEGER NOT NULL,
    complete_time INTEGER,
    UNIQUE (tenant, deletion_id)
)

CREATE INDEX deletions_waiting ON deletions (tenant, id) WHERE complete_time IS NULL

CREATE TABLE embeddings (
    identity_digest TEXT NOT NULL,
    embedding_hash TEXT NOT NULL,
    vector BLOB NOT NULL,
    create_time INTEGER NOT NULL,
    create_steady INTEGER NOT NULL,
    PRIMARY KEY (identity_digest, embedding_hash)
)

CREATE TABLE index_builds (
    engine_name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    collection_uid TEXT NOT NULL,
    identity_digest TEXT NOT NULL,
    create_time INTEGER NOT NULL,
    PRIMARY KEY (engine_name)
) WITHOUT ROWID

CREATE TABLE outbox (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    engine_name TEXT NOT NULL,
    numbers JSON NOT NULL,
    queued_steady INTEGER NOT NULL,
    CHECK (kind IN ('delete_points', 'drop_collection', 'match_points'))
)

CREATE INDEX outbox_engine_name ON outbox (engine_name, id)

CREATE TABLE query_logs (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    log_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    collection TEXT NOT NULL,
    collection_uid TEXT NOT NULL,
    query_text TEXT NOT NULL,
    query_type TEXT,
    result_count INTEGER NOT NULL,
    average_relevance FLOAT NOT NULL,
    processing_us INTEGER NOT NULL,
    log_time INTEGER NOT NULL,
    log_steady INTEGER NOT NULL,
    user_agent TEXT NOT NULL,
    mode TEXT,
    error_reason TEXT NOT NULL,
    UNIQUE (log_id),
    CHECK (result_count >= 0),
    CHECK (average_relevance BETWEEN 0 AND 1),
    CHECK (processing_us >= 0),
    CHECK (query_type IN ('conceptual', 'factual', 'section-based'))
)

CREATE INDEX query_logs_age ON query_logs (log_steady)

CREATE INDEX query_logs_collection ON query_logs (collection_uid)

CREATE INDEX query_logs_time ON query_logs (tenant, log_time, id)

CREATE TABLE requests (
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    method TEXT NOT NULL,
    body_digest TEXT NOT NULL,
    response BLOB NOT NULL,
    resource_id TEXT DEFAULT '' NOT NULL,
    create_time INTEGER NOT NULL,
    PRIMARY KEY (tenant, request_id)
)

CREATE INDEX requests_resource ON requests (tenant, resource_id)

CREATE INDEX requests_create_time ON requests (create_time)

CREATE TABLE operations (
    operation_key INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    method TEXT NOT NULL,
    collection TEXT NOT NULL,
    request BLOB NOT NULL,
    cancel_requested INTEGER DEFAULT 0 NOT NULL,
    done_count INTEGER DEFAULT 0 NOT NULL,
    outcome BLOB,
    resource_id TEXT DEFAULT '' NOT NULL,
    create_time INTEGER NOT NULL,
    end_time INTEGER,
    end_steady INTEGER,
    UNIQUE (tenant, operation_id)
)

CREATE INDEX operations_resource_id ON operations (tenant, resource_id) WHERE resource_id != ''

CREATE INDEX operations_tenant ON operations (tenant, operation_key)

CREATE INDEX operations_end_steady ON operations (end_steady)

CREATE TABLE sessions (
    session_key INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    session_id TEXT NOT NULL,
    collection TEXT NOT NULL,
    user_id TEXT DEFAULT '' NOT NULL,
    labels JSON NOT NULL,
    idle_timeout INTEGER NOT NULL,
    state TEXT NOT NULL,
    head TEXT DEFAULT '' NOT NULL,
    message_count INTEGER DEFAULT 0 NOT NULL,
    create_time INTEGER NOT NULL,
    last_activity INTEGER NOT NULL,
    active_steady INTEGER NOT NULL,
    transitions JSON NOT NULL,
    UNIQUE (tenant, session_id),
    CHECK (state IN ('CREATED', 'ACTIVE', 'EXPIRED', 'ENDED')),
    CHECK (idle_timeout > 0)
)

CREATE INDEX sessions_last_activity ON sessions (tenant, last_activity, session_id)

CREATE INDEX sessions_user ON sessions (tenant, user_id, last_activity, session_id)

CREATE TABLE tombstones (
    tenant TEXT NOT NULL,
    document_id TEXT NOT NULL,
    last_generation INTEGER NOT NULL,
    position INTEGER NOT NULL,
    deleted_time INTEGER NOT NULL,
    PRIMARY KEY (tenant, document_id)
) WITHOUT ROWID

CREATE TABLE uploads (
    tenant TEXT NOT NULL,
    upload_id TEXT NOT NULL,
    header BLOB NOT NULL,
    total_bytes INTEGER NOT NULL,
    durable_bytes INTEGER DEFAULT 0 NOT NULL,
    source_hash TEXT DEFAULT '' NOT NULL,
    create_time INTEGER NOT NULL,
    update_time INTEGER NOT NULL,
    PRIMARY KEY (tenant, upload_id),
    CHECK (durable_bytes BETWEEN 0 AND total_bytes)
)

CREATE INDEX uploads_updated_time ON uploads (update_time)

CREATE TABLE documents (
    document_key INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    document_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    collection_key INTEGER NOT NULL,
    live_generation INTEGER DEFAULT 0 NOT NULL,
    source_path TEXT NOT NULL,
    source_hash TEXT NOT NULL,
    title TEXT,
    creator JSON NOT NULL,
    subject JSON NOT NULL,
    description TEXT,
    date_created INTEGER,
    doc_type TEXT NOT NULL,
    language TEXT DEFAULT 'en' NOT NULL,
    category TEXT,
    tags JSON NOT NULL,
    project TEXT,
    metadata JSON NOT NULL,
    chunk_count INTEGER NOT NULL,
    total_chars INTEGER NOT NULL,
    total_bytes INTEGER NOT NULL,
    embedding_model TEXT NOT NULL,
    rules_digest TEXT DEFAULT '' NOT NULL,
    tokenizer TEXT DEFAULT '' NOT NULL,
    encoding TEXT DEFAULT '' NOT NULL,
    ingestion_date INTEGER NOT NULL,
    last_modified INTEGER NOT NULL,
    delete_time INTEGER,
    deleted_generation INTEGER DEFAULT 0 NOT NULL,
    source_version INTEGER,
    alias_count INTEGER DEFAULT 0 NOT NULL,
    alias_changes INTEGER DEFAULT 0 NOT NULL,
    UNIQUE (tenant, document_id),
    CHECK (live_generation >= 0 AND deleted_generation >= 0),
    CHECK (live_generation = 0 OR deleted_generation = 0),
    CHECK ((delete_time IS NULL) = (deleted_generation = 0)),
    CHECK (length(source_hash) = 64),
    CHECK (doc_type IN ('pdf', 'text', 'markdown', 'html', 'docx', 'rst', 'csv', 'jsonl')),
    CHECK (chunk_count >= 0),
    CHECK (total_chars >= 0),
    CHECK (total_bytes >= total_chars),
    FOREIGN KEY(collection_key) REFERENCES collections (collection_key) ON DELETE CASCADE
)

CREATE INDEX documents_date_created ON documents (collection_key, date_created)

CREATE INDEX documents_source_hash ON documents (collection_key, source_hash)

CREATE UNIQUE INDEX documents_source_path ON documents (collection_key, source_path) WHERE live_generation > 0

CREATE TABLE messages (
    message_key INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    session_key INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    sequence INTEGER NOT NULL,
    message_id TEXT NOT NULL,
    related_message_id TEXT DEFAULT '' NOT NULL,
    role TEXT NOT NULL,
    state TEXT NOT NULL,
    content TEXT NOT NULL,
    time INTEGER NOT NULL,
    answer BLOB,
    found BLOB,
    UNIQUE (session_key, sequence),
    UNIQUE (session_key, message_id),
    CHECK (role IN ('user', 'assistant')),
    CHECK (state IN ('COMPLETE', 'REDACTED')),
    FOREIGN KEY(session_key) REFERENCES sessions (session_key) ON DELETE CASCADE
)

CREATE TABLE message_documents (
    message_key INTEGER NOT NULL,
    document_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    cited INTEGER NOT NULL,
    PRIMARY KEY (message_key, document_id),
    FOREIGN KEY(message_key) REFERENCES messages (message_key) ON DELETE CASCADE
) WITHOUT ROWID

CREATE INDEX message_documents_document ON message_documents (tenant, document_id)

CREATE TABLE document_aliases (
    collection_key INTEGER NOT NULL,
    source_path TEXT NOT NULL,
    document_key INTEGER NOT NULL,
    PRIMARY KEY (collection_key, source_path),
    FOREIGN KEY(collection_key) REFERENCES collections (collection_key) ON DELETE CASCADE,
    FOREIGN KEY(document_key) REFERENCES documents (document_key) ON DELETE CASCADE
) WITHOUT ROWID

CREATE INDEX document_aliases_document ON document_aliases (document_key)

CREATE TABLE document_tags (
    document_key INTEGER NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (document_key, tag),
    FOREIGN KEY(document_key) REFERENCES documents (document_key) ON DELETE CASCADE
) WITHOUT ROWID

CREATE INDEX document_tags_tag ON document_tags (tag, document_key)

CREATE TABLE generations (
    generation_key INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    collection_key INTEGER NOT NULL,
    document_key INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    state TEXT NOT NULL,
    live_from INTEGER,
    live_to INTEGER,
    superseded_time INTEGER,
    source_path TEXT NOT NULL,
    source_hash TEXT NOT NULL,
    doc_type TEXT NOT NULL,
    fields JSON NOT NULL,
    properties JSON NOT NULL,
    text_hash TEXT NOT NULL,
    rules_digest TEXT DEFAULT '' NOT NULL,
    tokenizer TEXT DEFAULT '' NOT NULL,
    encoding TEXT DEFAULT '' NOT NULL,
    chunk_count INTEGER NOT NULL,
    total_chars INTEGER NOT NULL,
    total_bytes INTEGER NOT NULL,
    create_time INTEGER NOT NULL,
    UNIQUE (document_key, generation),
    CHECK (generation > 0),
    CHECK (state IN ('PENDING', 'LIVE', 'SUPERSEDED', 'DELETED')),
    CHECK ((state = 'PENDING') = (live_from IS NULL)),
    CHECK ((state IN ('SUPERSEDED', 'DELETED')) = (live_to IS NOT NULL)),
    FOREIGN KEY(collection_key) REFERENCES collections (collection_key) ON DELETE CASCADE,
    FOREIGN KEY(document_key) REFERENCES documents (document_key) ON DELETE CASCADE
)

CREATE INDEX generations_collection ON generations (collection_key, state, live_from)

CREATE INDEX generations_superseded ON generations (collection_key, live_to) WHERE state = 'SUPERSEDED'

CREATE UNIQUE INDEX generations_live ON generations (document_key) WHERE state = 'LIVE'

CREATE INDEX generations_pending ON generations (state) WHERE state = 'PENDING'

CREATE TABLE chunks (
    chunk_number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    document_key INTEGER NOT NULL,
    generation_key INTEGER NOT NULL,
    chunk_id TEXT NOT NULL,
    sequence_num INTEGER NOT NULL,
    char_start INTEGER NOT NULL,
    char_end INTEGER NOT NULL,
    byte_start INTEGER NOT NULL,
    byte_end INTEGER NOT NULL,
    content_hash TEXT NOT NULL,
    embedding_hash TEXT NOT NULL,
    token_count INTEGER NOT NULL,
    page_numbers JSON NOT NULL,
    chapter TEXT NOT NULL,
    section TEXT,
    section_heading TEXT NOT NULL,
    hierarchy_path JSON NOT NULL,
    level INTEGER NOT NULL,
    overlap_prev_chars INTEGER DEFAULT 0 NOT NULL,
    overlap_next_chars INTEGER DEFAULT 0 NOT NULL,
    undersized INTEGER DEFAULT 0 NOT NULL,
    sentence_index INTEGER,
    window_size INTEGER,
    parent INTEGER,
    grandparent INTEGER,
    upper INTEGER DEFAULT 0 NOT NULL,
    "indexed" INTEGER DEFAULT 1 NOT NULL,
    tags JSON NOT NULL,
    metadata JSON NOT NULL,
    embedding_model TEXT NOT NULL,
    embedding_timestamp INTEGER NOT NULL,
    payload BLOB NOT NULL,
    content TEXT NOT NULL,
    UNIQUE (generation_key, sequence_num),
    UNIQUE (generation_key, chunk_id),
    CHECK (sequence_num >= 0),
    CHECK (char_start >= 0 AND char_end > char_start),
    CHECK (byte_start >= 0 AND byte_end - byte_start >= char_end - char_start),
    CHECK (length(content_hash) = 64),
    CHECK (length(embedding_hash) = 64),
    CHECK (overlap_prev_chars >= 0 AND overlap_next_chars >= 0),
    CHECK (upper + indexed <= 1),
    FOREIGN KEY(document_key) REFERENCES documents (document_key) ON DELETE CASCADE,
    FOREIGN KEY(generation_key) REFERENCES generations (generation_key) ON DELETE CASCADE
)

CREATE INDEX chunks_chunk_id ON chunks (tenant, chunk_id)

CREATE INDEX chunks_own_metadata ON chunks (document_key) WHERE metadata <> '{}'

CREATE INDEX chunks_content_hash ON chunks (content_hash)

CREATE INDEX chunks_not_indexed ON chunks (content_hash) WHERE indexed + upper = 0

CREATE INDEX chunks_embedding_hash ON chunks (embedding_hash)

CREATE INDEX chunks_document ON chunks (document_key, sequence_num)

CREATE TABLE text_segments (
    generation_key INTEGER NOT NULL,
    number INTEGER NOT NULL,
    char_start INTEGER NOT NULL,
    byte_start INTEGER NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (generation_key, number),
    FOREIGN KEY(generation_key) REFERENCES generations (generation_key) ON DELETE CASCADE
)

CREATE TABLE text_pages (
    generation_key INTEGER NOT NULL,
    page INTEGER NOT NULL,
    char_start INTEGER NOT NULL,
    char_end INTEGER NOT NULL,
    PRIMARY KEY (generation_key, page),
    CHECK (page > 0),
    CHECK (char_start >= 0 AND char_end >= char_start),
    FOREIGN KEY(generation_key) REFERENCES generations (generation_key) ON DELETE CASCADE
) WITHOUT ROWID

CREATE TABLE chunk_pages (
    chunk_number INTEGER NOT NULL,
    page INTEGER NOT NULL,
    PRIMARY KEY (chunk_number, page),
    CHECK (page > 0),
    FOREIGN KEY(chunk_number) REFERENCES chunks (chunk_number) ON DELETE CASCADE
) WITHOUT ROWID

CREATE INDEX chunk_pages_page ON chunk_pages (page)

CREATE TABLE lexical_segments (
    segment_key INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    collection_key INTEGER NOT NULL,
    generation_key INTEGER,
    state TEXT NOT NULL,
    high INTEGER NOT NULL,
    chunk_count INTEGER NOT NULL,
    word_count INTEGER NOT NULL,
    members BLOB NOT NULL,
    CHECK (state IN ('PENDING', 'LIVE', 'SUPERSEDED')),
    CHECK ((state = 'PENDING') = (generation_key IS NOT NULL)),
    FOREIGN KEY(collection_key) REFERENCES collections (collection_key) ON DELETE CASCADE,
    FOREIGN KEY(generation_key) REFERENCES generations (generation_key) ON DELETE CASCADE
)

CREATE INDEX lexical_segments_collection ON lexical_segments (collection_key, state)

CREATE INDEX lexical_segments_generation ON lexical_segments (generation_key) WHERE generation_key IS NOT NULL

CREATE TABLE lexical_postings (
    segment_key INTEGER NOT NULL,
    word TEXT NOT NULL,
    postings BLOB NOT NULL,
    positions BLOB NOT NULL,
    PRIMARY KEY (segment_key, word),
    FOREIGN KEY(segment_key) REFERENCES lexical_segments (segment_key) ON DELETE CASCADE
) WITHOUT ROWID

INSERT INTO counters (name, value) VALUES ('position', 0)
