"""The position: a count of the transactions that changed what readers see."""

from sqlalchemy import Connection, update

from groundwire.catalog.bookkeeping_tables import counters
from groundwire.catalog.database import POSITION
from groundwire.catalog.tables import collections


def advance_position(connection: Connection, collection_key: int | None = None, *, keeps_history: bool = False) -> int:
    """Count one more change and return its position.

    Args:
        connection: of the transaction that makes the change.
        collection_key: the collection that changes; None when it is not known, which counts for all of them.
        keeps_history: what readers saw before can still be read as of an earlier position: nothing was deleted or
            overwritten for good.
    """
    statement = update(counters).where(counters.c.name == POSITION).values(value=counters.c.value + 1)
    position = int(connection.execute(statement.returning(counters.c.value)).scalar_one())
    changed = {"changed_position": position} if keeps_history else _forgotten(position)
    of_collection = update(collections).values(changed)
    if collection_key is not None:
        of_collection = of_collection.where(collections.c.collection_key == collection_key)
    connection.execute(of_collection)
    return position


def _forgotten(position: int) -> dict[str, int]:
    return {"changed_position": position, "readable_from": position}
