BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001_first_schema');
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
);
INSERT INTO "audit" VALUES(1,'default',1772366400000,'create_collection','docs','OK','',0,'','673e723e2a82dd1b061a80a379e7e4d2482eee0f1a45a52e31c16718f206f9b7',1772366400000);
INSERT INTO "audit" VALUES(2,'default',1772366400000,'publish_document','doc-a','OK','',1,'673e723e2a82dd1b061a80a379e7e4d2482eee0f1a45a52e31c16718f206f9b7','09808805c57f42bca1ee0bf5d80fae276e0cfcf5e93006327d4d128e88d2f96f',1772366400000);
INSERT INTO "audit" VALUES(3,'default',1772366400000,'publish_document','doc-a','OK','',2,'09808805c57f42bca1ee0bf5d80fae276e0cfcf5e93006327d4d128e88d2f96f','74366054e1484105d2b618e71ecc06e650e1938cd8156bc446f72045885c72f2',1772366400000);
INSERT INTO "audit" VALUES(4,'default',1772366400000,'publish_document','doc-b','OK','',3,'74366054e1484105d2b618e71ecc06e650e1938cd8156bc446f72045885c72f2','3df794113aa316fe3820da6efafbb74a1ec368b19423453edb5c5f41e1fd932f',1772366400000);
CREATE TABLE chunk_pages (
    chunk_number INTEGER NOT NULL,
    page INTEGER NOT NULL,
    PRIMARY KEY (chunk_number, page),
    CHECK (page > 0),
    FOREIGN KEY(chunk_number) REFERENCES chunks (chunk_number) ON DELETE CASCADE
) WITHOUT ROWID;
INSERT INTO "chunk_pages" VALUES(3,1);
INSERT INTO "chunk_pages" VALUES(4,1);
INSERT INTO "chunk_pages" VALUES(3,2);
INSERT INTO "chunk_pages" VALUES(4,2);
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
);
INSERT INTO "chunks" VALUES(3,'default',1,2,'doc-a#chunk_000',0,0,15,0,15,'33fa73e6f3618142db6ac30f8bca17b59c43b723e2f51270b8da0a1cc8fe6cff','3779b54f4caa35072f8cde8b80dcb90716a122fb46a70cba6cb48dd122265ce4',3,'[1,2]','Chapter 1','1.1','Heading 0','["Chapter 1","Heading 0"]',2,0,0,0,NULL,NULL,NULL,NULL,0,1,'[]','{}','tiny',1772366400000,X'DC0128B7646F63756D656E745F696457646F632D61876368756E6B5F6964C70F646F632D61236368756E6B5F303030C70C6368756E6B5F6E756D626572133367736F7572636547612E6D6467666F726D6174876D61726B646F776E577469746C65575469646573876C616E677561676527656E47746167734B377365617763686170746572974368617074657220317773656374696F6E37312E31C70D73656374696F6E5F7469746C659748656164696E672030576C6576656C1332C70C73657175656E63655F6E756D1330C70C706167655F6E756D626572734B13311332A7706167655F7374617274133187706167655F656E641332A7636861725F7374617274133087636861725F656E64233135B7696E6765737465645F6174C30D31373732333636343030303030','tide moon comet');
INSERT INTO "chunks" VALUES(4,'default',2,3,'doc-b#chunk_000',0,0,15,0,15,'5c949d2532429f1838b132eeeab1a46ae3c038c51f42bdccc0de54b4998c450b','bc711cce1923993b8a10070220355b8acf68218905642751ec54507a3ccdeea7',2,'[1,2]','Chapter 1','1.1','Heading 0','["Chapter 1","Heading 0"]',2,0,0,0,NULL,NULL,NULL,NULL,0,1,'[]','{}','tiny',1772366400000,X'DC0120B7646F63756D656E745F696457646F632D62876368756E6B5F6964C70F646F632D62236368756E6B5F303030C70C6368756E6B5F6E756D626572133467736F7572636547622E6D6467666F726D6174876D61726B646F776E577469746C657741207469746C65876C616E677561676527656E7763686170746572974368617074657220317773656374696F6E37312E31C70D73656374696F6E5F7469746C659748656164696E672030576C6576656C1332C70C73657175656E63655F6E756D1330C70C706167655F6E756D626572734B13311332A7706167655F7374617274133187706167655F656E641332A7636861725F7374617274133087636861725F656E64233135B7696E6765737465645F6174C30D31373732333636343030303030','lantern orchard');
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
);
INSERT INTO "collections" VALUES(1,'uid-default-docs','default','docs','gw-uid-default-docs','documents','{"provider":"test","model_name":"tiny","revision":"1","dimensions":4,"max_tokens":256,"normalized":true,"probe_digest":"0000000000000000000000000000000000000000000000000000000000000000"}','3b80d40b0774e93553d768a9f13c9091fcabccfb0f42cbdb7a01df63e4435d3b','{"chunking":{"unit":"tokens","target":512,"minimum":100,"maximum":1024,"overlap_ratio":0.15,"min_chars":10,"chunker":"structure","window_size":2},"retrieval":{"mode":"hybrid","top_k":5,"min_relevance":0.0,"dense_weight":0.5},"limits":{"max_query_chars":500,"max_document_bytes":null,"require_url":false},"approved_source_prefixes":[],"generation_retention":0.0,"duplicate_chunks":"keep","content_description":"","field_descriptions":[]}',1772366400000,1772366400000,3,2,0);
CREATE TABLE counters (
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    PRIMARY KEY (name)
) WITHOUT ROWID;
INSERT INTO "counters" VALUES('downtime_ms',0);
INSERT INTO "counters" VALUES('position',3);
INSERT INTO "counters" VALUES('steady_ms',1772366400000);
INSERT INTO "counters" VALUES('wall_ms',1772366400000);
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
);
CREATE TABLE document_aliases (
    collection_key INTEGER NOT NULL,
    source_path TEXT NOT NULL,
    document_key INTEGER NOT NULL,
    PRIMARY KEY (collection_key, source_path),
    FOREIGN KEY(collection_key) REFERENCES collections (collection_key) ON DELETE CASCADE,
    FOREIGN KEY(document_key) REFERENCES documents (document_key) ON DELETE CASCADE
) WITHOUT ROWID;
INSERT INTO "document_aliases" VALUES(1,'c.md',2);
CREATE TABLE document_tags (
    document_key INTEGER NOT NULL,
    tag TEXT NOT NULL,
    PRIMARY KEY (document_key, tag),
    FOREIGN KEY(document_key) REFERENCES documents (document_key) ON DELETE CASCADE
) WITHOUT ROWID;
INSERT INTO "document_tags" VALUES(1,'sea');
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
);
INSERT INTO "documents" VALUES(1,'doc-a','default',1,2,'a.md','33fa73e6f3618142db6ac30f8bca17b59c43b723e2f51270b8da0a1cc8fe6cff','Tides','[]','[]',NULL,NULL,'markdown','en',NULL,'["sea"]',NULL,'{}',1,15,15,'tiny','','','',1772366400000,1772366400000,NULL,0,NULL,0,0);
INSERT INTO "documents" VALUES(2,'doc-b','default',1,1,'b.md','5c949d2532429f1838b132eeeab1a46ae3c038c51f42bdccc0de54b4998c450b','A title','[]','[]',NULL,NULL,'markdown','en',NULL,'[]',NULL,'{}',1,15,15,'tiny','','','',1772366400000,1772366400000,NULL,0,NULL,1,1);
CREATE TABLE embeddings (
    identity_digest TEXT NOT NULL,
    embedding_hash TEXT NOT NULL,
    vector BLOB NOT NULL,
    create_time INTEGER NOT NULL,
    create_steady INTEGER NOT NULL,
    PRIMARY KEY (identity_digest, embedding_hash)
);
INSERT INTO "embeddings" VALUES('3b80d40b0774e93553d768a9f13c9091fcabccfb0f42cbdb7a01df63e4435d3b','7f015f6c7e895077c831a1b9c24adeb76f0aa61218c63142ff2d47ccbf52894d',X'69F0B03E9155523F0C2FA93EDBCDA6BF',1772366400000,1772366400000);
INSERT INTO "embeddings" VALUES('3b80d40b0774e93553d768a9f13c9091fcabccfb0f42cbdb7a01df63e4435d3b','43eec80405273498974f4ed4c2a97678eb74ad5835d2210568d9acebc92cfeae',X'67C5673F358BE43EC47509BF28C4143F',1772366400000,1772366400000);
INSERT INTO "embeddings" VALUES('3b80d40b0774e93553d768a9f13c9091fcabccfb0f42cbdb7a01df63e4435d3b','3779b54f4caa35072f8cde8b80dcb90716a122fb46a70cba6cb48dd122265ce4',X'6B9E0240049023C00D11D63E595911BF',1772366400000,1772366400000);
INSERT INTO "embeddings" VALUES('3b80d40b0774e93553d768a9f13c9091fcabccfb0f42cbdb7a01df63e4435d3b','bc711cce1923993b8a10070220355b8acf68218905642751ec54507a3ccdeea7',X'C9DB26BF17E932BEE8F4D43FE8BD283F',1772366400000,1772366400000);
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
);
INSERT INTO "generations" VALUES(1,'default',1,1,1,'SUPERSEDED',1,2,NULL,'a.md','f07cc97789689f8116a7369c427255c372f64c4dd6c06b0586cb66bd44d27a51','markdown','{"title":"Tides","creator":["Ada"],"subject":[],"description":null,"date_created":null,"language":"en","category":null,"tags":["sea"],"project":null,"metadata":{}}','{"title":null,"creator":[],"subject":[],"description":null,"date_created":null,"language":"en","category":null,"tags":[],"project":null,"metadata":{}}','f07cc97789689f8116a7369c427255c372f64c4dd6c06b0586cb66bd44d27a51','','','',2,25,25,1772366400000);
INSERT INTO "generations" VALUES(2,'default',1,1,2,'LIVE',2,NULL,NULL,'a.md','33fa73e6f3618142db6ac30f8bca17b59c43b723e2f51270b8da0a1cc8fe6cff','markdown','{"title":"Tides","creator":[],"subject":[],"description":null,"date_created":null,"language":"en","category":null,"tags":["sea"],"project":null,"metadata":{}}','{"title":null,"creator":[],"subject":[],"description":null,"date_created":null,"language":"en","category":null,"tags":[],"project":null,"metadata":{}}','33fa73e6f3618142db6ac30f8bca17b59c43b723e2f51270b8da0a1cc8fe6cff','','','',1,15,15,1772366400000);
INSERT INTO "generations" VALUES(3,'default',1,2,1,'LIVE',3,NULL,NULL,'b.md','5c949d2532429f1838b132eeeab1a46ae3c038c51f42bdccc0de54b4998c450b','markdown','{"title":"A title","creator":[],"subject":[],"description":null,"date_created":null,"language":"en","category":null,"tags":[],"project":null,"metadata":{}}','{"title":null,"creator":[],"subject":[],"description":null,"date_created":null,"language":"en","category":null,"tags":[],"project":null,"metadata":{}}','5c949d2532429f1838b132eeeab1a46ae3c038c51f42bdccc0de54b4998c450b','','','',1,15,15,1772366400000);
CREATE TABLE index_builds (
    engine_name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    collection_uid TEXT NOT NULL,
    identity_digest TEXT NOT NULL,
    create_time INTEGER NOT NULL,
    PRIMARY KEY (engine_name)
) WITHOUT ROWID;
CREATE TABLE lexical_postings (
    segment_key INTEGER NOT NULL,
    word TEXT NOT NULL,
    postings BLOB NOT NULL,
    positions BLOB NOT NULL,
    PRIMARY KEY (segment_key, word),
    FOREIGN KEY(segment_key) REFERENCES lexical_segments (segment_key) ON DELETE CASCADE
) WITHOUT ROWID;
INSERT INTO "lexical_postings" VALUES(2,'0',X'0300050000000100',X'0100');
INSERT INTO "lexical_postings" VALUES(2,'comet',X'0300050001000000',X'0200');
INSERT INTO "lexical_postings" VALUES(2,'head',X'0300050000000100',X'0000');
INSERT INTO "lexical_postings" VALUES(2,'moon',X'0300050001000000',X'0100');
INSERT INTO "lexical_postings" VALUES(2,'tide',X'0300050001000000',X'0000');
INSERT INTO "lexical_postings" VALUES(3,'0',X'0400040000000100',X'0100');
INSERT INTO "lexical_postings" VALUES(3,'head',X'0400040000000100',X'0000');
INSERT INTO "lexical_postings" VALUES(3,'lantern',X'0400040001000000',X'0000');
INSERT INTO "lexical_postings" VALUES(3,'orchard',X'0400040001000000',X'0100');
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
);
INSERT INTO "lexical_segments" VALUES(2,1,NULL,'LIVE',0,1,5,X'03000500');
INSERT INTO "lexical_segments" VALUES(3,1,NULL,'LIVE',0,1,4,X'04000400');
CREATE TABLE message_documents (
    message_key INTEGER NOT NULL,
    document_id TEXT NOT NULL,
    tenant TEXT NOT NULL,
    cited INTEGER NOT NULL,
    PRIMARY KEY (message_key, document_id),
    FOREIGN KEY(message_key) REFERENCES messages (message_key) ON DELETE CASCADE
) WITHOUT ROWID;
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
);
INSERT INTO "messages" VALUES(1,1,'default',1,'m-1','','user','COMPLETE','Where is the moon?',1772366400000,NULL,NULL);
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
);
INSERT INTO "operations" VALUES(1,'default','op-1','Reindex','docs',X'72657175657374',0,0,NULL,'',1772366400000,NULL,NULL);
CREATE TABLE outbox (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,
    engine_name TEXT NOT NULL,
    numbers JSON NOT NULL,
    queued_steady INTEGER NOT NULL,
    CHECK (kind IN ('delete_points', 'drop_collection', 'match_points'))
);
INSERT INTO "outbox" VALUES(1,'default','delete_points','gw-uid-default-docs','[1,2]',1772366400000);
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
);
CREATE TABLE requests (
    tenant TEXT NOT NULL,
    request_id TEXT NOT NULL,
    method TEXT NOT NULL,
    body_digest TEXT NOT NULL,
    response BLOB NOT NULL,
    resource_id TEXT DEFAULT '' NOT NULL,
    create_time INTEGER NOT NULL,
    PRIMARY KEY (tenant, request_id)
);
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
);
INSERT INTO "sessions" VALUES(1,'default','s-1','docs','','{}',315360000000,'ACTIVE','m-1',1,1772366400000,1772366400000,1772366400000,'[[null,"CREATED",1772366400000],["CREATED","ACTIVE",1772366400000]]');
CREATE TABLE text_pages (
    generation_key INTEGER NOT NULL,
    page INTEGER NOT NULL,
    char_start INTEGER NOT NULL,
    char_end INTEGER NOT NULL,
    PRIMARY KEY (generation_key, page),
    CHECK (page > 0),
    CHECK (char_start >= 0 AND char_end >= char_start),
    FOREIGN KEY(generation_key) REFERENCES generations (generation_key) ON DELETE CASCADE
) WITHOUT ROWID;
CREATE TABLE text_segments (
    generation_key INTEGER NOT NULL,
    number INTEGER NOT NULL,
    char_start INTEGER NOT NULL,
    byte_start INTEGER NOT NULL,
    content TEXT NOT NULL,
    PRIMARY KEY (generation_key, number),
    FOREIGN KEY(generation_key) REFERENCES generations (generation_key) ON DELETE CASCADE
);
INSERT INTO "text_segments" VALUES(1,0,0,0,'tide moon
granite harbour');
INSERT INTO "text_segments" VALUES(2,0,0,0,'tide moon comet');
INSERT INTO "text_segments" VALUES(3,0,0,0,'lantern orchard');
CREATE TABLE tombstones (
    tenant TEXT NOT NULL,
    document_id TEXT NOT NULL,
    last_generation INTEGER NOT NULL,
    position INTEGER NOT NULL,
    deleted_time INTEGER NOT NULL,
    PRIMARY KEY (tenant, document_id)
) WITHOUT ROWID;
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
);
CREATE INDEX audit_tenant ON audit (tenant, id);
CREATE INDEX deletions_waiting ON deletions (tenant, id) WHERE complete_time IS NULL;
CREATE INDEX outbox_engine_name ON outbox (engine_name, id);
CREATE INDEX query_logs_age ON query_logs (log_steady);
CREATE INDEX query_logs_collection ON query_logs (collection_uid);
CREATE INDEX query_logs_time ON query_logs (tenant, log_time, id);
CREATE INDEX requests_resource ON requests (tenant, resource_id);
CREATE INDEX requests_create_time ON requests (create_time);
CREATE INDEX operations_resource_id ON operations (tenant, resource_id) WHERE resource_id != '';
CREATE INDEX operations_tenant ON operations (tenant, operation_key);
CREATE INDEX operations_end_steady ON operations (end_steady);
CREATE INDEX sessions_last_activity ON sessions (tenant, last_activity, session_id);
CREATE INDEX sessions_user ON sessions (tenant, user_id, last_activity, session_id);
CREATE INDEX uploads_updated_time ON uploads (update_time);
CREATE INDEX documents_date_created ON documents (collection_key, date_created);
CREATE INDEX documents_source_hash ON documents (collection_key, source_hash);
CREATE UNIQUE INDEX documents_source_path ON documents (collection_key, source_path) WHERE live_generation > 0;
CREATE INDEX message_documents_document ON message_documents (tenant, document_id);
CREATE INDEX document_aliases_document ON document_aliases (document_key);
CREATE INDEX document_tags_tag ON document_tags (tag, document_key);
CREATE INDEX generations_collection ON generations (collection_key, state, live_from);
CREATE INDEX generations_superseded ON generations (collection_key, live_to) WHERE state = 'SUPERSEDED';
CREATE UNIQUE INDEX generations_live ON generations (document_key) WHERE state = 'LIVE';
CREATE INDEX generations_pending ON generations (state) WHERE state = 'PENDING';
CREATE INDEX chunks_chunk_id ON chunks (tenant, chunk_id);
CREATE INDEX chunks_own_metadata ON chunks (document_key) WHERE metadata <> '{}';
CREATE INDEX chunks_content_hash ON chunks (content_hash);
CREATE INDEX chunks_not_indexed ON chunks (content_hash) WHERE indexed + upper = 0;
CREATE INDEX chunks_embedding_hash ON chunks (embedding_hash);
CREATE INDEX chunks_document ON chunks (document_key, sequence_num);
CREATE INDEX chunk_pages_page ON chunk_pages (page);
CREATE INDEX lexical_segments_collection ON lexical_segments (collection_key, state);
CREATE INDEX lexical_segments_generation ON lexical_segments (generation_key) WHERE generation_key IS NOT NULL;
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('collections',1);
INSERT INTO "sqlite_sequence" VALUES('audit',4);
INSERT INTO "sqlite_sequence" VALUES('documents',2);
INSERT INTO "sqlite_sequence" VALUES('generations',3);
INSERT INTO "sqlite_sequence" VALUES('chunks',4);
INSERT INTO "sqlite_sequence" VALUES('lexical_segments',3);
INSERT INTO "sqlite_sequence" VALUES('outbox',1);
INSERT INTO "sqlite_sequence" VALUES('sessions',1);
INSERT INTO "sqlite_sequence" VALUES('messages',1);
INSERT INTO "sqlite_sequence" VALUES('operations',1);
COMMIT;
