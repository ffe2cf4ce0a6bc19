"""The row of one document that readers see, with what is needed of its collection."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, select

from groundwire.catalog.document_rows import SELECT_ANY_DOCUMENT, to_document
from groundwire.catalog.tables import collections, documents
from groundwire.kernel.errors import DocumentChangedError, DocumentNotFoundError

IS_VISIBLE: ColumnElement[bool] = documents.c.live_generation > 0
IS_HIDDEN: ColumnElement[bool] = documents.c.deleted_generation > 0
"""Deleted softly."""


def visible_row(connection: Connection, tenant: str, collection: str, document_id: str) -> RowMapping:
    """Return the columns of a visible document, and of its collection name, uid, engine and model.

    Raises:
        DocumentNotFoundError: the collection has no such document, or it was deleted.
    """
    row = connection.execute(_row_of(tenant, collection, document_id).where(IS_VISIBLE)).mappings().first()
    if row is None:
        raise DocumentNotFoundError(document_id)
    return row


def hidden_row(connection: Connection, tenant: str, collection: str, document_id: str) -> RowMapping | None:
    """Return the same of a document that was deleted softly, if there is such a one."""
    return connection.execute(_row_of(tenant, collection, document_id).where(IS_HIDDEN)).mappings().first()


def refuse_other_etag(connection: Connection, row: RowMapping, etag: str) -> None:
    """Raise DocumentChangedError when the document of a row has another etag than the given one, if one is given."""
    of_row = documents.c.document_key == row["document_key"]
    if etag and to_document(connection.execute(SELECT_ANY_DOCUMENT.where(of_row)).one()).etag != etag:
        message = "the document has another etag by now: read it again"
        raise DocumentChangedError(message, document_id=row["document_id"])


def _row_of(tenant: str, collection: str, document_id: str) -> Select[Any]:
    return (
        select(
            documents,
            collections.c.name.label("collection"),
            collections.c.uid.label("collection_uid"),
            collections.c.engine_name,
            collections.c.identity_digest,
        )
        .join_from(documents, collections, documents.c.collection_key == collections.c.collection_key)
        .where(
            documents.c.tenant == tenant,
            documents.c.document_id == document_id,
            collections.c.tenant == tenant,
            collections.c.name == collection,
        )
    )
