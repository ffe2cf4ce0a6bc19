"""What the vector engines still have to forget, written in the transactions that made it so."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection, delete, insert, select

from groundwire.catalog.bookkeeping_tables import outbox
from groundwire.catalog.database import Database
from groundwire.kernel.collection import Collection

_NUMBERS_PER_ITEM = 5000


class OutboxKind(StrEnum):
    """What is to be done; doing it twice is harmless."""

    DELETE_POINTS = "delete_points"
    DROP_COLLECTION = "drop_collection"


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """One task for an engine collection; `numbers` are chunk numbers, empty for a drop."""

    id: int
    kind: OutboxKind
    engine_name: str
    numbers: tuple[int, ...]


class Outbox:
    """Tasks of all tenants, for the sweeper."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def pending(self, limit: int) -> list[OutboxItem]:
        """Return up to `limit` tasks, oldest first."""
        statement = select(outbox).order_by(outbox.c.id).limit(limit)
        with self._database.read() as connection:
            return [
                OutboxItem(row.id, OutboxKind(row.kind), row.engine_name, tuple(row.numbers))
                for row in connection.execute(statement)
            ]

    def done(self, ids: Sequence[int]) -> None:
        """Remove tasks that the engine has acknowledged; unknown ids are ignored."""
        self._database.write(lambda connection: connection.execute(delete(outbox).where(outbox.c.id.in_(ids))))


def queue_deleted_points(connection: Connection, tenant: str, engine_name: str, numbers: Sequence[int]) -> None:
    """Queue points to be deleted, a few thousand in each task."""
    rows = [
        {
            "tenant": tenant,
            "kind": OutboxKind.DELETE_POINTS.value,
            "engine_name": engine_name,
            "numbers": list(numbers[start : start + _NUMBERS_PER_ITEM]),
        }
        for start in range(0, len(numbers), _NUMBERS_PER_ITEM)
    ]
    if rows:
        connection.execute(insert(outbox), rows)


def queue_dropped_collection(connection: Connection, collection: Collection) -> None:
    """Queue the engine collection of a collection to be dropped."""
    queue_dropped_engine(connection, collection.tenant, collection.engine_name)


def queue_dropped_engine(connection: Connection, tenant: str, engine_name: str) -> None:
    """Queue an engine collection to be dropped."""
    row = {"tenant": tenant, "kind": OutboxKind.DROP_COLLECTION.value, "engine_name": engine_name, "numbers": []}
    connection.execute(insert(outbox).values(row))
