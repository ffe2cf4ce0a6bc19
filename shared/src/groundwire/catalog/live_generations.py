"""The live generations, as statements name them."""

from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, Select, literal_column, select

from groundwire.catalog.tables import collections, generations
from groundwire.kernel.collection import Collection

IS_LIVE: ColumnElement[bool] = generations.c.state == literal_column("'LIVE'")


def live_generation_keys(collection_key: Any) -> Select[tuple[int]]:
    """Return the statement for the keys of a collection's live generations."""
    return select(generations.c.generation_key).where(generations.c.collection_key == collection_key, IS_LIVE)


def key_of(collection: Collection) -> ScalarSelect[int]:
    """Return the expression for the key of a collection, NULL when it was deleted."""
    statement = select(collections.c.collection_key)
    return statement.where(
        collections.c.tenant == collection.tenant, collections.c.uid == collection.uid
    ).scalar_subquery()
