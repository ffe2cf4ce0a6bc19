"""The SessionStore that forgets with the process: exactly the S4 design (requirement S4-38)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from groundwire.answer.domain.session import Message, Session, SessionState, aged, most_recent, moved, with_exchange
from groundwire.kernel.clock import Clock
from groundwire.kernel.errors import (
    AlreadyExistsError,
    SessionExpiredError,
    SessionHeadMovedError,
    SessionNotFoundError,
)

KEPT_CLOSED = timedelta(hours=24)
"""How long an expired or ended session can still be read; the catalog keeps them as long."""


class MemorySessions:
    """Sessions of one process, lost when it ends. Used from one event loop.

    Args:
        clock: for ages.
        gone: returns those of some documents, by id, that a tenant has deleted for good.
    """

    def __init__(self, clock: Clock, gone: Callable[[str, Sequence[str]], Awaitable[Sequence[str]]]) -> None:
        self._clock = clock
        self._gone = gone
        self._sessions: dict[tuple[str, str], Session] = {}
        self._active_s: dict[tuple[str, str], float] = {}

    async def create(self, tenant: str, session: Session) -> Session:
        """Store a new session; see `groundwire.answer.ports.SessionStore`."""
        self._sweep()
        key = (tenant, session.session_id)
        if key in self._sessions:
            raise AlreadyExistsError(f"session {session.session_id!r} exists", resource=session.session_id)
        self._active_s[key] = self._clock.elapsed_s()
        return self._store(tenant, session)

    async def get(self, tenant: str, session_id: str) -> Session:
        """Return a session; see `groundwire.answer.ports.SessionStore`."""
        held = self._require(tenant, session_id).messages
        documents = sorted({each for message in held for each in message.cited | message.shown})
        gone = frozenset(await self._gone(tenant, documents)) if documents else frozenset()
        session = self._require(tenant, session_id)  # it may have moved on meanwhile
        messages = tuple(message.without(gone) for message in session.messages)
        return self._store(tenant, replace(session, messages=messages))

    def has(self, tenant: str, session_id: str) -> bool:
        """Tell whether the session is held here."""
        return (tenant, session_id) in self._sessions

    async def page(self, tenant: str, after: tuple[datetime, str] | None, limit: int) -> list[Session]:
        """Return sessions; see `groundwire.answer.ports.SessionStore`."""
        mine = [self._require(*key) for key in self._sessions if key[0] == tenant]
        return [session for session in most_recent(mine) if after is None or session.recency < after][:limit]

    async def append(self, tenant: str, session_id: str, expected_head: str, exchange: tuple[Message, Message]) -> None:
        """Add an exchange; see `groundwire.answer.ports.SessionStore`."""
        session = self._require(tenant, session_id)
        if session.is_closed:
            raise SessionExpiredError(f"the session is {session.state.value.lower()}", session_id=session_id)
        if session.head != expected_head:
            raise SessionHeadMovedError(
                "the session has newer messages", expected_head=expected_head, head=session.head
            )
        used = {message.message_id for message in session.messages}
        for message in exchange:
            if message.message_id in used:
                raise AlreadyExistsError("the session has a message of this id", message_id=message.message_id)
            used.add(message.message_id)
        self._active_s[tenant, session_id] = self._clock.elapsed_s()
        self._store(tenant, with_exchange(session, *exchange))

    async def end(self, tenant: str, session_id: str) -> Session:
        """End a session; see `groundwire.answer.ports.SessionStore`."""
        return self._store(tenant, moved(self._require(tenant, session_id), SessionState.ENDED, self._clock.now()))

    def _require(self, tenant: str, session_id: str) -> Session:
        session = self._sessions.get((tenant, session_id))
        if session is None:
            raise SessionNotFoundError(session_id)
        return aged(session, self._idle((tenant, session_id)))

    def _idle(self, key: tuple[str, str]) -> timedelta:
        return timedelta(seconds=self._clock.elapsed_s() - self._active_s[key])

    def _store(self, tenant: str, session: Session) -> Session:
        self._sessions[tenant, session.session_id] = session
        return session

    def _sweep(self) -> None:
        """Forget sessions that closed long ago."""
        kept = {key: each.idle_timeout + KEPT_CLOSED for key, each in self._sessions.items()}
        for key in [key for key, longest in kept.items() if self._idle(key) > longest]:
            del self._sessions[key], self._active_s[key]
