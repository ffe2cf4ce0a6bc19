"""The SessionStores that keep sessions in memory: exactly the S4 design (requirements S4-38, S4-44)."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from groundwire.answer.ports import Library
from groundwire.answer.sessions import (
    CATALOG,
    Exchange,
    KeptAnswer,
    Message,
    Placed,
    Session,
    SessionStore,
    T,
    aged,
    most_recent,
    with_answer,
    with_question,
)
from groundwire.kernel.clock import Clock
from groundwire.kernel.collection import ProfileName
from groundwire.kernel.errors import (
    AlreadyExistsError,
    ConflictError,
    PreconditionError,
    RequestIdReusedError,
    SessionNotFoundError,
)
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.identifiers import RequestKey
from groundwire.kernel.identity import current_identity
from groundwire.kernel.session import WINDOW_MESSAGES, AnswerFilter, SessionFilter, SessionState, moved

_MEMORY = "memory"
KEPT = timedelta(hours=24)
"""How long a closed session can still be read, and an answer is given again; the catalog keeps them as long."""


@dataclass(slots=True)
class _Held:
    """A session with all its messages in order, their positions, and when it was last active.

    `active_s` is a reading of the monotonic clock. `numbers` number its answers in the order of their arrival.
    """

    session: Session
    active_s: float
    messages: list[Message] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, int] = field(default_factory=dict)

    def refuse_used(self, message: Message) -> None:
        """Return unless a message has this id.

        Raises:
            AlreadyExistsError: one has.
        """
        if message.message_id in self.places:
            raise AlreadyExistsError("the session has a message of this id", message_id=message.message_id)

    def add(self, message: Message) -> None:
        self.places[message.message_id] = len(self.messages)
        self.messages.append(message)


@dataclass(frozen=True, slots=True)
class _Answered:
    """The remembered result of a call; a result that refers to a session is deleted with it."""

    key: RequestKey
    answer: bytes
    session_id: str
    time_s: float


class MemorySessions:
    """Sessions of one process, lost when it ends.

    Used from one event loop, so that code without an await is atomic. The methods are documented at `SessionStore`
    (`answer/sessions.py`). `purged` returns those of some documents, by id, that the tenant of the current call has
    deleted for good.
    """

    def __init__(self, clock: Clock, purged: Callable[[Sequence[str]], Awaitable[frozenset[str]]]) -> None:
        self._clock = clock
        self._purged = purged
        self._sessions: dict[tuple[str, str], _Held] = {}
        self._answers: dict[tuple[str, str], _Answered] = {}
        self._stored_answers = 0

    async def answered(self, tenant: str, key: RequestKey) -> bytes | None:
        earlier = self._answers.get((tenant, key.request_id))
        if earlier is None or self._clock.elapsed_s() - earlier.time_s > KEPT.total_seconds():
            return None
        if earlier.key != key:
            raise RequestIdReusedError("the request id was used before with another body", request_id=key.request_id)
        if earlier.session_id and not self.has(tenant, earlier.session_id):
            raise SessionNotFoundError(earlier.session_id)
        return earlier.answer

    async def create(self, tenant: str, session: Session, receipt: Receipt[Session] | None = None) -> Session:
        """Store a new session.

        Raises:
            PreconditionError: it is part of a conversation, which must outlive the process.
        """
        if session.conversation_id:
            raise PreconditionError("sessions kept in memory cannot be recorded in a conversation")
        # Expired sessions are removed when a new one arrives, so that no timer is needed.
        for key, held in list(self._sessions.items()):
            if self._idle(held) > held.session.idle_timeout + KEPT:
                del self._sessions[key]
        oldest_s = self._clock.elapsed_s() - KEPT.total_seconds()
        for name, answered in list(self._answers.items()):
            if answered.time_s < oldest_s:
                del self._answers[name]
        key = (tenant, session.session_id)
        if key in self._sessions:
            raise AlreadyExistsError(f"session {session.session_id!r} exists", resource=session.session_id)
        self._settle(tenant, receipt, session, session.session_id)
        self._sessions[key] = _Held(session, self._clock.elapsed_s())
        return session

    async def get(self, tenant: str, session_id: str) -> Session:
        first = len(self._require(tenant, session_id).messages) - WINDOW_MESSAGES
        await self._readable(tenant, session_id, slice(max(0, first), None))
        return self._require(tenant, session_id).session

    def has(self, tenant: str, session_id: str) -> bool:
        return (tenant, session_id) in self._sessions

    async def page(
        self, tenant: str, wanted: SessionFilter, after: tuple[datetime, str] | None, limit: int
    ) -> list[Session]:
        mine = [self._require(*key).session for key, held in self._sessions.items() if _is_seen(held, key[0], tenant)]
        admitted = [replace(session, messages=()) for session in most_recent(mine) if wanted.admits(session)]
        return [session for session in admitted if after is None or session.recency < after][:limit]

    async def messages(self, tenant: str, session_id: str, after: int, limit: int) -> list[Placed]:
        messages = await self._readable(tenant, session_id, slice(after, after + limit))
        return [Placed(place, message) for place, message in enumerate(messages, start=after + 1)]

    async def exchange(self, tenant: str, session_id: str, message_id: str) -> Exchange | None:
        place = self._require(tenant, session_id).places.get(message_id)
        if place is None:
            return None
        message, *behind = await self._readable(tenant, session_id, slice(place, place + 2))
        return Exchange(message, next((each for each in behind if each.related_message_id == message_id), None))

    async def begin(self, tenant: str, session_id: str, expected_head: str, question: Message) -> None:
        held = self._require(tenant, session_id)
        held.session.refuse_closed()
        if held.session.head != expected_head:
            raise held.session.head_moved(expected_head)
        held.refuse_used(question)
        held.session = with_question(held.session, question)
        held.add(question)
        held.active_s = self._clock.elapsed_s()

    async def reply(self, tenant: str, session_id: str, answer: Message, replacing: str = "") -> None:
        held = self._sessions.get((tenant, session_id))  # in its stored state: the time since does not close it
        place = None if held is None else held.places.get(answer.related_message_id)
        if held is None or place is None:
            raise SessionNotFoundError(session_id)
        earlier = held.messages[place + 1] if place + 1 < len(held.messages) else None
        if earlier is not None and earlier.related_message_id != answer.related_message_id:
            raise held.session.head_moved(answer.related_message_id)
        if earlier is not None and earlier.message_id != replacing:
            raise AlreadyExistsError("the question has an answer", message_id=answer.related_message_id)
        held.refuse_used(answer)
        session = held.session
        # The question was taken while the session was open, so it did not expire in the meantime.
        if session.state is SessionState.EXPIRED:
            session = replace(session, state=SessionState.ACTIVE, transitions=session.transitions[:-1])
        held.session = with_answer(session, answer, earlier.message_id if earlier else "")
        self._stored_answers += 1
        held.numbers[answer.message_id] = self._stored_answers
        if earlier is None:
            held.add(answer)
        else:
            del held.places[earlier.message_id], held.numbers[earlier.message_id]
            held.messages[place + 1] = replace(answer, time=earlier.time)
            held.places[answer.message_id] = place + 1
        held.active_s = self._clock.elapsed_s()

    async def answers(
        self, tenant: str, wanted: AnswerFilter, after: tuple[str, int] | None, limit: int
    ) -> list[KeptAnswer]:
        listed = sorted(
            (number, held.session.session_id, message_id)
            for key, held in self._sessions.items()
            if _is_seen(held, key[0], tenant) and wanted.admits(held.session)
            for message_id, number in held.numbers.items()
            if after is None or number < after[1]
        )[-limit:]
        listed.reverse()
        parts = []
        for _, session_id, message_id in listed:
            held = self._require(tenant, session_id)
            parts.append((held, slice(held.places[message_id] - 1, held.places[message_id] + 1)))
        # In one step: a session that is deleted while this waits is no error of the listing.
        pairs = await self._without_gone(parts)
        return [
            KeptAnswer((_MEMORY, number), session_id, held.session.collection, question, reply)
            for (number, session_id, _), (held, _), (question, reply) in zip(listed, parts, pairs, strict=True)
        ]

    async def end(self, tenant: str, session_id: str, receipt: Receipt[Session] | None = None) -> Session:
        held = self._require(tenant, session_id)
        ended = moved(held.session, SessionState.ENDED, self._clock.now())
        self._settle(tenant, receipt, replace(ended, messages=()), session_id)
        held.session = ended
        return replace(ended, messages=())

    async def delete(self, tenant: str, session_id: str, receipt: Receipt[int] | None = None) -> int:
        count = self._require(tenant, session_id).session.message_count
        self._settle(tenant, receipt, count)
        del self._sessions[tenant, session_id]
        return count

    async def delete_of_user(self, tenant: str, user_id: str, receipt: Receipt[int] | None = None) -> int:
        keys = [
            key
            for key, held in self._sessions.items()
            if _is_seen(held, key[0], tenant) and held.session.user_id == user_id
        ]
        self._settle(tenant, receipt, len(keys))
        for key in keys:
            del self._sessions[key]
        return len(keys)

    def _require(self, tenant: str, session_id: str) -> _Held:
        held = self._sessions.get((tenant, session_id))
        if held is None or not _is_seen(held, tenant, tenant):
            raise SessionNotFoundError(session_id)
        held.session = aged(held.session, self._idle(held))
        return held

    async def _readable(self, tenant: str, session_id: str, part: slice) -> list[Message]:
        """Return messages of a session without the text of documents that were deleted for good."""
        (messages,) = await self._without_gone([(self._require(tenant, session_id), part)])
        return messages

    async def _without_gone(self, parts: Sequence[tuple[_Held, slice]]) -> list[list[Message]]:
        """Return messages as `_readable` does, and remove the same text from the sessions."""
        read = [held.messages[part] for held, part in parts]
        documents = sorted({each for part in read for message in part for each in message.cited | message.shown})
        gone = await self._purged(documents) if documents else frozenset()
        if not gone:
            return read
        for (held, _), messages in zip(parts, read, strict=True):
            for message in messages:
                place = held.places.get(message.message_id)
                if place is not None:  # another answer may have taken its place meanwhile
                    held.messages[place] = held.messages[place].without(gone)
            window = (message.without(gone) for message in held.session.messages)
            held.session = replace(held.session, messages=tuple(window))
        return [[message.without(gone) for message in messages] for messages in read]

    def _settle(self, tenant: str, receipt: Receipt[T] | None, result: T, session_id: str = "") -> None:
        """Remember the response of a call before it takes effect.

        Raises:
            ConflictError: the same call was completed meanwhile.
        """
        if receipt is None:
            return
        earlier = self._answers.get((tenant, receipt.key.request_id))
        now_s = self._clock.elapsed_s()
        if earlier is not None and now_s - earlier.time_s <= KEPT.total_seconds():
            raise ConflictError("the same request was completed meanwhile", request_id=receipt.key.request_id)
        answer = _Answered(receipt.key, receipt.encode(result), session_id, now_s)
        self._answers[tenant, receipt.key.request_id] = answer

    def _idle(self, held: _Held) -> timedelta:
        return timedelta(seconds=self._clock.elapsed_s() - held.active_s)


def _is_seen(held: _Held, owner: str, tenant: str) -> bool:
    """Tell whether the current caller, who belongs to `tenant`, may see a session of the tenant `owner`."""
    return owner == tenant and current_identity().sees(held.session.owner)


@dataclass(frozen=True, slots=True)
class SessionsByProfile:
    """Keeps questions and answers about collections with the book profile off the disk."""

    catalog: SessionStore
    memory: MemorySessions
    collections: Library

    async def answered(self, tenant: str, key: RequestKey) -> bytes | None:
        answer = await self.memory.answered(tenant, key)
        return await self.catalog.answered(tenant, key) if answer is None else answer

    async def create(self, tenant: str, session: Session, receipt: Receipt[Session] | None = None) -> Session:
        is_book = await self.collections.profile_of(session.collection) is ProfileName.BOOK
        store: SessionStore = self.memory if is_book else self.catalog
        return await store.create(tenant, session, receipt)

    async def get(self, tenant: str, session_id: str) -> Session:
        return await self._store_of(tenant, session_id).get(tenant, session_id)

    async def page(
        self, tenant: str, wanted: SessionFilter, after: tuple[datetime, str] | None, limit: int
    ) -> list[Session]:
        # Both in full: how many of the page come from which store shows only when they are in one order.
        found = await self.catalog.page(tenant, wanted, after, limit)
        return most_recent([*found, *await self.memory.page(tenant, wanted, after, limit)])[:limit]

    async def messages(self, tenant: str, session_id: str, after: int, limit: int) -> list[Placed]:
        return await self._store_of(tenant, session_id).messages(tenant, session_id, after, limit)

    async def exchange(self, tenant: str, session_id: str, message_id: str) -> Exchange | None:
        return await self._store_of(tenant, session_id).exchange(tenant, session_id, message_id)

    async def begin(self, tenant: str, session_id: str, expected_head: str, question: Message) -> None:
        await self._store_of(tenant, session_id).begin(tenant, session_id, expected_head, question)

    async def reply(self, tenant: str, session_id: str, answer: Message, replacing: str = "") -> None:
        await self._store_of(tenant, session_id).reply(tenant, session_id, answer, replacing)

    async def answers(
        self, tenant: str, wanted: AnswerFilter, after: tuple[str, int] | None, limit: int
    ) -> list[KeptAnswer]:
        # All answers of the catalog come before all in memory: their numbers cannot be compared.
        if after is not None and after[0] != CATALOG:
            return await self.memory.answers(tenant, wanted, after, limit)
        stored = await self.catalog.answers(tenant, wanted, after, limit)
        if len(stored) == limit:
            return stored
        return [*stored, *await self.memory.answers(tenant, wanted, None, limit - len(stored))]

    async def end(self, tenant: str, session_id: str, receipt: Receipt[Session] | None = None) -> Session:
        return await self._store_of(tenant, session_id).end(tenant, session_id, receipt)

    async def delete(self, tenant: str, session_id: str, receipt: Receipt[int] | None = None) -> int:
        return await self._store_of(tenant, session_id).delete(tenant, session_id, receipt)

    async def delete_of_user(self, tenant: str, user_id: str, receipt: Receipt[int] | None = None) -> int:
        # The receipt goes into the catalog, which keeps it for longer than this process lives, and counts both.
        in_memory = await self.memory.delete_of_user(tenant, user_id)
        both = receipt and Receipt(receipt.key, lambda count: receipt.encode(in_memory + count))
        return in_memory + await self.catalog.delete_of_user(tenant, user_id, both)

    def _store_of(self, tenant: str, session_id: str) -> SessionStore:
        return self.memory if self.memory.has(tenant, session_id) else self.catalog
