"""Removal of superseded generations that were kept for readers of the past, once their time is over."""

from typing import Any

from sqlalchemy import Connection, delete, func, select, update

from groundwire.catalog.collection_rows import to_collection
from groundwire.catalog.database import Database
from groundwire.catalog.lexical_index import remove_chunks
from groundwire.catalog.snapshots import expiry
from groundwire.catalog.tables import chunks, collections, generations
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection

_GENERATIONS_PER_TRANSACTION = 20


class ExpiredGenerations:
    """Their chunks go; their texts stay, so that old citations can be verified."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collections(self) -> list[Collection]:
        """Return the collections of all tenants that have superseded generations with chunks."""
        past = select(generations.c.collection_key).where(generations.c.superseded_time.is_not(None))
        statement = select(collections).where(collections.c.collection_key.in_(past))
        with self._database.read() as connection:
            return [to_collection(row) for row in connection.execute(statement).mappings()]

    def sweep(self, uid: str, budget: Budget) -> int:
        """Remove the chunks of generations of a collection whose retention has passed; return of how many."""
        done = 0
        while count := self._database.write(lambda connection: _sweep(connection, uid, self._database.steady.now_ms())):
            done += count
            budget.check()
        return done


def _sweep(connection: Connection, uid: str, now: int) -> int:
    row = connection.execute(select(collections).where(collections.c.uid == uid)).mappings().first()
    if row is None:
        return 0
    key = row[collections.c.collection_key]
    found = _expired(connection, key, expiry(to_collection(row), now))
    if found:
        _forget(connection, key, found)
    return len(found)


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
    remove_chunks(connection, chunks.c.generation_key.in_(keys))
    connection.execute(delete(chunks).where(chunks.c.generation_key.in_(keys)))
    connection.execute(update(generations).where(gone).values(superseded_time=None))
    connection.execute(
        update(collections)
        .where(collections.c.collection_key == collection_key, collections.c.readable_from < up_to)
        .values(readable_from=up_to)
    )
