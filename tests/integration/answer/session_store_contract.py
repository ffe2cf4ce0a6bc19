"""What every SessionStore promises; see `groundwire.answer.sessions.SessionStore`."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from groundwire.answer.messages import parse_position, to_position
from groundwire.answer.sessions import Message, NewSession, Session, SessionStore, start_session
from groundwire.kernel.errors import (
    AlreadyExistsError,
    ConflictError,
    RequestIdReusedError,
    SessionExpiredError,
    SessionHeadMovedError,
    SessionNotFoundError,
)
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.identifiers import RequestKey
from groundwire.kernel.identity import ALL_RIGHTS, CURRENT_IDENTITY, Identity, Right
from groundwire.kernel.session import AnswerFilter, Role, SessionFilter, SessionState
from tests.integration.answer.rig import SettableClock

TENANT = "default"
ANY = SessionFilter()
READ = frozenset({Right.READ})
ANN = Identity(TENANT, "ann", READ, ("global", "entity:ann"))
SEEING = (ANN, Identity(TENANT, "ann", READ), Identity(TENANT, "boss", ALL_RIGHTS))
"""Who sees a session of `ANN`: she herself, with these scopes or all, and whoever administrates."""
STRANGERS = (
    Identity(TENANT, "ben", READ),
    Identity(TENANT, "ben", READ, ANN.scopes),
    Identity(TENANT, "ann", READ, ("entity:ann",)),
    Identity(TENANT, "boss", ALL_RIGHTS, ANN.scopes),
)
DOCS = NewSession("docs")


class SessionStoreContract:
    """Subclasses give the fixtures `store` and `clock`."""

    @pytest.fixture
    def clock(self) -> SettableClock:
        return SettableClock()

    async def _create(
        self, store: SessionStore, clock: SettableClock, new: NewSession = DOCS, tenant: str = TENANT
    ) -> Session:
        return await store.create(tenant, start_session(str(uuid.uuid4()), new, timedelta(minutes=30), clock.now()))

    async def _talk(self, store: SessionStore, clock: SettableClock, session: Session, exchanges: int) -> None:
        head = ""
        for number in range(exchanges):
            exchange = self._exchange(clock, f"e{number}")
            await self._append(store, session.session_id, head, exchange)
            head = exchange[1].message_id

    async def _append(
        self,
        store: SessionStore,
        session_id: str,
        head: str,
        exchange: tuple[Message, Message],
        tenant: str = TENANT,
    ) -> None:
        question, answer = exchange
        await store.begin(tenant, session_id, head, question)
        await store.reply(tenant, session_id, answer)

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
        await self._append(store, made.session_id, "", exchange)
        session = await store.get(TENANT, made.session_id)
        assert session.messages == exchange
        assert (session.head, session.message_count, session.state) == ("one-a", 2, SessionState.ACTIVE)
        assert session.last_activity == clock.now()

    async def test_a_moved_head_refuses_both_messages(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        await self._append(store, made.session_id, "", self._exchange(clock, "one"))
        with pytest.raises(SessionHeadMovedError):
            await self._append(store, made.session_id, "", self._exchange(clock, "two"))
        assert len((await store.get(TENANT, made.session_id)).messages) == 2

    async def test_two_appends_to_one_head_have_one_winner(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        outcomes = await asyncio.gather(
            *(self._append(store, made.session_id, "", self._exchange(clock, f"e{number}")) for number in range(4)),
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
            await self._append(store, made.session_id, head, exchange)
            head = exchange[1].message_id
            assert len((await store.get(TENANT, made.session_id)).messages) <= 10
        session = await store.get(TENANT, made.session_id)
        assert [message.message_id for message in session.messages[:2]] == ["e3-q", "e3-a"]
        assert session.message_count == 16
        assert SessionState.PRUNING in {transition.after for transition in session.transitions}
        assert session.state is SessionState.ACTIVE

    async def test_idle_sessions_expire_whoever_reads_them(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        clock.advance(minutes=30)
        assert (await store.get(TENANT, made.session_id)).state is SessionState.EXPIRED
        assert (await store.page(TENANT, ANY, None, 10))[0].state is SessionState.EXPIRED
        with pytest.raises(SessionExpiredError):
            await self._append(store, made.session_id, "", self._exchange(clock, "one"))

    async def test_an_end_is_final_and_may_be_repeated(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        await self._append(store, made.session_id, "", self._exchange(clock, "one"))
        ended = await store.end(TENANT, made.session_id)
        assert ended.state is SessionState.ENDED
        assert await store.end(TENANT, made.session_id) == ended
        assert replace(await store.get(TENANT, made.session_id), messages=()) == ended
        with pytest.raises(SessionExpiredError):
            await self._append(store, made.session_id, "one-a", self._exchange(clock, "two"))

    async def test_tenants_do_not_see_each_other(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        assert await store.page("other", ANY, None, 10) == []
        for call in (
            store.get("other", made.session_id),
            store.messages("other", made.session_id, 0, 10),
            store.exchange("other", made.session_id, "one-q"),
            store.end("other", made.session_id),
            store.delete("other", made.session_id),
            self._append(store, made.session_id, "", self._exchange(clock, "one"), "other"),
            store.reply("other", made.session_id, self._exchange(clock, "one")[1]),
        ):
            with pytest.raises(SessionNotFoundError):
                await call

    async def test_pages_go_by_falling_activity(self, store: SessionStore, clock: SettableClock) -> None:
        made = []
        for _ in range(4):
            made.append((await self._create(store, clock)).session_id)
            clock.advance(seconds=1)
        first = await store.page(TENANT, ANY, None, 3)
        assert [session.session_id for session in first] == made[:0:-1]
        rest = await store.page(TENANT, ANY, (first[-1].last_activity, first[-1].session_id), 3)
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
        while page := await store.page(TENANT, ANY, after, 2):
            seen += [session.session_id for session in page]
            after = parse_position(to_position(page[-1]))
        assert len(seen) == 5
        assert set(seen) == made

    async def test_all_messages_are_kept_and_read_in_pages(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        assert await store.messages(TENANT, made.session_id, 0, 5) == []
        await self._talk(store, clock, made, 8)
        seen = list[str]()
        while page := await store.messages(TENANT, made.session_id, len(seen), 5):
            assert [each.place for each in page] == list(range(len(seen) + 1, len(seen) + len(page) + 1))
            seen += [each.message.message_id for each in page]
        assert seen == [f"e{number}-{role}" for number in range(8) for role in "qa"]

    async def test_an_exchange_is_found_whether_or_not_it_is_in_the_window(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        made = await self._create(store, clock)
        await self._talk(store, clock, made, 8)
        for name in ("e0", "e7"):
            found = await store.exchange(TENANT, made.session_id, f"{name}-q")
            assert found is not None
            assert found.answer is not None
            assert (found.message.content, found.answer.content) == (f"{name}?", f"{name}!")
            answer = await store.exchange(TENANT, made.session_id, f"{name}-a")
            assert answer is not None
            assert (answer.message.role, answer.answer) == (Role.ASSISTANT, None)
        assert await store.exchange(TENANT, made.session_id, "e8-q") is None

    async def test_a_session_keeps_whose_it_is(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock, NewSession("docs", user_id="ann", labels={"team": "red", "n": "1"}))
        assert (made.user_id, dict(made.labels)) == ("ann", {"team": "red", "n": "1"})
        assert await store.get(TENANT, made.session_id) == made

    async def test_the_sessions_of_a_user_are_listed(self, store: SessionStore, clock: SettableClock) -> None:
        users = ("ann", "bob", "ann", "")
        made = [await self._create(store, clock, NewSession("docs", user_id=user)) for user in users]
        ann = await store.page(TENANT, SessionFilter(user_id="ann"), None, 10)
        assert {each.session_id for each in ann} == {made[0].session_id, made[2].session_id}
        (bob,) = await store.page(TENANT, SessionFilter(user_id="bob"), None, 10)
        assert bob.session_id == made[1].session_id
        assert len(await store.page(TENANT, ANY, None, 10)) == 4

    async def test_few_sessions_among_many_are_found_page_by_page(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        """Of 120, 6 have both labels: each page is as full as it can be, and nothing is skipped or repeated."""
        made = []
        for number in range(120):
            labels = {"team": "red" if number % 10 == 0 else "blue", "shift": "early" if number % 20 == 0 else "late"}
            made.append(await self._create(store, clock, NewSession("docs", user_id="ann", labels=labels)))
            clock.advance(seconds=1)
        wanted = SessionFilter("docs", "ann", labels={"team": "red", "shift": "early"})
        pages, after = list[list[str]](), None
        while page := await store.page(TENANT, wanted, after, 4):
            pages.append([session.session_id for session in page])
            after = page[-1].recency
        early = [made[number].session_id for number in (100, 80, 60, 40, 20, 0)]
        assert pages == [early[:4], early[4:]]
        for labels in ({"team": "red", "shift": "noon"}, {"red": "team"}, {'"': "$"}, {"team": "RED"}):
            assert await store.page(TENANT, SessionFilter(labels=labels), None, 10) == []

    async def test_sessions_are_listed_by_the_state_that_they_are_read_in(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        old, ended_old = await self._create(store, clock), await self._create(store, clock)
        await store.end(TENANT, ended_old.session_id)
        clock.advance(minutes=30)  # when it expires, and not a moment later
        new, ended, used = [await self._create(store, clock) for _ in range(3)]
        await store.end(TENANT, ended.session_id)
        await self._talk(store, clock, used, 1)
        listed = {
            state: {each.session_id for each in await store.page(TENANT, SessionFilter(state=state), None, 10)}
            for state in SessionState
        }
        assert listed == {
            SessionState.CREATED: {new.session_id},
            SessionState.ACTIVE: {used.session_id},
            SessionState.PRUNING: set(),
            SessionState.EXPIRED: {old.session_id},
            SessionState.ENDED: {ended.session_id, ended_old.session_id},
        }

    async def test_a_deleted_session_is_gone_with_its_messages(self, store: SessionStore, clock: SettableClock) -> None:
        made, other = await self._create(store, clock), await self._create(store, clock)
        await self._talk(store, clock, made, 7)
        assert await store.delete(TENANT, made.session_id) == 14
        for call in (
            store.get(TENANT, made.session_id),
            store.messages(TENANT, made.session_id, 0, 10),
            store.exchange(TENANT, made.session_id, "e0-q"),
            self._append(store, made.session_id, "e6-a", self._exchange(clock, "late")),
            store.delete(TENANT, made.session_id),
        ):
            with pytest.raises(SessionNotFoundError):
                await call
        assert [each.session_id for each in await store.page(TENANT, ANY, None, 10)] == [other.session_id]

    async def test_all_sessions_of_a_user_are_deleted(self, store: SessionStore, clock: SettableClock) -> None:
        for user in ("ann", "bob", "ann"):
            await self._create(store, clock, NewSession("docs", user_id=user))
        await self._create(store, clock, NewSession("docs", user_id="ann"), tenant="other")
        assert await store.delete_of_user(TENANT, "ann") == 2
        assert [each.user_id for each in await store.page(TENANT, ANY, None, 10)] == ["bob"]
        assert len(await store.page("other", ANY, None, 10)) == 1
        assert await store.delete_of_user(TENANT, "ann") == 0

    async def test_a_call_is_remembered_with_its_effect(self, store: SessionStore, clock: SettableClock) -> None:
        key = RequestKey(str(uuid.uuid4()), "EndSession", "body")
        made, other = await self._create(store, clock), await self._create(store, clock)
        assert await store.answered(TENANT, key) is None
        receipt = Receipt[Session](key, lambda session: session.state.value.encode())
        await store.end(TENANT, made.session_id, receipt)
        assert await store.answered(TENANT, key) == b"ENDED"
        assert await store.answered("other", key) is None
        with pytest.raises(RequestIdReusedError):
            await store.answered(TENANT, replace(key, body_digest="another"))
        with pytest.raises(ConflictError):
            await store.end(TENANT, made.session_id, receipt)
        clock.advance(hours=23, minutes=59)
        assert await store.answered(TENANT, key) == b"ENDED"
        clock.advance(minutes=2)
        assert await store.answered(TENANT, key) is None
        # The id may be used again.
        await store.end(TENANT, other.session_id, receipt)
        assert await store.answered(TENANT, key) == b"ENDED"

    async def test_what_is_remembered_of_a_session_goes_with_it(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        keys = [RequestKey(str(uuid.uuid4()), method, "body") for method in ("EndSession", "DeleteSession")]
        made = await self._create(store, clock, NewSession("docs", user_id="ann"))
        await store.end(TENANT, made.session_id, Receipt(keys[0], lambda session: session.user_id.encode()))
        await store.delete(TENANT, made.session_id, Receipt(keys[1], lambda count: b"%d" % (count + 1)))
        with pytest.raises(SessionNotFoundError):
            await store.answered(TENANT, keys[0])
        assert await store.answered(TENANT, keys[1]) == b"1"

    async def test_what_is_remembered_of_a_new_session_goes_with_it_too(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        key = RequestKey(str(uuid.uuid4()), "CreateSession", "body")
        new = start_session(
            str(uuid.uuid4()), NewSession("docs", scope="entity:ann"), timedelta(minutes=30), clock.now()
        )
        made = await store.create(TENANT, new, Receipt(key, lambda session: session.session_id.encode()))
        assert made == new
        assert made.scope == "entity:ann"
        assert await store.answered(TENANT, key) == made.session_id.encode()
        await store.delete(TENANT, made.session_id)
        with pytest.raises(SessionNotFoundError):
            await store.answered(TENANT, key)

    async def test_a_deletion_of_many_sessions_is_remembered_with_the_count_of_all(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        key = RequestKey(str(uuid.uuid4()), "DeleteSessions", "body")
        for _ in range(205):
            await self._create(store, clock, NewSession("docs", user_id="ann"))
        receipt = Receipt[int](key, lambda count: b"%d" % count)
        assert await store.delete_of_user(TENANT, "ann", receipt) == 205
        assert await store.answered(TENANT, key) == b"205"

    async def test_an_answer_without_content_is_remembered_as_any_other(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        """A count of 0 is serialised as nothing."""
        keys = [RequestKey(str(uuid.uuid4()), method, "body") for method in ("DeleteSession", "DeleteSessions")]
        made = await self._create(store, clock)
        await store.delete(TENANT, made.session_id, Receipt(keys[0], lambda _: b""))
        assert await store.delete_of_user(TENANT, "nobody", Receipt(keys[1], lambda _: b"")) == 0
        assert [await store.answered(TENANT, key) for key in keys] == [b"", b""]

    async def test_an_id_of_a_message_of_a_session_is_used_once(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        made = await self._create(store, clock)
        await self._append(store, made.session_id, "", self._exchange(clock, "one"))
        question, answer = self._exchange(clock, "two")
        taken = replace(question, message_id="one-a")
        with pytest.raises(AlreadyExistsError):
            await self._append(store, made.session_id, "one-a", (taken, answer))
        found = await store.get(TENANT, made.session_id)
        assert [message.message_id for message in found.messages] == ["one-q", "one-a"]
        assert found.head == "one-a"

    async def test_a_question_stands_alone_until_its_answer_comes(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        made = await self._create(store, clock)
        await self._talk(store, clock, made, 5)
        question, answer = self._exchange(clock, "new")
        await store.begin(TENANT, made.session_id, "e4-a", question)
        session = await store.get(TENANT, made.session_id)
        assert [message.message_id for message in session.messages] == [
            *(f"e{number}-{role}" for number in range(1, 5) for role in "qa"),
            "new-q",
        ]
        assert (session.head, session.message_count) == ("new-q", 11)
        alone = await store.exchange(TENANT, made.session_id, "new-q")
        assert alone is not None
        assert alone.answer is None
        with pytest.raises(SessionNotFoundError):
            await store.reply(TENANT, made.session_id, replace(answer, related_message_id="other-q"))
        with pytest.raises(SessionHeadMovedError):
            await store.reply(TENANT, made.session_id, replace(answer, related_message_id="e0-a"))
        with pytest.raises(AlreadyExistsError):
            await store.reply(TENANT, made.session_id, replace(answer, related_message_id="e0-q"))
        with pytest.raises(AlreadyExistsError):
            await store.reply(TENANT, made.session_id, replace(answer, message_id="e0-a"))
        clock.advance(seconds=7)
        await store.reply(TENANT, made.session_id, replace(answer, time=clock.now()))
        session = await store.get(TENANT, made.session_id)
        assert (session.head, session.message_count, len(session.messages)) == ("new-a", 12, 10)
        assert session.last_activity == clock.now()

    async def test_an_answer_takes_the_place_of_an_earlier_one(self, store: SessionStore, clock: SettableClock) -> None:
        made = await self._create(store, clock)
        await self._talk(store, clock, made, 2)
        clock.advance(seconds=9)
        first = Message("better-a", Role.ASSISTANT, "better", clock.now(), "e0-q")
        with pytest.raises(AlreadyExistsError):
            await store.reply(TENANT, made.session_id, first, "e1-a")
        await store.reply(TENANT, made.session_id, first, "e0-a")
        session = await store.get(TENANT, made.session_id)
        assert [message.message_id for message in session.messages] == ["e0-q", "better-a", "e1-q", "e1-a"]
        assert (session.head, session.message_count) == ("e1-a", 4)
        times = [message.time for message in session.messages]
        assert times == sorted(times)
        listed = await store.messages(TENANT, made.session_id, 0, 9)
        assert [each.message.message_id for each in listed] == ["e0-q", "better-a", "e1-q", "e1-a"]
        assert [each.message.time for each in listed] == times
        await store.reply(
            TENANT, made.session_id, replace(first, message_id="last-a", related_message_id="e1-q"), "e1-a"
        )
        assert (await store.get(TENANT, made.session_id)).head == "last-a"
        kept = await store.answers(TENANT, AnswerFilter(), None, 9)
        assert {each.reply.message_id for each in kept} == {"better-a", "last-a"}

    async def test_answers_are_listed_by_collection_user_and_session(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        made = []
        for number, (collection, user) in enumerate([("docs", "ann"), ("docs", "bob"), ("news", "ann")]):
            made.append(await self._create(store, clock, NewSession(collection, user_id=user)))
            await self._append(store, made[-1].session_id, "", self._exchange(clock, f"e{number}"))
        elsewhere = await self._create(store, clock, NewSession("docs", user_id="ann"), tenant="other")
        await self._append(store, elsewhere.session_id, "", self._exchange(clock, "e3"), tenant="other")

        async def listed(**wanted: str) -> list[str]:
            kept = await store.answers(TENANT, AnswerFilter(**wanted), None, 9)
            assert [(each.question.message_id[:2], each.question.role) for each in kept] == [
                (each.reply.message_id[:2], Role.USER) for each in kept
            ]
            return [each.reply.message_id for each in kept]

        assert await listed() == ["e2-a", "e1-a", "e0-a"]
        assert await listed(collection="docs") == ["e1-a", "e0-a"]
        assert await listed(user_id="ann") == ["e2-a", "e0-a"]
        assert await listed(session_id=made[1].session_id) == ["e1-a"]
        assert await listed(session_id=made[1].session_id, user_id="ann") == []
        assert await listed(session_id=elsewhere.session_id) == []

    async def test_an_answer_is_stored_whatever_became_of_the_session(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        slow, ended = await self._create(store, clock), await self._create(store, clock)
        question, answer = self._exchange(clock, "one")
        for session in (slow, ended):
            await store.begin(TENANT, session.session_id, "", question)
        await store.end(TENANT, ended.session_id)
        clock.advance(minutes=31)
        assert (await store.get(TENANT, slow.session_id)).state is SessionState.EXPIRED
        for session, state in ((slow, SessionState.ACTIVE), (ended, SessionState.ENDED)):
            await store.reply(TENANT, session.session_id, answer)
            found = await store.get(TENANT, session.session_id)
            assert (found.state, found.head) == (state, "one-a")
            assert SessionState.EXPIRED not in {transition.after for transition in found.transitions}

    async def test_an_id_of_a_message_outside_of_the_window_is_used_up_as_well(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        made = await self._create(store, clock)
        await self._talk(store, clock, made, 7)
        question, answer = self._exchange(clock, "new")
        for taken in ("e0-q", "e0-a"):
            with pytest.raises(AlreadyExistsError):
                await self._append(store, made.session_id, "e6-a", (replace(question, message_id=taken), answer))
        assert (await store.get(TENANT, made.session_id)).message_count == 14

    @pytest.mark.parametrize("hours", [-1, 25])
    async def test_sessions_expire_by_time_that_passes_however_the_clock_is_set(
        self, store: SessionStore, clock: SettableClock, hours: int
    ) -> None:
        made = await self._create(store, clock)
        clock.jump(hours=hours)
        clock.advance(minutes=29)
        assert (await store.get(TENANT, made.session_id)).state is SessionState.CREATED
        await self._append(store, made.session_id, "", self._exchange(clock, "one"))
        clock.jump(hours=hours)
        clock.advance(minutes=31)
        assert (await store.get(TENANT, made.session_id)).state is SessionState.EXPIRED

    @pytest.mark.requirement("C09")
    async def test_a_session_is_there_for_its_owner_and_for_nobody_else(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        made = await _as(ANN, lambda: self._create(store, clock, NewSession("docs", user_id="u")))
        question, answer = self._exchange(clock, "one")
        session_id = made.session_id
        await _as(ANN, lambda: self._append(store, session_id, "", (question, answer)))
        calls: list[Callable[[], Awaitable[Any]]] = [
            lambda: store.get(TENANT, session_id),
            lambda: store.messages(TENANT, session_id, 0, 9),
            lambda: store.exchange(TENANT, session_id, question.message_id),
            lambda: store.begin(TENANT, session_id, answer.message_id, self._exchange(clock, "two")[0]),
            lambda: store.end(TENANT, session_id),
            lambda: store.delete(TENANT, session_id),
        ]
        for stranger in STRANGERS:
            for call in calls:
                with pytest.raises(SessionNotFoundError):
                    await _as(stranger, call)
            assert await _as(stranger, lambda: store.page(TENANT, ANY, None, 9)) == []
            assert await _as(stranger, lambda: store.answers(TENANT, AnswerFilter(), None, 9)) == []
            assert await _as(stranger, lambda: store.delete_of_user(TENANT, "u")) == 0
        for caller in SEEING:
            seen = await _as(caller, lambda: store.page(TENANT, ANY, None, 9))
            assert [each.session_id for each in seen] == [session_id]
            (kept,) = await _as(caller, lambda: store.answers(TENANT, AnswerFilter(), None, 9))
            assert kept.reply.content == answer.content
            assert len((await _as(caller, calls[0])).messages) == 2
        assert await _as(SEEING[2], lambda: store.delete_of_user(TENANT, "u")) == 1

    async def test_a_session_that_was_begun_without_a_credential_is_there_for_all_but_those_with_scopes(
        self, store: SessionStore, clock: SettableClock
    ) -> None:
        made = await self._create(store, clock)
        assert await _as(STRANGERS[0], lambda: store.get(TENANT, made.session_id)) == made
        with pytest.raises(SessionNotFoundError):
            await _as(ANN, lambda: store.get(TENANT, made.session_id))


async def _as(caller: Identity, call: Callable[[], Awaitable[Any]]) -> Any:
    """Make a call as somebody does."""

    async def bound() -> Any:
        CURRENT_IDENTITY.set(caller)
        return await call()

    return await asyncio.create_task(bound(), context=copy_context())
