"""Chunks as readers of an earlier position saw them, with the fields that their document had then."""

from typing import Any

from sqlalchemy import Column, ColumnElement, Select, select

from groundwire.catalog.chunk_rows import CHUNK_COLUMNS
from groundwire.catalog.document_rows import DOCUMENT_COLUMNS, FIELD_COLUMNS
from groundwire.catalog.tables import chunks, collections, documents, generations

_g = generations.c
_THEN: dict[str, ColumnElement[Any]] = {
    "live_generation": _g.generation,
    "ingestion_date": _g.create_time,
    "last_modified": _g.create_time,
    **{column.name: _g.fields[column.name] for column in FIELD_COLUMNS},
}


def select_chunks_then(visible: ColumnElement[bool]) -> Select[Any]:
    """Return the statement for chunks of some generations, in rows as `chunk_rows.to_stored_chunk` reads them."""
    return (
        select(*CHUNK_COLUMNS, *map(then, DOCUMENT_COLUMNS))
        .join_from(chunks, generations, chunks.c.generation_key == _g.generation_key)
        .join(documents, _g.document_key == documents.c.document_key)
        .join(collections, _g.collection_key == collections.c.collection_key)
        .where(visible)
    )


def then(column: ColumnElement[Any]) -> ColumnElement[Any]:
    """Return what stands for a column of `documents` in the generation that readers saw; other columns stay."""
    if not isinstance(column, Column) or column.table is not documents or column.primary_key:
        return column
    return _THEN[column.name] if column.name in _THEN else _g.get(column.name, column)
