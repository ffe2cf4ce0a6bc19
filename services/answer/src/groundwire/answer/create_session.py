"""Start a session."""

import uuid
from datetime import timedelta

from groundwire.answer.domain.session import NewSession, Session, start_session
from groundwire.answer.ports import CollectionDirectory, Receipt, SessionStore
from groundwire.kernel.clock import Clock


class CreateSession:
    """Starts sessions."""

    def __init__(
        self, *, sessions: SessionStore, collections: CollectionDirectory, clock: Clock, idle_timeout: timedelta
    ) -> None:
        self._sessions = sessions
        self._collections = collections
        self._clock = clock
        self._idle_timeout = idle_timeout

    async def __call__(self, tenant: str, new: NewSession, receipt: Receipt[Session] | None = None) -> Session:
        """Store and return a session.

        Raises:
            CollectionNotFoundError: there is no such collection.
            ConflictError: the same call was completed meanwhile.
        """
        await self._collections.profile_of(tenant, new.collection)
        session = start_session(str(uuid.uuid4()), new, self._idle_timeout, self._clock.now())
        return await self._sessions.create(tenant, session, receipt)
