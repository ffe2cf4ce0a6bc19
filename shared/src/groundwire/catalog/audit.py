"""The audit log of every change (who, what, when, as a chain of hashes), and the base of what writes it."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select

from groundwire.catalog.database import POSITION_NOW, Database
from groundwire.catalog.dialects import execute
from groundwire.catalog.encoding import encode_json
from groundwire.catalog.idempotency import document_told_of, settle
from groundwire.catalog.schema import audit
from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.identity import current_identity

_LAST_HASH = select(audit.c.hash).where(audit.c.tenant == bindparam("of_tenant")).order_by(audit.c.id.desc()).limit(1)
_LAST_HASH_AND_POSITION = select(_LAST_HASH.scalar_subquery().label("hash"), POSITION_NOW.label("position"))
_INSERT = insert(audit)
_HASHED = ("previous_hash", "tenant", "time", "action", "resource", "outcome", "request_id", "position")


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One change. `time` is in milliseconds since 1970-01-01T00:00Z, `steady_time` that of `SteadyTime`.

    `request_id` is empty when none was given, and `subject` when the server itself made the change, or a caller without
    a credential. `hash` is the SHA-256 (hex) over the other fields and `previous_hash`, the hash of the tenant's row
    before.
    """

    id: int
    tenant: str
    time: int
    action: str
    resource: str
    outcome: str
    request_id: str
    position: int
    previous_hash: str
    hash: str
    steady_time: int
    subject: str


class Audit:
    """Records changes and reads the record of one tenant at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record(
        self,
        connection: Connection,
        tenant: str,
        action: str,
        resource: str,
        receipt: Receipt[Any] | None = None,
        result: Any = None,
    ) -> None:
        """Record a change in the transaction that makes it: its result by the request id, and a row of the audit.

        A stored result about a document is deleted with the document.

        Raises:
            ConflictError, RequestIdReusedError: as `settle` does; the change rolls back.
        """
        request_id = self.settle(connection, tenant, receipt, result)
        self.record_all(connection, tenant, action, [resource], request_id)

    def record_all(
        self, connection: Connection, tenant: str, action: str, resources: Sequence[str], request_id: str = ""
    ) -> None:
        """Record the same change of several resources, a row for each, in the transaction that makes it."""
        if not resources:
            return
        # Each row holds the hash of the row before: changing or removing one means rewriting all that follow.
        found = execute(connection, _LAST_HASH_AND_POSITION, {"of_tenant": tenant}).one()
        previous, rows = found.hash or "", []
        shared: dict[str, Any] = {
            "tenant": tenant,
            "time": epoch_ms(self._database.clock.now()),
            "action": action,
            "outcome": "OK",
            "request_id": request_id,
            "position": found.position,
            "subject": current_identity().subject,
        }
        steady_ms = self._database.steady.now_ms()
        for resource in resources:
            values = shared | {"resource": resource, "previous_hash": previous}
            previous = _digest(values)
            rows.append(values | {"hash": previous, "steady_time": steady_ms})
        execute(connection, _INSERT, rows)

    def settle(self, connection: Connection, tenant: str, receipt: Receipt[Any] | None, result: Any) -> str:
        """Store a result by its request id without an audit row; return that id, empty without receipt.

        Raises:
            ConflictError, RequestIdReusedError: as `idempotency.settle` does; the change rolls back.
        """
        return settle(connection, self._database.steady, tenant, receipt, result, document_told_of(result))

    def rows(self, tenant: str, after_id: int, limit: int) -> list[AuditRow]:
        """Return up to `limit` rows with ids above `after_id`, oldest first."""
        statement = select(audit).where(audit.c.tenant == tenant, audit.c.id > after_id)
        with self._database.read() as connection:
            found = connection.execute(statement.order_by(audit.c.id).limit(limit)).mappings()
            return [AuditRow(**{str(name): value for name, value in row.items()}) for row in found]

    def page(
        self,
        tenant: str,
        *,
        resource: str = "",
        subject: str = "",
        start: datetime | None = None,
        end: datetime | None = None,
        before_id: int | None = None,
        limit: int,
    ) -> list[AuditRow]:
        """Return up to `limit` rows, newest first, with ids below `before_id`; empty texts and None mean any.

        Their times are at or after `start` and before `end`.
        """
        statement = select(audit).where(audit.c.tenant == tenant)
        for column, value in ((audit.c.resource, resource), (audit.c.subject, subject)):
            if value:
                statement = statement.where(column == value)
        if start is not None:
            statement = statement.where(audit.c.time >= epoch_ms(start))
        if end is not None:
            statement = statement.where(audit.c.time < epoch_ms(end))
        if before_id is not None:
            statement = statement.where(audit.c.id < before_id)
        found = self._database.query(statement.order_by(audit.c.id.desc()).limit(limit)).mappings()
        return [AuditRow(**{str(name): value for name, value in row.items()}) for row in found]


def first_broken(rows: Sequence[AuditRow], previous_hash: str = "") -> AuditRow | None:
    """Return the first row that was changed or follows a removed one; None when the chain holds.

    `rows` are consecutive rows of one tenant, oldest first; `previous_hash` is empty for the start of the chain.
    """
    for row in rows:
        expected = _digest({name: getattr(row, name) for name in (*_HASHED, "subject")})
        if row.previous_hash != previous_hash or row.hash != expected:
            return row
        previous_hash = row.hash
    return None


def _digest(values: dict[str, Any]) -> str:
    # Rows without a subject are hashed as before subjects were introduced.
    hashed = [values[name] for name in _HASHED] + [values["subject"]] * bool(values["subject"])
    return hashlib.sha256(encode_json(hashed).encode()).hexdigest()


class Aggregate:
    """A part of the catalog, with the rows of all tenants; a call sees those of one, unless it says otherwise.

    The errors that every method may raise are documented only here:

    * CollectionNotFoundError where the tenant has no collection of the given name, or the given one was deleted.
    * With an `etag` that is not empty, DocumentChangedError, or ConflictError of a collection, when what is stored has
      another one.
    * With a `Receipt`, whose answer is stored in the transaction of the change: ConflictError when the same request was
      completed meanwhile, so that its answer is in the ledger, and RequestIdReusedError when the request id was used
      with another body. Nothing is written then.
    * With a `budget`, CallCancelledError or DeadlineError once it is over.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._audit = Audit(database)

    def _now(self) -> int:
        """Return the time of day in milliseconds since 1970, as rows hold it."""
        return epoch_ms(self._database.clock.now())
