"""Which records a reader sees: the one place that makes conditions of scopes (requirement C09)."""

from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, not_, select, true

from groundwire.catalog.schema import records
from groundwire.kernel.document import Document
from groundwire.kernel.filters import Exists, Filter, Membership, Or

Scopes = tuple[str, ...]
"""Scopes that are seen, each once and ascending."""


@lru_cache(maxsize=1000)
def in_scopes(document_key: ColumnElement[Any], scopes: Scopes | None) -> ColumnElement[bool]:
    """Return the condition for documents that are no records or stand in one of the scopes now; None is all scopes."""
    if scopes is None:
        return true()
    # Row by row: most statements look at few rows, and a list of all foreign records would be long.
    own = records.alias("own")  # also where the statement around it reads records
    foreign = select(own.c.document_key).where(own.c.document_key == document_key, own.c.scope.not_in(scopes))
    return not_(foreign.exists())


def scope_filter(scopes: Scopes) -> Filter:
    """Return the same condition for payloads, which hold the scope that a generation was stored with."""
    return Or((Exists("record_type", present=False), Membership("scope", scopes)))


def is_in_scopes(document: Document, scopes: Scopes | None) -> bool:
    """Tell whether a document is no record, or stands in one of the scopes; None is all scopes."""
    record = document.fields.record
    return scopes is None or record is None or record["scope"] in scopes
