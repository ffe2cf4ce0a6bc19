"""End a session."""

from groundwire.answer.domain.session import Session
from groundwire.answer.ports import SessionStore


class EndSession:
    """Ends sessions."""

    def __init__(self, sessions: SessionStore) -> None:
        self._sessions = sessions

    async def __call__(self, tenant: str, session_id: str) -> Session:
        """End a session and return it; one that has ended is returned as it is.

        Raises:
            SessionNotFoundError: there is no such session.
        """
        return await self._sessions.end(tenant, session_id)
