"""What is recorded of an exchange when the process ends in between, or a model takes its time."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from structlog.testing import capture_logs

from groundwire.answer.consolidation import Derived
from groundwire.answer.recording import Conversation, Recording, StoredMemory, Summary, Unrecorded
from groundwire.answer.sessions import Message, Session
from groundwire.answer.summaries import Turn, WrittenSummary, summarise, without_hearsay
from groundwire.kernel.errors import ExhaustedError, InvalidRequestError, RequestIdReusedError, UnavailableError
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


async def test_a_tenant_whose_exchange_fails_holds_up_no_conversation_of_the_same_name() -> None:
    async def in_call_of_others(identity: Identity, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        if identity.tenant == "default":
            raise UnavailableError("the ingest service is away")
        return await work()

    store = Store("One.", "Two.")
    store.left[2] = replace(store.left[2], tenant="another")
    running = Recording(store, store, in_call_of_others, summary_every=2, consolidates=False)  # type: ignore[arg-type]  # the parts that are called
    running.start()
    await until(lambda: list(store.left) == [1])
    running.close()


async def test_after_the_end_nothing_is_recorded() -> None:
    store = Store("One.")
    running = recording(store)
    running.start()
    await until(lambda: not store.left)
    running.close()
    store.left[2] = Store("One.", "Two.").left[2]
    running.wake()
    await asyncio.sleep(0.05)
    assert list(store.left) == [2]


async def test_a_memory_that_was_written_before_a_crash_does_not_confirm_itself() -> None:
    class Crashing(Store):
        """Fails at the first link."""

        def __init__(self, question: str) -> None:
            super().__init__(question)
            self.memories, self.confirmed, self.supported = dict[str, str](), list[str](), list[str]()

        async def similar_memories(self, *_: object) -> list[StoredMemory]:
            return [StoredMemory(*each) for each in self.memories.items()]

        async def write_memory(self, _: Conversation, derived: Derived, record_id: str) -> None:
            self.memories[record_id] = derived.text

        async def confirm_memory(self, _: Conversation, record_id: str, __: str) -> None:
            self.confirmed.append(record_id)

        async def support(self, _: Conversation, __: str, memory_id: str) -> None:
            self.supported.append(memory_id)
            if len(self.supported) == 1:
                raise UnavailableError("the ingest service is away")

    store = Crashing("I prefer tea.")
    conversation, running = store.left[1].conversation, recording(store)
    running.start()
    await until(lambda: not store.left)
    running.close()
    with pytest.raises(UnavailableError):
        await running.consolidate(conversation)
    (remembered,) = await running.consolidate(conversation)
    assert (list(store.memories), remembered.is_new) == ([remembered.record_id], False)
    assert store.confirmed == []
    assert store.supported == [remembered.record_id] * 2


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


class Failing:
    """Writes summaries after it has failed a number of times; notes when it was asked."""

    def __init__(self, failures: int, error: Exception) -> None:
        self.failures, self.error = failures, error
        self.asked_at: list[float] = []

    async def summarise(self, turns: Sequence[Turn]) -> WrittenSummary:
        self.asked_at.append(time.monotonic())
        # Later than the other task has looked what there is.
        await asyncio.sleep(0.01)
        if len(self.asked_at) <= self.failures:
            raise self.error
        return summarise(turns)


async def test_a_summary_that_fails_is_tried_again_after_pauses_that_grow() -> None:
    store, writer = Store("One.", "Two."), Failing(2, UnavailableError("the embedder is away"))
    running = recording(store, writer=writer)
    running.start()
    await until(lambda: not store.left)
    running.close()
    first, second, third = writer.asked_at
    assert (second - first > 0.9, third - second > 1.9) == (True, True)


async def test_summaries_go_on_when_one_that_is_given_up_cannot_be_noted() -> None:
    class Away(Store):
        is_away = True

        async def recorded(self, number: int) -> None:
            if number == 2 and self.is_away:
                self.is_away = False
                raise UnavailableError("the catalog is away")
            await super().recorded(number)

    store = Away("One.", "Two.")
    running = recording(store, writer=Failing(1, InvalidRequestError.of("text", "cannot be")))
    running.start()
    await until(lambda: not store.left)
    running.close()
    assert store.summarised == [Summary(1, 1, 2)]


async def test_who_cannot_be_written_for_holds_up_nobody_else() -> None:
    class Full(Store):
        refused = 0

        async def write_exchange(self, conversation: Conversation, turns: Sequence[Turn], write_id: str) -> int:
            if conversation.conversation_id == "full":
                self.refused += 1
                raise ExhaustedError("the tenant has stored all that it may")
            return await super().write_exchange(conversation, turns, write_id)

    store = Full("One.")
    first = store.left[1]
    store.left[1] = replace(first, session=replace(first.session, conversation_id="full"))
    running = recording(store)
    running.start()
    # From now on it pauses for four seconds.
    await until(lambda: store.refused == 3)
    store.left[2] = replace(first, number=2)
    running.wake()
    await until(lambda: 2 not in store.left)
    assert (store.refused, list(store.left)) == (3, [1])
    running.close()


async def test_a_defect_in_one_conversation_is_logged_and_stops_no_other() -> None:
    class Defective(Store):
        is_defective = True

        async def write_exchange(self, conversation: Conversation, turns: Sequence[Turn], write_id: str) -> int:
            if conversation.conversation_id == "conv-defect" and self.is_defective:
                raise KeyError("a defect")
            return await super().write_exchange(conversation, turns, write_id)

    store = Defective("One.", "Two.")
    first = store.left[1]
    store.left[1] = replace(first, session=replace(first.session, conversation_id="conv-defect"))
    running = recording(store)
    with capture_logs() as logs:
        running.start()
        await until(lambda: list(store.left) == [1])
        store.is_defective = False
        await until(lambda: not store.left)
    running.close()
    assert [each["log_level"] for each in logs if isinstance(each.get("exc_info"), KeyError)] == ["error"]


async def test_summaries_and_turns_go_on_after_a_defect_of_the_session_store() -> None:
    class Defective(Store):
        lists = records = 0

        async def unrecorded(self, after: int, limit: int) -> list[Unrecorded]:
            self.lists += 1
            if self.lists == 1:
                raise OSError("a defect")
            return await super().unrecorded(after, limit)

        async def recorded(self, number: int) -> None:
            self.records += number == 2
            if self.records == 1 and number == 2:
                raise OSError("a defect")
            await super().recorded(number)

    store = Defective("One.", "Two.")
    running = recording(store)
    running.start()
    await until(lambda: not store.left)
    running.close()
    assert (store.records, store.summarised) == (2, [Summary(1, 1, 2)])


async def test_a_summary_whose_writer_has_a_defect_is_tried_again() -> None:
    store, writer = Store("One.", "Two."), Failing(1, KeyError("a defect"))
    running = recording(store, writer=writer)
    running.start()
    await until(lambda: not store.left)
    running.close()
    assert store.summarised == [Summary(1, 1, 2)]


def test_code_that_is_all_there_is_stands_on_the_line_that_says_whose_it_is() -> None:
    code = Turn("turn-1-assistant", Role.ASSISTANT, "```\none()\nI live in Bonn\n```", TIME)
    assert without_hearsay(summarise([code]).text).strip() == ""
