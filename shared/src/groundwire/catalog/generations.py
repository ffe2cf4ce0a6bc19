"""Generations: written beside the live one, published in one transaction, kept for readers of the past, swept."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection, RowMapping, delete, exists, func, insert, select, update

from groundwire.catalog.database import Database, advance_position
from groundwire.catalog.lexical_index import (
    Entry,
    Segment,
    add_chunks,
    insert_pending,
    make_segments,
    numbered,
    release_pending,
    remove_chunks,
    supersede_chunks,
)
from groundwire.catalog.outbox import queue_deleted_points, queue_dropped_engine
from groundwire.catalog.rows import (
    CHUNK_VALUES,
    GenerationState,
    chunk_values,
    count_aliases,
    field_values,
    find_collection,
    numbers_of,
    to_collection,
)
from groundwire.catalog.schema import (
    chunk_pages,
    chunks,
    collections,
    document_aliases,
    document_tags,
    documents,
    generations,
    text_pages,
    text_segments,
    tombstones,
)
from groundwire.catalog.sqlite import among, encode_json, insert_rows
from groundwire.catalog.texts import TextFigures, cut
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.errors import (
    AlreadyExistsError,
    CollectionNotFoundError,
    ConflictError,
    DocumentChangedError,
    InvalidRequestError,
    SnapshotExpiredError,
    StaleSourceVersionError,
)
from groundwire.kernel.filters import Payload
from groundwire.kernel.spans import PageSpan
from groundwire.kernel.stored_chunk import chunk_payload

T = TypeVar("T")


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
    tenant: str
    collection: Collection
    numbers: Sequence[int]
    chunk_ids: Sequence[str]
    payloads: Sequence[Payload]
    source_version: int | None = None


CHUNKS_PER_TRANSACTION = 4096
"""More chunks are written in further transactions, so that other writers do not wait for a whole large document."""
_CHUNK_COLUMNS = (
    *("chunk_number", "tenant", "document_key", "generation_key", "chunk_id"),
    *CHUNK_VALUES,
    *("embedding_model", "embedding_timestamp", "payload", "content"),
)


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


def insert_generation(connection: Connection, prepared: Prepared) -> PendingGeneration:
    """Write document (hidden when new), generation, text and the first chunks; return the pending generation."""
    draft, pending = prepared.draft, prepared.pending
    collection_key = _collection_key(connection, pending.collection)
    row = _known_document(connection, pending, collection_key, draft.source_uri)
    refuse_stale_version(pending.document_id, draft.source_version, None if row is None else row["source_version"])
    if draft.expected_generation != (0 if row is None else row["live_generation"]):
        raise changed(pending.document_id)
    if draft.expected_generation == 0:
        refuse_taken_source(connection, collection_key, draft.source_uri, pending.document_id)
    shared = {"tenant": pending.tenant, "collection_key": collection_key}
    document_key = _insert_document(connection, prepared, shared) if row is None else int(row["document_key"])
    shared |= {"document_key": document_key}
    generation = _next_generation(connection, pending, document_key)
    if draft.chunk_ids is not None:
        _refuse_taken_ids(connection, pending, document_key)
    key = _insert_row(connection, prepared, shared | {"generation": generation})
    _insert_text(connection, draft, key)
    written = replace(pending, key=key, generation=generation)
    insert_chunks(connection, replace(prepared, pending=written), 0)
    return written


def insert_chunks(connection: Connection, prepared: Prepared, start: int) -> None:
    """Write chunks and pages from index `start` on, as many as belong into one transaction, and their words.

    Raises:
        DocumentChangedError: the generation went with its collection.
    """
    pending, part = prepared.pending, slice(start, start + CHUNKS_PER_TRANSACTION)
    of_this = select(generations.c.document_key, generations.c.collection_key)
    owner = connection.execute(of_this.where(generations.c.generation_key == pending.key)).one_or_none()
    if owner is None:
        raise changed(pending.document_id)
    model, chunks_of_part = pending.collection.identity.model_name, prepared.draft.chunks[part]
    columns = (pending.numbers[part], pending.chunk_ids[part], pending.payloads[part], chunks_of_part)
    rows = (
        (
            *(number, pending.tenant, owner.document_key, pending.key, chunk_id),
            *chunk_values(chunk),
            *(model, prepared.embedded.get(chunk.embedding_hash, prepared.now), encode_json(payload), chunk.content),
        )
        for number, chunk_id, payload, chunk in zip(*columns, strict=True)
    )
    insert_rows(connection, chunks, _CHUNK_COLUMNS, rows)
    numbered = zip(pending.numbers[part], chunks_of_part, strict=True)
    pages = ((number, page) for number, chunk in numbered for page in chunk.page_numbers)
    insert_rows(connection, chunk_pages, ("chunk_number", "page"), pages)
    insert_pending(connection, owner.collection_key, pending.key, prepared.segments)


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


def refuse_taken_source(connection: Connection, collection_key: int, source_uri: str, document_id: str) -> None:
    """Raise DocumentChangedError when another visible document has the source."""
    statement = select(documents.c.document_id).where(
        documents.c.collection_key == collection_key,
        documents.c.source_path == source_uri,
        documents.c.live_generation > 0,
        documents.c.document_id != document_id,
    )
    if connection.execute(statement).first() is not None:
        raise changed(document_id)


def _refuse_taken_ids(connection: Connection, pending: PendingGeneration, document_key: int) -> None:
    """Raise AlreadyExistsError when another document has a chunk of one of the ids, visible or not yet."""
    taken = select(chunks.c.chunk_id).where(
        chunks.c.tenant == pending.tenant,
        among(chunks.c.chunk_id, pending.chunk_ids),
        chunks.c.document_key != document_key,
    )
    found = connection.execute(taken.limit(1)).scalar()
    if found is not None:
        raise AlreadyExistsError(f"the chunk id {found!r} is taken", resource=found)


def _collection_key(connection: Connection, collection: Collection) -> int:
    statement = select(collections.c.collection_key).where(
        collections.c.tenant == collection.tenant, collections.c.uid == collection.uid
    )
    key = connection.execute(statement).scalar()
    if key is None:
        raise CollectionNotFoundError(collection.name)
    return int(key)


def _known_document(
    connection: Connection, pending: PendingGeneration, collection_key: int, source_uri: str
) -> Mapping[str, Any] | None:
    of_this = documents.c.tenant == pending.tenant, documents.c.document_id == pending.document_id
    columns = (
        "document_key",
        "collection_key",
        "live_generation",
        "deleted_generation",
        "source_path",
        "source_version",
    )
    statement = select(*(documents.c[name] for name in columns)).where(*of_this)
    row = connection.execute(statement).first()
    if row is not None and row.collection_key != collection_key:
        message = f"the id {pending.document_id!r} is taken"
        raise AlreadyExistsError(message, resource=pending.document_id)
    if row is not None and row.deleted_generation and row.source_path != source_uri:
        message = f"document {pending.document_id!r} was deleted and can be restored; its source is another one"
        raise AlreadyExistsError(message, resource=pending.document_id)
    return None if row is None else row._asdict()


def _insert_document(connection: Connection, prepared: Prepared, shared: Mapping[str, Any]) -> int:
    draft = prepared.draft
    values = {
        **shared,
        **field_values(draft.fields),
        "document_id": prepared.pending.document_id,
        "source_path": draft.source_uri,
        "source_hash": draft.source_hash,
        "doc_type": draft.format.value,
        "chunk_count": 0,
        "total_chars": 0,
        "total_bytes": 0,
        "embedding_model": prepared.pending.collection.identity.model_name,
        "ingestion_date": prepared.now,
        "last_modified": prepared.now,
    }
    return int(connection.execute(insert(documents).returning(documents.c.document_key), values).scalar_one())


def _next_generation(connection: Connection, pending: PendingGeneration, document_key: int) -> int:
    written = select(func.max(generations.c.generation)).where(generations.c.document_key == document_key)
    buried = select(tombstones.c.last_generation).where(
        tombstones.c.tenant == pending.tenant, tombstones.c.document_id == pending.document_id
    )
    return 1 + max(connection.execute(written).scalar() or 0, connection.execute(buried).scalar() or 0)


def _insert_row(connection: Connection, prepared: Prepared, shared: Mapping[str, Any]) -> int:
    draft, figures = prepared.draft, prepared.figures
    values = {
        **shared,
        "state": GenerationState.PENDING.value,
        "source_path": draft.source_uri,
        "source_hash": draft.source_hash,
        "doc_type": draft.format.value,
        "fields": field_values(draft.fields),
        "properties": field_values(draft.properties),
        "text_hash": figures.digest,
        "rules_digest": draft.rules_digest,
        "tokenizer": draft.tokenizer,
        "encoding": draft.encoding,
        "chunk_count": sum(not chunk.upper for chunk in draft.chunks),
        "total_chars": figures.total_chars,
        "total_bytes": figures.total_bytes,
        "create_time": prepared.now,
    }
    return int(connection.execute(insert(generations).returning(generations.c.generation_key), values).scalar_one())


def _insert_text(connection: Connection, draft: GenerationDraft, generation_key: int) -> None:
    columns = ("generation_key", "number", "char_start", "byte_start", "content")
    rows = ((generation_key, each.number, each.char_start, each.byte_start, each.content) for each in cut(draft.text))
    insert_rows(connection, text_segments, columns, rows)
    pages = ((generation_key, page.number, page.start, page.end) for page in draft.pages)
    insert_rows(connection, text_pages, ("generation_key", "page", "char_start", "char_end"), pages)


class IndexMovedError(ConflictError):
    """The collection got another engine collection while the points were written; they have to be written there."""

    def __init__(self, collection: Collection) -> None:
        super().__init__("the index was rebuilt meanwhile", collection=collection.name)
        self.collection = collection


def publish_generation(connection: Connection, pending: PendingGeneration, now: int, steady_ms: int) -> None:
    """Move the live generation of a document to the pending one; `now` is for people, `steady_ms` for ages.

    Raises:
        DocumentChangedError: the live generation moved, the document is gone, or its source is taken.
        IndexMovedError: the points are in an engine collection that does not serve any more.
    """
    _refuse_moved_index(connection, pending.collection)
    row = _pending_row(connection, pending.key)
    document = _document_row(connection, pending, row)
    if row is None or document is None or document["live_generation"] != pending.expected_generation:
        raise changed(pending.document_id)
    if document["live_generation"] and document["source_path"] != row["source_path"]:
        raise changed(pending.document_id)  # the source was deleted meanwhile, and the document stays with another
    refuse_stale_version(pending.document_id, pending.source_version, document["source_version"])
    refuse_taken_source(connection, row["collection_key"], row["source_path"], pending.document_id)
    is_kept = pending.collection.settings.generation_retention > timedelta(0)
    keeps_history = is_kept or pending.expected_generation == 0
    position = advance_position(connection, row["collection_key"], keeps_history=keeps_history)
    _supersede(connection, pending, row["document_key"], position, kept_since=steady_ms if is_kept else None)
    connection.execute(
        update(generations)
        .where(generations.c.generation_key == pending.key)
        .values(state=GenerationState.LIVE.value, live_from=position)
    )
    release_pending(connection, row["collection_key"], pending.key)
    _update_document(connection, pending, row, None if _is_known(document) else now, now)


def take_back_generation(connection: Connection, pending: PendingGeneration) -> None:
    """Remove a pending generation and queue its points; a published one stays as it is."""
    row = _pending_row(connection, pending.key)
    if row is None and _exists(connection, pending.key):
        return
    engine_name = pending.collection.engine_name
    if connection.execute(select(1).where(collections.c.engine_name == engine_name)).first() is None:
        # Deleted or moved while the points were written, which may have made the engine collection anew.
        queue_dropped_engine(connection, pending.tenant, engine_name)
    else:
        queue_deleted_points(connection, pending.tenant, engine_name, pending.numbers)
    if row is not None:
        connection.execute(delete(generations).where(generations.c.generation_key == pending.key))
        drop_empty_document(connection, row["document_key"])


def drop_empty_document(connection: Connection, document_key: int) -> None:
    """Remove the row of a document that is not visible and has no generation left."""
    left = exists(select(1).where(generations.c.document_key == documents.c.document_key))
    connection.execute(
        delete(documents).where(documents.c.document_key == document_key, documents.c.live_generation == 0, ~left)
    )


def _refuse_moved_index(connection: Connection, collection: Collection) -> None:
    found = find_collection(connection, collection.tenant, collection.name)
    if found is not None and found.uid == collection.uid and found.engine_name != collection.engine_name:
        raise IndexMovedError(found)


def _pending_row(connection: Connection, key: int) -> RowMapping | None:
    statement = select(generations).where(
        generations.c.generation_key == key, generations.c.state == GenerationState.PENDING.value
    )
    return connection.execute(statement).mappings().first()


def _exists(connection: Connection, key: int) -> bool:
    found = connection.execute(select(1).where(generations.c.generation_key == key)).first()
    return found is not None


def _document_row(connection: Connection, pending: PendingGeneration, row: RowMapping | None) -> RowMapping | None:
    if row is None:
        return None
    columns = ("live_generation", "deleted_generation", "source_path", "source_version")
    statement = select(*(documents.c[name] for name in columns)).where(
        documents.c.document_key == row["document_key"], documents.c.tenant == pending.tenant
    )
    return connection.execute(statement).mappings().first()


def _supersede(
    connection: Connection, pending: PendingGeneration, document_key: int, position: int, kept_since: int | None
) -> None:
    """Retire the live or softly deleted generation; its text stays, so that old citations can be verified.

    Its points go, also when its chunks are kept for readers of the past: those compare with the vectors of the
    catalog, so that readers of now never meet what is retired (decision 0009).
    """
    is_current = generations.c.state.in_((GenerationState.LIVE.value, GenerationState.DELETED.value))
    current = select(generations.c.generation_key, generations.c.state)
    found = connection.execute(current.where(generations.c.document_key == document_key, is_current)).first()
    if found is None:
        return
    key, kept_since = found.generation_key, None if found.state == GenerationState.DELETED.value else kept_since
    old = numbers_of(connection, select(generations.c.generation_key).where(generations.c.generation_key == key))
    queue_deleted_points(connection, pending.tenant, pending.collection.engine_name, old)
    taken_out: list[int] = []
    if kept_since is None:
        remove_chunks(connection, chunks.c.generation_key == key)
        connection.execute(delete(chunks).where(chunks.c.generation_key == key))
    else:
        taken_out = supersede_chunks(connection, chunks.c.generation_key == key)
    connection.execute(
        update(generations)
        .where(generations.c.generation_key == key)
        .values(state=GenerationState.SUPERSEDED.value, live_to=position, superseded_time=kept_since)
    )
    add_chunks(connection, numbered(taken_out))


def _is_known(document: RowMapping) -> bool:
    return bool(document["live_generation"] or document["deleted_generation"])


def _update_document(
    connection: Connection, pending: PendingGeneration, row: RowMapping, ingested: int | None, now: int
) -> None:
    key = row["document_key"]
    values: dict[str, Any] = {
        **row["fields"],
        "live_generation": row["generation"],
        "last_modified": now,
        "delete_time": None,
        "deleted_generation": 0,
    }
    figures = ("chunk_count", "total_chars", "total_bytes", "rules_digest", "tokenizer", "encoding")
    values |= {name: row[name] for name in ("source_path", "source_hash", "doc_type", *figures)}
    if pending.source_version is not None:
        values["source_version"] = pending.source_version
    if ingested is not None:
        values["ingestion_date"] = ingested
    of_source = (
        document_aliases.c.collection_key == row["collection_key"],
        document_aliases.c.source_path == row["source_path"],
    )
    count_aliases(connection, select(document_aliases.c.document_key).where(*of_source), -1)
    connection.execute(delete(document_aliases).where(*of_source))
    connection.execute(update(documents).where(documents.c.document_key == key).values(values))
    connection.execute(delete(document_tags).where(document_tags.c.document_key == key))
    if tags := [{"document_key": key, "tag": tag} for tag in row["fields"]["tags"]]:
        connection.execute(insert(document_tags), tags)


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
        generations.c.state == "SUPERSEDED",
        generations.c.superseded_time <= expiry(collection, steady_ms),
    )
    return max(readable_from, int(connection.execute(statement).scalar_one()))


def expiry(collection: Collection, steady_ms: int) -> int:
    """Return the time, as `SteadyTime` tells it, up to which superseded generations have been kept long enough."""
    return steady_ms - collection.settings.generation_retention // timedelta(milliseconds=1)


_GENERATIONS_PER_TRANSACTION = 20


class ExpiredGenerations:
    """Their chunks go; their texts stay, so that old citations can be verified."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collections(self) -> list[Collection]:
        """Return the collections of all tenants that have superseded generations with chunks."""
        past = select(generations.c.collection_key).where(generations.c.superseded_time.is_not(None))
        statement = select(collections).where(collections.c.collection_key.in_(past))
        with self._database.read() as connection:
            return [to_collection(row) for row in connection.execute(statement).mappings()]

    def sweep(self, uid: str, budget: Budget) -> int:
        """Remove the chunks of generations of a collection whose retention has passed; return of how many."""
        done = 0
        while count := self._database.write(lambda connection: _sweep(connection, uid, self._database.steady.now_ms())):
            done += count
            budget.check()
        return done


def _sweep(connection: Connection, uid: str, now: int) -> int:
    row = connection.execute(select(collections).where(collections.c.uid == uid)).mappings().first()
    if row is None:
        return 0
    key = row[collections.c.collection_key]
    found = _expired(connection, key, expiry(to_collection(row), now))
    if found:
        _forget(connection, key, found)
    return len(found)


def _expired(connection: Connection, collection_key: int, oldest: int) -> list[int]:
    statement = (
        select(generations.c.generation_key)
        .where(
            generations.c.collection_key == collection_key,
            generations.c.state == "SUPERSEDED",
            generations.c.superseded_time <= oldest,
        )
        .order_by(generations.c.live_to)
        .limit(_GENERATIONS_PER_TRANSACTION)
    )
    return list(connection.execute(statement).scalars())


def _forget(connection: Connection, collection_key: int, keys: list[int]) -> None:
    """Remove the chunks, and remember up to which position readers of the past would miss them."""
    gone: Any = generations.c.generation_key.in_(keys)
    up_to = connection.execute(select(func.max(generations.c.live_to)).where(gone)).scalar_one()
    remove_chunks(connection, chunks.c.generation_key.in_(keys))
    connection.execute(delete(chunks).where(chunks.c.generation_key.in_(keys)))
    connection.execute(update(generations).where(gone).values(superseded_time=None))
    connection.execute(
        update(collections)
        .where(collections.c.collection_key == collection_key, collections.c.readable_from < up_to)
        .values(readable_from=up_to)
    )


class Recovery:
    """Finds generations that nobody writes any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def leftovers(self, under_way: Callable[[], AbstractSet[int]] | None = None) -> list[PendingGeneration]:
        """Return the pending generations that nobody writes, oldest first, to be abandoned; payloads are left out.

        Args:
            under_way: returns the keys of those that are being written, each from before its row can be read; None at
                the start of a process, when there is none.
        """
        is_pending = generations.c.state == GenerationState.PENDING.value
        with self._database.read() as connection:
            pending = set(connection.execute(select(generations.c.generation_key).where(is_pending)).scalars())
        # Asked behind the look at the rows, so that whatever is still being written is among them, and before a second
        # look: what was published in between is pending no more.
        unwritten = pending - (set() if under_way is None else under_way())
        statement = (
            select(generations, documents.c.document_id, documents.c.live_generation, *collections.c)
            .join_from(generations, documents, generations.c.document_key == documents.c.document_key)
            .join(collections, generations.c.collection_key == collections.c.collection_key)
            .where(is_pending, generations.c.generation_key.in_(unwritten))
            .order_by(generations.c.generation_key)
        )
        with self._database.read() as connection:
            return [_to_pending(connection, row) for row in connection.execute(statement).mappings().all()]


def _to_pending(connection: Connection, row: RowMapping) -> PendingGeneration:
    key = row[generations.c.generation_key]
    statement = select(chunks.c.chunk_number, chunks.c.chunk_id).where(chunks.c.generation_key == key)
    written = connection.execute(statement.order_by(chunks.c.sequence_num)).all()
    return PendingGeneration(
        key=key,
        document_id=row[documents.c.document_id],
        generation=row[generations.c.generation],
        expected_generation=row[documents.c.live_generation],
        tenant=row[generations.c.tenant],
        collection=to_collection(row),
        numbers=[each.chunk_number for each in written],
        chunk_ids=[each.chunk_id for each in written],
        payloads=(),
    )
