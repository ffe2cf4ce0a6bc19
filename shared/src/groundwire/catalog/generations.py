"""Generations: written beside the live one, published in one transaction, kept for readers of the past, swept."""

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, RowMapping, delete, exists, func, insert, select, update

from groundwire.catalog.database import Database, advance_position, owner_of
from groundwire.catalog.dialects import among, insert_rows
from groundwire.catalog.encoding import encode_json
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
from groundwire.catalog.records import set_record
from groundwire.catalog.rows import (
    GenerationState,
    chunk_values,
    count_aliases,
    field_values,
    find_collection,
    key_of,
    numbers_of,
    set_tags,
    to_collection,
    to_fields,
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

CHUNKS_PER_TRANSACTION = 4096
"""More chunks are written in further transactions, so that other writers do not wait for a whole large document."""
_GENERATIONS_PER_TRANSACTION = 20
_PUBLISHED_COLUMNS = (
    *("source_path", "source_hash", "doc_type", "chunk_count", "total_chars", "total_bytes"),
    *("rules_digest", "tokenizer", "encoding"),
)
"""What a document has of its live generation, besides its fields."""


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


def insert_generation(connection: Connection, prepared: Prepared) -> PendingGeneration:
    """Write document (hidden when new), generation, text and the first chunks; return the pending generation.

    Raises:
        CollectionNotFoundError: the collection was deleted meanwhile.
        GroundwireError: whatever `refuse_conflicts` raises.
    """
    draft, pending, figures = prepared.draft, prepared.pending, prepared.figures
    # By its uid and not by its name: a collection that was deleted and made again is another one.
    collection_key = connection.execute(select(key_of(pending.collection))).scalar()
    if collection_key is None:
        raise CollectionNotFoundError(pending.collection.name)
    tenant, document_id = pending.collection.tenant, pending.document_id
    of_id = documents.c.tenant == tenant, documents.c.document_id == document_id
    row = connection.execute(select(documents).where(*of_id)).first()
    refuse_conflicts(connection, draft, pending, collection_key, row)
    of_source = {
        "tenant": tenant,
        "collection_key": collection_key,
        "source_path": draft.source_uri,
        "source_hash": draft.source_hash,
        "doc_type": draft.format.value,
    }
    if row is None:
        new_document = {
            **of_source,
            **field_values(draft.fields),
            "document_id": document_id,
            # Nobody sees it before it is published, which fills in the figures of what is live.
            **dict.fromkeys(("chunk_count", "total_chars", "total_bytes"), 0),
            "embedding_model": pending.collection.identity.model_name,
            "ingestion_date": prepared.now,
            "last_modified": prepared.now,
        }
        inserted = insert(documents).values(new_document).returning(documents.c.document_key)
        document_key = int(connection.execute(inserted).scalar_one())
    else:
        document_key = int(row.document_key)
    # A document that was deleted for good and comes again goes on counting: old citations name the old numbers.
    written = select(func.max(generations.c.generation)).where(generations.c.document_key == document_key)
    buried = select(tombstones.c.last_generation).where(
        tombstones.c.tenant == tenant, tombstones.c.document_id == document_id
    )
    generation = 1 + max(connection.execute(statement).scalar() or 0 for statement in (written, buried))
    new_generation = {
        **of_source,
        "document_key": document_key,
        "generation": generation,
        "state": GenerationState.PENDING.value,
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
        "owner": owner_of(connection),
    }
    inserted = insert(generations).values(new_generation).returning(generations.c.generation_key)
    key = int(connection.execute(inserted).scalar_one())
    insert_rows(connection, text_segments, ({"generation_key": key, **asdict(each)} for each in cut(draft.text)))
    pages = (
        {"generation_key": key, "page": page.number, "char_start": page.start, "char_end": page.end}
        for page in draft.pages
    )
    insert_rows(connection, text_pages, pages)
    pending = replace(pending, key=key, generation=generation)
    insert_chunks(connection, replace(prepared, pending=pending), 0)
    return pending


def refuse_conflicts(
    connection: Connection,
    draft: GenerationDraft,
    pending: PendingGeneration,
    collection_key: int,
    row: Row[Any] | None,
) -> None:
    """Return if the generation may be written beside what is there; `row` is that of the document's id, if any.

    Raises:
        AlreadyExistsError: the id of the document or of a chunk is taken; no repetition can end otherwise.
        StaleSourceVersionError: the document, perhaps softly deleted, is of a later version.
        DocumentChangedError: another writer was faster; who looks again and repeats may succeed.
    """
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
    # Before the lost race: whoever comes late must not be told to look again and repeat.
    refuse_stale_version(document_id, draft.source_version, None if row is None else row.source_version)
    if draft.expected_generation != (0 if row is None else row.live_generation):
        raise changed(document_id)
    if draft.expected_generation == 0:
        refuse_taken_source(connection, collection_key, draft.source_uri, document_id)
    if draft.chunk_ids is not None:
        taken = select(chunks.c.chunk_id).where(
            chunks.c.tenant == tenant,
            among(chunks.c.chunk_id, pending.chunk_ids),
            chunks.c.document_key != (0 if row is None else row.document_key),
        )
        other = connection.execute(taken.limit(1)).scalar()
        if other is not None:
            raise AlreadyExistsError(f"the chunk id {other!r} is taken", resource=other)


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
        {
            "chunk_number": number,
            "tenant": pending.collection.tenant,
            "document_key": owner.document_key,
            "generation_key": pending.key,
            "chunk_id": chunk_id,
            **chunk_values(chunk),
            "embedding_model": model,
            "embedding_timestamp": prepared.embedded.get(chunk.embedding_hash, prepared.now),
            "payload": encode_json(payload),
            "content": chunk.content,
        }
        for number, chunk_id, payload, chunk in zip(*columns, strict=True)
    )
    insert_rows(connection, chunks, rows)
    numbered = zip(pending.numbers[part], chunks_of_part, strict=True)
    pages = ({"chunk_number": number, "page": page} for number, chunk in numbered for page in chunk.page_numbers)
    insert_rows(connection, chunk_pages, pages)
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
    collection = find_collection(connection, pending.collection.tenant, pending.collection.name)
    is_same = collection is not None and collection.uid == pending.collection.uid
    # The first of all refusals, as it is the only one that the caller gets over: by writing the points once more.
    if collection is not None and is_same and collection.engine_name != pending.collection.engine_name:
        raise IndexMovedError(collection)
    row = _pending_row(connection, pending.key)
    if row is None or row["tenant"] != pending.collection.tenant:
        raise changed(pending.document_id)
    of_document = documents.c.document_key == row["document_key"]
    document = connection.execute(select(documents).where(of_document)).mappings().one()
    if document["live_generation"] != pending.expected_generation:
        raise changed(pending.document_id)
    if document["live_generation"] and document["source_path"] != row["source_path"]:
        raise changed(pending.document_id)  # the source was deleted meanwhile, and the document stays with another
    refuse_stale_version(pending.document_id, pending.source_version, document["source_version"])
    refuse_taken_source(connection, row["collection_key"], row["source_path"], pending.document_id)
    # Without retention nobody can read the past once the chunks before are gone; of a new document there is no past.
    is_kept = pending.collection.settings.generation_retention > timedelta(0)
    keeps_history = is_kept or pending.expected_generation == 0
    position = advance_position(connection, row["collection_key"], keeps_history=keeps_history)
    # The generation before goes first: an index of the database lets a document have only one that is live.
    _supersede(connection, pending, row["document_key"], position, kept_since=steady_ms if is_kept else None)
    connection.execute(
        update(generations)
        .where(generations.c.generation_key == pending.key)
        .values(state=GenerationState.LIVE.value, live_from=position)
    )
    # Its words were written with its chunks: here they only change their state, whatever the size of the document.
    release_pending(connection, row["collection_key"], pending.key)
    of_source = (
        document_aliases.c.collection_key == row["collection_key"],
        document_aliases.c.source_path == row["source_path"],
    )
    # What was an alias of another document is the source of this one now.
    count_aliases(connection, select(document_aliases.c.document_key).where(*of_source), -1)
    connection.execute(delete(document_aliases).where(*of_source))
    is_new = not document["live_generation"] and not document["deleted_generation"]
    values = {
        **row["fields"],
        **{name: row[name] for name in _PUBLISHED_COLUMNS},
        "live_generation": row["generation"],
        "deleted_generation": 0,
        "delete_time": None,
        "last_modified": now,
        "ingestion_date": now if is_new else document["ingestion_date"],
        "source_version": document["source_version"] if pending.source_version is None else pending.source_version,
    }
    connection.execute(update(documents).where(of_document).values(values))
    set_tags(connection, row["document_key"], row["fields"]["tags"])
    set_record(connection, row["collection_key"], row["document_key"], row["source_path"], to_fields(row["fields"]))


def take_back_generation(connection: Connection, pending: PendingGeneration) -> None:
    """Remove a pending generation and queue its points; a published one stays as it is."""
    # One that was published is not touched, however often a call that did not hear of it tidies up.
    row = _pending_row(connection, pending.key)
    if row is None and connection.execute(select(1).where(generations.c.generation_key == pending.key)).first():
        return
    engine_name = pending.collection.engine_name
    if connection.execute(select(1).where(collections.c.engine_name == engine_name)).first() is None:
        # Deleted or moved while the points were written, which may have made the engine collection anew.
        queue_dropped_engine(connection, pending.collection.tenant, engine_name)
    else:
        queue_deleted_points(connection, pending.collection.tenant, engine_name, pending.numbers)
    if row is not None:
        connection.execute(delete(generations).where(generations.c.generation_key == pending.key))
        drop_empty_document(connection, row["document_key"])


def drop_empty_document(connection: Connection, document_key: int) -> None:
    """Remove the row of a document that is not visible and has no generation left."""
    left = exists(select(1).where(generations.c.document_key == documents.c.document_key))
    connection.execute(
        delete(documents).where(documents.c.document_key == document_key, documents.c.live_generation == 0, ~left)
    )


def _pending_row(connection: Connection, key: int) -> RowMapping | None:
    is_pending = generations.c.state == GenerationState.PENDING.value
    return (
        connection.execute(select(generations).where(generations.c.generation_key == key, is_pending))
        .mappings()
        .first()
    )


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
    # What was deleted softly is not read as of the past either: its chunks go at once.
    key, kept_since = found.generation_key, None if found.state == GenerationState.DELETED.value else kept_since
    old = numbers_of(connection, select(generations.c.generation_key).where(generations.c.generation_key == key))
    queue_deleted_points(connection, pending.collection.tenant, pending.collection.engine_name, old)
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
    """Return the time, as `SteadyTime` tells it, up to which superseded generations have been kept long enough."""
    return steady_ms - collection.settings.generation_retention // timedelta(milliseconds=1)


class ExpiredGenerations:
    """Superseded generations whose time is over: their chunks go; their texts stay, for citations to be verified."""

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
        while count := self._database.write(lambda connection: self._sweep_some(connection, uid)):
            done += count
            budget.check()
        return done

    def _sweep_some(self, connection: Connection, uid: str) -> int:
        row = connection.execute(select(collections).where(collections.c.uid == uid)).mappings().first()
        if row is None:
            return 0
        key = row[collections.c.collection_key]
        expired = (
            select(generations.c.generation_key, generations.c.live_to)
            .where(
                generations.c.collection_key == key,
                generations.c.state == GenerationState.SUPERSEDED.value,
                generations.c.superseded_time <= expiry(to_collection(row), self._database.steady.now_ms()),
            )
            .order_by(generations.c.live_to)
            .limit(_GENERATIONS_PER_TRANSACTION)
        )
        found = connection.execute(expired).all()
        if not found:
            return 0
        keys, up_to = [each.generation_key for each in found], found[-1].live_to
        remove_chunks(connection, chunks.c.generation_key.in_(keys))
        connection.execute(delete(chunks).where(chunks.c.generation_key.in_(keys)))
        connection.execute(
            update(generations).where(generations.c.generation_key.in_(keys)).values(superseded_time=None)
        )
        # Readers of the past would miss these chunks at the positions before.
        of_collection = (collections.c.collection_key == key, collections.c.readable_from < up_to)
        connection.execute(update(collections).where(*of_collection).values(readable_from=up_to))
        return len(found)


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
            rows = connection.execute(select(generations.c.generation_key, generations.c.owner).where(is_pending)).all()
            others = self._database.other_owners(connection)
        pending = {row.generation_key for row in rows if row.owner not in others}
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
        collection=to_collection(row),
        numbers=[each.chunk_number for each in written],
        chunk_ids=[each.chunk_id for each in written],
        payloads=(),
    )
