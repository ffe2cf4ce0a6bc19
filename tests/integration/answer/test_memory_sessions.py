"""Memory keeps sessions as promised and forgets them with the process."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from groundwire.answer.adapters.memory_sessions import MemorySessions
from groundwire.answer.sessions import SessionStore
from groundwire.answer.settings import AnswerSettings, SessionStoreName
from groundwire.kernel.errors import SessionNotFoundError
from tests.integration.answer.rig import FOXES, Rig, SettableClock
from tests.integration.answer.session_store_contract import TENANT, SessionStoreContract


async def none_gone(_tenant: str, _document_ids: Sequence[str]) -> Sequence[str]:
    return []


class TestMemorySessions(SessionStoreContract):
    @pytest.fixture
    def store(self, clock: SettableClock) -> SessionStore:
        return MemorySessions(clock, none_gone)


@pytest.mark.requirement("S4-38")
async def test_a_session_in_memory_does_not_survive_a_restart_and_one_in_the_catalog_does(tmp_path: Path) -> None:
    for store, survives in ((SessionStoreName.MEMORY, False), (SessionStoreName.CATALOG, True)):
        folder = tmp_path / store.value
        folder.mkdir()
        settings = AnswerSettings(min_support=0.3, session_store=store)
        rig = Rig(folder, settings=settings)
        rig.library.put("foxes.txt", FOXES)
        session_id = await rig.session()
        answer = await rig.ask("What do red foxes eat?", session_id=session_id)
        assert [message.content for message in await rig.messages(session_id)][1] == answer.content
        rig.close()
        again = Rig(folder, settings=settings)
        try:
            if survives:
                assert len(await again.messages(session_id)) == 2
            else:
                with pytest.raises(SessionNotFoundError):
                    await again.messages(session_id)
                with pytest.raises(SessionNotFoundError):
                    await again.ask("What do red foxes eat?", session_id=session_id)
        finally:
            again.close()


async def test_another_process_does_not_know_them() -> None:
    contract, clock = SessionStoreContract(), SettableClock()
    made = await contract._create(MemorySessions(clock, none_gone), clock)
    with pytest.raises(SessionNotFoundError):
        await MemorySessions(clock, none_gone).get(TENANT, made.session_id)


async def test_sessions_that_closed_long_ago_are_forgotten() -> None:
    contract, clock = SessionStoreContract(), SettableClock()
    store = MemorySessions(clock, none_gone)
    made = await contract._create(store, clock)
    clock.advance(hours=25)
    await contract._create(store, clock)
    with pytest.raises(SessionNotFoundError):
        await store.get(TENANT, made.session_id)
