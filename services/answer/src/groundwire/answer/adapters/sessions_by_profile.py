"""The SessionStore that keeps sessions about books in memory, and all others in the catalog (requirement S4-44)."""

from datetime import datetime

from groundwire.answer.adapters.catalog_sessions import CatalogSessions
from groundwire.answer.adapters.memory_sessions import MemorySessions
from groundwire.answer.domain.session import Message, Session, most_recent
from groundwire.answer.ports import CollectionDirectory, SessionStore
from groundwire.kernel.collection import ProfileName


class SessionsByProfile:
    """Nothing that is asked about a collection of the book profile, and nothing that is answered, reaches the disk."""

    def __init__(self, catalog: CatalogSessions, memory: MemorySessions, collections: CollectionDirectory) -> None:
        self._catalog = catalog
        self._memory = memory
        self._collections = collections

    async def create(self, tenant: str, session: Session) -> Session:
        """Store a new session; see `groundwire.answer.ports.SessionStore`."""
        is_book = await self._collections.profile_of(tenant, session.collection) is ProfileName.BOOK
        store: SessionStore = self._memory if is_book else self._catalog
        return await store.create(tenant, session)

    async def get(self, tenant: str, session_id: str) -> Session:
        """Return a session; see `groundwire.answer.ports.SessionStore`."""
        return await self._store_of(tenant, session_id).get(tenant, session_id)

    async def page(self, tenant: str, after: tuple[datetime, str] | None, limit: int) -> list[Session]:
        """Return sessions; see `groundwire.answer.ports.SessionStore`."""
        found = await self._catalog.page(tenant, after, limit)
        return most_recent([*found, *await self._memory.page(tenant, after, limit)])[:limit]

    async def append(self, tenant: str, session_id: str, expected_head: str, exchange: tuple[Message, Message]) -> None:
        """Add an exchange; see `groundwire.answer.ports.SessionStore`."""
        await self._store_of(tenant, session_id).append(tenant, session_id, expected_head, exchange)

    async def end(self, tenant: str, session_id: str) -> Session:
        """End a session; see `groundwire.answer.ports.SessionStore`."""
        return await self._store_of(tenant, session_id).end(tenant, session_id)

    def _store_of(self, tenant: str, session_id: str) -> SessionStore:
        return self._memory if self._memory.has(tenant, session_id) else self._catalog
