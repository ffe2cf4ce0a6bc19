"""Removal of superseded generations that were kept for readers of the past, once their time is over."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from groundwire.catalog.collection_rows import to_collection
from groundwire.catalog.database import Database
from groundwire.catalog.snapshots import expiry
from groundwire.catalog.tables import chunks, collections, generations
from groundwire.kernel.clock import Clock, SystemClock

_GENERATIONS_PER_TRANSACTION = 20


class ExpiredGenerations:
    """Their chunks go; their texts stay, so that old citations can be verified."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()

    def sweep(self) -> int:
        """Remove the chunks of generations whose retention has passed, in all collections; return how many."""
        now = self._clock.now()
        done = 0
        while count := self._database.write(lambda connection: _sweep(connection, now)):
            done += count
        return done


def _sweep(connection: Connection, now: datetime) -> int:
    """Sweep some generations of the first collection that has any."""
    kept = select(generations.c.collection_key).where(generations.c.superseded_time.is_not(None))
    for row in connection.execute(select(collections).where(collections.c.collection_key.in_(kept))).mappings():
        if found := _expired(connection, row[collections.c.collection_key], expiry(to_collection(row), now)):
            _forget(connection, row[collections.c.collection_key], found)
            return len(found)
    return 0


def _expired(connection: Connection, collection_key: int, oldest: int) -> list[int]:
    statement = (
        select(generations.c.generation_key)
        .where(
            generations.c.collection_key == collection_key,
            generations.c.state == "SUPERSEDED",
            generations.c.superseded_time <= oldest,
        )
        .order_by(generations.c.live_to)
        .limit(_GENERATIONS_PER_TRANSACTION)
    )
    return list(connection.execute(statement).scalars())


def _forget(connection: Connection, collection_key: int, keys: list[int]) -> None:
    """Remove the chunks, and remember up to which position readers of the past would miss them."""
    gone: Any = generations.c.generation_key.in_(keys)
    up_to = connection.execute(select(func.max(generations.c.live_to)).where(gone)).scalar_one()
    connection.execute(delete(chunks).where(chunks.c.generation_key.in_(keys)))
    connection.execute(update(generations).where(gone).values(superseded_time=None))
    connection.execute(
        update(collections)
        .where(collections.c.collection_key == collection_key, collections.c.readable_from < up_to)
        .values(readable_from=up_to)
    )
