"""Which metadata fields a collection has, learnt from what its documents and chunks hold."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, FromClause, Select, and_, case, func, select, text, true

from groundwire.catalog.tables import chunks, documents
from groundwire.kernel.filter_fields import FieldKind

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


def metadata_fields(connection: Connection, key: int) -> dict[str, FieldKind]:
    """Return the metadata fields that visible documents of a collection and their chunks have, with what they hold."""
    own = documents.join(chunks, and_(chunks.c.document_key == documents.c.document_key, _HAS_ITS_OWN))
    found: dict[str, FieldKind] = {}
    for statement in (_kinds(documents, documents.c.metadata, key), _kinds(own, chunks.c.metadata, key)):
        for name, stored, of_elements in connection.execute(statement):
            kind = _KINDS[of_elements or stored][stored == "array"]
            found[name] = max(found.get(name, kind), kind, key=_WIDER.index)
    return dict(sorted(found.items()))


def _kinds(rows: FromClause, values: ColumnElement[Any], key: int) -> Select[Any]:
    each = func.json_each(values).table_valued("key", "value", "type")
    of_elements = case((each.c.type == "array", func.json_type(each.c.value, "$[0]")), else_=None)
    return (
        select(each.c.key, each.c.type, of_elements)
        .distinct()
        .select_from(rows)
        .join(each, true())
        .where(documents.c.collection_key == key, documents.c.live_generation > 0)
    )
