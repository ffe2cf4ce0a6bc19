"""What the checker asks the catalog about its bookkeeping: requests, tasks, sessions and the record of changes."""

from datetime import timedelta

from sqlalchemy import case, func, literal, or_, select

from groundwire.catalog.audit import Audit, first_broken
from groundwire.catalog.bookkeeping_tables import audit, outbox, requests
from groundwire.catalog.database import Database
from groundwire.catalog.ledger import KEPT
from groundwire.catalog.session_tables import messages, sessions
from groundwire.kernel.budget import Budget
from groundwire.kernel.store_findings import FindingKind, StoreFinding

OVERDUE_AFTER = timedelta(seconds=60)
"""How soon the vectors of a deleted document are gone while the vector store answers."""
_TOLD_OF_EACH = 1000
_AUDIT_ROWS = 1000


class BookkeepingInspection:
    """Looks at what belongs to one tenant."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._audit = Audit(database)

    def overdue(self, tenant: str) -> list[StoreFinding]:
        """Return the tasks that the vector store should have done by now."""
        oldest = self._database.steady.now_ms() - OVERDUE_AFTER // timedelta(milliseconds=1)
        statement = (
            select(outbox.c.id, outbox.c.kind, outbox.c.engine_name)
            .where(outbox.c.tenant == tenant, outbox.c.queued_steady < oldest)
            .order_by(outbox.c.id)
            .limit(_TOLD_OF_EACH)
        )
        with self._database.read() as connection:
            rows = connection.execute(statement).all()
        return [
            StoreFinding(FindingKind.OUTBOX_OVERDUE, "", row.engine_name, f"task {row.id} ({row.kind}) is overdue")
            for row in rows
        ]

    def repeated_requests(self, tenant: str) -> list[StoreFinding]:
        """Return the requests that changed the same thing twice, or whose answer is not remembered."""
        kept_ms = KEPT // timedelta(milliseconds=1)
        recent = self._database.steady.now_ms() - kept_ms + 60_000
        twice = (
            select(audit.c.request_id, literal("took effect twice"))
            .where(audit.c.tenant == tenant, audit.c.request_id != "")
            .group_by(audit.c.request_id, audit.c.action, audit.c.resource)
            .having(func.count() > 1, func.max(audit.c.steady_time) - func.min(audit.c.steady_time) < kept_ms)
        )
        unknown = (
            select(audit.c.request_id, literal("took effect, but its answer is not remembered"))
            .outerjoin(requests, (requests.c.tenant == audit.c.tenant) & (requests.c.request_id == audit.c.request_id))
            .where(
                audit.c.tenant == tenant,
                audit.c.request_id != "",
                audit.c.steady_time > recent,
                requests.c.request_id.is_(None),
            )
        )
        with self._database.read() as connection:
            found = [*connection.execute(twice.limit(_TOLD_OF_EACH)), *connection.execute(unknown.limit(_TOLD_OF_EACH))]
        return [
            StoreFinding(FindingKind.REQUEST_REPEATED, "", request_id, f"the request {what}")
            for request_id, what in found
        ]

    def incomplete_sessions(self, tenant: str) -> list[StoreFinding]:
        """Return the sessions that have lost messages, or whose messages do not end where the session does."""
        gap = func.coalesce(func.max(messages.c.sequence), 0) != func.count(messages.c.sequence)
        end = func.coalesce(func.max(messages.c.sequence), 0) != sessions.c.message_count
        statement = (
            select(
                sessions.c.collection, sessions.c.session_id, case((gap, "have a gap"), else_="do not reach the end")
            )
            .outerjoin(messages, messages.c.session_key == sessions.c.session_key)
            .where(sessions.c.tenant == tenant)
            .group_by(sessions.c.session_key)
            .having(or_(gap, end))
            .limit(_TOLD_OF_EACH)
        )
        with self._database.read() as connection:
            rows = connection.execute(statement).all()
        return [
            StoreFinding(FindingKind.SESSION_INCOMPLETE, collection, session_id, f"the messages of the session {what}")
            for collection, session_id, what in rows
        ]

    def broken_audit(self, tenant: str, budget: Budget) -> list[StoreFinding]:
        """Return the first row of the record of changes that was changed, or that follows a removed one."""
        last_id, last_hash = 0, ""
        while rows := self._audit.rows(tenant, last_id, _AUDIT_ROWS):
            budget.check()
            broken = first_broken(rows, last_hash)
            if broken is not None:
                message = "the record of changes was altered at or before this row"
                return [StoreFinding(FindingKind.AUDIT_BROKEN, "", str(broken.id), message)]
            last_id, last_hash = rows[-1].id, rows[-1].hash
        return []
