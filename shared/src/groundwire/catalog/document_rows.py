"""Documents to rows and back."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, select, update

from groundwire.catalog.tables import collections, document_aliases, documents
from groundwire.kernel.clock import epoch_ms, from_epoch_ms
from groundwire.kernel.document import ALIASES_SHOWN, Document, DocumentFields, DocumentFormat
from groundwire.kernel.filters import Value

_d = documents.c
FIELD_COLUMNS = (
    _d.title,
    _d.creator,
    _d.subject,
    _d.description,
    _d.date_created,
    _d.language,
    _d.category,
    _d.tags,
    _d.project,
    _d.metadata,
)
# A document may have thousands, and every chunk that is read brings its document along.
_FIRST_ALIASES = (
    select(document_aliases.c.source_path)
    .where(document_aliases.c.document_key == _d.document_key, document_aliases.c.collection_key == _d.collection_key)
    .order_by(document_aliases.c.source_path)
    .limit(ALIASES_SHOWN)
    .correlate(documents)
    .subquery()
)
_ALIASES = select(func.json_group_array(_FIRST_ALIASES.c.source_path, type_=_d.tags.type)).scalar_subquery()
DOCUMENT_COLUMNS = (
    _d.document_key,
    _d.document_id,
    collections.c.name,
    _d.source_path,
    _d.doc_type,
    _d.source_hash,
    _d.live_generation,
    _d.deleted_generation,
    _d.chunk_count,
    _d.total_chars,
    _d.total_bytes,
    _d.embedding_model,
    _d.rules_digest,
    _d.tokenizer,
    _d.encoding,
    _d.ingestion_date,
    _d.last_modified,
    _d.delete_time,
    _ALIASES.label("aliases"),
    _d.source_version,
    _d.alias_count,
    _d.alias_changes,
    *FIELD_COLUMNS,
)
"""The key of the document, then what `to_document` reads, in its order."""

SELECT_ANY_DOCUMENT: Select[Any] = select(*DOCUMENT_COLUMNS).join_from(
    documents, collections, _d.collection_key == collections.c.collection_key
)
"""Documents of all tenants, those that were deleted softly and empty rows too; to be narrowed to one."""

_SELECT = SELECT_ANY_DOCUMENT.where(_d.tenant == bindparam("tenant"))
_OF_COLLECTION = (collections.c.tenant == bindparam("tenant"), collections.c.name == bindparam("collection"))

SELECT_DOCUMENTS = _SELECT.where(_d.live_generation > 0)
"""The visible documents of the tenant `:tenant`, to be narrowed."""

SELECT_DOCUMENTS_AND_HIDDEN = _SELECT.where(*_OF_COLLECTION, _d.live_generation + _d.deleted_generation > 0)
"""The documents of the collection `:collection` of the tenant `:tenant`, those that were deleted softly too."""

SELECT_DOCUMENTS_OF_COLLECTION = SELECT_DOCUMENTS.where(*_OF_COLLECTION)
"""The visible documents of the collection `:collection` of the tenant `:tenant`, to be narrowed."""

SELECT_VISIBLE_DOCUMENT = SELECT_DOCUMENTS_OF_COLLECTION.where(_d.document_id == bindparam("wanted"))
"""The one of them with the id `:wanted`."""


def to_document(row: Sequence[Any]) -> Document:
    """Make a document of the values of `DOCUMENT_COLUMNS`."""
    _, document_id, collection, source, doc_type, source_hash, live, hidden, *figures = row[:22]
    chunk_count, total_chars, total_bytes, model, rules_digest, tokenizer, encoding, *times = figures
    ingested, modified, deleted, aliases, source_version, alias_count, alias_changes = times
    return Document(
        document_id=document_id,
        collection=collection,
        source_uri=source,
        format=DocumentFormat(doc_type),
        source_hash=source_hash,
        fields=_to_fields(row[22:32]),
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
        delete_time=_moment(deleted),
        alias_uris=tuple(sorted(aliases)),
        source_version=source_version,
        alias_count=alias_count,
        alias_changes=alias_changes,
    )


def count_aliases(connection: Connection, document_keys: Any, more: int) -> None:
    """Note that documents have `more` aliases, or fewer; call it in the transaction that changes them."""
    values = {"alias_count": _d.alias_count + more, "alias_changes": _d.alias_changes + 1}
    connection.execute(update(documents).where(_d.document_key.in_(document_keys)).values(values))


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
        "metadata": {key: _stored(value) for key, value in fields.metadata.items()},
    }


def to_fields(values: Mapping[str, Any]) -> DocumentFields:
    """Make the fields of what `field_values` returned."""
    return _to_fields([values[column.name] for column in FIELD_COLUMNS])


def _to_fields(row: Sequence[Any]) -> DocumentFields:
    title, creator, subject, description, created, language, category, tags, project, metadata = row
    return DocumentFields(
        title=title,
        creators=tuple(creator),
        subjects=tuple(subject),
        description=description,
        date_created=_moment(created),
        language=language,
        category=category,
        tags=tuple(tags),
        project=project,
        metadata=loaded_values(metadata),
    )


def loaded_values(values: Mapping[str, Any]) -> dict[str, Value]:
    """Return what JSON made of a payload or of metadata, with tuples for its lists."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else from_epoch_ms(milliseconds)


def _stored(value: Value) -> Any:
    return list(value) if isinstance(value, tuple) else value
