"""Generations: written beside the live one, published in one transaction, kept for readers of the past, swept."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    RowMapping,
    and_,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal_column,
    select,
    update,
)

from groundwire.catalog.database import advance_position, owner_of
from groundwire.catalog.dialects import among, execute, insert_rows, update_json
from groundwire.catalog.encoding import encode_json
from groundwire.catalog.lexical_index import (
    Entry,
    Segment,
    add_chunks,
    insert_segments,
    make_segments,
    numbered,
    release_pending,
    remove_chunks,
    supersede_chunks,
)
from groundwire.catalog.outbox import OutboxKind, queue_drop, queue_points
from groundwire.catalog.records import set_records
from groundwire.catalog.rows import (
    IS_LIVE,
    IS_PENDING,
    KEY_OF_UID,
    SELECT_ANY_DOCUMENT,
    SELECT_LIVE_CHUNKS,
    GenerationState,
    chunk_values,
    count_aliases,
    field_values,
    numbers_of,
    require_collection,
    set_tags,
    to_document,
    to_fields,
    to_stored_chunks,
)
from groundwire.catalog.schema import (
    chunk_pages,
    chunks,
    collections,
    document_aliases,
    documents,
    generations,
    text_pages,
    text_segments,
    tombstones,
)
from groundwire.catalog.texts import TextFigures, cut
from groundwire.kernel.chunk import Chunk, chunk_payload
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat, file_name
from groundwire.kernel.errors import (
    AlreadyExistsError,
    CollectionNotFoundError,
    ConflictError,
    DocumentChangedError,
    InvalidRequestError,
    QuotaExceededError,
    SnapshotExpiredError,
    StaleSourceVersionError,
)
from groundwire.kernel.filters import Payload
from groundwire.kernel.identity import current_identity
from groundwire.kernel.spans import PageSpan

CHUNKS_PER_TRANSACTION = 4096
"""More chunks are written in further transactions, so that other writers do not wait for a whole large document."""
# What a document has of its live generation, besides its fields.
_PUBLISHED_COLUMNS = (
    *("source_path", "source_hash", "doc_type", "chunk_count", "total_chars", "total_bytes"),
    *("rules_digest", "tokenizer", "encoding"),
)


@dataclass(frozen=True, slots=True)
class GenerationDraft:
    """A generation to be written.

    `document_id` None makes a new id. `expected_generation` is the live generation the caller saw, 0 for
    a document that did not exist. `source_hash` is the SHA-256 of the original bytes in lower-case hex.
    `pages` are those of the source in order, `properties` what the source says about itself. `rules_digest`
    identifies the rules that the chunks were made by, `tokenizer` is the name of the counter of their tokens,
    `encoding` that of the encoding of the bytes, empty where they are no text.
    `chunk_ids` are those the caller made, None for ids in the scheme of the server. `source_version` None keeps that of
    the document.
    """

    document_id: str | None
    source_uri: str
    format: DocumentFormat
    source_hash: str
    fields: DocumentFields
    text: str
    chunks: Sequence[Chunk]
    expected_generation: int
    pages: Sequence[PageSpan] = ()
    properties: DocumentFields = field(default_factory=DocumentFields)
    rules_digest: str = ""
    tokenizer: str = ""
    encoding: str = ""
    chunk_ids: Sequence[str] | None = None
    source_version: int | None = None

    def payloads(
        self, document_id: str, numbers: Sequence[int], chunk_ids: Sequence[str], ingested: datetime
    ) -> list[Payload]:
        """Return the filter keys of each chunk, given the ids of the document and of the chunks, in order."""
        return [
            chunk_payload(
                document_id=document_id,
                chunk_id=chunk_id,
                chunk_number=number,
                source_uri=self.source_uri,
                document_format=self.format,
                fields=self.fields,
                chunk=chunk,
                ingested=ingested,
            )
            for number, chunk_id, chunk in zip(numbers, chunk_ids, self.chunks, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class PendingGeneration:
    """A generation that is written and not visible yet; item i of each sequence belongs to chunk i of the draft.

    `key` is the catalog's own key. Of leftovers of a dead process the payloads are not read: they are empty.
    """

    key: int
    document_id: str
    generation: int
    expected_generation: int
    collection: Collection
    numbers: Sequence[int]
    chunk_ids: Sequence[str]
    payloads: Sequence[Payload]
    source_version: int | None = None


@dataclass(frozen=True, slots=True)
class Prepared:
    """Everything that can be worked out before the transaction.

    Attributes:
        embedded: when known vectors were made, by hash.
        segments: the full-text index of the chunks of the next transaction.
    """

    draft: GenerationDraft
    pending: PendingGeneration
    figures: TextFigures
    now: int
    embedded: Mapping[str, int]
    segments: Sequence[Segment] = ()

    def indexed_from(self, start: int) -> "Prepared":
        """Return it with the full-text index of the chunks from `start` on that belong into one transaction."""
        part = slice(start, start + CHUNKS_PER_TRANSACTION)
        numbered = zip(self.pending.numbers[part], self.draft.chunks[part], strict=True)
        entries = [Entry(number, chunk.content, chunk.section_title) for number, chunk in numbered if chunk.indexed]
        return replace(self, segments=make_segments(entries))


_STORED = select(
    *(documents.c[name] for name in ("document_id", "document_key", "collection_key", "source_path")),
    *(documents.c[name] for name in ("live_generation", "deleted_generation", "source_version")),
).where(documents.c.tenant == bindparam("tenant"), among(documents.c.document_id, bindparam("ids")))
_INSERT_DOCUMENTS = insert(documents).returning(documents.c.document_id, documents.c.document_key)
_LAST_WRITTEN = (
    select(generations.c.document_key, func.max(generations.c.generation))
    .where(among(generations.c.document_key, bindparam("keys")))
    .group_by(generations.c.document_key)
)
_LAST_BURIED = select(tombstones.c.document_id, tombstones.c.last_generation).where(
    tombstones.c.tenant == bindparam("tenant"), among(tombstones.c.document_id, bindparam("ids"))
)
_COUNT_DOCUMENTS = select(func.count()).where(documents.c.tenant == bindparam("tenant"))
_SUM_BYTES = select(func.coalesce(func.sum(generations.c.total_bytes), 0)).where(
    generations.c.tenant == bindparam("tenant")
)
_INSERT_GENERATIONS = insert(generations).returning(generations.c.document_key, generations.c.generation_key)


def insert_generations(connection: Connection, prepared: Sequence[Prepared]) -> list[PendingGeneration]:
    """Write generations of different documents of one collection: documents (hidden when new), texts, first chunks.

    Return the pending generations in order. The number of statements does not depend on how many there are.

    Raises:
        CollectionNotFoundError: the collection was deleted meanwhile.
        QuotaExceededError: the tenant would have more stored than the caller may make it.
        GroundwireError: whatever `refuse_conflicts` raises.
    """
    collection = prepared[0].pending.collection
    # By uid, not by name: a collection that was deleted and recreated is another one.
    collection_key = execute(connection, KEY_OF_UID, {"tenant": collection.tenant, "uid": collection.uid}).scalar()
    if collection_key is None:
        raise CollectionNotFoundError(collection.name)
    # An id that was just generated is in use nowhere.
    known_ids = [each.draft.document_id for each in prepared if each.draft.document_id]
    of_ids = {"tenant": collection.tenant, "ids": encode_json(known_ids)}
    stored = {row.document_id: row for row in execute(connection, _STORED, of_ids)} if known_ids else {}
    owners = owners_of_sources(connection, collection_key, [each.draft.source_uri for each in prepared])
    for each in prepared:
        refuse_conflicts(connection, each, collection_key, stored.get(each.pending.document_id), owners)
    keys = {document_id: row.document_key for document_id, row in stored.items()}
    of_documents = [
        {
            "tenant": collection.tenant,
            "collection_key": collection_key,
            "source_path": each.draft.source_uri,
            "source_hash": each.draft.source_hash,
            "doc_type": each.draft.format.value,
        }
        for each in prepared
    ]
    new = [
        {
            **of_document,
            **field_values(each.draft.fields),
            "document_id": each.pending.document_id,
            # It is invisible until it is published, which fills in the figures of the live generation.
            **dict.fromkeys(("chunk_count", "total_chars", "total_bytes"), 0),
            "embedding_model": collection.identity.model_name,
            "ingestion_date": each.now,
            "last_modified": each.now,
        }
        for each, of_document in zip(prepared, of_documents, strict=True)
        if each.pending.document_id not in keys
    ]
    # A purged document that is ingested again continues its numbering, because old citations name old generations.
    last: dict[str, int] = dict(execute(connection, _LAST_BURIED, of_ids).all()) if known_ids else {}
    if stored:
        written = dict(execute(connection, _LAST_WRITTEN, {"keys": encode_json(list(keys.values()))}).all())
        last |= {each: max(last.get(each, 0), written.get(key, 0)) for each, key in keys.items()}
    if new:
        keys |= dict(execute(connection, _INSERT_DOCUMENTS, new).all())
    rows = [
        {
            **of_document,
            "document_key": keys[each.pending.document_id],
            "generation": 1 + last.get(each.pending.document_id, 0),
            "state": GenerationState.PENDING.value,
            "fields": field_values(each.draft.fields),
            "properties": field_values(each.draft.properties),
            "text_hash": each.figures.digest,
            "rules_digest": each.draft.rules_digest,
            "tokenizer": each.draft.tokenizer,
            "encoding": each.draft.encoding,
            "chunk_count": sum(not chunk.upper for chunk in each.draft.chunks),
            "total_chars": each.figures.total_chars,
            "total_bytes": each.figures.total_bytes,
            "create_time": each.now,
            "owner": owner_of(connection),
        }
        for each, of_document in zip(prepared, of_documents, strict=True)
    ]
    of_document_key: dict[int, int] = dict(execute(connection, _INSERT_GENERATIONS, rows).all())
    refuse_full_tenant(connection, collection.tenant, has_new_documents=bool(new))
    pending = [
        replace(each.pending, key=of_document_key[row["document_key"]], generation=row["generation"])
        for each, row in zip(prepared, rows, strict=True)
    ]
    written_now = [replace(each, pending=it) for each, it in zip(prepared, pending, strict=True)]
    texts = ((each.pending.key, segment) for each in written_now for segment in cut(each.draft.text))
    insert_rows(connection, text_segments, ({"generation_key": key, **asdict(segment)} for key, segment in texts))
    pages = (
        {"generation_key": each.pending.key, "page": page.number, "char_start": page.start, "char_end": page.end}
        for each in written_now
        for page in each.draft.pages
    )
    insert_rows(connection, text_pages, pages)
    _write_chunks(connection, collection_key, {each.key: keys[each.document_id] for each in pending}, written_now, 0)
    return pending


def refuse_full_tenant(
    connection: Connection, tenant: str, *, has_new_documents: bool, is_written: bool = True
) -> None:
    """Return if what the tenant has stored is within the caller's quota, what this transaction has written included.

    Before anything `is_written` there must be room for at least one more document and byte. One transaction after the
    other writes, so that calls side by side cannot exceed the quota together.

    Raises:
        QuotaExceededError: it is not; deleting for good makes room, and waiting does not.
    """
    quota = current_identity().quota
    limits = [("documents", quota.documents, _COUNT_DOCUMENTS)] if has_new_documents else []
    for name, limit, counting in (*limits, ("stored_bytes", quota.stored_bytes, _SUM_BYTES)):
        if limit is None:
            continue
        if connection.execute(counting, {"tenant": tenant}).scalar_one() + (not is_written) > limit:
            what = {"documents": "documents", "stored_bytes": "bytes of text, earlier versions included"}[name]
            error = QuotaExceededError(f"the tenant may store {limit} {what}", quota=name, limit=limit)
            error.retry_after_s = None
            raise error


def refuse_conflicts(
    connection: Connection,
    prepared: Prepared,
    collection_key: int,
    row: Row[Any] | None,
    owners: Mapping[str, str],
) -> None:
    """Return if a generation may be written beside what is there.

    `row` is that of the document's id, if any; `owners` is what `owners_of_sources` returned.

    Raises:
        AlreadyExistsError: the id of the document or of a chunk is taken; no repetition can end otherwise.
        StaleSourceVersionError: the document, perhaps softly deleted, is of a later version.
        DocumentChangedError: another writer was faster; who looks again and repeats may succeed.
    """
    draft, pending = prepared.draft, prepared.pending
    tenant, document_id = pending.collection.tenant, pending.document_id
    if row is not None and row.collection_key != collection_key:
        raise AlreadyExistsError(f"the id {document_id!r} is taken", resource=document_id)
    if row is not None and row.source_path != draft.source_uri:
        if row.live_generation and not draft.expected_generation:
            message = f"the id {document_id!r} is that of another source, {row.source_path!r}"
            raise AlreadyExistsError(message, resource=document_id)
        if row.deleted_generation:
            message = f"document {document_id!r} was deleted and can be restored; its source is another one"
            raise AlreadyExistsError(message, resource=document_id)
    # Checked before the race: a stale version must not be answered with the advice to read again and retry.
    refuse_stale_version(document_id, draft.source_version, None if row is None else row.source_version)
    if draft.expected_generation != (0 if row is None else row.live_generation):
        raise changed(document_id)
    if draft.expected_generation == 0 and owners.get(draft.source_uri, document_id) != document_id:
        raise changed(document_id)
    if draft.chunk_ids is not None:
        taken = select(chunks.c.chunk_id).where(
            chunks.c.tenant == tenant,
            among(chunks.c.chunk_id, pending.chunk_ids),
            chunks.c.document_key != (0 if row is None else row.document_key),
        )
        other = connection.execute(taken.limit(1)).scalar()
        if other is not None:
            raise AlreadyExistsError(f"the chunk id {other!r} is taken", resource=other)


_OWNING = select(*(generations.c[name] for name in ("document_key", "collection_key"))).where(
    generations.c.generation_key == bindparam("key")
)


def insert_chunks(connection: Connection, prepared: Prepared, start: int) -> None:
    """Write chunks and pages from index `start` on, as many as belong into one transaction, and their words.

    Raises:
        DocumentChangedError: the generation went with its collection.
    """
    key = prepared.pending.key
    owning = execute(connection, _OWNING, {"key": key}).one_or_none()
    if owning is None:
        raise changed(prepared.pending.document_id)
    _write_chunks(connection, owning.collection_key, {key: owning.document_key}, [prepared], start)


def _write_chunks(
    connection: Connection,
    collection_key: int,
    document_keys: Mapping[int, int],
    prepared: Sequence[Prepared],
    start: int,
) -> None:
    """Do so for generations of documents whose keys are given by the keys of the generations."""
    part = slice(start, start + CHUNKS_PER_TRANSACTION)
    rows = (
        {
            "chunk_number": number,
            "tenant": each.pending.collection.tenant,
            "document_key": document_keys[each.pending.key],
            "generation_key": each.pending.key,
            "chunk_id": chunk_id,
            **chunk_values(chunk),
            "embedding_model": each.pending.collection.identity.model_name,
            "embedding_timestamp": each.embedded.get(chunk.embedding_hash, each.now),
            "payload": encode_json(payload),
            "content": chunk.content,
        }
        for each in prepared
        for number, chunk_id, payload, chunk in zip(
            *(each.pending.numbers[part], each.pending.chunk_ids[part]),
            *(each.pending.payloads[part], each.draft.chunks[part]),
            strict=True,
        )
    )
    insert_rows(connection, chunks, rows)
    pages = (
        {"chunk_number": number, "page": page}
        for each in prepared
        for number, chunk in zip(each.pending.numbers[part], each.draft.chunks[part], strict=True)
        for page in chunk.page_numbers
    )
    insert_rows(connection, chunk_pages, pages)
    segments: list[tuple[int | None, Segment]] = [
        (each.pending.key, segment) for each in prepared for segment in each.segments
    ]
    insert_segments(connection, collection_key, GenerationState.PENDING.value, segments)


def changed(document_id: str) -> DocumentChangedError:
    """Make the error for a lost race."""
    return DocumentChangedError("the document was changed or deleted meanwhile", document_id=document_id)


def refuse_stale_version(document_id: str, source_version: int | None, stored: int | None) -> None:
    """Raise StaleSourceVersionError when a document of a later version is stored than the one that comes."""
    if source_version is not None and stored is not None and source_version < stored:
        raise StaleSourceVersionError(
            f"version {stored} is stored, {source_version} comes late",
            document_id=document_id,
            source_version=source_version,
            stored_source_version=stored,
        )


_OWNERS = select(documents.c.source_path, documents.c.document_id).where(
    documents.c.collection_key == bindparam("key"),
    among(documents.c.source_path, bindparam("sources")),
    documents.c.live_generation > literal_column("0"),
)


def owners_of_sources(connection: Connection, collection_key: int, sources: Sequence[str]) -> dict[str, str]:
    """Return the ids of the visible documents of some sources, by source."""
    given = {"key": collection_key, "sources": encode_json(list(sources))}
    return dict(execute(connection, _OWNERS, given).all())


class IndexMovedError(ConflictError):
    """The collection got another engine collection while the points were written; they have to be written there."""

    def __init__(self, collection: Collection) -> None:
        super().__init__("the index was rebuilt meanwhile", collection=collection.name)
        self.collection = collection


_other = documents.alias("other").c
_OF_DOCUMENT = ("live_generation", "deleted_generation", "source_version", "ingestion_date")
_PENDING = (
    select(
        generations,
        documents.c.source_path.label("stored_source"),
        collections.c.engine_name.label("serving_name"),
        *(documents.c[name] for name in _OF_DOCUMENT),
        select(_other.document_id)
        .where(
            _other.collection_key == generations.c.collection_key,
            _other.source_path == generations.c.source_path,
            _other.live_generation > literal_column("0"),
            _other.document_key != generations.c.document_key,
        )
        .limit(1)
        .scalar_subquery()
        .label("taken_by"),
        exists()
        .where(
            document_aliases.c.collection_key == generations.c.collection_key,
            document_aliases.c.source_path == generations.c.source_path,
        )
        .label("is_alias"),
    )
    .join_from(generations, documents)
    .join(collections, generations.c.collection_key == collections.c.collection_key)
    .where(among(generations.c.generation_key, bindparam("keys")), IS_PENDING)
)
_PUBLISH = (
    update(generations)
    .where(among(generations.c.generation_key, bindparam("keys")))
    .values(state=GenerationState.LIVE.value, live_from=bindparam("at_position"))
)
_ALIAS = (
    delete(document_aliases)
    .where(
        document_aliases.c.collection_key == bindparam("key"),
        document_aliases.c.source_path == bindparam("source"),
    )
    .returning(document_aliases.c.document_key)
)
_UPDATE_DOCUMENTS = update(documents).where(documents.c.document_key == bindparam("of_key"))
_PUBLISHED = SELECT_ANY_DOCUMENT.where(among(documents.c.document_key, bindparam("keys")))


def publish_generations(
    connection: Connection, pending: Sequence[PendingGeneration], now: int, steady_ms: int
) -> list[Document]:
    """Move the live generations of documents of one collection to the pending ones, and return the documents in order.

    `now` is for people, `steady_ms` for ages. The number of statements does not depend on how many there are.

    Raises:
        DocumentChangedError: a live generation moved, a document is gone, or its source is taken.
        IndexMovedError: the points are in an engine collection that does not serve any more.
    """
    collection = pending[0].collection
    generation_keys = encode_json([each.key for each in pending])
    found = {row["generation_key"]: row for row in execute(connection, _PENDING, {"keys": generation_keys}).mappings()}
    # The first refusal, because it is the only one the caller can recover from: by writing the points again.
    if any(row["serving_name"] != collection.engine_name for row in found.values()):
        raise IndexMovedError(require_collection(connection, collection.tenant, collection.name))
    for each in pending:
        if each.key not in found:
            raise changed(each.document_id)
    rows = [found[each.key] for each in pending]
    key = rows[0]["collection_key"]
    for each, row in zip(pending, rows, strict=True):
        if row["tenant"] != collection.tenant or row["live_generation"] != each.expected_generation:
            raise changed(each.document_id)
        refuse_stale_version(each.document_id, each.source_version, row["source_version"])
        # The source was deleted meanwhile and the document stays with another, or another document has got the source.
        is_renamed = row["live_generation"] and row["stored_source"] != row["source_path"]
        if is_renamed or row["taken_by"] is not None:
            raise changed(each.document_id)
    # Without retention the past cannot be read once the previous chunks are gone; a new document has no past.
    is_kept = collection.settings.generation_retention > timedelta(0)
    keeps_history = is_kept or all(each.expected_generation == 0 for each in pending)
    position = advance_position(connection, key, keeps_history=keeps_history)
    # The previous generation goes first: a unique index allows a document only one live generation.
    known = [row["document_key"] for row in rows if row["live_generation"] or row["deleted_generation"]]
    if known:
        _supersede(connection, collection, known, position, kept_since=steady_ms if is_kept else None)
    execute(connection, _PUBLISH, {"keys": generation_keys, "at_position": position})
    # The words were indexed with the chunks; here only their state changes, whatever the size of the document.
    release_pending(connection, key, [each.key for each in pending])
    # The source may have been an alias of another document until now.
    for row in rows:
        if row["is_alias"]:
            alias_of = execute(connection, _ALIAS, {"key": key, "source": row["source_path"]}).scalar_one()
            count_aliases(connection, [alias_of], -1)
    values = [
        {
            "of_key": row["document_key"],
            **row["fields"],
            **{name: row[name] for name in _PUBLISHED_COLUMNS},
            "live_generation": row["generation"],
            "deleted_generation": 0,
            "delete_time": None,
            "last_modified": now,
            "ingestion_date": row["ingestion_date"] if row["live_generation"] or row["deleted_generation"] else now,
            "source_version": row["source_version"] if each.source_version is None else each.source_version,
        }
        for each, row in zip(pending, rows, strict=True)
    ]
    execute(connection, _UPDATE_DOCUMENTS, values)
    set_tags(connection, {row["document_key"]: row["fields"]["tags"] for row in rows}, known)
    of_documents = [(row["document_key"], row["source_path"], to_fields(row["fields"])) for row in rows]
    set_records(connection, key, of_documents, known)
    document_keys = encode_json([row["document_key"] for row in rows])
    published = {row.document_key: to_document(row) for row in execute(connection, _PUBLISHED, {"keys": document_keys})}
    return [published[row["document_key"]] for row in rows]


def take_back_generation(connection: Connection, pending: PendingGeneration) -> None:
    """Remove a pending generation and queue its points; a published one stays as it is."""
    of_this = generations.c.generation_key == pending.key
    found = connection.execute(select(generations.c.state, generations.c.document_key).where(of_this)).first()
    # A published generation stays: a call that missed its own success may try to clean up.
    if found is not None and found.state != GenerationState.PENDING.value:
        return
    engine_name = pending.collection.engine_name
    if connection.execute(select(1).where(collections.c.engine_name == engine_name)).first() is None:
        # The collection was deleted or moved, and writing the points may have recreated the engine collection.
        queue_drop(connection, pending.collection.tenant, engine_name)
    else:
        queue_points(connection, OutboxKind.DELETE_POINTS, pending.collection.tenant, engine_name, pending.numbers)
    if found is not None:
        connection.execute(delete(generations).where(of_this))
        drop_empty_documents(connection, [found.document_key])


def drop_empty_documents(connection: Connection, document_keys: Sequence[int]) -> None:
    """Remove the rows of those of the documents that are not visible and have no generation left."""
    left = exists(select(1).where(generations.c.document_key == documents.c.document_key))
    of_these = among(documents.c.document_key, document_keys)
    connection.execute(delete(documents).where(of_these, documents.c.live_generation == 0, ~left))


def _supersede(
    connection: Connection, collection: Collection, document_keys: Sequence[int], position: int, kept_since: int | None
) -> None:
    """Retire the live or softly deleted generations of documents; their texts stay, so that citations can be verified.

    Their points go, also when their chunks are kept for readers of the past: those compare with the vectors of the
    catalog, so that readers of now never meet what is retired (decision 0009).
    """
    current = select(generations.c.generation_key, generations.c.state).where(
        among(generations.c.document_key, document_keys),
        generations.c.state.in_((GenerationState.LIVE.value, GenerationState.DELETED.value)),
    )
    state_of = dict(connection.execute(current).all())
    # A softly deleted generation cannot be read as of the past either, so its chunks go at once.
    kept = [key for key, state in state_of.items() if kept_since is not None and state == GenerationState.LIVE.value]
    gone = [key for key in state_of if key not in {*kept}]
    retired = select(generations.c.generation_key).where(among(generations.c.generation_key, state_of))
    queue_points(
        connection, OutboxKind.DELETE_POINTS, collection.tenant, collection.engine_name, numbers_of(connection, retired)
    )
    taken_out: list[int] = []
    if gone:
        of_gone = among(chunks.c.generation_key, gone)
        remove_chunks(connection, of_gone)
        connection.execute(delete(chunks).where(of_gone))
    if kept:
        taken_out = supersede_chunks(connection, among(chunks.c.generation_key, kept))
    past = {"state": GenerationState.SUPERSEDED.value, "live_to": position}
    for keys, since in ((gone, None), (kept, kept_since)):
        of_keys = among(generations.c.generation_key, keys)
        connection.execute(update(generations).where(of_keys).values(**past, superseded_time=since))
    # Last, because the index takes the state of a chunk from its generation.
    add_chunks(connection, numbered(taken_out))


def check_snapshot(snapshot: int, oldest: int, position: int) -> None:
    """Return if a position can be read.

    Raises:
        SnapshotExpiredError: it is before the oldest one.
        InvalidRequestError: it is beyond `position`, where the catalog is.
    """
    if snapshot > position:
        raise InvalidRequestError.of("options.snapshot", f"is ahead of the catalog, which is at {position}")
    if snapshot < oldest:
        message = f"position {snapshot} cannot be read any more; the oldest one that can is {oldest}"
        raise SnapshotExpiredError(message, snapshot=snapshot, oldest=oldest)


def oldest_snapshot(
    connection: Connection, collection_key: int, readable_from: int, collection: Collection, steady_ms: int
) -> int:
    """Return the oldest position whose contents are all kept: nothing deleted, overwritten or kept long enough.

    What was superseded longer ago than the retention counts as gone whether the sweeper has come by or not.
    """
    statement = select(func.coalesce(func.max(generations.c.live_to), 0)).where(
        generations.c.collection_key == collection_key,
        generations.c.state == GenerationState.SUPERSEDED.value,
        generations.c.superseded_time <= expiry(collection, steady_ms),
    )
    return max(readable_from, int(connection.execute(statement).scalar_one()))


def expiry(collection: Collection, steady_ms: int) -> int:
    """Return the time of `SteadyTime` up to which superseded generations have been kept long enough."""
    return steady_ms - collection.settings.generation_retention // timedelta(milliseconds=1)


def change_fields(connection: Connection, row: RowMapping, after: DocumentFields, now: int) -> list[int]:
    """Give the document of a visible row other fields; return the outbox tasks, none when they are the same."""
    before = to_fields(dict(row))
    if after == before:
        return []
    key, values = row["document_key"], field_values(after)
    connection.execute(update(documents).where(documents.c.document_key == key).values(**values, last_modified=now))
    connection.execute(update(generations).where(generations.c.document_key == key, IS_LIVE).values(fields=values))
    set_tags(connection, {key: after.tags}, [key])
    set_records(connection, row["collection_key"], [(key, row["source_path"], after)], [key])
    source = row["source_path"]
    rename_chapter(connection, row, (source, before), (source, after))
    return rewrite_payloads(connection, row, chunks.c.document_key == key)


def rename_chapter(
    connection: Connection, row: RowMapping, before: tuple[str, DocumentFields], after: tuple[str, DocumentFields]
) -> None:
    """Let what stands in for a chapter in documents without any heading follow their title or else their source."""
    old, new = (fields.title or file_name(source) for source, fields in (before, after))
    live = select(generations.c.generation_key).where(generations.c.document_key == row["document_key"], IS_LIVE)
    of_live = chunks.c.generation_key.in_(live)
    # A heading of its own is a chapter; what stands in for one is the title, else the name of the file.
    has_headings = exists().where(of_live, chunks.c.hierarchy_path != [])
    if old == new or connection.execute(select(has_headings)).scalar_one():
        return
    stands_in = and_(of_live, chunks.c.chapter == old, chunks.c.section_heading == old)
    changing = select(chunks.c.chunk_number).where(stands_in)
    numbers = list(connection.execute(changing).scalars())
    # Headings are part of the full-text index, so the old words are replaced by the new ones.
    remove_chunks(connection, stands_in)
    connection.execute(update(chunks).where(stands_in).values(chapter=new, section_heading=new))
    add_chunks(connection, numbered(numbers))


def rewrite_payloads(connection: Connection, document: RowMapping, which: ColumnElement[bool]) -> list[int]:
    """Recompute the filter keys of live chunks from their rows and their document.

    Counts as a change that readers see. Until the engine has the new keys too, a search answers filters from the
    catalog (`SearchView.engine_keeps_up`).
    `document` is what `visible_row` returned, `which` the condition on its chunks.

    Returns:
        The ids of the tasks in the outbox that bring the engine up to this.
    """
    of_document = SELECT_LIVE_CHUNKS.where(chunks.c.document_key == document["document_key"], which)
    found = list(to_stored_chunks(connection.execute(of_document)))
    new = ((stored.chunk_number, stored.payload) for stored in found)
    update_json(connection, chunks.c.chunk_number, chunks.c.payload, new)
    position = advance_position(connection, document["collection_key"])
    connection.execute(
        update(collections)
        .where(collections.c.collection_key == document["collection_key"])
        .values(rewritten_position=position)
    )
    numbers = sorted(stored.chunk_number for stored in found)
    return queue_points(connection, OutboxKind.MATCH_POINTS, document["tenant"], document["engine_name"], numbers)
