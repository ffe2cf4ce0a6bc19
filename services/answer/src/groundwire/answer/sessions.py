"""Sessions: a window of at most 10 messages, pruned in pairs, that expires when idle (requirements S4-28 to S4-39)."""

import threading
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Protocol, TypeAlias, TypeVar

import structlog

from groundwire.answer.ports import Library
from groundwire.api.answer.v1 import answer_pb2, citation_pb2
from groundwire.kernel import session as session_rules
from groundwire.kernel.clock import whole_milliseconds
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.identifiers import RequestKey
from groundwire.kernel.identity import current_identity
from groundwire.kernel.session import (
    WINDOW_MESSAGES,
    AnswerFilter,
    Role,
    SessionFilter,
    SessionState,
    Transition,
    moved,
)

T = TypeVar("T")

# A sweep may be in the middle of a statement; the process waits no longer for it.
_STOP_LIMIT_S = 5.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Message:
    """One message; an assistant message has its whole `answer`, and `related_message_id` is the question it answers.

    A `redacted` message has lost content and answer because a document that it quoted was deleted for good.
    `shown` are the ids of the documents that its search found chunks of, `named` those that a refusal mentions. Both
    are only known until the message is stored.
    """

    message_id: str
    role: Role
    content: str
    time: datetime
    related_message_id: str = ""
    answer: answer_pb2.Answer | None = None
    redacted: bool = False
    shown: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()

    @property
    def abandoned(self) -> bool:
        """Return whether its call ended before the answer was complete."""
        return self.answer is not None and self.answer.finish_reason == answer_pb2.FINISH_REASON_ABANDONED

    @property
    def citations(self) -> tuple[citation_pb2.Citation, ...]:
        """Return all that its answer quotes, what contradicts it last."""
        return (*self.answer.citations, *self.answer.opposing_citations) if self.answer else ()

    @property
    def cited(self) -> frozenset[str]:
        """Return the ids of the documents whose text is in it, as a quote or as a heading.

        What a model wrote without a citation may come from any document that it was shown.
        """
        if self.answer is None:
            return frozenset()
        quoted = self.named | {citation.document_id for citation in self.citations}
        is_traced = all(claim.markers for claim in self.answer.claims)
        return quoted if is_traced else self.shown | quoted

    def without(self, gone: AbstractSet[str]) -> "Message":
        """Return the message without the text of documents that were deleted for good."""
        if self.answer is None or gone.isdisjoint(self.cited | self.shown):
            return self
        if not gone.isdisjoint(self.cited):
            return replace(self, content="", answer=None, redacted=True)
        return replace(self, answer=without_found(self.answer))


def without_found(answer: answer_pb2.Answer) -> answer_pb2.Answer:
    """Return a copy without the search results, which contain text of documents that the answer does not quote."""
    copy = answer_pb2.Answer()
    copy.CopyFrom(answer)
    for name in ("hits", "documents", "explain_plan"):
        copy.ClearField(name)
    return copy


Session: TypeAlias = session_rules.Session[Message]


@dataclass(frozen=True, slots=True)
class NewSession:
    """The caller's settings of a new session; an `idle_timeout` of None means the server's default."""

    collection: str
    idle_timeout: timedelta | None = None
    user_id: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    conversation_id: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer of a session with its question, without its search results.

    `position` is where a listing continues after it: the store, and a number that rises with each message.
    """

    position: tuple[str, int]
    session_id: str
    collection: str
    question: Message
    reply: Message


@dataclass(frozen=True, slots=True)
class Placed:
    """A message with its number in its session, counted from 1."""

    place: int
    message: Message


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message of a session and, when it is a question, its answer."""

    message: Message
    answer: Message | None = None


def most_recent(sessions: Iterable[Session]) -> list[Session]:
    """Return sessions in the order of a listing: the most recently active first."""
    return sorted(sessions, key=lambda session: session.recency, reverse=True)


def start_session(session_id: str, new: NewSession, idle_timeout: timedelta, now: datetime) -> Session:
    """Make a session without messages that belongs to the caller; its times are whole milliseconds, like all stored.

    `idle_timeout` is what it has unless `new` says otherwise.
    """
    now = whole_milliseconds(now)
    return Session(
        session_id,
        new.collection,
        new.idle_timeout or idle_timeout,
        now,
        now,
        transitions=(Transition(None, SessionState.CREATED, now),),
        user_id=new.user_id,
        labels=new.labels,
        conversation_id=new.conversation_id,
        scope=new.scope,
        owner=current_identity().owner,
    )


def with_question(session: Session, question: Message) -> Session:
    """Return the session with a question; the oldest pair leaves the window when there is no room for two messages.

    At no moment are there more than 10 messages (trap T42).
    """
    now = whole_milliseconds(question.time)
    if len(session.messages) + 2 > WINDOW_MESSAGES:
        session = moved(session, SessionState.PRUNING, now)
    excess = max(0, len(session.messages) + 2 - WINDOW_MESSAGES)
    return replace(
        moved(session, SessionState.ACTIVE, now),
        messages=(*session.messages[(excess + excess % 2) :], question),
        head=question.message_id,
        message_count=session.message_count + 1,
        last_activity=now,
    )


def with_answer(session: Session, answer: Message, replacing: str = "") -> Session:
    """Return the session with the answer after its question, or in place of the one with the id `replacing`."""
    earlier = next((each for each in session.messages if replacing and each.message_id == replacing), None)
    messages = (*session.messages, answer)
    if replacing:
        # Messages may follow it, and none may be older than the one above.
        messages = tuple(replace(answer, time=each.time) if each is earlier else each for each in session.messages)
    return replace(
        session,
        messages=messages,
        head=answer.message_id if session.head in {answer.related_message_id, replacing} else session.head,
        message_count=session.message_count + (0 if replacing else 1),
        last_activity=max(session.last_activity, whole_milliseconds(answer.time)),
    )


def aged(session: Session, idle: timedelta) -> Session:
    """Return the session after it has been idle for `idle`: expired if that exceeds its idle timeout."""
    if session.is_closed or idle < session.idle_timeout:
        return session
    return moved(session, SessionState.EXPIRED, session.expire_time)


CATALOG = "catalog"
"""Name of the store in positions of answers that are in a database."""


class SessionStore(Protocol):
    """Keeps sessions; promises are proven by tests/integration/answer/session_store_contract.py.

    All methods raise SessionNotFoundError for an id the tenant does not have, and for a session that the current
    caller does not see; listings and deletions are of those that it sees. A session that was idle for too long
    is EXPIRED whoever reads it, and can be read for a while. Methods that take a receipt raise ConflictError when the
    same call was completed meanwhile: `answered` has its answer. No message holds text of a document that was deleted
    for good.
    """

    async def answered(self, tenant: str, key: RequestKey) -> bytes | None:
        """Return the answer of an earlier call, None when the request id is new or older than a day.

        Raises:
            RequestIdReusedError: the id was used for another method or body.
            SessionNotFoundError: the answer was about a session that has been deleted since.
        """

    async def create(self, tenant: str, session: Session, receipt: Receipt[Session] | None = None) -> Session:
        """Store a new session.

        Raises:
            AlreadyExistsError: the tenant has a session of this id.
        """

    async def get(self, tenant: str, session_id: str) -> Session:
        """Return a session with the messages of its window, oldest first."""

    async def page(
        self, tenant: str, wanted: SessionFilter, after: tuple[datetime, str] | None, limit: int
    ) -> list[Session]:
        """Return the first `limit` sessions of those wanted, without messages, behind `after` (last activity, id).

        The most recently active come first, equal ones by falling id.
        """

    async def messages(self, tenant: str, session_id: str, after: int, limit: int) -> list[Placed]:
        """Return up to `limit` messages behind the place `after`, oldest first, those outside of the window too."""

    async def exchange(self, tenant: str, session_id: str, message_id: str) -> Exchange | None:
        """Return a message with its answer, even if it has left the window; None if there is none with this id."""

    async def begin(self, tenant: str, session_id: str, expected_head: str, question: Message) -> None:
        """Add a question behind `expected_head`, before anything is done for it.

        The oldest pair leaves the window first when there is no room.

        Raises:
            SessionExpiredError: it was idle for too long or was ended.
            SessionHeadMovedError: another message is the newest.
            AlreadyExistsError: a message of the session has the id.
        """

    async def reply(self, tenant: str, session_id: str, answer: Message, replacing: str = "") -> None:
        """Add the answer behind its question, or put it in the place of the one with the id `replacing`.

        Whatever became of the session meanwhile: the question was taken while it was open.

        Raises:
            AlreadyExistsError: the question has another answer than `replacing`, or a message has the id of this one.
            SessionHeadMovedError: it has no answer, and is no longer the newest message.
        """

    async def answers(
        self, tenant: str, wanted: AnswerFilter, after: tuple[str, int] | None, limit: int
    ) -> list[KeptAnswer]:
        """Return up to `limit` answers of all sessions behind the position `after`, the newest first."""

    async def end(self, tenant: str, session_id: str, receipt: Receipt[Session] | None = None) -> Session:
        """End a session and return it without messages; ending it again changes nothing."""

    async def delete(self, tenant: str, session_id: str, receipt: Receipt[int] | None = None) -> int:
        """Delete a session for good; return how many messages went with it."""

    async def delete_of_user(self, tenant: str, user_id: str, receipt: Receipt[int] | None = None) -> int:
        """Delete all sessions of a user, and those recorded in the user's scope, for good; return how many."""


async def create_session(
    sessions: SessionStore, library: Library, tenant: str, session: Session, receipt: Receipt[Session] | None = None
) -> Session:
    """Store and return a new session.

    Raises:
        CollectionNotFoundError: there is no such collection.
        ConflictError: the same call was completed meanwhile.
    """
    await library.profile_of(session.collection)
    return await sessions.create(tenant, session, receipt)


async def open_session(sessions: SessionStore, tenant: str, session_id: str) -> Session:
    """Return a session that takes questions.

    Raises:
        SessionNotFoundError: there is no such session.
        SessionExpiredError: it was idle for too long or was ended.
    """
    session = await sessions.get(tenant, session_id)
    session.refuse_closed()
    return session


class SessionSweeper:
    """A thread that calls `sweep` at its start and on a timer; a failure is logged once and retried."""

    def __init__(self, sweep: Callable[[], object], every_s: float = 600.0) -> None:
        self._sweep = sweep
        self._every_s = every_s
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="session-sweeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_LIMIT_S)

    def _loop(self) -> None:
        has_failed = False
        while not self._closing.is_set():
            try:
                self._sweep()
                has_failed = False
            except Exception as error:  # noqa: BLE001 - the thread must outlive any failure
                if not has_failed:
                    _log.warning(
                        "expired or deleted content of sessions could not be removed and is tried again", exc_info=error
                    )
                has_failed = True
            self._closing.wait(self._every_s)
