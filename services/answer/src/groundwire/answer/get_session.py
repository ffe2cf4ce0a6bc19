"""Read a session."""

from groundwire.answer.domain.session import Session
from groundwire.answer.ports import SessionStore


class GetSession:
    """Reads sessions; that is no activity."""

    def __init__(self, sessions: SessionStore) -> None:
        self._sessions = sessions

    async def __call__(self, tenant: str, session_id: str) -> Session:
        """Return a session with its window, also when it has expired or ended.

        Raises:
            SessionNotFoundError: there is no such session.
        """
        return await self._sessions.get(tenant, session_id)
