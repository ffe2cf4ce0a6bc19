"""The SessionStore that keeps sessions about books in memory, and all others in the catalog (requirement S4-44)."""

from datetime import datetime

from groundwire.answer.adapters.catalog_sessions import CatalogSessions
from groundwire.answer.adapters.memory_sessions import MemorySessions
from groundwire.answer.domain.session import Exchange, Message, Placed, Session, SessionFilter, most_recent
from groundwire.answer.ports import CollectionDirectory, Receipt, SessionStore
from groundwire.kernel.collection import ProfileName
from groundwire.kernel.request_key import RequestKey


class SessionsByProfile:
    """Nothing that is asked about a collection of the book profile, and nothing that is answered, reaches the disk."""

    def __init__(self, catalog: CatalogSessions, memory: MemorySessions, collections: CollectionDirectory) -> None:
        self._catalog = catalog
        self._memory = memory
        self._collections = collections

    async def answered(self, tenant: str, key: RequestKey) -> bytes | None:
        """Return an earlier answer; see `groundwire.answer.ports.SessionStore`."""
        answer = await self._memory.answered(tenant, key)
        return await self._catalog.answered(tenant, key) if answer is None else answer

    async def create(self, tenant: str, session: Session, receipt: Receipt[Session] | None = None) -> Session:
        """Store a new session; see `groundwire.answer.ports.SessionStore`."""
        is_book = await self._collections.profile_of(tenant, session.collection) is ProfileName.BOOK
        store: SessionStore = self._memory if is_book else self._catalog
        return await store.create(tenant, session, receipt)

    async def get(self, tenant: str, session_id: str) -> Session:
        """Return a session; see `groundwire.answer.ports.SessionStore`."""
        return await self._store_of(tenant, session_id).get(tenant, session_id)

    async def page(
        self, tenant: str, wanted: SessionFilter, after: tuple[datetime, str] | None, limit: int
    ) -> list[Session]:
        """Return sessions; see `groundwire.answer.ports.SessionStore`."""
        found = await self._catalog.page(tenant, wanted, after, limit)
        return most_recent([*found, *await self._memory.page(tenant, wanted, after, limit)])[:limit]

    async def messages(self, tenant: str, session_id: str, after: int, limit: int) -> list[Placed]:
        """Return messages; see `groundwire.answer.ports.SessionStore`."""
        return await self._store_of(tenant, session_id).messages(tenant, session_id, after, limit)

    async def exchange(self, tenant: str, session_id: str, message_id: str) -> Exchange | None:
        """Return a message with its answer; see `groundwire.answer.ports.SessionStore`."""
        return await self._store_of(tenant, session_id).exchange(tenant, session_id, message_id)

    async def append(self, tenant: str, session_id: str, expected_head: str, exchange: tuple[Message, Message]) -> None:
        """Add an exchange; see `groundwire.answer.ports.SessionStore`."""
        await self._store_of(tenant, session_id).append(tenant, session_id, expected_head, exchange)

    async def end(self, tenant: str, session_id: str, receipt: Receipt[Session] | None = None) -> Session:
        """End a session; see `groundwire.answer.ports.SessionStore`."""
        return await self._store_of(tenant, session_id).end(tenant, session_id, receipt)

    async def delete(self, tenant: str, session_id: str, receipt: Receipt[int] | None = None) -> int:
        """Delete a session; see `groundwire.answer.ports.SessionStore`."""
        return await self._store_of(tenant, session_id).delete(tenant, session_id, receipt)

    async def delete_of_user(self, tenant: str, user_id: str, receipt: Receipt[int] | None = None) -> int:
        """Delete sessions; see `groundwire.answer.ports.SessionStore`."""
        in_memory = await self._memory.delete_of_user(tenant, user_id)
        both = receipt and Receipt(receipt.key, lambda count: receipt.encode(in_memory + count))
        return in_memory + await self._catalog.delete_of_user(tenant, user_id, both)

    def _store_of(self, tenant: str, session_id: str) -> SessionStore:
        return self._memory if self._memory.has(tenant, session_id) else self._catalog
