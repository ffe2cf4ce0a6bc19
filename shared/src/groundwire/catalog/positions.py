"""The position: a count of the transactions that changed what readers see."""

from sqlalchemy import Connection, update

from groundwire.catalog.bookkeeping_tables import counters
from groundwire.catalog.database import POSITION


def advance_position(connection: Connection) -> int:
    """Count one more change and return its position."""
    statement = update(counters).where(counters.c.name == POSITION).values(value=counters.c.value + 1)
    return int(connection.execute(statement.returning(counters.c.value)).scalar_one())
