"""What is recorded of an exchange when the process ends in between, or a model takes its time."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from groundwire.answer.recording import Conversation, Recording, Summary, Unrecorded
from groundwire.answer.sessions import Message, Session
from groundwire.answer.summaries import Turn, WrittenSummary, summarise
from groundwire.kernel.errors import InvalidRequestError, RequestIdReusedError, UnavailableError
from groundwire.kernel.identity import Identity
from groundwire.kernel.session import Role

TIME = datetime(2026, 3, 1, tzinfo=UTC)
TOO_LONG = 2000


class Store:
    """Session store and ingest service: keeps answers by write id, as they do; `fails` refuses summaries."""

    def __init__(self, *questions: str, fails: bool = False) -> None:
        session = Session("s", "docs", timedelta(1), TIME, TIME, conversation_id="conv-1", scope="global")
        self.left = {
            number: Unrecorded(
                number,
                "default",
                session,
                Message(f"question-{number}", Role.USER, question, TIME),
                Message(f"answer-{number}", Role.ASSISTANT, "Noted.", TIME),
            )
            for number, question in enumerate(questions, start=1)
        }
        self.fails = fails
        self.written: list[Turn] = []
        self.summarised: list[Summary] = []
        self._answers: dict[str, tuple[Sequence[Turn], int]] = {}

    async def unrecorded(self, after: int, limit: int) -> list[Unrecorded]:
        return [each for number, each in self.left.items() if number > after][:limit]

    async def recorded(self, number: int) -> None:
        self.left.pop(number, None)

    async def write_exchange(self, _: Conversation, turns: Sequence[Turn], write_id: str) -> int:
        if any(len(each.text) > TOO_LONG for each in turns):
            raise InvalidRequestError.of("text", "is too long")
        if write_id not in self._answers:
            self.written += turns
            self._answers[write_id] = (turns, len(self.written) // 2)
        before, index = self._answers[write_id]
        if before != turns:
            raise RequestIdReusedError("used with another body", request_id=write_id)
        return index

    async def turns(self, _: Conversation, first: int, last: int | None = None) -> list[Turn]:
        return self.written[2 * (first - 1) : 2 * (last or len(self.written))]

    async def summaries(self, _: Conversation) -> list[Summary]:
        return self.summarised

    async def write_summary(self, _: Conversation, summary: Summary, *__: object) -> None:
        if self.fails:
            raise UnavailableError("the ingest service is away")
        self.summarised.append(summary)


async def in_call_of(_: Identity, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return await work()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)


def recording(store: Any, **options: Any) -> Recording:
    return Recording(store, store, in_call_of, summary_every=2, consolidates=False, **options)


@pytest.mark.parametrize("question", ["I live in Bonn.", " ".join(f"Boat {number} is red." for number in range(400))])
async def test_an_exchange_that_is_repeated_after_a_crash_gets_its_summary(question: str) -> None:
    store = Store("I prefer tea.", question, fails=True)
    killed = recording(store)
    killed.start()
    await until(lambda: len(store.written) == 4 and list(store.left) == [2])
    killed.close()
    store.fails = False
    again = recording(store)
    again.start()
    await until(lambda: not store.left)
    again.close()
    assert store.summarised == [Summary(1, 1, 2)]
    assert len(store.written) == 4


async def test_turns_do_not_wait_for_a_model_that_writes_a_summary() -> None:
    class Slow:
        def __init__(self) -> None:
            self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

        async def summarise(self, turns: Sequence[Turn]) -> WrittenSummary:
            self.is_asked.set()
            await self.may_answer.wait()
            return summarise(turns)

    store, slow = Store("One.", "Two.", "Three."), Slow()
    running = recording(store, writer=slow)
    running.start()
    await slow.is_asked.wait()
    await until(lambda: len(store.written) == 6)
    assert store.summarised == []
    # What is due is not recorded before it is there, so that no crash loses it.
    assert 2 in store.left
    slow.may_answer.set()
    await until(lambda: not store.left)
    running.close()
    assert store.summarised == [Summary(1, 1, 2)]
