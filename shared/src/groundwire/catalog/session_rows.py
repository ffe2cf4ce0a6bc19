"""Sessions and messages, to rows and back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, RowMapping, and_, or_

from groundwire.catalog.session_tables import sessions
from groundwire.kernel.clock import epoch_ms, from_epoch_ms

_TRANSITIONS_KEPT = 50


class SessionState(StrEnum):
    """States of a session; PRUNING is passed through, never stored as the current one."""

    CREATED = "CREATED"
    ACTIVE = "ACTIVE"
    PRUNING = "PRUNING"
    EXPIRED = "EXPIRED"
    ENDED = "ENDED"


class MessageState(StrEnum):
    """How far a message is."""

    COMPLETE = "COMPLETE"
    REDACTED = "REDACTED"


class MessageRole(StrEnum):
    """Who says a message."""

    USER = "user"
    ASSISTANT = "assistant"


@dataclass(frozen=True, slots=True)
class SessionTransition:
    """A change of state; `before` is None for the first."""

    before: SessionState | None
    after: SessionState
    time: datetime


@dataclass(frozen=True, slots=True)
class Session:
    """A session without its messages.

    `active_steady` is `last_activity_time` as `SteadyTime.with_downtime_ms` tells it: what it expires by.
    `head` is the id of the newest message, empty before the first; `message_count` counts all messages
    ever; `transitions` are the newest 50, oldest first. `user_id` may be empty.
    """

    session_id: str
    tenant: str
    collection: str
    idle_timeout: timedelta
    state: SessionState
    head: str
    message_count: int
    create_time: datetime
    last_activity_time: datetime
    transitions: tuple[SessionTransition, ...]
    active_steady: int
    user_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def expire_time(self) -> datetime:
        """Return when it expires unless something happens."""
        return self.last_activity_time + self.idle_timeout

    def extended(self, new: "Sequence[NewMessage]", now: datetime, steady_ms: int) -> "Session":
        """Return it with more messages."""
        head = new[-1].message_id if new else self.head
        return replace(
            self,
            head=head,
            message_count=self.message_count + len(new),
            last_activity_time=now,
            active_steady=steady_ms,
        )


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be added.

    `answer` is the serialised answer as it was given, for replays, `cited` the ids of the documents that it quotes.
    `found` is the serialised rest of it, which holds texts of further documents, `shown`. REDACTED messages have lost
    content and answer because a document that they quoted was deleted.
    """

    message_id: str
    role: MessageRole
    content: str
    time: datetime
    related_message_id: str = ""
    state: MessageState = MessageState.COMPLETE
    answer: bytes | None = None
    cited: tuple[str, ...] = ()
    found: bytes | None = None
    shown: tuple[str, ...] = ()

    def values(self, session: Session, session_key: int, sequence: int) -> dict[str, Any]:
        """Return the columns of the message at a place of a session."""
        return {
            "session_key": session_key,
            "tenant": session.tenant,
            "sequence": sequence,
            "message_id": self.message_id,
            "related_message_id": self.related_message_id,
            "role": self.role.value,
            "state": self.state.value,
            "content": self.content,
            "time": epoch_ms(self.time),
            "answer": self.answer,
            "found": self.found,
        }


@dataclass(frozen=True, slots=True)
class SessionMessage(NewMessage):
    """A stored message; `sequence` counts from 1 over all messages of the session."""

    sequence: int = 0


def new_session(
    tenant: str,
    session_id: str,
    collection: str,
    idle_timeout: timedelta,
    now: datetime,
    steady_ms: int,
    user_id: str,
    labels: Mapping[str, str],
) -> Session:
    """Make a session without messages."""
    session = Session(
        session_id=session_id,
        tenant=tenant,
        collection=collection,
        idle_timeout=idle_timeout,
        state=SessionState.CREATED,
        head="",
        message_count=0,
        create_time=now,
        last_activity_time=now,
        transitions=(),
        active_steady=steady_ms,
        user_id=user_id,
        labels=labels,
    )
    return moved(session, SessionState.CREATED, now)


def moved(session: Session, state: SessionState, now: datetime) -> Session:
    """Return the session in another state, with the transition noted."""
    before = session.state if session.transitions else None
    transitions = (*session.transitions, SessionTransition(before, state, now))[-_TRANSITIONS_KEPT:]
    return replace(session, state=state, transitions=transitions)


def session_values(session: Session) -> dict[str, Any]:
    """Return the columns of a session."""
    return {
        "tenant": session.tenant,
        "session_id": session.session_id,
        "collection": session.collection,
        "user_id": session.user_id,
        "labels": dict(session.labels),
        "idle_timeout": int(session.idle_timeout.total_seconds() * 1000),
        "state": session.state.value,
        "head": session.head,
        "message_count": session.message_count,
        "create_time": epoch_ms(session.create_time),
        "last_activity": epoch_ms(session.last_activity_time),
        "active_steady": session.active_steady,
        "transitions": [
            [each.before and each.before.value, each.after.value, epoch_ms(each.time)] for each in session.transitions
        ],
    }


def to_session(row: RowMapping, steady_ms: int) -> Session:
    """Make a session of its row, EXPIRED when it has been idle for too long."""
    session = Session(
        session_id=row["session_id"],
        tenant=row["tenant"],
        collection=row["collection"],
        idle_timeout=timedelta(milliseconds=row["idle_timeout"]),
        state=SessionState(row["state"]),
        head=row["head"],
        message_count=row["message_count"],
        create_time=from_epoch_ms(row["create_time"]),
        last_activity_time=from_epoch_ms(row["last_activity"]),
        transitions=tuple(
            SessionTransition(before and SessionState(before), SessionState(after), from_epoch_ms(time))
            for before, after, time in row["transitions"]
        ),
        active_steady=row["active_steady"],
        user_id=row["user_id"],
        labels=row["labels"],
    )
    idle = timedelta(milliseconds=steady_ms - session.active_steady)
    if session.state is not SessionState.ENDED and idle > session.idle_timeout:
        return moved(session, SessionState.EXPIRED, session.expire_time)
    return session


def in_state(state: SessionState, steady_ms: int) -> ColumnElement[bool]:
    """Return the condition on rows of sessions that `to_session` gives this state."""
    stored, is_idle = sessions.c.state, steady_ms - sessions.c.active_steady > sessions.c.idle_timeout
    if state is SessionState.EXPIRED:
        return or_(stored == state.value, and_(stored != SessionState.ENDED.value, is_idle))
    return stored == state.value if state is SessionState.ENDED else and_(stored == state.value, ~is_idle)


def to_message(row: RowMapping) -> SessionMessage:
    """Make a message of its row."""
    return SessionMessage(
        message_id=row["message_id"],
        role=MessageRole(row["role"]),
        content=row["content"],
        time=from_epoch_ms(row["time"]),
        related_message_id=row["related_message_id"],
        state=MessageState(row["state"]),
        answer=row["answer"],
        found=row["found"],
        sequence=row["sequence"],
    )
