"""Writes a generation beside the live one, invisible until it is published."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, func, insert, select

from groundwire.catalog.bulk_insert import insert_rows
from groundwire.catalog.chunk_rows import CHUNK_VALUES, chunk_values
from groundwire.catalog.connections import encode_json
from groundwire.catalog.document_rows import field_values
from groundwire.catalog.generations import GenerationDraft, GenerationState, PendingGeneration
from groundwire.catalog.lexical_index import Entry, Segment, insert_pending, make_segments
from groundwire.catalog.segments import TextFigures, cut
from groundwire.catalog.tables import (
    chunk_pages,
    chunks,
    collections,
    documents,
    generations,
    text_pages,
    text_segments,
    tombstones,
)
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import (
    AlreadyExistsError,
    CollectionNotFoundError,
    DocumentChangedError,
    StaleSourceVersionError,
)

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
    row = _document_row(connection, pending, collection_key, draft.source_uri)
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
    given = func.json_each(encode_json(list(pending.chunk_ids))).table_valued("value").c.value
    taken = select(chunks.c.chunk_id).where(
        chunks.c.tenant == pending.tenant,
        chunks.c.chunk_id.in_(select(given)),
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


def _document_row(
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
