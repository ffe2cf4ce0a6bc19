"""The built-in filter fields as the catalog and the engines name them, their kinds, names and aliases (C21)."""

from enum import StrEnum


class FieldKind(StrEnum):
    """What values a filter field holds."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    TIME = "time"
    TEXT_LIST = "text_list"
    INTEGER_LIST = "integer_list"
    NUMBER_LIST = "number_list"
    BOOLEAN_LIST = "boolean_list"


BUILT_IN_FIELDS = {
    "document_id": FieldKind.TEXT,
    "chunk_id": FieldKind.TEXT,
    "chunk_number": FieldKind.INTEGER,
    "source": FieldKind.TEXT,
    "format": FieldKind.TEXT,
    "title": FieldKind.TEXT,
    "creators": FieldKind.TEXT_LIST,
    "subjects": FieldKind.TEXT_LIST,
    "date_created": FieldKind.TIME,
    "language": FieldKind.TEXT,
    "category": FieldKind.TEXT,
    "tags": FieldKind.TEXT_LIST,
    "project": FieldKind.TEXT,
    "chapter": FieldKind.TEXT,
    "section": FieldKind.TEXT,
    "section_title": FieldKind.TEXT,
    "level": FieldKind.INTEGER,
    "sequence_num": FieldKind.INTEGER,
    "page_numbers": FieldKind.INTEGER_LIST,
    "page_start": FieldKind.INTEGER,
    "page_end": FieldKind.INTEGER,
    "char_start": FieldKind.INTEGER,
    "char_end": FieldKind.INTEGER,
    "ingested_at": FieldKind.TIME,
}

ALIASES = {
    "doc_id": "document_id",
    "source_path": "source",
    "source_uri": "source",
    "source_url": "source",
    "url": "source",
    "doc_type": "format",
    "doc_title": "title",
    "author": "creators",
    "creator": "creators",
    "subject": "subjects",
    "date": "date_created",
    "section_heading": "section_title",
    "chunk_index": "sequence_num",
    "page": "page_numbers",
    "pages": "page_numbers",
    "timestamp": "ingested_at",
    "created": "ingested_at",
    "created_at": "ingested_at",
    "create_time": "ingested_at",
    "ingest_time": "ingested_at",
    "ingestion_date": "ingested_at",
    "ingestion_time": "ingested_at",
}
"""Names of the contract and of the source designs for built-in fields; a filter may use either."""

_CONTRACT_NAMES = {"source": "source_uri", "section_title": "section_heading", "ingested_at": "ingest_time"}
"""What responses call those built-in fields that the catalog and the engines call otherwise."""


def contract_name(field: str) -> str:
    """Return the name that responses have for a field."""
    return _CONTRACT_NAMES.get(field, field)
