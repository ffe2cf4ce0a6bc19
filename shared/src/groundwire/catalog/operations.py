"""Long-running operations: their requests and outcomes, which outlive the process that runs them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, bindparam, delete, insert, select, update

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.database import in_transaction, owner_of
from groundwire.catalog.idempotency import settle
from groundwire.catalog.rows import IS_STORED, optional_time
from groundwire.catalog.schema import documents, operations
from groundwire.kernel.clock import from_epoch_ms
from groundwire.kernel.errors import OperationNotFoundError, PreconditionError
from groundwire.kernel.exactly_once import Receipt

OPERATION_RETENTION = timedelta(days=7)
"""How long an operation can be read after its end, while the catalog is served."""
_ENDED_BEFORE = delete(operations).where(operations.c.end_steady < bindparam("oldest"))
# By `end_steady`, which has an index: every start asks, and finished operations stay for a week.
_UNFINISHED = select(operations).where(operations.c.end_steady.is_(None)).order_by(operations.c.operation_key)
_NEWEST_FIRST = (
    select(operations).where(operations.c.tenant == bindparam("tenant")).order_by(operations.c.operation_key.desc())
)


@dataclass(frozen=True, slots=True)
class Operation:
    """A long-running operation; `request` and `outcome` are serialised messages, `outcome` is None while it runs.

    `resource_id` names the document that the outcome is about, if any; without that document the outcome is empty.

    `place` rises from one operation to the next. `done_count` is how much is done for good, where that is counted.
    """

    place: int
    tenant: str
    operation_id: str
    method: str
    collection: str
    request: bytes
    cancel_requested: bool
    done_count: int
    outcome: bytes | None
    resource_id: str
    create_time: datetime
    end_time: datetime | None


class Operations(Aggregate):
    """Operations of all tenants; most calls see those of one.

    A call for one operation raises OperationNotFoundError where the tenant has none of the id.
    """

    @in_transaction
    def begin(
        self,
        connection: Connection,
        tenant: str,
        operation_id: str,
        method: str,
        collection: str,
        request: bytes,
        receipt: Receipt[Operation] | None = None,
    ) -> Operation:
        """Store a new operation, and remove those that ended long ago."""
        values = {"method": method, "collection": collection, "request": request}
        # Here instead of in a job: operations only accumulate where new ones are started.
        oldest = self._database.steady.now_ms() - OPERATION_RETENTION // timedelta(milliseconds=1)
        connection.execute(_ENDED_BEFORE, {"oldest": oldest})
        now = self._now()
        of_operation = {"tenant": tenant, "operation_id": operation_id, "create_time": now}
        connection.execute(insert(operations).values(**of_operation, owner=owner_of(connection), **values))
        made = _require(connection, tenant, operation_id)
        settle(connection, self._database.steady, tenant, receipt, made)
        return made

    def get(self, tenant: str, operation_id: str) -> Operation:
        with self._database.read() as connection:
            return _require(connection, tenant, operation_id)

    def page(self, tenant: str, before: int | None, limit: int) -> list[Operation]:
        """Return up to `limit` operations, newest first, those before the place `before`."""
        statement = _NEWEST_FIRST.limit(limit)
        if before is not None:
            statement = statement.where(operations.c.operation_key < before)
        return [_to_operation(row) for row in self._database.query(statement, {"tenant": tenant}).mappings()]

    def take_over(
        self, can_do: Callable[[Operation], bool] = lambda _: True, *, at_start: bool = True
    ) -> list[Operation]:
        """Take over the unfinished operations that nobody works on, of all tenants, and return them, oldest first.

        Those that this process cannot do are left to another one. Those of this process are among them only
        `at_start`, when they are left from its predecessor.
        """
        # Nearly always there are none, which a read finds out without holding up other writers.
        unfinished = [_to_operation(row) for row in self._database.query(_UNFINISHED).mappings()]
        places = {operation.place for operation in unfinished if can_do(operation)}
        if not places:
            return []

        def work(connection: Connection) -> list[Operation]:
            rows = connection.execute(_UNFINISHED).mappings().all()
            mine = owner_of(connection)
            # Among several processes each has a new number, which no predecessor had.
            has_predecessors = at_start and not self._database.is_shared
            others = self._database.other_owners(connection) | (frozenset() if has_predecessors else {mine})
            left = [row for row in rows if row["owner"] not in others and row["operation_key"] in places]
            keys = [row["operation_key"] for row in left]
            connection.execute(update(operations).where(operations.c.operation_key.in_(keys)).values(owner=mine))
            return [_to_operation(row) for row in left]

        return self._database.write(work)

    def request_cancel(self, tenant: str, operation_id: str) -> None:
        """Mark an operation as to be cancelled; one that has ended stays as it is."""
        self._database.write(lambda connection: _change(connection, tenant, operation_id, {"cancel_requested": 1}))

    @in_transaction
    def finish(
        self, connection: Connection, tenant: str, operation_id: str, outcome: bytes, resource_id: str = ""
    ) -> None:
        """Store the outcome of an operation in place of its request.

        An outcome about a document that was deleted for good meanwhile is not stored.
        """
        ended = {"end_time": self._now(), "end_steady": self._database.steady.now_ms()}
        of_resource = (documents.c.tenant == tenant, documents.c.document_id == resource_id, IS_STORED)
        is_gone = bool(resource_id) and connection.execute(select(1).where(*of_resource)).first() is None
        # The request may be megabytes and is no longer needed.
        values = {"outcome": b"" if is_gone else outcome, "resource_id": resource_id, "request": b"", **ended}
        _change(connection, tenant, operation_id, values)

    @in_transaction
    def delete(self, connection: Connection, tenant: str, operation_id: str) -> None:
        """Forget an operation that has ended.

        Raises:
            PreconditionError: it goes on.
        """
        if _require(connection, tenant, operation_id).end_time is None:
            raise PreconditionError("the operation goes on; cancel it first", operation=operation_id)
        connection.execute(delete(operations).where(*_named(tenant, operation_id)))


def _change(connection: Connection, tenant: str, operation_id: str, values: dict[str, Any]) -> None:
    _require(connection, tenant, operation_id)
    # A finished operation stays as it is: the cancellation came too late.
    going_on = operations.c.end_time.is_(None)
    connection.execute(update(operations).where(*_named(tenant, operation_id), going_on).values(**values))


def count_done(connection: Connection, tenant: str, operation_id: str, more: int) -> None:
    """Count further items that an operation has done, in the transaction that does them."""
    counted = operations.c.done_count + more
    connection.execute(update(operations).where(*_named(tenant, operation_id)).values(done_count=counted))


def _named(tenant: str, operation_id: str) -> tuple[Any, Any]:
    return operations.c.tenant == tenant, operations.c.operation_id == operation_id


def _require(connection: Connection, tenant: str, operation_id: str) -> Operation:
    row = connection.execute(select(operations).where(*_named(tenant, operation_id))).mappings().first()
    if row is None:
        raise OperationNotFoundError(operation_id)
    return _to_operation(row)


def _to_operation(row: RowMapping) -> Operation:
    same = ("tenant", "operation_id", "method", "collection", "request", "done_count", "outcome", "resource_id")
    return Operation(
        **{name: row[name] for name in same},
        place=row["operation_key"],
        cancel_requested=bool(row["cancel_requested"]),
        create_time=from_epoch_ms(row["create_time"]),
        end_time=optional_time(row["end_time"]),
    )
