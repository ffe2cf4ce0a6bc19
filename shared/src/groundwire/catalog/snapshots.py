"""Whether the catalog still holds all that was visible at an earlier position."""

from datetime import timedelta

from sqlalchemy import Connection, func, select

from groundwire.catalog.tables import generations
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import InvalidRequestError, SnapshotExpiredError


def check_snapshot(snapshot: int, oldest: int, position: int) -> None:
    """Return if a position can be read.

    Raises:
        SnapshotExpiredError: it is before the oldest one.
        InvalidRequestError: it is beyond `position`, where the catalog is.
    """
    if snapshot > position:
        raise InvalidRequestError.of("options.snapshot", f"is ahead of the catalog, which is at {position}")
    if snapshot < oldest:
        message = f"position {snapshot} cannot be read any more; the oldest one that can is {oldest}"
        raise SnapshotExpiredError(message, snapshot=snapshot, oldest=oldest)


def oldest_snapshot(
    connection: Connection, collection_key: int, readable_from: int, collection: Collection, steady_ms: int
) -> int:
    """Return the oldest position whose contents are all kept: nothing deleted, overwritten or kept long enough.

    What was superseded longer ago than the retention counts as gone whether the sweeper has come by or not.
    """
    statement = select(func.coalesce(func.max(generations.c.live_to), 0)).where(
        generations.c.collection_key == collection_key,
        generations.c.state == "SUPERSEDED",
        generations.c.superseded_time <= expiry(collection, steady_ms),
    )
    return max(readable_from, int(connection.execute(statement).scalar_one()))


def expiry(collection: Collection, steady_ms: int) -> int:
    """Return the time, as `SteadyTime` tells it, up to which superseded generations have been kept long enough."""
    return steady_ms - collection.settings.generation_retention // timedelta(milliseconds=1)
