"""Answer a question of a session: once for each message id, one at a time, both messages stored or none."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import replace
from weakref import WeakValueDictionary

from groundwire.answer.ask_question import AskQuestion
from groundwire.answer.domain.answer import Answer, AnswerEvent, Cited, Final, Retrieved, TextDelta
from groundwire.answer.domain.asked_question import AskedQuestion
from groundwire.answer.domain.conversation import is_topic_shift, search_text
from groundwire.answer.domain.session import Exchange, Message, Role, Session
from groundwire.answer.ports import SessionStore
from groundwire.kernel.clock import Clock
from groundwire.kernel.errors import (
    AlreadyExistsError,
    InvalidRequestError,
    SessionExpiredError,
    SessionHeadMovedError,
)

_APPEND_ATTEMPTS = 3


class AskInSession:
    """Answers questions of sessions and stores them; questions of one session wait for each other."""

    def __init__(
        self, *, sessions: SessionStore, ask_question: AskQuestion, clock: Clock, max_search_chars: int
    ) -> None:
        self._sessions = sessions
        self._ask_question = ask_question
        self._clock = clock
        self._max_search_chars = max_search_chars
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def __call__(
        self, tenant: str, ask: AskedQuestion, expected_head: str | None = None
    ) -> AsyncGenerator[AnswerEvent, None]:
        """Yield the events of the answer, or those of the stored answer if the question was answered before.

        The exchange is stored before the last event, so a caller who has the whole answer can rely on it;
        a question whose answer fails or is given up leaves nothing behind (requirement S4-33).

        Raises:
            SessionNotFoundError: there is no such session.
            SessionExpiredError: it was idle for too long or was ended.
            SessionHeadMovedError: `expected_head` is not its newest message.
            AlreadyExistsError: the message id was used in the session with another question or is that of an answer.
            GroundwireError: what the retriever raises.
        """
        lock = self._locks.setdefault((tenant, ask.session_id), asyncio.Lock())
        async with lock:
            session = await self._sessions.get(tenant, ask.session_id)
            stored = _stored_answer(await self._sessions.exchange(tenant, ask.session_id, ask.message_id), ask)
            if stored is not None:
                for event in _replayed(stored):
                    yield event
                return
            _refuse_unfit(session, ask, expected_head)
            async with aclosing(self._answered(tenant, session, ask, expected_head)) as events:
                async for event in events:
                    yield event

    async def _answered(
        self, tenant: str, session: Session, ask: AskedQuestion, expected_head: str | None
    ) -> AsyncGenerator[AnswerEvent, None]:
        asked = Message(ask.message_id, Role.USER, ask.question, self._clock.now())
        prepared = replace(
            ask,
            collection=session.collection,
            search_text=search_text(ask.question, session.messages, self._max_search_chars),
            topic_shift=is_topic_shift(ask.question, session.messages),
        )
        async with aclosing(self._ask_question(tenant, prepared)) as events:
            async for event in events:
                if isinstance(event, Final):
                    exchange = (asked, _reply(ask.message_id, event.answer))
                    await self._append(tenant, session, exchange, is_strict=expected_head is not None)
                yield event

    async def _append(
        self, tenant: str, session: Session, exchange: tuple[Message, Message], *, is_strict: bool
    ) -> None:
        """Store an exchange; behind whatever another replica stored meanwhile unless the caller named a head."""
        head = session.head
        for attempt in range(1, _APPEND_ATTEMPTS + 1):
            try:
                await self._sessions.append(tenant, session.session_id, head, exchange)
            except SessionHeadMovedError:
                if is_strict or attempt == _APPEND_ATTEMPTS:
                    raise
                head = (await self._sessions.get(tenant, session.session_id)).head
            else:
                return


def _stored_answer(used: Exchange | None, ask: AskedQuestion) -> Answer | None:
    """Return the answer that the session holds for the message id, None when it was not asked."""
    if used is None:
        return None
    if used.message.role is not Role.USER:
        raise AlreadyExistsError("the message id is that of an answer of the session", message_id=ask.message_id)
    if used.message.content != ask.question:
        raise AlreadyExistsError("the message id was used with another question", message_id=ask.message_id)
    if used.answer is None or used.answer.answer is None:
        raise AlreadyExistsError("the answer is gone with a document that it quoted", message_id=ask.message_id)
    return used.answer.answer


def _refuse_unfit(session: Session, ask: AskedQuestion, expected_head: str | None) -> None:
    if ask.collection and ask.collection != session.collection:
        raise InvalidRequestError.of("collection", f"the session is about {session.collection!r}")
    if session.is_closed:
        raise SessionExpiredError(f"the session is {session.state.value.lower()}", session_id=session.session_id)
    if expected_head is not None and expected_head != session.head:
        raise SessionHeadMovedError("the session has newer messages", expected_head=expected_head, head=session.head)


def _replayed(answer: Answer) -> Iterator[AnswerEvent]:
    yield Retrieved(answer.search)
    yield TextDelta(answer.content, 0)
    yield from (Cited(citation) for citation in answer.citations)
    yield Final(answer)


def _reply(question_id: str, answer: Answer) -> Message:
    return Message(
        message_id=answer.message_id,
        role=Role.ASSISTANT,
        content=answer.content,
        time=answer.answer_time,
        related_message_id=question_id,
        answer=answer,
    )
