"""Memory keeps sessions as promised and forgets them with the process."""

import pytest

from groundwire.answer.adapters.memory_sessions import MemorySessions
from groundwire.answer.ports import SessionStore
from groundwire.kernel.errors import SessionNotFoundError
from tests.integration.answer.rig import SettableClock
from tests.integration.answer.session_store_contract import TENANT, SessionStoreContract


class TestMemorySessions(SessionStoreContract):
    @pytest.fixture
    def store(self, clock: SettableClock) -> SessionStore:
        return MemorySessions(clock)


@pytest.mark.requirement("S4-38")
async def test_another_process_does_not_know_them() -> None:
    contract, clock = SessionStoreContract(), SettableClock()
    made = await contract._create(MemorySessions(clock), clock)
    with pytest.raises(SessionNotFoundError):
        await MemorySessions(clock).get(TENANT, made.session_id)


async def test_sessions_that_closed_long_ago_are_forgotten() -> None:
    contract, clock = SessionStoreContract(), SettableClock()
    store = MemorySessions(clock)
    made = await contract._create(store, clock)
    clock.advance(hours=25)
    await contract._create(store, clock)
    with pytest.raises(SessionNotFoundError):
        await store.get(TENANT, made.session_id)
