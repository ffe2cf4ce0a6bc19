"""What is in a collection: its metadata fields, the values in its fields, its chapters and sections."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, FromClause, Select, and_, case, func, select, text, true

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.database import Database
from groundwire.catalog.dialects import elements_of, entries_of, first_type_of, list_of
from groundwire.catalog.filters import Scopes, in_scopes
from groundwire.catalog.rows import IS_LIVE, IS_VISIBLE, collection_row, to_collection, visible_generation_keys
from groundwire.catalog.schema import chunks, collections, documents, generations
from groundwire.catalog.vectors import unit_vectors_of
from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.kernel.chunk import OutlineChunk, Section, sections_of
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filters import FieldKind

# Kinds of a single value and of a list, by the type that SQLite gives a JSON value.
_KINDS = {
    "text": (FieldKind.TEXT, FieldKind.TEXT_LIST),
    "true": (FieldKind.BOOLEAN, FieldKind.BOOLEAN_LIST),
    "false": (FieldKind.BOOLEAN, FieldKind.BOOLEAN_LIST),
    "integer": (FieldKind.INTEGER, FieldKind.INTEGER_LIST),
    "real": (FieldKind.NUMBER, FieldKind.NUMBER_LIST),
}

# A field with values of several kinds has the last of these kinds: ordered kinds win over unordered ones.
_WIDER = (
    *(FieldKind.TEXT_LIST, FieldKind.TEXT, FieldKind.BOOLEAN_LIST, FieldKind.BOOLEAN),
    *(FieldKind.INTEGER_LIST, FieldKind.INTEGER, FieldKind.NUMBER_LIST, FieldKind.NUMBER),
)

# Spelled as in the partial index of these few chunks, or the planner would not use it.
_HAS_ITS_OWN = text("chunks.metadata <> '{}'")


def metadata_fields(connection: Connection, key: int, scopes: Scopes | None) -> dict[str, FieldKind]:
    """Return the metadata fields that visible documents of a collection and their chunks have, with what they hold.

    Records count as far as they are in the scopes.
    """
    own = documents.join(chunks, and_(chunks.c.document_key == documents.c.document_key, _HAS_ITS_OWN))
    found: dict[str, FieldKind] = {}
    seen = _is_live(key, scopes)
    for statement in (_kinds(documents, documents.c.metadata, seen), _kinds(own, chunks.c.metadata, seen)):
        for name, stored, of_elements in connection.execute(statement):
            kind = _KINDS[of_elements or stored][stored == "array"]
            found[name] = max(found.get(name, kind), kind, key=_WIDER.index)
    return dict(sorted(found.items()))


def _kinds(rows: FromClause, values: ColumnElement[Any], seen: ColumnElement[bool]) -> Select[Any]:
    each = entries_of(values)
    of_elements = case((each.c.type == "array", first_type_of(each.c.value)), else_=None)
    return select(each.c.key, each.c.type, of_elements).distinct().select_from(rows).join(each, true()).where(seen)


MAX_VALUES = 1000
"""A field with more values has none in the vocabulary."""
_MAX_VALUE_CHARS = 200
_MAX_METADATA_VALUES = 20_000
_CACHED = 64


@dataclass(frozen=True, slots=True)
class CollectionVocabulary:
    """A collection, the names of its metadata fields, and the texts that occur in its fields by canonical name."""

    collection: Collection
    field_names: frozenset[str]
    values: dict[str, tuple[str, ...]]


class Vocabularies(Aggregate):
    """Reads vocabularies, and caches them until their collection changes; safe to use from many threads."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._cache: BoundedCache[tuple[str, int, Scopes | None], CollectionVocabulary] = BoundedCache(_CACHED)

    def read(self, tenant: str, name: str, scopes: Scopes | None) -> CollectionVocabulary:
        """Return the vocabulary of what is live in a collection, without records of other scopes."""
        with self._database.read() as connection:
            row = collection_row(connection, tenant, name)
            collection, changed = to_collection(row), row[collections.c.changed_position]
            known = self._cache.get((collection.uid, changed, scopes))
            if known is not None:
                return known  # a change of the settings moves the position as well
            key = row[collections.c.collection_key]
            seen = _is_live(key, scopes)
            found = {
                "creators": _read(connection, _elements(documents.c.creator, seen)),
                "tags": _read(connection, _elements(documents.c.tags, seen)),
                "project": _read(connection, _column(documents.c.project, seen)),
                "category": _read(connection, _column(documents.c.category, seen)),
                "title": _read(connection, _column(documents.c.title, seen)),
                "chapter": _read(connection, _heading("chapter", seen)),
                "section": _read(connection, _heading("section", seen)),
                "section_title": _read(connection, _heading("section_heading", seen)),
            }
            each = entries_of(documents.c.metadata)
            listed = case((each.c.type == "array", each.c.value), else_=list_of(each.c.value))
            element = elements_of(listed).alias("element")
            for field, value in connection.execute(
                select(each.c.key, element.c.value)
                .distinct()
                .select_from(documents)
                .join(each, true())
                .join(element, true())
                .where(seen, element.c.type == "text", func.length(element.c.value) <= _MAX_VALUE_CHARS)
                .order_by(each.c.key, element.c.value)
                .limit(_MAX_METADATA_VALUES)
            ):
                found[field] = (*found.get(field, ()), value)
            values = {field: values for field, values in found.items() if 0 < len(values) <= MAX_VALUES}
            names = frozenset(metadata_fields(connection, key, scopes))
            vocabulary = CollectionVocabulary(collection, names, values)
            self._cache.put((collection.uid, changed, scopes), vocabulary)
        return vocabulary


def _read(connection: Connection, statement: Select[Any]) -> tuple[str, ...]:
    # One more than allowed, to distinguish a full field from one with too many values, which has none here.
    return tuple(connection.execute(statement.limit(MAX_VALUES + 1)).scalars())


def _column(column: ColumnElement[Any], seen: ColumnElement[bool]) -> Select[Any]:
    return select(column).distinct().where(seen, column.is_not(None), func.length(column) <= _MAX_VALUE_CHARS)


def _elements(column: ColumnElement[Any], seen: ColumnElement[bool]) -> Select[Any]:
    each = elements_of(column)
    return select(each.c.value).distinct().select_from(documents).join(each, true()).where(seen)


def _heading(name: str, seen: ColumnElement[bool]) -> Select[Any]:
    column = chunks.c[name]
    live = select(generations.c.generation_key).join_from(
        generations, documents, and_(generations.c.document_key == documents.c.document_key, IS_LIVE)
    )
    of_live = chunks.c.generation_key.in_(live.where(seen))
    return select(column).distinct().where(of_live, column.is_not(None), func.length(column) <= _MAX_VALUE_CHARS)


def _is_live(key: int, scopes: Scopes | None) -> ColumnElement[bool]:
    return and_(documents.c.collection_key == key, IS_VISIBLE, in_scopes(documents.c.document_key, scopes))


_BYTES_PER_SECTION = 600
_CACHED_BYTES = 64 << 20
_OUTLINE: Select[Any] = select(
    documents.c.document_id,
    documents.c.source_path,
    chunks.c.chunk_number,
    chunks.c.sequence_num,
    chunks.c.char_start,
    chunks.c.char_end,
    chunks.c.chapter,
    chunks.c.section,
    chunks.c.level,
    chunks.c.upper,
).join_from(chunks, documents)


@dataclass(frozen=True, slots=True)
class Outline:
    """Sections in the order of documents and texts; row i of `vectors` belongs to `sections[i]`.

    `vectors` is float32 of shape (sections, dimensions); a section without a stored vector has zeros.
    """

    sections: Sequence[Section]
    vectors: Vectors


class Outlines(Aggregate):
    """Reads outlines, and caches them until their collection changes; safe to use from many threads."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._cache: BoundedCache[tuple[str, int], Outline] = BoundedCache(_CACHED_BYTES)

    def read(self, tenant: str, name: str) -> tuple[Collection, Outline]:
        """Return a collection and the outline of what is live in it."""
        with self._database.read() as connection:
            row = collection_row(connection, tenant, name)
            collection, version = to_collection(row), (row[collections.c.uid], row[collections.c.changed_position])
            outline = self._cache.get(version)
            if outline is None:
                of_live = chunks.c.generation_key.in_(visible_generation_keys(row[collections.c.collection_key]))
                # Records have no chapters, and not every caller may see them.
                in_order = _OUTLINE.where(of_live, documents.c.record.is_(None)).order_by(
                    documents.c.document_key, chunks.c.sequence_num
                )
                rows = connection.execute(in_order).all()
                sections = sections_of([OutlineChunk(*each) for each in rows])
                numbers, found = unit_vectors_of(connection, collection.identity, [each.lead for each in sections])
                row_of = {int(number): row for row, number in enumerate(numbers)}
                vectors = np.zeros((len(sections), collection.identity.dimensions), np.float32)
                for at, section in enumerate(sections):
                    if section.lead in row_of:
                        vectors[at] = found[row_of[section.lead]]
                outline = Outline(sections, vectors)
                self._cache.put(version, outline, outline.vectors.nbytes + _BYTES_PER_SECTION * len(sections))
        return collection, outline
