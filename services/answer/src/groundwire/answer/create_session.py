"""Start a session."""

import uuid
from datetime import timedelta

from groundwire.answer.domain.session import NewSession, Session, start_session
from groundwire.answer.ports import CollectionDirectory, SessionStore
from groundwire.kernel.clock import Clock
from groundwire.kernel.errors import AlreadyExistsError, RequestIdReusedError

_NAMESPACE = uuid.UUID("6d3b7a3e-1c0f-5d0e-9a5e-0f7f3f7c5a11")


class CreateSession:
    """Starts sessions."""

    def __init__(
        self, *, sessions: SessionStore, collections: CollectionDirectory, clock: Clock, idle_timeout: timedelta
    ) -> None:
        self._sessions = sessions
        self._collections = collections
        self._clock = clock
        self._idle_timeout = idle_timeout

    async def __call__(self, tenant: str, new: NewSession) -> Session:
        """Store and return a session.

        With a request id the session's id follows from it, so a retry finds the session it made.

        Raises:
            CollectionNotFoundError: there is no such collection.
            RequestIdReusedError: the request id made a session with other settings.
        """
        await self._collections.profile_of(tenant, new.collection)
        session_id = uuid.uuid5(_NAMESPACE, f"{tenant}\0{new.request_id}") if new.request_id else uuid.uuid4()
        timeout = new.idle_timeout or self._idle_timeout
        session = start_session(str(session_id), new.collection, timeout, self._clock.now())
        try:
            return await self._sessions.create(tenant, session)
        except AlreadyExistsError:
            return self._same(await self._sessions.get(tenant, session.session_id), session, new.request_id)

    @staticmethod
    def _same(existing: Session, wanted: Session, request_id: str) -> Session:
        if (existing.collection, existing.idle_timeout) != (wanted.collection, wanted.idle_timeout):
            raise RequestIdReusedError("the request id was used with another body", request_id=request_id)
        return existing
