"""Documents to rows and back."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import RowMapping, Select, select

from groundwire.catalog.tables import collections, documents
from groundwire.kernel.clock import epoch_ms, from_epoch_ms
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat
from groundwire.kernel.filters import Value

DOCUMENT_COLUMNS = (collections.c.name, *documents.c)


def select_documents(tenant: str) -> Select[Any]:
    """Return the statement for the visible documents of a tenant, to be narrowed."""
    return (
        select(*DOCUMENT_COLUMNS)
        .join_from(documents, collections, documents.c.collection_key == collections.c.collection_key)
        .where(documents.c.tenant == tenant, documents.c.live_generation > 0)
    )


def to_document(row: RowMapping) -> Document:
    """Make a document of a row of `select_documents`."""
    c = documents.c
    return Document(
        document_id=row[c.document_id],
        collection=row[collections.c.name],
        source_uri=row[c.source_path],
        format=DocumentFormat(row[c.doc_type]),
        source_hash=row[c.source_hash],
        fields=_fields_of_row(row),
        generation=row[c.live_generation],
        chunk_count=row[c.chunk_count],
        total_chars=row[c.total_chars],
        total_bytes=row[c.total_bytes],
        embedding_model=row[c.embedding_model],
        ingestion_time=from_epoch_ms(row[c.ingestion_date]),
        last_modified_time=from_epoch_ms(row[c.last_modified]),
    )


def _fields_of_row(row: RowMapping) -> DocumentFields:
    return to_fields({name: row[documents.c[name]] for name in FIELD_COLUMNS})


FIELD_COLUMNS = (
    "title",
    "creator",
    "subject",
    "description",
    "date_created",
    "language",
    "category",
    "tags",
    "project",
    "metadata",
)


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
    """Make fields of what `field_values` returned."""
    return DocumentFields(
        title=values["title"],
        creators=tuple(values["creator"]),
        subjects=tuple(values["subject"]),
        description=values["description"],
        date_created=_moment(values["date_created"]),
        language=values["language"],
        category=values["category"],
        tags=tuple(values["tags"]),
        project=values["project"],
        metadata={key: _loaded(value) for key, value in values["metadata"].items()},
    )


def _moment(milliseconds: int | None) -> datetime | None:
    return None if milliseconds is None else from_epoch_ms(milliseconds)


def _stored(value: Value) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _loaded(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
