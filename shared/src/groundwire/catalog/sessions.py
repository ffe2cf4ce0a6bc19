"""Sessions: all their messages, a window of at most ten of them, moved by compare-and-set."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, TypeAlias

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    and_,
    delete,
    exists,
    func,
    insert,
    literal_column,
    or_,
    select,
    tuple_,
    update,
)

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.database import in_transaction
from groundwire.catalog.dialects import among, entries_of
from groundwire.catalog.idempotency import redact_answers, settle
from groundwire.catalog.rows import IS_STORED
from groundwire.catalog.schema import documents, message_documents, messages, sessions, tombstones
from groundwire.kernel import session as session_rules
from groundwire.kernel.clock import epoch_ms, from_epoch_ms
from groundwire.kernel.errors import AlreadyExistsError, SessionNotFoundError
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.identifiers import ENTITY_SCOPE
from groundwire.kernel.identity import Owner, current_identity
from groundwire.kernel.session import (
    WINDOW_MESSAGES,
    AnswerFilter,
    Role,
    SessionFilter,
    SessionState,
    Transition,
    moved,
)


class MessageState(StrEnum):
    """How far a message is."""

    COMPLETE = "COMPLETE"
    REDACTED = "REDACTED"


Session: TypeAlias = session_rules.Session[Any]
"""Without its messages and the number of those that are unrecorded."""

# What rows hold under the same name, as it is.
_OF_SESSION = ("session_id", "collection", "user_id", "conversation_id", "scope", "head", "message_count")
_OF_MESSAGE = ("message_id", "related_message_id", "content", "answer", "found")


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A new message.

    `answer` is the serialised answer as it was given, for replays, `cited` the ids of the documents that it quotes.
    `found` is the serialised rest of it, which holds texts of further documents, `shown`. REDACTED messages have lost
    content and answer because a document that they quoted was deleted.
    """

    message_id: str
    role: Role
    content: str
    time: datetime
    related_message_id: str = ""
    state: MessageState = MessageState.COMPLETE
    answer: bytes | None = None
    cited: tuple[str, ...] = ()
    found: bytes | None = None
    shown: tuple[str, ...] = ()

    def values(self, tenant: str, session_key: int, sequence: int) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in _OF_MESSAGE},
            "session_key": session_key,
            "tenant": tenant,
            "sequence": sequence,
            "role": self.role.value,
            "state": self.state.value,
            "time": epoch_ms(self.time),
        }


@dataclass(frozen=True, slots=True)
class SessionMessage(NewMessage):
    """A stored message; `sequence` counts from 1 over all messages of the session."""

    sequence: int = 0


@dataclass(frozen=True, slots=True)
class Exchange:
    """A question with its answer; `number` rises with each answer that is stored."""

    number: int
    tenant: str
    session: Session
    question: SessionMessage
    answer: SessionMessage


def session_values(session: Session) -> dict[str, Any]:
    return {
        **{name: getattr(session, name) for name in _OF_SESSION},
        "owner": session.owner.subject,
        "owner_scopes": session.owner.scopes_digest,
        "labels": dict(session.labels),
        "idle_timeout": int(session.idle_timeout.total_seconds() * 1000),
        "state": session.state.value,
        "create_time": epoch_ms(session.create_time),
        "last_activity": epoch_ms(session.last_activity),
        "transitions": [
            [each.before and each.before.value, each.after.value, epoch_ms(each.time)] for each in session.transitions
        ],
    }


def to_session(row: RowMapping, steady_ms: int) -> Session:
    """Return the session of a row, EXPIRED when it has been idle for too long."""
    session = Session(
        **{name: row[name] for name in _OF_SESSION},
        idle_timeout=timedelta(milliseconds=row["idle_timeout"]),
        state=SessionState(row["state"]),
        create_time=from_epoch_ms(row["create_time"]),
        last_activity=from_epoch_ms(row["last_activity"]),
        transitions=tuple(
            Transition(before and SessionState(before), SessionState(after), from_epoch_ms(time))
            for before, after, time in row["transitions"]
        ),
        labels=row["labels"],
        owner=Owner(row["owner"], row["owner_scopes"]),
    )
    # The time of day may be set, so what a session expires by is `active_steady`: see `SteadyTime.with_downtime_ms`.
    idle = timedelta(milliseconds=steady_ms - row["active_steady"])
    if session.state is not SessionState.ENDED and idle >= session.idle_timeout:
        return moved(session, SessionState.EXPIRED, session.expire_time)
    return session


def in_state(state: SessionState, steady_ms: int) -> ColumnElement[bool]:
    """Return the condition on rows of sessions that `to_session` gives this state."""
    stored, is_idle = sessions.c.state, steady_ms - sessions.c.active_steady >= sessions.c.idle_timeout
    if state is SessionState.EXPIRED:
        return and_(stored != SessionState.ENDED.value, is_idle)
    return stored == state.value if state is SessionState.ENDED else and_(stored == state.value, ~is_idle)


def to_message(row: RowMapping | Mapping[str, Any]) -> SessionMessage:
    return SessionMessage(
        **{name: row[name] for name in _OF_MESSAGE},
        role=Role(row["role"]),
        time=from_epoch_ms(row["time"]),
        state=MessageState(row["state"]),
        sequence=row["sequence"],
    )


_held = message_documents.c
_question, _answer = messages.alias("question"), messages.alias("answer")


def redact_messages(connection: Connection, tenant: str, document_ids: Sequence[str]) -> int:
    """Remove the text of documents from messages; return how many messages held any.

    What quotes one of them loses its content and says so by its state; of others only what was found for them goes.
    The message itself stays in its place, so that its session goes on.
    """
    touched = set(connection.execute(_holding(tenant, document_ids)).scalars())
    if not touched:  # as of most documents
        return 0
    redacted = set(connection.execute(_holding(tenant, document_ids).where(_held.cited == 1)).scalars())
    nothing: dict[str, Any] = {"found": None}
    connection.execute(update(messages).where(among(messages.c.message_key, touched)).values(nothing))
    nothing |= {"content": "", "answer": None, "state": "REDACTED"}
    connection.execute(update(messages).where(among(messages.c.message_key, redacted)).values(nothing))
    connection.execute(delete(message_documents).where(among(_held.message_key, redacted)))
    # All evidence is removed, so that the message holds no text of the other documents either.
    not_cited = among(_held.message_key, touched), _held.cited == 0
    connection.execute(delete(message_documents).where(*not_cited))
    return len(touched)


def count_quoting_messages(connection: Connection, tenant: str, document_ids: Sequence[str]) -> int:
    """Return how many messages hold text of any of the documents."""
    holding = _holding(tenant, document_ids).subquery()
    return int(connection.execute(select(func.count()).select_from(holding)).scalar_one())


def gone_documents(connection: Connection, tenant: str, document_ids: Sequence[str]) -> list[str]:
    """Return those of the documents that were deleted for good."""
    there = select(documents.c.document_id).where(documents.c.tenant == tenant, IS_STORED)
    statement = select(tombstones.c.document_id).where(
        tombstones.c.tenant == tenant,
        among(tombstones.c.document_id, document_ids),
        tombstones.c.document_id.not_in(there.where(documents.c.document_id == tombstones.c.document_id)),
    )
    return list(connection.execute(statement).scalars())


def _holding(tenant: str, document_ids: Sequence[str]) -> Select[tuple[int]]:
    statement = select(_held.message_key).distinct()
    return statement.where(_held.tenant == tenant, among(_held.document_id, document_ids))


_ANY = SessionFilter()
# Written out, as the condition of the partial index has it.
_TRUE: ColumnElement[int] = literal_column("1")
CLOSED_RETENTION = timedelta(hours=24)
"""How long an expired or ended session can still be read."""
# Sessions of a user that one transaction deletes, so that other writers do not wait for long.
_DELETED_AT_A_TIME = 100


class Sessions(Aggregate):
    """Sessions of all tenants; each call sees those of one, as far as the current caller may see them.

    A call for one session raises SessionNotFoundError where there is none of the id.
    """

    @in_transaction
    def create(
        self, connection: Connection, tenant: str, session: Session, receipt: Receipt[Session] | None = None
    ) -> Session:
        """Store a new session and return it.

        Raises:
            AlreadyExistsError: the tenant has a session of this id.
        """
        # Whoever it belongs to.
        same_id = sessions.c.tenant == tenant, sessions.c.session_id == session.session_id
        if connection.execute(select(sessions.c.session_key).where(*same_id)).first() is not None:
            raise AlreadyExistsError(f"session {session.session_id!r} exists", resource=session.session_id)
        values = session_values(session) | {"tenant": tenant, "active_steady": self._steady_ms()}
        connection.execute(insert(sessions).values(values))
        stored, _ = self._require(connection, tenant, session.session_id)
        settle(connection, self._database.steady, tenant, receipt, stored, session.session_id)
        return stored

    def get(self, tenant: str, session_id: str) -> Session:
        """Return a session; one that was idle for too long is EXPIRED whether or not `expire` ran."""
        with self._database.read() as connection:
            return self._require(connection, tenant, session_id)[0]

    def messages(self, tenant: str, session_id: str) -> list[SessionMessage]:
        """Return the newest messages of a session, oldest first: as many whole pairs as a window holds."""
        with self._database.read() as connection:
            _, key = self._require(connection, tenant, session_id)
            newest = select(messages).where(messages.c.session_key == key).order_by(messages.c.sequence.desc())
            rows = connection.execute(newest.limit(WINDOW_MESSAGES)).mappings()
            window = [to_message(row) for row in rows][::-1]
        # Only whole pairs: an answer is useless to a model once its question has left the window.
        return window[1:] if window and window[0].role is Role.ASSISTANT else window

    def history(self, tenant: str, session_id: str, after: int, limit: int) -> list[SessionMessage]:
        """Return up to `limit` messages of a session behind the one with the sequence `after`, oldest first."""
        with self._database.read() as connection:
            _, key = self._require(connection, tenant, session_id)
            behind = messages.c.session_key == key, messages.c.sequence > after
            rows = connection.execute(select(messages).where(*behind).order_by(messages.c.sequence).limit(limit))
            return [to_message(row) for row in rows.mappings()]

    def page(
        self, tenant: str, after: tuple[datetime, str] | None, limit: int, wanted: SessionFilter = _ANY
    ) -> list[Session]:
        """Return up to `limit` sessions, most recently active first, those behind `after` (last activity, id)."""
        steady_ms = self._steady_ms()
        order = (sessions.c.last_activity, sessions.c.session_id)
        statement = select(sessions).where(_visible(tenant))
        if wanted.collection:
            statement = statement.where(sessions.c.collection == wanted.collection)
        if wanted.user_id:
            statement = statement.where(sessions.c.user_id == wanted.user_id)
        if wanted.state is not None:
            statement = statement.where(in_state(wanted.state, steady_ms))
        for key, value in wanted.labels.items():
            label = entries_of(sessions.c.labels)
            statement = statement.where(exists().select_from(label).where(label.c.key == key, label.c.value == value))
        if after is not None:
            statement = statement.where(tuple_(*order) < tuple_(epoch_ms(after[0]), after[1]))
        statement = statement.order_by(*(column.desc() for column in order)).limit(limit)
        return [to_session(row, steady_ms) for row in self._database.query(statement).mappings()]

    @in_transaction
    def append(
        self,
        connection: Connection,
        tenant: str,
        session_id: str,
        expected_head: str,
        new: Sequence[NewMessage],
    ) -> Session:
        """Add messages behind the head; the oldest pairs leave the window first, so that it never holds more than ten.

        `expected_head` is the id of the newest message that the caller saw, empty before the first. `new` has at most
        ten messages, in order.

        Raises:
            SessionExpiredError: it was idle for too long or was ended.
            SessionHeadMovedError: there are newer messages; `exchange` tells whether this one was answered.
            AlreadyExistsError: a message of the session, or another new one, has one of the ids.
        """
        session, key = self._require(connection, tenant, session_id)
        session.refuse_closed()
        if session.head != expected_head:
            raise session.head_moved(expected_head)
        now = self._database.clock.now()
        session = moved(session, SessionState.ACTIVE, now)
        # Messages outside the window stay stored: their ids must not be reused, and a repeated request still gets their
        # answers.
        if min(session.message_count, WINDOW_MESSAGES) + len(new) > WINDOW_MESSAGES:
            session = moved(moved(session, SessionState.PRUNING, now), SessionState.ACTIVE, now)
        first = session.message_count + 1
        session = replace(
            session,
            head=new[-1].message_id if new else session.head,
            message_count=session.message_count + len(new),
            last_activity=now,
        )
        _store(connection, key, session, self._steady_ms())
        ids = [message.message_id for message in new]
        same_id = messages.c.session_key == key, messages.c.message_id.in_(ids)
        used = connection.execute(select(messages.c.message_id).where(*same_id).limit(1)).scalar()
        if used is not None or len(set(ids)) < len(ids):
            raise AlreadyExistsError("the session has a message of this id", message_id=used or ids[0])
        for sequence, message in enumerate(new, first):
            _add(connection, tenant, key, sequence, message)
        return session

    @in_transaction
    def reply(
        self,
        connection: Connection,
        tenant: str,
        session_id: str,
        answer: NewMessage,
        replacing: str = "",
        *,
        is_whole: bool = True,
    ) -> Session:
        """Add the answer behind its question, or put it in the place of the one with the id `replacing`.

        The session may have ended meanwhile: the question was accepted while it was open. In a conversation an answer
        that `is_whole` is marked to be recorded.

        Raises:
            SessionNotFoundError: it has no such question.
            AlreadyExistsError: the question has another answer than `replacing`, or a message has the id of this one.
            SessionHeadMovedError: it has no answer, and is no longer the newest message.
        """
        row = _row(connection, tenant, session_id)
        question = (
            row
            and connection.execute(
                select(messages.c.sequence).where(
                    messages.c.session_key == row["session_key"],
                    messages.c.message_id == answer.related_message_id,
                )
            ).scalar()
        )
        if question is None:
            raise SessionNotFoundError(session_id)
        # The session as it was stored: time spent on making the answer does not expire it.
        session, key = to_session(row, row["active_steady"]), int(row["session_key"])
        place = messages.c.session_key == key, messages.c.sequence == question + 1
        earlier = connection.execute(select(messages).where(*place)).mappings().first()
        if earlier is not None and earlier["related_message_id"] != answer.related_message_id:
            raise session.head_moved(answer.related_message_id)
        if earlier is not None and earlier["message_id"] != replacing:
            raise AlreadyExistsError("the question has an answer", message_id=answer.related_message_id)
        same_id = messages.c.session_key == key, messages.c.message_id == answer.message_id
        if connection.execute(select(messages.c.message_key).where(*same_id)).first() is not None:
            raise AlreadyExistsError("the session has a message of this id", message_id=answer.message_id)
        new = answer
        if earlier is not None:
            connection.execute(delete(messages).where(*place))
            # Later messages may follow it, and none may be older than the one above.
            new = replace(answer, time=from_epoch_ms(earlier["time"]))
        session = replace(
            session,
            head=answer.message_id if session.head in {answer.related_message_id, replacing} else session.head,
            message_count=max(session.message_count, question + 1),
            last_activity=self._database.clock.now(),
        )
        _store(connection, key, session, self._steady_ms())
        is_due = is_whole and session.conversation_id != ""
        _add(connection, tenant, key, question + 1, new, unrecorded=is_due)
        return session

    def unrecorded(self, after: int, limit: int) -> list[Exchange]:
        """Return up to `limit` exchanges of all tenants that are to be recorded, behind the number `after`."""
        to_record = _exchanges(messages.c).where(_answer.c.unrecorded == _TRUE, _answer.c.message_key > after)
        return self._read_exchanges(to_record.order_by(_answer.c.message_key).limit(limit))

    def _read_exchanges(self, statement: Select[Any]) -> list[Exchange]:
        def message(row: RowMapping, side: str) -> SessionMessage:
            return to_message({column.name: row.get(f"{side}_{column.name}") for column in messages.c})

        rows, steady_ms = self._database.query(statement).mappings().all(), self._steady_ms()
        return [
            Exchange(
                row["answer_message_key"],
                row["tenant"],
                to_session(row, steady_ms),
                message(row, "question"),
                message(row, "answer"),
            )
            for row in rows
        ]

    def recorded(self, number: int) -> None:
        """Note that an exchange is recorded; idempotent, and no error when its session is gone."""
        mine = messages.c.message_key == number
        self._database.change(update(messages).where(mine).values(unrecorded=0))

    def count_unrecorded(self, tenant: str, session_id: str) -> int:
        """Return how many exchanges of a session are still to be recorded."""
        statement = (
            select(func.count())
            .select_from(messages.join(sessions))
            .where(sessions.c.tenant == tenant, sessions.c.session_id == session_id, messages.c.unrecorded == _TRUE)
        )
        return int(self._database.query(statement).scalar_one())

    def exchange(self, tenant: str, session_id: str, message_id: str) -> list[SessionMessage]:
        """Return the message with this id and the next one, which answers it if it is a question.

        Empty when there is no such message.
        """
        with self._database.read() as connection:
            _, key = self._require(connection, tenant, session_id)
            mine = messages.c.session_key == key
            named = select(messages.c.sequence).where(mine, messages.c.message_id == message_id).scalar_subquery()
            pair = select(messages).where(mine, messages.c.sequence >= named).order_by(messages.c.sequence).limit(2)
            return [to_message(row) for row in connection.execute(pair).mappings()]

    def answers(self, tenant: str, before: int | None, limit: int, wanted: AnswerFilter) -> list[Exchange]:
        """Return up to `limit` answers of all sessions, newest first, those whose number is below `before`.

        They come without what was found.
        """
        statement = (
            _exchanges(column for column in messages.c if column.name != "found")
            .where(_visible(tenant), _answer.c.role == Role.ASSISTANT.value)
            .order_by(_answer.c.message_key.desc())
            .limit(limit)
        )
        if before is not None:
            statement = statement.where(_answer.c.message_key < before)
        for column in (sessions.c.collection, sessions.c.user_id, sessions.c.session_id):
            if value := getattr(wanted, column.name):
                statement = statement.where(column == value)
        return self._read_exchanges(statement)

    def redact(self, tenant: str, document_ids: Sequence[str]) -> int:
        """Remove the text of documents from messages; return how many held any. See `redact_messages`."""
        return self._database.write(lambda connection: redact_messages(connection, tenant, document_ids))

    def documents(self, after: tuple[str, str], limit: int) -> list[tuple[str, str]]:
        """Return up to `limit` (tenant, document id) above `after` whose text messages hold, in rising order."""
        place = tuple_(_held.tenant, _held.document_id)
        statement = select(_held.tenant, _held.document_id).distinct().where(place > after)
        rows = self._database.query(statement.order_by(_held.tenant, _held.document_id).limit(limit))
        return [(row.tenant, row.document_id) for row in rows]

    @in_transaction
    def end(
        self, connection: Connection, tenant: str, session_id: str, receipt: Receipt[Session] | None = None
    ) -> Session:
        """End a session; ending it again changes nothing."""
        session, key = self._require(connection, tenant, session_id)
        if session.state is not SessionState.ENDED:
            session = moved(session, SessionState.ENDED, self._database.clock.now())
            _store(connection, key, session)
        settle(connection, self._database.steady, tenant, receipt, session, session_id)
        return session

    @in_transaction
    def delete(self, connection: Connection, tenant: str, session_id: str, receipt: Receipt[int] | None = None) -> int:
        """Delete a session with all its messages, for good; return how many messages there were."""
        session, key = self._require(connection, tenant, session_id)
        connection.execute(delete(sessions).where(sessions.c.session_key == key))
        redact_answers(connection, tenant, [session_id])
        settle(connection, self._database.steady, tenant, receipt, session.message_count)
        return session.message_count

    def delete_of_user(self, tenant: str, user_id: str, receipt: Receipt[int] | None = None) -> int:
        """Delete all sessions of a user with all their messages, for good, in batches; return how many.

        Sessions recorded in the scope of the entity of this name are also the user's, whoever began them.
        """
        of_user = or_(sessions.c.user_id == user_id, sessions.c.scope == f"{ENTITY_SCOPE}{user_id}")
        mine = _visible(tenant), of_user
        total, is_last = 0, False

        def work(connection: Connection) -> tuple[int, bool]:
            some = select(sessions.c.session_key, sessions.c.session_id).where(*mine).limit(_DELETED_AT_A_TIME)
            rows = connection.execute(some).all()
            keys = [row.session_key for row in rows]
            connection.execute(delete(sessions).where(sessions.c.session_key.in_(keys)))
            redact_answers(connection, tenant, [row.session_id for row in rows])
            # The answer is stored with the last part, so that a retry after a crash continues with the rest.
            is_last = len(rows) < _DELETED_AT_A_TIME
            if is_last:
                settle(connection, self._database.steady, tenant, receipt, total + len(rows))
            return len(rows), is_last

        while not is_last:
            count, is_last = self._database.write(work)
            total += count
        return total

    def expire(self) -> int:
        """Remove sessions that have been expired or ended for a day, of all tenants; return how many."""
        now = self._steady_ms()
        closed = sessions.c.active_steady + sessions.c.idle_timeout + int(CLOSED_RETENTION.total_seconds() * 1000)
        # A session with unrecorded answers stays: ingest may have been unreachable for a long time.
        unrecorded = select(messages.c.session_key).where(messages.c.unrecorded == _TRUE)
        over = closed < now, sessions.c.session_key.not_in(unrecorded)
        return self._database.change(delete(sessions).where(*over))

    def _steady_ms(self) -> int:
        # After a day of downtime users expect a new session.
        return self._database.steady.with_downtime_ms()

    def _require(self, connection: Connection, tenant: str, session_id: str) -> tuple[Session, int]:
        row = _row(connection, tenant, session_id)
        if row is None:
            raise SessionNotFoundError(session_id)
        return to_session(row, self._steady_ms()), int(row["session_key"])


def _visible(tenant: str) -> ColumnElement[bool]:
    """Return the condition for the sessions of a tenant that the current caller sees, as `Identity.sees` tells it."""
    caller, mine = current_identity(), sessions.c.tenant == tenant
    if caller.oversees:
        return mine
    if caller.scopes is None:
        return and_(mine, sessions.c.owner.in_(("", caller.subject)))
    owner = caller.owner
    return and_(mine, sessions.c.owner == owner.subject, sessions.c.owner_scopes == owner.scopes_digest)


def _exchanges(columns: Iterable[Column[Any]]) -> Select[Any]:
    """Return the statement for these columns of answers and of their questions, and for their sessions."""
    names = [column.name for column in columns]
    both = (side.c[name].label(f"{side.name}_{name}") for side in (_question, _answer) for name in names)
    is_asked = and_(_question.c.session_key == _answer.c.session_key, _question.c.sequence == _answer.c.sequence - 1)
    return select(*both, sessions).join_from(_answer, sessions).join(_question, is_asked)


def _row(connection: Connection, tenant: str, session_id: str) -> Any:
    statement = select(sessions).where(_visible(tenant), sessions.c.session_id == session_id)
    return connection.execute(statement).mappings().first()


def _store(connection: Connection, key: int, session: Session, active_steady: int | None = None) -> None:
    """Store a session that has changed, and with `active_steady` that it was active then."""
    values = session_values(session) | ({} if active_steady is None else {"active_steady": active_steady})
    connection.execute(update(sessions).where(sessions.c.session_key == key).values(values))


def _add(
    connection: Connection, tenant: str, key: int, sequence: int, message: NewMessage, *, unrecorded: bool = False
) -> None:
    values = message.values(tenant, key, sequence) | {"unrecorded": int(unrecorded)}
    added = insert(messages).values(values).returning(messages.c.message_key)
    message_key = connection.execute(added).scalar_one()
    # The documents whose text the message holds, each once.
    document_ids = dict.fromkeys((*message.cited, *message.shown))
    rows = [
        {"message_key": message_key, "tenant": tenant, "document_id": each, "cited": int(each in message.cited)}
        for each in document_ids
    ]
    if rows:
        connection.execute(insert(message_documents), rows)
        # They may have been deleted while the answer was being made.
        redact_messages(connection, tenant, gone_documents(connection, tenant, list(document_ids)))
