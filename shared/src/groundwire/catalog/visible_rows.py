"""The row of one document that readers see, with what is needed of its collection."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, select

from groundwire.catalog.tables import collections, documents
from groundwire.kernel.errors import DocumentNotFoundError

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
