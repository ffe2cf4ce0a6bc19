"""What the vector engines still have to do, written in the transactions that made it so."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, func, insert, select, true

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.database import NOW_MS
from groundwire.catalog.dialects import among, execute
from groundwire.catalog.encoding import encode_json
from groundwire.catalog.schema import collections, outbox

_NUMBERS_PER_ITEM = 5000


_OF_IDS = select(outbox).where(among(outbox.c.id, bindparam("ids"))).order_by(outbox.c.id)
_DONE = delete(outbox).where(among(outbox.c.id, bindparam("ids")))
# Ages are counted in time of service: an engine has done nothing wrong while no server ran.
_QUEUE = insert(outbox).values(queued_steady=NOW_MS).returning(outbox.c.id)


class OutboxKind(StrEnum):
    """What is to be done; doing it twice is harmless.

    MATCH_POINTS makes points equal to the catalog as it is when that is done: those of live chunks are rewritten,
    the others deleted. DELETE_POINTS is for chunks that never come back.
    """

    DELETE_POINTS = "delete_points"
    MATCH_POINTS = "match_points"
    DROP_COLLECTION = "drop_collection"


@dataclass(frozen=True, slots=True)
class OutboxItem:
    """One task for an engine collection; `numbers` are chunk numbers, empty for a drop."""

    id: int
    kind: OutboxKind
    engine_name: str
    numbers: tuple[int, ...]


class Outbox(Aggregate):
    """Tasks of all tenants, for the sweeper."""

    def waiting(self) -> list[tuple[str, str, str]]:
        """Return the engine collections that tasks wait for, those that wait longest first.

        They come as their names, tenants and the names of the collections that they serve, empty for none (any more).
        """
        oldest = func.min(outbox.c.id)
        statement = (
            select(outbox.c.engine_name, outbox.c.tenant, func.coalesce(collections.c.name, "").label("collection"))
            .outerjoin(collections, collections.c.engine_name == outbox.c.engine_name)
            .group_by(outbox.c.engine_name, outbox.c.tenant, collections.c.name)
            .order_by(oldest)
        )
        return [(row[0], row[1], row[2]) for row in self._database.query(statement)]

    def pending(self, limit: int, engine_name: str | None = None) -> list[OutboxItem]:
        """Return up to `limit` tasks, for one engine collection or all, oldest first."""
        of_engine = true() if engine_name is None else outbox.c.engine_name == engine_name
        statement = select(outbox).where(of_engine).order_by(outbox.c.id).limit(limit)
        return [_to_item(row) for row in self._database.query(statement)]

    def of_ids(self, ids: Sequence[int]) -> list[OutboxItem]:
        """Return those of the tasks that are not done yet, oldest first."""
        return [_to_item(row) for row in self._database.rows(_OF_IDS, {"ids": encode_json(list(ids))})]

    def done(self, ids: Sequence[int]) -> None:
        """Remove tasks that the engine has acknowledged; unknown ids are ignored."""
        self._database.write(lambda connection: execute(connection, _DONE, {"ids": encode_json(list(ids))}))


def queue_points(
    connection: Connection, kind: OutboxKind, tenant: str, engine_name: str, numbers: Sequence[int]
) -> list[int]:
    """Queue what is to be done to points; return the ids of the tasks."""
    # One call of the engine does a task: a few thousand numbers are done well within its time limit.
    parts = [numbers[start : start + _NUMBERS_PER_ITEM] for start in range(0, len(numbers), _NUMBERS_PER_ITEM)]
    return [_insert(connection, tenant, kind, engine_name, part) for part in parts]


def queue_drop(connection: Connection, tenant: str, engine_name: str) -> int:
    """Queue an engine collection to be dropped; return the id of the task."""
    return _insert(connection, tenant, OutboxKind.DROP_COLLECTION, engine_name, [])


def _insert(connection: Connection, tenant: str, kind: OutboxKind, engine_name: str, numbers: Sequence[int]) -> int:
    row = {"tenant": tenant, "kind": kind.value, "engine_name": engine_name, "numbers": list(numbers)}
    return int(execute(connection, _QUEUE, row).scalar_one())


def _to_item(row: Row[Any]) -> OutboxItem:
    return OutboxItem(row.id, OutboxKind(row.kind), row.engine_name, tuple(row.numbers))
