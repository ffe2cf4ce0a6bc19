"""List sessions."""

from datetime import datetime

from groundwire.answer.domain.session import Session, SessionFilter
from groundwire.answer.ports import SessionStore

_READ_AHEAD = 200


class ListSessions:
    """Lists sessions."""

    def __init__(self, sessions: SessionStore) -> None:
        self._sessions = sessions

    async def __call__(
        self, tenant: str, wanted: SessionFilter, after: tuple[datetime, str] | None, limit: int
    ) -> list[Session]:
        """Return up to `limit` sessions behind `after` (last activity, id), the most recently active first."""
        found: list[Session] = []
        while len(found) < limit:
            page = await self._sessions.page(tenant, wanted, after, _READ_AHEAD)
            found += [session for session in page if wanted.admits(session)]
            if len(page) < _READ_AHEAD:
                break
            after = page[-1].recency
        return found[:limit]
