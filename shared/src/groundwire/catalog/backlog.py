"""What the catalog says is still to be done, and what is open: for those who watch a server."""

from dataclasses import dataclass

from sqlalchemy import func, or_, select, true

from groundwire.catalog.database import Database
from groundwire.catalog.schema import deletions, index_builds, operations, outbox, sessions
from groundwire.catalog.sessions import in_state
from groundwire.kernel.session import SessionState


@dataclass(frozen=True, slots=True)
class Backlog:
    """Figures of all tenants together; `outbox_age_s` is that of the oldest task in seconds of service, 0 of none."""

    outbox: int
    outbox_age_s: float
    operations: int
    index_builds: int
    deletions: int
    sessions: int


def read_backlog(database: Database) -> Backlog:
    """Count in one snapshot.

    Raises:
        StoreUnavailableError: the catalog cannot be read.
    """
    now_ms = database.steady.now_ms()
    is_open = or_(in_state(SessionState.CREATED, now_ms), in_state(SessionState.ACTIVE, now_ms))
    with database.read() as connection:
        tasks = select(func.count(), func.min(outbox.c.queued_steady)).select_from(outbox)
        waiting, oldest = connection.execute(tasks).one()
        counts = [
            int(connection.execute(select(func.count()).select_from(table).where(condition)).scalar_one())
            for table, condition in (
                (operations, operations.c.end_time.is_(None)),
                (index_builds, true()),
                (deletions, deletions.c.complete_time.is_(None)),
                (sessions, is_open),
            )
        ]
    age_s = 0.0 if oldest is None else max(0, now_ms - oldest) / 1000
    return Backlog(waiting, age_s, *counts)
