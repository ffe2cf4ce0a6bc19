"""Memory keeps sessions as promised and forgets them with the process."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from groundwire.answer.adapters.memory_sessions import MemorySessions
from groundwire.answer.sessions import SessionStore
from groundwire.answer.settings import AnswerSettings, SessionStoreName
from groundwire.api.answer.v1 import answer_pb2
from groundwire.api.common.v1 import hit_pb2
from groundwire.kernel.errors import PreconditionError, SessionNotFoundError
from groundwire.kernel.session import AnswerFilter
from tests.integration.answer.rig import FOXES, Rig, SettableClock
from tests.integration.answer.session_store_contract import DOCS, TENANT, SessionStoreContract


async def none_gone(_document_ids: Sequence[str]) -> frozenset[str]:
    return frozenset()


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


async def test_a_session_that_may_be_idle_for_days_is_kept_for_as_long() -> None:
    contract, clock = SessionStoreContract(), SettableClock()
    store = MemorySessions(clock, none_gone)
    made = await contract._create(store, clock, replace(DOCS, idle_timeout=timedelta(days=3)))
    clock.advance(days=2)
    await contract._create(store, clock)  # which forgets those that were closed long ago
    assert not (await store.get(TENANT, made.session_id)).is_closed


async def test_a_conversation_is_not_kept_in_memory() -> None:
    contract, clock = SessionStoreContract(), SettableClock()
    with pytest.raises(PreconditionError, match="cannot be recorded"):
        await contract._create(MemorySessions(clock, none_gone), clock, replace(DOCS, conversation_id="conv-1"))


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


async def test_a_session_that_is_deleted_while_answers_are_listed_is_no_error_of_the_listing(tmp_path: Path) -> None:
    contract, clock = SessionStoreContract(), SettableClock()
    calls: list[Sequence[str]] = []

    async def gone(document_ids: Sequence[str]) -> frozenset[str]:
        calls.append(document_ids)
        if len(calls) == 1:
            await store.delete(TENANT, sessions[0].session_id)
        return frozenset({"fox"})

    store = MemorySessions(clock, gone)
    sessions = [await contract._create(store, clock) for _ in range(2)]
    for session in sessions:
        question, reply = contract._exchange(clock, session.session_id)
        answer = answer_pb2.Answer(message_id=reply.message_id, hits=[hit_pb2.Hit(rank=1)])
        await store.begin(TENANT, session.session_id, "", question)
        await store.reply(TENANT, session.session_id, replace(reply, answer=answer, shown=frozenset({"fox"})))
    listed = await store.answers(TENANT, AnswerFilter(), None, 10)
    assert listed[0].session_id == sessions[1].session_id
    assert [each.reply.answer and len(each.reply.answer.hits) for each in listed] == [0, 0]
    assert calls == [["fox"]]
