"""Generations and their chunks, as statements name them."""

import json
from typing import Any

from sqlalchemy import ColumnElement, Connection, ScalarSelect, Select, and_, func, literal_column, or_, select

from groundwire.catalog.tables import chunks, collections, generations
from groundwire.kernel.collection import Collection

IS_LIVE: ColumnElement[bool] = generations.c.state == literal_column("'LIVE'")
IS_INDEXED: ColumnElement[bool] = chunks.c.indexed == literal_column("1")
"""A search may find the chunk: it stands for no other chunks and repeats none."""


def visible_at(snapshot: int | None) -> ColumnElement[bool]:
    """Return the condition on `generations` for what readers saw at a position, or see now (None)."""
    if snapshot is None:
        return IS_LIVE
    return and_(
        generations.c.state.in_(("LIVE", "SUPERSEDED")),
        generations.c.live_from <= snapshot,
        or_(generations.c.live_to.is_(None), generations.c.live_to > snapshot),
    )


def visible_generation_keys(collection_key: Any, snapshot: int | None) -> Select[tuple[int]]:
    """Return the statement for the keys of the generations of a collection that readers saw at a position."""
    return select(generations.c.generation_key).where(
        generations.c.collection_key == collection_key, visible_at(snapshot)
    )


def live_generation_keys(collection_key: Any) -> Select[tuple[int]]:
    """Return the statement for the keys of a collection's live generations."""
    return select(generations.c.generation_key).where(generations.c.collection_key == collection_key, IS_LIVE)


def key_of(collection: Collection) -> ScalarSelect[int]:
    """Return the expression for the key of a collection, NULL when it was deleted."""
    statement = select(collections.c.collection_key)
    return statement.where(
        collections.c.tenant == collection.tenant, collections.c.uid == collection.uid
    ).scalar_subquery()


def numbers_of(connection: Connection, generation_keys: Select[tuple[int]]) -> list[int]:
    """Return the chunk numbers of generations, ascending; one row, so that the interpreter lock is taken once."""
    numbers = func.json_group_array(chunks.c.chunk_number)
    stored = connection.execute(select(numbers).where(chunks.c.generation_key.in_(generation_keys))).scalar_one()
    return sorted(json.loads(stored))


def count_indexed(connection: Connection, generation_keys: Select[tuple[int]]) -> int:
    """Return how many chunks of generations searches may find."""
    statement = select(func.count()).where(chunks.c.generation_key.in_(generation_keys), IS_INDEXED)
    return int(connection.execute(statement).scalar_one())
