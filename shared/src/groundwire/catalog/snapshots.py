"""Whether the catalog still holds all that was visible at an earlier position."""

from datetime import datetime
from typing import Any

from sqlalchemy import Connection, RowMapping, func, select

from groundwire.catalog.collection_rows import to_collection
from groundwire.catalog.tables import collections, generations
from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.errors import InvalidRequestError, SnapshotExpiredError


def check_snapshot(connection: Connection, row: RowMapping, snapshot: int, position: int, now: datetime) -> None:
    """Return if a collection can be read as of a position.

    Args:
        connection: of the read.
        row: of the collection.
        snapshot: the position asked for.
        position: the position of the catalog.
        now: what the retention counts from.

    Raises:
        SnapshotExpiredError: something that was visible was deleted, overwritten, or kept long enough.
        InvalidRequestError: the position is not reached yet.
    """
    if snapshot > position:
        raise InvalidRequestError.of("options.snapshot", f"is ahead of the catalog, which is at {position}")
    oldest = max(row[collections.c.readable_from], _expired_up_to(connection, row, now))
    if snapshot < oldest:
        raise SnapshotExpiredError(
            f"position {snapshot} cannot be read any more; the oldest one that can is {oldest}",
            snapshot=snapshot,
            oldest=oldest,
        )


def expiry(row: RowMapping, now: datetime) -> int:
    """Return the time in milliseconds up to which superseded generations of a collection have been kept long enough."""
    return epoch_ms(now - to_collection(row).settings.generation_retention)


def _expired_up_to(connection: Connection, row: RowMapping, now: datetime) -> Any:
    """Return the first position that needs no generation whose retention has passed, swept or not."""
    statement = select(func.coalesce(func.max(generations.c.live_to), 0)).where(
        generations.c.collection_key == row[collections.c.collection_key],
        generations.c.state == "SUPERSEDED",
        generations.c.superseded_time <= expiry(row, now),
    )
    return connection.execute(statement).scalar_one()
