"""Which metadata fields a collection has, and which values occur in its fields."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Select, and_, case, func, select, text, true

from groundwire.catalog.database import Database
from groundwire.catalog.dialects import elements_of, entries_of, first_type_of, list_of
from groundwire.catalog.rows import IS_LIVE, to_collection
from groundwire.catalog.schema import chunks, collections, documents, generations
from groundwire.catalog.scopes import Scopes, in_scopes
from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.kernel.filters import FieldKind

_KINDS = {
    "text": (FieldKind.TEXT, FieldKind.TEXT_LIST),
    "true": (FieldKind.BOOLEAN, FieldKind.BOOLEAN_LIST),
    "false": (FieldKind.BOOLEAN, FieldKind.BOOLEAN_LIST),
    "integer": (FieldKind.INTEGER, FieldKind.INTEGER_LIST),
    "real": (FieldKind.NUMBER, FieldKind.NUMBER_LIST),
}
"""Kinds of a single value and of a list, by the type that SQLite gives a JSON value."""

_WIDER = (
    *(FieldKind.TEXT_LIST, FieldKind.TEXT, FieldKind.BOOLEAN_LIST, FieldKind.BOOLEAN),
    *(FieldKind.INTEGER_LIST, FieldKind.INTEGER, FieldKind.NUMBER_LIST, FieldKind.NUMBER),
)
"""The kind of a field that holds several kinds is the last of these: what is ordered wins over what is not."""

_HAS_ITS_OWN = text("chunks.metadata <> '{}'")
"""In the words of the index that knows these chunks, which are few."""


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


class Vocabularies:
    """Reads vocabularies, and remembers them until their collection changes; safe to use from many threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache: BoundedCache[tuple[str, int, Scopes | None], CollectionVocabulary] = BoundedCache(_CACHED)

    def read(self, tenant: str, name: str, scopes: Scopes | None) -> CollectionVocabulary:
        """Return the vocabulary of what is live in a collection, without records of other scopes.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """
        with self._database.read() as connection:
            statement = select(collections).where(collections.c.tenant == tenant, collections.c.name == name)
            row = connection.execute(statement).mappings().first()
            if row is None:
                raise CollectionNotFoundError(name)
            collection, changed = to_collection(row), row[collections.c.changed_position]
            known = self._cache.get((collection.uid, changed, scopes))
            if known is None:
                key = row[collections.c.collection_key]
                names = frozenset(metadata_fields(connection, key, scopes))
                known = CollectionVocabulary(collection, names, _values(connection, _is_live(key, scopes)))
                self._cache.put((collection.uid, changed, scopes), known)
        return CollectionVocabulary(collection, known.field_names, known.values)


def _values(connection: Connection, seen: ColumnElement[bool]) -> dict[str, tuple[str, ...]]:
    found = {
        "creators": _read(connection, _elements(documents.c.creator, seen)),
        "tags": _read(connection, _elements(documents.c.tags, seen)),
        "project": _read(connection, _column(documents.c.project, seen)),
        "category": _read(connection, _column(documents.c.category, seen)),
        "title": _read(connection, _column(documents.c.title, seen)),
    }
    found |= {name: _read(connection, _heading(name, seen)) for name in ("chapter", "section")}
    found["section_title"] = _read(connection, _heading("section_heading", seen))
    each = entries_of(documents.c.metadata)
    listed = case((each.c.type == "array", each.c.value), else_=list_of(each.c.value))
    element = elements_of(listed).alias("element")
    for name, value in connection.execute(
        select(each.c.key, element.c.value)
        .distinct()
        .select_from(documents)
        .join(each, true())
        .join(element, true())
        .where(seen, element.c.type == "text", func.length(element.c.value) <= _MAX_VALUE_CHARS)
        .order_by(each.c.key, element.c.value)
        .limit(_MAX_METADATA_VALUES)
    ):
        found[name] = (*found.get(name, ()), value)
    return {name: values for name, values in found.items() if 0 < len(values) <= MAX_VALUES}


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
    of_collection = and_(documents.c.collection_key == key, documents.c.live_generation > 0)
    return and_(of_collection, in_scopes(documents.c.document_key, scopes))
