"""Collections, documents and chunks to rows and back, and the conditions that say which rows readers see."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    RowMapping,
    ScalarSelect,
    Select,
    and_,
    bindparam,
    delete,
    func,
    literal_column,
    or_,
    select,
    true,
    update,
)

from groundwire.catalog.dialects import among, array_in, array_of, execute, field_of, insert_rows, read_array
from groundwire.catalog.encoding import decode_json, encode_json
from groundwire.catalog.schema import chunks, collections, document_aliases, document_tags, documents, generations
from groundwire.kernel.chunk import Chunk, ChunkLinks, StoredChunk
from groundwire.kernel.clock import epoch_ms, from_epoch_ms
from groundwire.kernel.collection import (
    ChunkerKind,
    ChunkingPolicy,
    ChunkUnit,
    Collection,
    CollectionLimits,
    CollectionSettings,
    DuplicateChunkPolicy,
    FieldDescription,
    FieldType,
    MemoryWeights,
    ProfileName,
    RetrievalDefaults,
    SearchMode,
)
from groundwire.kernel.document import ALIASES_SHOWN, Document, DocumentFields, DocumentFormat
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.errors import CollectionNotFoundError, DocumentChangedError, DocumentNotFoundError
from groundwire.kernel.filters import Payload, Value
from groundwire.kernel.spans import Span


class GenerationState(StrEnum):
    """PENDING until all its vectors are in the engine, then LIVE, then SUPERSEDED by the next one.

    DELETED while its document is deleted softly; a restoration makes it LIVE again.
    """

    PENDING = "PENDING"
    LIVE = "LIVE"
    SUPERSEDED = "SUPERSEDED"
    DELETED = "DELETED"


# As literals: a partial index is used only where a statement repeats its condition word for word.
IS_LIVE: ColumnElement[bool] = generations.c.state == literal_column("'LIVE'")
IS_PENDING: ColumnElement[bool] = generations.c.state == literal_column("'PENDING'")
IS_INDEXED: ColumnElement[bool] = chunks.c.indexed == literal_column("1")
"""A search may find the chunk: it stands for no other chunks and repeats none."""


def visible_at(snapshot: int | None) -> ColumnElement[bool]:
    """Return the condition on `generations` for what readers saw at a position, or see now (None)."""
    if snapshot is None:
        return IS_LIVE
    return and_(
        generations.c.state.in_(("LIVE", "SUPERSEDED")),
        generations.c.live_from <= snapshot,
        or_(generations.c.live_to.is_(None), generations.c.live_to > snapshot),
    )


def visible_generation_keys(collection_key: Any, snapshot: int | None = None) -> Select[tuple[int]]:
    """Return the statement for the keys of the generations of a collection that readers saw at a position, or see."""
    return select(generations.c.generation_key).where(
        generations.c.collection_key == collection_key, visible_at(snapshot)
    )


def key_of(collection: Collection) -> ScalarSelect[int]:
    """Return the expression for the key of a collection, NULL when it was deleted."""
    statement = select(collections.c.collection_key)
    # By uid: the name may belong to another collection by now.
    return statement.where(
        collections.c.tenant == collection.tenant, collections.c.uid == collection.uid
    ).scalar_subquery()


def numbers_of(connection: Connection, generation_keys: Select[tuple[int]]) -> list[int]:
    """Return the chunk numbers of generations, ascending."""
    of_generations = chunks.c.generation_key.in_(generation_keys)
    return sorted(read_array(connection, select(array_of(chunks.c.chunk_number)).where(of_generations)))


def count_indexed(connection: Connection, generation_keys: Select[tuple[int]]) -> int:
    """Return how many chunks of generations searches may find."""
    statement = select(func.count()).where(chunks.c.generation_key.in_(generation_keys), IS_INDEXED)
    return int(connection.execute(statement).scalar_one())


_OF_COLLECTION = (collections.c.tenant == bindparam("tenant"), collections.c.name == bindparam("collection"))
KEY_OF_UID = select(collections.c.collection_key).where(
    collections.c.tenant == bindparam("tenant"), collections.c.uid == bindparam("uid")
)
SELECT_COLLECTION = select(collections).where(*_OF_COLLECTION)
_KEY = select(collections.c.collection_key).where(*_OF_COLLECTION)


def find_collection(connection: Connection, tenant: str, name: str) -> Collection | None:
    row = execute(connection, SELECT_COLLECTION, {"tenant": tenant, "collection": name}).mappings().first()
    return None if row is None else to_collection(row)


def collection_row(connection: Connection, tenant: str, name: str) -> RowMapping:
    """Return the row of the collection of this name, or raise CollectionNotFoundError."""
    row = execute(connection, SELECT_COLLECTION, {"tenant": tenant, "collection": name}).mappings().first()
    if row is None:
        raise CollectionNotFoundError(name)
    return row


def require_collection(connection: Connection, tenant: str, name: str) -> Collection:
    """Return the collection of this name, or raise CollectionNotFoundError."""
    return to_collection(collection_row(connection, tenant, name))


def collection_key(connection: Connection, tenant: str, name: str) -> int:
    """Return the key of the collection of this name, or raise CollectionNotFoundError."""
    key = execute(connection, _KEY, {"tenant": tenant, "collection": name}).scalar()
    if key is None:
        raise CollectionNotFoundError(name)
    return int(key)


def collection_values(collection: Collection) -> dict[str, Any]:
    return {
        "uid": collection.uid,
        "tenant": collection.tenant,
        "name": collection.name,
        "engine_name": collection.engine_name,
        "profile": collection.profile.value,
        "identity": asdict(collection.identity),
        "identity_digest": collection.identity.digest,
        "settings": settings_value(collection.settings),
        "create_time": epoch_ms(collection.create_time),
        "update_time": epoch_ms(collection.update_time),
    }


def settings_value(settings: CollectionSettings) -> dict[str, Any]:
    """Return the settings as the column holds them; the retention in seconds."""
    return {**asdict(settings), "generation_retention": settings.generation_retention.total_seconds()}


def to_collection(row: RowMapping) -> Collection:
    # By column, not by name: in a row of a join several tables may have a column of that name.
    c = collections.c
    stored = row[c.settings]
    # Collections of 0.1.0 have no weights of memories.
    retrieval = {**stored["retrieval"], "memory": MemoryWeights(**stored["retrieval"].get("memory", {}))}
    chunking = stored["chunking"]
    return Collection(
        uid=row[c.uid],
        tenant=row[c.tenant],
        name=row[c.name],
        engine_name=row[c.engine_name],
        profile=ProfileName(row[c.profile]),
        identity=EmbeddingIdentity(**row[c.identity]),
        settings=CollectionSettings(
            chunking=ChunkingPolicy(
                **{**chunking, "unit": ChunkUnit(chunking["unit"]), "chunker": ChunkerKind(chunking["chunker"])}
            ),
            retrieval=RetrievalDefaults(**{**retrieval, "mode": SearchMode(retrieval["mode"])}),
            limits=CollectionLimits(**stored["limits"]),
            approved_source_prefixes=tuple(stored["approved_source_prefixes"]),
            generation_retention=timedelta(seconds=stored["generation_retention"]),
            duplicate_chunks=DuplicateChunkPolicy(stored["duplicate_chunks"]),
            content_description=stored["content_description"],
            field_descriptions=tuple(
                FieldDescription(
                    each["name"], each["description"], FieldType(each["type"]), tuple(each["allowed_values"])
                )
                for each in stored["field_descriptions"]
            ),
        ),
        create_time=from_epoch_ms(row[c.create_time]),
        update_time=from_epoch_ms(row[c.update_time]),
    )


_d = documents.c
FIELD_COLUMNS = (
    *(_d.title, _d.creator, _d.subject, _d.description, _d.date_created),
    *(_d.language, _d.category, _d.tags, _d.project, _d.metadata, _d.record),
)
# A document may have thousands, and every chunk that is read comes with its document.
_FIRST_ALIASES = (
    select(document_aliases.c.source_path)
    .where(document_aliases.c.document_key == _d.document_key, document_aliases.c.collection_key == _d.collection_key)
    .order_by(document_aliases.c.source_path)
    .limit(ALIASES_SHOWN)
    .correlate(documents)
)
_ALIASES = array_in(_FIRST_ALIASES, _d.tags.type)
DOCUMENT_COLUMNS = (
    *(_d.document_key, _d.document_id, collections.c.name, _d.source_path, _d.doc_type, _d.source_hash),
    *(_d.live_generation, _d.deleted_generation, _d.chunk_count, _d.total_chars, _d.total_bytes),
    *(_d.embedding_model, _d.rules_digest, _d.tokenizer, _d.encoding),
    *(_d.ingestion_date, _d.last_modified, _d.delete_time),
    *(_ALIASES.label("aliases"), _d.source_version, _d.alias_count, _d.alias_changes),
    *FIELD_COLUMNS,
)
"""The key of the document, then what `to_document` reads, in its order."""

SELECT_ANY_DOCUMENT: Select[Any] = select(*DOCUMENT_COLUMNS).join_from(documents, collections)
"""Documents of all tenants, those that were deleted softly and empty rows too; to be narrowed to one."""

_SELECT = SELECT_ANY_DOCUMENT.where(_d.tenant == bindparam("tenant"))

SELECT_DOCUMENTS = _SELECT.where(_d.live_generation > 0)
"""The visible documents of the tenant `:tenant`, to be narrowed."""

SELECT_DOCUMENTS_AND_HIDDEN = _SELECT.where(*_OF_COLLECTION, _d.live_generation + _d.deleted_generation > 0)
"""The documents of the collection `:collection` of the tenant `:tenant`, those that were deleted softly too."""

SELECT_DOCUMENTS_OF_COLLECTION = SELECT_DOCUMENTS.where(*_OF_COLLECTION)
"""The visible documents of the collection `:collection` of the tenant `:tenant`, to be narrowed."""

SELECT_VISIBLE_DOCUMENT = SELECT_DOCUMENTS_OF_COLLECTION.where(_d.document_id == bindparam("value"))
"""The one of them with the id `:value`."""


def to_document(row: Sequence[Any]) -> Document:
    # By position, not by name: a search reads hundreds of rows, and each name costs a dictionary lookup.
    _, document_id, collection, source, doc_type, source_hash, live, hidden, *figures = row[:22]
    chunk_count, total_chars, total_bytes, model, rules_digest, tokenizer, encoding, *times = figures
    ingested, modified, deleted, aliases, source_version, alias_count, alias_changes = times
    return Document(
        document_id=document_id,
        collection=collection,
        source_uri=source,
        format=DocumentFormat(doc_type),
        source_hash=source_hash,
        fields=_to_fields(row[22:33]),
        generation=live + hidden,  # one of the two is 0
        chunk_count=chunk_count,
        total_chars=total_chars,
        total_bytes=total_bytes,
        embedding_model=model,
        rules_digest=rules_digest,
        tokenizer=tokenizer,
        encoding=encoding,
        ingest_time=from_epoch_ms(ingested),
        update_time=from_epoch_ms(modified),
        delete_time=optional_time(deleted),
        alias_uris=tuple(sorted(aliases)),
        source_version=source_version,
        alias_count=alias_count,
        alias_changes=alias_changes,
    )


def count_aliases(connection: Connection, document_keys: Any, more: int) -> None:
    """Add `more` to the alias counts of documents; call it in the transaction that changes the aliases."""
    values = {"alias_count": _d.alias_count + more, "alias_changes": _d.alias_changes + 1}
    connection.execute(update(documents).where(_d.document_key.in_(document_keys)).values(values))


_DELETE_TAGS = delete(document_tags).where(among(document_tags.c.document_key, bindparam("keys")))


def set_tags(connection: Connection, tags: Mapping[int, Sequence[str]], known: Sequence[int]) -> None:
    """Write the tags of documents, by their keys, one row each, as operators look for them.

    Of the `known` documents there may be tags, which go.
    """
    if known:
        execute(connection, _DELETE_TAGS, {"keys": encode_json(list(known))})
    rows = ({"document_key": key, "tag": tag} for key, of_document in tags.items() for tag in of_document)
    insert_rows(connection, document_tags, rows)


def field_values(fields: DocumentFields) -> dict[str, Any]:
    """Return the descriptive columns of a document; also the JSON form kept with each generation."""
    return {
        "title": fields.title,
        "creator": list(fields.creators),
        "subject": list(fields.subjects),
        "description": fields.description,
        "date_created": None if fields.date_created is None else epoch_ms(fields.date_created),
        "language": fields.language,
        "category": fields.category,
        "tags": list(fields.tags),
        "project": fields.project,
        "metadata": {key: list(value) if isinstance(value, tuple) else value for key, value in fields.metadata.items()},
        "record": None if fields.record is None else dict(fields.record),
    }


def to_fields(values: Mapping[str, Any]) -> DocumentFields:
    # What 0.1.0 wrote has no `record`.
    return _to_fields([values.get(column.name) for column in FIELD_COLUMNS])


def _to_fields(row: Sequence[Any]) -> DocumentFields:
    title, creator, subject, description, created, language, category, tags, project, metadata, record = row
    return DocumentFields(
        title=title,
        creators=tuple(creator),
        subjects=tuple(subject),
        description=description,
        date_created=optional_time(created),
        language=language,
        category=category,
        tags=tuple(tags),
        project=project,
        metadata=loaded_values(metadata),
        record=record,
    )


def loaded_values(values: Mapping[str, Any]) -> dict[str, Value]:
    """Return a payload or metadata from JSON, with tuples for its lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def optional_time(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else from_epoch_ms(milliseconds)


_c = chunks.c
_other = chunks.alias("other")


def _id_of(sequence_num: ColumnElement[int], *, upper: bool) -> ColumnElement[str]:
    """Return the expression for the id of another chunk of the same generation, NULL where there is none."""
    of_generation = (_other.c.generation_key == _c.generation_key, _other.c.sequence_num == sequence_num)
    # Chunks that stand for sections and documents are numbered with the others, and are nobody's neighbours.
    same_kind = true() if upper else and_(_c.upper == 0, _other.c.upper == 0)
    return select(_other.c.chunk_id).where(*of_generation, same_kind).correlate(chunks).scalar_subquery()


CHUNK_COLUMNS = (
    *(_c.chunk_number, _c.chunk_id, _c.sequence_num, _c.char_start, _c.char_end, _c.byte_start, _c.byte_end),
    *(_c.content, _c.token_count, _c.chapter, _c.section, _c.hierarchy_path, _c.level, _c.page_numbers),
    *(_c.overlap_prev_chars, _c.overlap_next_chars, _c.undersized, _c.section_heading),
    *(_c.sentence_index, _c.window_size, _c.parent, _c.grandparent, _c.upper, _c.indexed),
    *(_c.embedding_hash, _c.tags, _c.metadata, _c.embedding_timestamp, generations.c.create_time),
    _id_of(_c.sequence_num - 1, upper=False).label("previous_id"),
    _id_of(_c.sequence_num + 1, upper=False).label("following_id"),
    _id_of(_c.parent, upper=True).label("parent_id"),
    _id_of(_c.grandparent, upper=True).label("grandparent_id"),
)
_TIMES = len(CHUNK_COLUMNS) - 6
DOCUMENT_KEY_AT = len(CHUNK_COLUMNS)
"""Where the key of the document stands in a row of `SELECT_CHUNKS`."""
OWN_COLUMNS = CHUNK_COLUMNS[2:_TIMES]
"""What `to_chunk` reads."""

SELECT_CHUNKS: Select[Any] = (
    select(*CHUNK_COLUMNS, *DOCUMENT_COLUMNS)
    .join_from(chunks, generations)
    .join(documents, _c.document_key == documents.c.document_key)
    .join(collections)
)
"""The chunks of all generations with their documents as they are now; to be narrowed to one document."""

SELECT_LIVE_CHUNKS = SELECT_CHUNKS.where(IS_LIVE)
"""The chunks of live generations of all tenants with their documents; to be narrowed to one tenant first of all."""


def to_stored_chunks(rows: Iterable[Sequence[Any]]) -> Iterator[StoredChunk]:
    """Return the chunks of rows of `SELECT_CHUNKS`, in order; chunks of one document share its object."""
    known: dict[int, Document] = {}
    for row in rows:
        key = row[DOCUMENT_KEY_AT]
        if key not in known:
            known[key] = to_document(row[DOCUMENT_KEY_AT:])
        yield to_stored_chunk(row, known[key])


def to_stored_chunk(row: Sequence[Any], document: Document) -> StoredChunk:
    return StoredChunk(
        chunk_number=row[0],
        chunk_id=row[1],
        generation=document.generation,
        chunk=to_chunk(row[2:_TIMES]),
        document=document,
        embed_time=from_epoch_ms(row[_TIMES]),
        ingest_time=from_epoch_ms(row[_TIMES + 1]),
        links=ChunkLinks(*row[_TIMES + 2 : DOCUMENT_KEY_AT]),
    )


def to_chunk(row: Sequence[Any]) -> Chunk:
    sequence_num, start, end, start_byte, end_byte, content, tokens, chapter, section, path, level, *rest = row
    page_numbers, overlap_prev, overlap_next, undersized, heading, *links, embedding_hash, tags, metadata = rest
    sentence_index, window_size, parent, grandparent, upper, indexed = links
    span = Span(start, end, start_byte, end_byte)
    place = (chapter, section, tuple(path), level)
    return Chunk(
        *(sequence_num, span, content, tokens, *place),
        page_numbers=tuple(page_numbers),
        overlap_prev_chars=overlap_prev,
        overlap_next_chars=overlap_next,
        undersized=bool(undersized),
        sentence_index=sentence_index,
        window_size=window_size,
        parent=parent,
        grandparent=grandparent,
        upper=bool(upper),
        indexed=bool(indexed),
        given_heading=heading,
        given_embedding_hash=embedding_hash,
        tags=tuple(tags),
        metadata=loaded_values(metadata),
    )


def to_payload(stored: str) -> Payload:
    """Return the filter keys of a chunk from their JSON."""
    return loaded_values(decode_json(stored))


def chunk_values(chunk: Chunk) -> dict[str, Any]:
    """Return the columns that a chunk knows itself, but for its content; in the order of the table, JSON as text."""
    return {
        "sequence_num": chunk.sequence_num,
        "char_start": chunk.span.start,
        "char_end": chunk.span.end,
        "byte_start": chunk.span.start_byte,
        "byte_end": chunk.span.end_byte,
        "content_hash": chunk.content_hash,
        "embedding_hash": chunk.embedding_hash,
        "token_count": chunk.token_count,
        "page_numbers": encode_json(chunk.page_numbers),
        "chapter": chunk.chapter,
        "section": chunk.section,
        "section_heading": chunk.section_title,
        "hierarchy_path": encode_json(chunk.hierarchy_path),
        "level": chunk.level,
        "overlap_prev_chars": chunk.overlap_prev_chars,
        "overlap_next_chars": chunk.overlap_next_chars,
        "undersized": int(chunk.undersized),
        "sentence_index": chunk.sentence_index,
        "window_size": chunk.window_size,
        "parent": chunk.parent,
        "grandparent": chunk.grandparent,
        "upper": int(chunk.upper),
        "indexed": int(chunk.indexed),
        "tags": encode_json(chunk.tags),
        "metadata": encode_json(chunk.metadata),
    }


_g = generations.c
_COLUMNS_THEN: dict[str, ColumnElement[Any]] = {
    "live_generation": _g.generation,
    "ingestion_date": _g.create_time,
    "last_modified": _g.create_time,
    **{column.name: field_of(_g.fields, column.name) for column in FIELD_COLUMNS},
}


def select_chunks_then(visible: ColumnElement[bool]) -> Select[Any]:
    """Return the statement for chunks of some generations, in rows as `to_stored_chunks` reads them."""
    return (
        select(*CHUNK_COLUMNS, *map(then, DOCUMENT_COLUMNS))
        .join_from(chunks, generations)
        .join(documents)
        .join(collections, _g.collection_key == collections.c.collection_key)
        .where(visible)
    )


def then(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return what stands for a column of `documents` in the generation that readers saw; other columns stay."""
    if not isinstance(column, Column) or column.table is not documents or column.primary_key:
        return column
    # What generations do not record, such as aliases, is taken from the document as it is now.
    return _COLUMNS_THEN[column.name] if column.name in _COLUMNS_THEN else _g.get(column.name, column)


IS_VISIBLE: ColumnElement[bool] = documents.c.live_generation > 0
IS_HIDDEN: ColumnElement[bool] = documents.c.deleted_generation > literal_column("0")
"""Deleted softly."""
IS_STORED: ColumnElement[bool] = or_(IS_VISIBLE, IS_HIDDEN)


_ROWS = (
    select(
        documents,
        collections.c.name.label("collection"),
        collections.c.uid.label("collection_uid"),
        collections.c.engine_name,
        collections.c.identity_digest,
    )
    .join_from(documents, collections)
    .where(documents.c.tenant == bindparam("tenant"), among(documents.c.document_id, bindparam("ids")), *_OF_COLLECTION)
    .order_by(documents.c.document_key)
)


def document_rows(
    connection: Connection, tenant: str, collection: str, document_ids: Sequence[str], which: ColumnElement[bool]
) -> Sequence[RowMapping]:
    """Return the columns of documents and the name, uid, engine and model of their collection, oldest first.

    `which` is `IS_VISIBLE`, `IS_HIDDEN` or `IS_STORED`; documents that are otherwise are left out.
    """
    given = {"tenant": tenant, "collection": collection, "ids": encode_json(list(document_ids))}
    return connection.execute(_ROWS.where(which), given).mappings().all()


def visible_row(connection: Connection, tenant: str, collection: str, document_id: str) -> RowMapping:
    """Return the one of `document_rows` that is of a visible document.

    Raises:
        DocumentNotFoundError: the collection has no such document, or it was deleted.
    """
    rows = document_rows(connection, tenant, collection, [document_id], IS_VISIBLE)
    if not rows:
        raise DocumentNotFoundError(document_id)
    return rows[0]


def visible_document(connection: Connection, tenant: str, collection: str, document_id: str) -> Document:
    """Return a document that is known to be visible in this transaction."""
    given = {"tenant": tenant, "collection": collection, "value": document_id}
    return to_document(connection.execute(SELECT_VISIBLE_DOCUMENT, given).one())


def refuse_other_etag(connection: Connection, row: RowMapping, etag: str) -> None:
    """Raise DocumentChangedError when the document of a row has another etag than the given one, if one is given."""
    of_row = documents.c.document_key == row["document_key"]
    if etag and to_document(connection.execute(SELECT_ANY_DOCUMENT.where(of_row)).one()).etag != etag:
        message = "the document has another etag by now: read it again"
        raise DocumentChangedError(message, document_id=row["document_id"])
