"""What every SessionStore promises; see `groundwire.answer.ports.SessionStore`."""

import asyncio
import uuid
from dataclasses import replace
from datetime import timedelta

import pytest

from groundwire.answer.domain.session import Message, Role, Session, SessionState, start_session
from groundwire.answer.ports import SessionStore
from groundwire.answer.wire.sessions import parse_position, to_position
from groundwire.kernel.errors import (
    AlreadyExistsError,
    SessionExpiredError,
    SessionHeadMovedError,
    SessionNotFoundError,
)
from tests.integration.answer.rig import SettableClock

TENANT = "default"


class SessionStoreContract:
    """Subclasses give the fixtures `store` and `clock`."""

    @pytest.fixture
    def clock(self) -> SettableClock:
        return SettableClock()

    async def _create(self, store: SessionStore, clock: SettableClock, tenant: str = TENANT) -> Session:
        new = start_session(str(uuid.uuid4()), "docs", timedelta(minutes=30), clock.now())
        return await store.create(tenant, new)

    def _exchange(self, clock: SettableClock, name: str) -> tuple[Message, Message]:
        question = Message(f"{name}-q", Role.USER, f"{name}?", clock.now())
        return question, Message(f"{name}-a", Role.ASSISTANT, f"{name}!", clock.now(), f"{name}-q")

    async def test_what_is_created_is_read_back(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        assert await store.get(TENANT, made.session_id) == made
        assert made.state is SessionState.CREATED
        assert [transition.after for transition in made.transitions] == [SessionState.CREATED]

    async def test_an_id_is_used_once(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        with pytest.raises(AlreadyExistsError):
            await store.create(TENANT, made)

    async def test_an_exchange_moves_head_and_activity(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        clock.advance(seconds=5)
        exchange = self._exchange(clock, "one")
        await store.append(TENANT, made.session_id, "", exchange)
        session = await store.get(TENANT, made.session_id)
        assert session.messages == exchange
        assert (session.head, session.message_count, session.state) == ("one-a", 2, SessionState.ACTIVE)
        assert session.last_activity == clock.now()

    async def test_a_moved_head_refuses_both_messages(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        await store.append(TENANT, made.session_id, "", self._exchange(clock, "one"))
        with pytest.raises(SessionHeadMovedError):
            await store.append(TENANT, made.session_id, "", self._exchange(clock, "two"))
        assert len((await store.get(TENANT, made.session_id)).messages) == 2

    async def test_two_appends_to_one_head_have_one_winner(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        outcomes = await asyncio.gather(
            *(store.append(TENANT, made.session_id, "", self._exchange(clock, f"e{number}")) for number in range(4)),
            return_exceptions=True,
        )
        assert sum(outcome is None for outcome in outcomes) == 1
        assert len((await store.get(TENANT, made.session_id)).messages) == 2

    async def test_the_window_holds_ten_messages_in_whole_pairs(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        made, head = await self._create(store, clock), ""
        for number in range(8):
            exchange = self._exchange(clock, f"e{number}")
            await store.append(TENANT, made.session_id, head, exchange)
            head = exchange[1].message_id
            assert len((await store.get(TENANT, made.session_id)).messages) <= 10
        session = await store.get(TENANT, made.session_id)
        assert [message.message_id for message in session.messages[:2]] == ["e3-q", "e3-a"]
        assert session.message_count == 16
        assert SessionState.PRUNING in {transition.after for transition in session.transitions}
        assert session.state is SessionState.ACTIVE

    async def test_idle_sessions_expire_whoever_reads_them(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        clock.advance(minutes=30, seconds=1)
        assert (await store.get(TENANT, made.session_id)).state is SessionState.EXPIRED
        assert (await store.page(TENANT, None, 10))[0].state is SessionState.EXPIRED
        with pytest.raises(SessionExpiredError):
            await store.append(TENANT, made.session_id, "", self._exchange(clock, "one"))

    async def test_an_end_is_final_and_may_be_repeated(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        await store.append(TENANT, made.session_id, "", self._exchange(clock, "one"))
        ended = await store.end(TENANT, made.session_id)
        assert ended.state is SessionState.ENDED
        assert await store.end(TENANT, made.session_id) == ended == await store.get(TENANT, made.session_id)
        with pytest.raises(SessionExpiredError):
            await store.append(TENANT, made.session_id, "one-a", self._exchange(clock, "two"))

    async def test_tenants_do_not_see_each_other(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        assert await store.page("other", None, 10) == []
        for call in (
            store.get("other", made.session_id),
            store.end("other", made.session_id),
            store.append("other", made.session_id, "", self._exchange(clock, "one")),
        ):
            with pytest.raises(SessionNotFoundError):
                await call

    async def test_pages_go_by_falling_activity(self, store: SessionStore, clock: SettableClock) -> None:
        made = []
        for _ in range(4):
            made.append((await self._create(store, clock)).session_id)
            clock.advance(seconds=1)
        first = await store.page(TENANT, None, 3)
        assert [session.session_id for session in first] == made[:0:-1]
        rest = await store.page(TENANT, (first[-1].last_activity, first[-1].session_id), 3)
        assert [session.session_id for session in rest] == made[:1]

    async def test_sessions_of_one_millisecond_are_all_on_the_pages(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        """Whatever else a page is cut at: what a token holds tells all sessions apart."""
        clock.advance(microseconds=100)
        made = set()
        for _ in range(5):
            made.add((await self._create(store, clock)).session_id)
            clock.advance(microseconds=150)
        seen, after = list[str](), None
        while page := await store.page(TENANT, after, 2):
            seen += [session.session_id for session in page]
            after = parse_position(to_position(page[-1]))
        assert len(seen) == 5
        assert set(seen) == made

    async def test_an_id_of_a_message_in_the_window_is_used_once(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        made = await self._create(store, clock)
        await store.append(TENANT, made.session_id, "", self._exchange(clock, "one"))
        question, answer = self._exchange(clock, "two")
        taken = replace(question, message_id="one-a")
        with pytest.raises(AlreadyExistsError):
            await store.append(TENANT, made.session_id, "one-a", (taken, answer))
        same = replace(question, message_id=answer.message_id)
        with pytest.raises(AlreadyExistsError):
            await store.append(TENANT, made.session_id, "one-a", (same, answer))
        found = await store.get(TENANT, made.session_id)
        assert [message.message_id for message in found.messages] == ["one-q", "one-a"]
        assert found.head == "one-a"

    @pytest.mark.parametrize("hours", [-1, 25])
    async def test_sessions_expire_by_time_that_passes_however_the_clock_is_set(
        self, store: SessionStore, clock: SettableClock, hours: int
    ) -> None:
        made = await self._create(store, clock)
        clock.jump(hours=hours)
        clock.advance(minutes=29)
        assert (await store.get(TENANT, made.session_id)).state is SessionState.CREATED
        await store.append(TENANT, made.session_id, "", self._exchange(clock, "one"))
        clock.jump(hours=hours)
        clock.advance(minutes=31)
        assert (await store.get(TENANT, made.session_id)).state is SessionState.EXPIRED
