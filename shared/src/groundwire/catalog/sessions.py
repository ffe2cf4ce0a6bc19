"""Sessions: a window of at most ten messages each, moved by compare-and-set."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Select, delete, insert, select, tuple_, update

from groundwire.catalog.database import Database
from groundwire.catalog.generations import Receipted
from groundwire.catalog.ledger import settle
from groundwire.catalog.quoting_messages import gone_documents, note_documents
from groundwire.catalog.session_rows import (
    NewMessage,
    Session,
    SessionMessage,
    SessionState,
    moved,
    new_session,
    session_values,
    to_message,
    to_session,
)
from groundwire.catalog.session_tables import messages, sessions
from groundwire.kernel.clock import Clock, SystemClock, epoch_ms
from groundwire.kernel.errors import (
    AlreadyExistsError,
    SessionExpiredError,
    SessionHeadMovedError,
    SessionNotFoundError,
)

WINDOW = 10
"""Messages a session holds; the oldest pair leaves before new ones come (requirements S4-30, S4-31, T42)."""
KEPT_CLOSED = timedelta(hours=24)
"""How long an expired or ended session can still be read."""


class Sessions:
    """Sessions of all tenants; each call sees those of one."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()

    def create(
        self,
        tenant: str,
        session_id: str,
        collection: str,
        *,
        idle_timeout: timedelta,
        receipt: Receipted[Session] = None,
    ) -> Session:
        """Start a session.

        Raises:
            AlreadyExistsError: the tenant has a session of this id.
            ConflictError: the same request was completed meanwhile; ask the ledger.
        """
        session = new_session(
            tenant,
            session_id,
            collection,
            idle_timeout,
            self._clock.now(),
            self._steady_ms(),
        )

        def work(connection: Connection) -> Session:
            if _row(connection, tenant, session_id) is not None:
                raise AlreadyExistsError(f"session {session_id!r} exists", resource=session_id)
            connection.execute(insert(sessions).values(session_values(session)))
            stored, _ = self._require(connection, tenant, session_id)
            settle(connection, self._database.steady, tenant, receipt, stored)
            return stored

        return self._database.write(work)

    def get(self, tenant: str, session_id: str) -> Session:
        """Return a session; one that was idle for too long is EXPIRED whether or not `expire` ran.

        Raises:
            SessionNotFoundError: the tenant has none of this id.
        """
        with self._database.read() as connection:
            return self._require(connection, tenant, session_id)[0]

    def messages(self, tenant: str, session_id: str) -> list[SessionMessage]:
        """Return the messages in the window, oldest first.

        Raises:
            SessionNotFoundError: the tenant has none of this id.
        """
        with self._database.read() as connection:
            _, key = self._require(connection, tenant, session_id)
            return [to_message(row) for row in connection.execute(_window(key)).mappings()]

    def page(self, tenant: str, after: tuple[datetime, str] | None, limit: int) -> list[Session]:
        """Return up to `limit` sessions, most recently active first, those behind `after` (last activity, id)."""
        order = (sessions.c.last_activity, sessions.c.session_id)
        statement = select(sessions).where(sessions.c.tenant == tenant)
        if after is not None:
            statement = statement.where(tuple_(*order) < tuple_(epoch_ms(after[0]), after[1]))
        statement = statement.order_by(*(column.desc() for column in order)).limit(limit)
        with self._database.read() as connection:
            return [to_session(row, self._steady_ms()) for row in connection.execute(statement).mappings()]

    def append(
        self,
        tenant: str,
        session_id: str,
        expected_head: str,
        new: Sequence[NewMessage],
        receipt: Receipted[Session] = None,
    ) -> Session:
        """Add messages behind the head; the oldest pairs leave first, so that there are never more than ten.

        Args:
            tenant: whose session.
            session_id: which session.
            expected_head: id of the newest message the caller saw, empty before the first.
            new: at most ten messages, in order.
            receipt: what to remember of the call.

        Raises:
            SessionNotFoundError: the tenant has none of this id.
            SessionExpiredError: it was idle for too long or was ended.
            SessionHeadMovedError: there are newer messages; `find_answer` tells whether this one was answered.
            AlreadyExistsError: a message in the window, or another new one, has one of the ids.
        """

        def work(connection: Connection) -> Session:
            session, key = self._require(connection, tenant, session_id)
            _refuse_closed(session)
            if session.head != expected_head:
                raise SessionHeadMovedError(
                    "the session has newer messages", expected_head=expected_head, head=session.head
                )
            stored = _append(connection, session, key, new, self._clock.now(), self._steady_ms())
            settle(connection, self._database.steady, tenant, receipt, stored)
            return stored

        return self._database.write(work)

    def find_answer(self, tenant: str, session_id: str, message_id: str) -> SessionMessage | None:
        """Return the answer to a question of the session while it is in the window.

        Raises:
            SessionNotFoundError: the tenant has none of this id.
        """
        with self._database.read() as connection:
            _, key = self._require(connection, tenant, session_id)
            statement = _window(key).where(messages.c.related_message_id == message_id)
            row = connection.execute(statement).mappings().first()
            return None if row is None else to_message(row)

    def gone(self, tenant: str, document_ids: Sequence[str]) -> list[str]:
        """Return those of the documents that were deleted for good."""
        with self._database.read() as connection:
            return gone_documents(connection, tenant, document_ids)

    def end(self, tenant: str, session_id: str, receipt: Receipted[Session] = None) -> Session:
        """End a session; ending it again changes nothing.

        Raises:
            SessionNotFoundError: the tenant has none of this id.
        """

        def work(connection: Connection) -> Session:
            session, key = self._require(connection, tenant, session_id)
            if session.state is not SessionState.ENDED:
                session = moved(session, SessionState.ENDED, self._clock.now())
                _store(connection, key, session)
            settle(connection, self._database.steady, tenant, receipt, session)
            return session

        return self._database.write(work)

    def expire(self) -> int:
        """Remove sessions that have been expired or ended for a day, of all tenants; return how many."""

        def work(connection: Connection) -> int:
            now = self._steady_ms()
            closed = sessions.c.active_steady + sessions.c.idle_timeout + int(KEPT_CLOSED.total_seconds() * 1000)
            return connection.execute(delete(sessions).where(closed < now)).rowcount

        return self._database.write(work)

    def _steady_ms(self) -> int:
        # People who come back after the server was away for a day expect a new session.
        return self._database.steady.with_downtime_ms()

    def _require(self, connection: Connection, tenant: str, session_id: str) -> tuple[Session, int]:
        row = _row(connection, tenant, session_id)
        if row is None:
            raise SessionNotFoundError(session_id)
        return to_session(row, self._steady_ms()), int(row["session_key"])


def _row(connection: Connection, tenant: str, session_id: str) -> Any:
    statement = select(sessions).where(sessions.c.tenant == tenant, sessions.c.session_id == session_id)
    return connection.execute(statement).mappings().first()


def _window(key: int) -> Select[Any]:
    return select(messages).where(messages.c.session_key == key).order_by(messages.c.sequence)


def _refuse_closed(session: Session) -> None:
    if session.state in {SessionState.EXPIRED, SessionState.ENDED}:
        message = f"the session is {session.state.value.lower()}"
        raise SessionExpiredError(message, session_id=session.session_id)


def _append(
    connection: Connection, session: Session, key: int, new: Sequence[NewMessage], now: datetime, steady_ms: int
) -> Session:
    if session.state is not SessionState.ACTIVE:
        session = moved(session, SessionState.ACTIVE, now)
    if _prune(connection, key, len(new)):
        session = moved(moved(session, SessionState.PRUNING, now), SessionState.ACTIVE, now)
    session = session.extended(new, now, steady_ms)
    _store(connection, key, session)
    _refuse_used_ids(connection, key, new)
    first = session.message_count - len(new) + 1
    for place, message in enumerate(new):
        statement = insert(messages).values(message.values(session, key, first + place))
        message_key = connection.execute(statement.returning(messages.c.message_key)).scalar_one()
        note_documents(connection, session.tenant, message_key, message.cited, message.shown)
    return session


def _refuse_used_ids(connection: Connection, key: int, new: Sequence[NewMessage]) -> None:
    ids = [message.message_id for message in new]
    used = select(messages.c.message_id).where(messages.c.session_key == key, messages.c.message_id.in_(ids))
    found = connection.execute(used.limit(1)).scalar()
    if found is not None or len(set(ids)) < len(ids):
        raise AlreadyExistsError("the session has a message of this id", message_id=found or ids[0])


def _prune(connection: Connection, key: int, coming: int) -> bool:
    """Delete the oldest pairs until `coming` more messages fit; tell whether any left."""
    held = connection.execute(
        select(messages.c.message_key, messages.c.role)
        .where(messages.c.session_key == key)
        .order_by(messages.c.sequence)
    ).all()
    leaving = 0
    while len(held) - leaving + coming > WINDOW and leaving < len(held):
        is_pair = leaving + 1 < len(held) and held[leaving + 1].role == "assistant"
        leaving += 2 if is_pair else 1
    keys = [row.message_key for row in held[:leaving]]
    connection.execute(delete(messages).where(messages.c.message_key.in_(keys)))
    return leaving > 0


def _store(connection: Connection, key: int, session: Session) -> None:
    connection.execute(update(sessions).where(sessions.c.session_key == key).values(session_values(session)))
