"""Filters of a search, answered by the catalog: which chunks match, which of some do, and how many about."""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, func, select, true

from groundwire.catalog.filter_split import chunks_matching
from groundwire.catalog.filters_sql import to_sql
from groundwire.catalog.generation_keys import IS_INDEXED, visible_at, visible_generation_keys
from groundwire.catalog.lexical_search import live_numbers
from groundwire.catalog.tables import chunks, generations
from groundwire.kernel.filters import Filter

SAMPLE = 600
"""Chunks that an estimate looks at: two standard errors are 4 % of all chunks at most, and 0.8 % at a share of 1 %."""


def matching_numbers(
    connection: Connection, collection_key: int, where: Filter | None, snapshot: int | None
) -> NDArray[np.int64]:
    """Return the numbers of the visible chunks of a collection that match, ascending."""
    keys = visible_generation_keys(collection_key, snapshot)
    condition = chunks.c.generation_key.in_(keys) if where is None else chunks_matching(keys, where)
    # One row instead of many thousand: the interpreter lock is taken once.
    statement = select(func.json_group_array(chunks.c.chunk_number)).where(IS_INDEXED, condition)
    return _sorted(connection.execute(statement).scalar_one())


def superseded_numbers(
    connection: Connection, collection_key: int, where: Filter | None, snapshot: int
) -> NDArray[np.int64]:
    """Return the numbers of the chunks that match, were visible at a position and are superseded now, ascending."""
    keys = visible_generation_keys(collection_key, snapshot).where(generations.c.state == "SUPERSEDED")
    condition = chunks.c.generation_key.in_(keys) if where is None else chunks_matching(keys, where)
    statement = select(func.json_group_array(chunks.c.chunk_number)).where(IS_INDEXED, condition)
    return _sorted(connection.execute(statement).scalar_one())


def matching_among(
    connection: Connection, collection_key: int, where: Filter | None, snapshot: int | None, numbers: Sequence[int]
) -> set[int]:
    """Return those of the chunks that are visible in the collection and match."""
    given = func.json_each(bindparam("numbers")).table_valued("value").c.value
    statement = (
        select(func.json_group_array(chunks.c.chunk_number))
        .join_from(chunks, generations, chunks.c.generation_key == generations.c.generation_key)
        .where(
            chunks.c.chunk_number.in_(select(given)),
            IS_INDEXED,
            generations.c.collection_key == collection_key,
            visible_at(snapshot),
            true() if where is None else to_sql(where, chunks.c.payload),
        )
    )
    found = connection.execute(statement, {"numbers": json.dumps([int(number) for number in numbers])})
    return set(json.loads(found.scalar_one()))


def estimated_share(connection: Connection, collection_key: int, where: Filter) -> float:
    """Return the share of a collection's live chunks that match, judged by up to `SAMPLE` spread over all of them."""
    live = live_numbers(connection, collection_key)
    if not len(live):
        return 0.0
    sampled = live[np.unique(np.linspace(0, len(live) - 1, SAMPLE).astype(np.int64))].tolist()
    numbers = func.json_each(json.dumps(sampled)).table_valued("value").c.value
    statement = select(func.count()).where(chunks.c.chunk_number.in_(select(numbers)), to_sql(where, chunks.c.payload))
    return int(connection.execute(statement).scalar_one()) / len(sampled)


def _sorted(stored: str) -> NDArray[np.int64]:
    return np.sort(np.array(json.loads(stored), dtype=np.int64))
