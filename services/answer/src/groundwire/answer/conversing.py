"""A conversation on one stream: questions come in and are answered in turn; responses go out.

A question that cannot be answered gets a response too; it does not end the stream.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from groundwire.answer.answers import numbered
from groundwire.answer.ask import AskedQuestion
from groundwire.api.answer.v1.answer_service_pb2 import (
    AnswerEvent,
    ConverseHeartbeat,
    ConverseResponse,
    QuestionCancelled,
)
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import DeadlineError, OverloadedError

# How many questions of one stream may wait for their turn.
_MOST_WAITING: Final = 16
# How many events may wait for a slow client before the work on its answer pauses.
_MOST_UNSENT: Final = 16


@dataclass(frozen=True, slots=True)
class Refused:
    """A question that breaks a rule."""

    message_id: str
    error: Exception


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop answering the question of this id."""

    message_id: str


ConversationRequest: TypeAlias = AskedQuestion | Refused | Cancel


AnswerQuestion: TypeAlias = Callable[[AskedQuestion, Budget], AsyncGenerator[AnswerEvent, None]]
"""Yields the events of an answer in the task of its question; its work ends with the budget."""


@dataclass(slots=True, kw_only=True)
class QuestionStream:
    """One stream, from its first question to its end.

    Args:
        answer: answers a question.
        check: raises when the session takes no more questions; called while the stream is idle.
        failed: makes the response to a question, named by its id, that has no answer.
        at_a_time: limits how many questions of all streams are answered at a time.
        limit_s: time limit of a question, including its wait for a place.
        heartbeat_s: seconds without a response until a heartbeat is one.
    """

    answer: AnswerQuestion
    check: Callable[[], Awaitable[object]]
    failed: Callable[[str, Exception], ConverseResponse]
    at_a_time: asyncio.Semaphore
    limit_s: float | None
    heartbeat_s: float
    _waiting: deque[AskedQuestion | Refused] = field(default_factory=deque)
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _is_over: bool = False
    _current: tuple[str, asyncio.Task[None]] | None = None
    _events: asyncio.Queue[ConverseResponse | None] = field(default_factory=lambda: asyncio.Queue(_MOST_UNSENT))

    async def run(self, requests: AsyncIterator[ConversationRequest]) -> AsyncGenerator[ConverseResponse, None]:
        """Yield responses until the requests end and all questions are answered.

        Close the generator (`contextlib.aclosing`) to stop the work.

        Raises:
            GroundwireError: what the requests raise, or `check` when nothing is being answered.
        """
        reading = asyncio.create_task(self._read(requests))
        answering = asyncio.create_task(self._answer_all())
        try:
            while True:
                try:
                    # Not `wait_for`, which loses a cancellation that comes together with an event.
                    async with asyncio.timeout(self.heartbeat_s):
                        event = await self._events.get()
                except TimeoutError:
                    if self._current is None:
                        await self.check()
                    event = ConverseResponse(heartbeat=ConverseHeartbeat())
                if event is None:
                    break
                yield event
            await reading  # raises what ended it
        finally:
            for task in (reading, answering):
                task.cancel()
            await asyncio.gather(reading, answering, return_exceptions=True)

    async def _read(self, requests: AsyncIterator[ConversationRequest]) -> None:
        try:
            async for request in requests:
                if isinstance(request, Cancel):
                    # One that was answered or never came is no error, because a question and its end may cross.
                    waiting = [each for each in self._waiting if each.message_id == request.message_id]
                    if self._current is not None and self._current[0] == request.message_id:
                        self._current[1].cancel()
                    elif waiting:
                        self._waiting.remove(waiting[0])
                        await self._events.put(
                            ConverseResponse(message_id=request.message_id, cancelled=QuestionCancelled())
                        )
                elif len(self._waiting) < _MOST_WAITING:
                    self._waiting.append(request)
                else:
                    error = OverloadedError(
                        f"{_MOST_WAITING} questions of the stream are already waiting", limit=_MOST_WAITING
                    )
                    await self._events.put(self.failed(request.message_id, error))
                self._arrived.set()
        finally:
            self._is_over = True
            self._arrived.set()

    async def _answer_all(self) -> None:
        while self._waiting or not self._is_over:
            if not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            request = self._waiting.popleft()
            if isinstance(request, Refused):
                await self._events.put(self.failed(request.message_id, request.error))
                continue
            task = asyncio.create_task(self._answer_one(request))
            self._current = request.message_id, task
            try:
                # Not `await task`: that could not distinguish a cancelled question from the end of the stream.
                await asyncio.wait([task])
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                self._current = None
            if task.cancelled():
                await self._events.put(ConverseResponse(message_id=request.message_id, cancelled=QuestionCancelled()))
            elif (error := task.exception()) is not None:
                failure = error if isinstance(error, Exception) else RuntimeError(repr(error))
                await self._events.put(self.failed(request.message_id, failure))
        await self._events.put(None)

    async def _answer_one(self, request: AskedQuestion) -> None:
        budget = Budget(self.limit_s)
        try:
            async with (
                asyncio.timeout(self.limit_s),
                self.at_a_time,
                aclosing(numbered(self.answer(request, budget))) as events,
            ):
                async for event in events:
                    response = ConverseResponse(message_id=request.message_id, answer_event=event)
                    await self._events.put(response)
        except TimeoutError as error:
            raise DeadlineError("the time limit of the question has passed") from error
        finally:
            budget.cancel()  # work in threads stops within one batch
