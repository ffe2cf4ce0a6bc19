"""Records conversations in their collections, in the background: turns, summaries, derived memories.

An answered exchange stays in the session store until it is recorded, so neither a crash nor an unavailable ingest
service loses it. Each write has an id derived from its content and can be repeated: what was written before a crash is
not written twice.
"""

import asyncio
import math
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any, Protocol, TypeVar

import structlog

from groundwire.answer.consolidation import Derived, derive_memories, says_the_same
from groundwire.answer.ports import GenerationFailedError
from groundwire.answer.sessions import Message, Session
from groundwire.answer.summaries import Turn, WrittenSummary, shortened, summarise
from groundwire.kernel.errors import (
    DocumentNotFoundError,
    GroundwireError,
    InvalidRequestError,
    NotFoundError,
    RequestIdReusedError,
)
from groundwire.kernel.identity import DELEGATED_RIGHTS, Identity

T = TypeVar("T")

# Each comes with its whole answer, so those of a long outage are not read all at once.
_EXCHANGES_AT_A_TIME = 50
# Another replica may have stopped before it recorded its answers.
_LOOK_EVERY_S = 30.0
# Pauses double up to this, so that an ingest service that is away is not called all the time.
_LONGEST_PAUSE_S = 60.0
# Name space of the ids that records and their writes get here.
_IDS = uuid.UUID("0a1e3b52-6f27-4d3c-8f6e-6b3b8f9f2d40")
# Errors caused by the exchange itself. Nothing is lost because of a model or key that an operator has to fix.
_HOPELESS = (InvalidRequestError, NotFoundError)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Conversation:
    """A conversation in a collection."""

    collection: str
    conversation_id: str
    scope: str


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """An exchange of a tenant that is to be recorded; `number` rises with each answer that is stored."""

    number: int
    tenant: str
    session: Session
    question: Message
    answer: Message

    @property
    def conversation(self) -> Conversation:
        return Conversation(self.session.collection, self.session.conversation_id, self.session.scope)

    @property
    def identity(self) -> Identity:
        """Return the identity that records it."""
        return recorder_of(self.tenant, self.session.owner.subject, self.session.scope)


def recorder_of(tenant: str, subject: str, scope: str) -> Identity:
    """Return the identity that records for a subject: the subject, limited to the scope of the conversation."""
    return Identity(tenant, subject, DELEGATED_RIGHTS, (scope,))


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of the exchanges `first` to `last`, its number counted from 1."""

    index: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class StoredMemory:
    """A stored memory."""

    record_id: str
    text: str


@dataclass(frozen=True, slots=True)
class Remembered:
    """The memory for a statement: a new one, or an existing one, which each turn confirms only once."""

    record_id: str
    derived: Derived
    is_new: bool


class Outbox(Protocol):
    """The exchanges in the session store that are still to be recorded."""

    async def unrecorded(self, after: int, limit: int) -> list[Unrecorded]:
        """Return up to `limit` of them, of all tenants, behind the number `after`, in the order of their answers."""

    async def recorded(self, number: int) -> None:
        """Mark one as recorded."""


class Records(Protocol):
    """Reads and writes records through the ingest service; writes have ids, so that repeating them changes nothing.

    All methods raise what the ingest service answers, and UnavailableError when it does not.
    """

    async def write_exchange(self, conversation: Conversation, turns: Sequence[Turn], write_id: str) -> int:
        """Write the sides of an exchange; return its number in its conversation, from 1.

        Raises:
            DocumentNotFoundError: a document that one of them quotes was deleted for good.
        """

    async def turns(self, conversation: Conversation, first: int, last: int | None = None) -> list[Turn]:
        """Return the turns of the exchanges `first` to `last`, None for all that follow, in order."""

    async def turn_number(self, conversation: Conversation, record_id: str) -> int:
        """Return the number of the exchange of a turn, 0 when the turn is not there."""

    async def summaries(self, conversation: Conversation) -> list[Summary]:
        """Return the existing summaries, in order."""

    async def write_summary(
        self, conversation: Conversation, summary: Summary, written: WrittenSummary, time: datetime, record_id: str
    ) -> None:
        """Write a summary up to a time; it quotes the documents that its turns quote.

        Raises:
            DocumentNotFoundError: a document that one of them quotes was deleted for good.
        """

    async def similar_memories(self, conversation: Conversation, text: str) -> list[StoredMemory]:
        """Return the memories of the conversation's scope that are closest to a text, the closest first."""

    async def write_memory(self, conversation: Conversation, derived: Derived, record_id: str) -> None:
        """Write a memory derived from a turn."""

    async def confirm_memory(self, conversation: Conversation, record_id: str, write_id: str) -> None:
        """Raise the confidence of a memory that was stated again; only once for each `write_id`."""

    async def support(self, conversation: Conversation, source_id: str, memory_id: str) -> None:
        """Link a record to the memory that it supports."""


class SummaryWriter(Protocol):
    """Writes summaries in its own words, supported by what was said."""

    async def summarise(self, turns: Sequence[Turn]) -> WrittenSummary:
        """Return a summary of at least one turn, in the time that it allows itself.

        Raises:
            GenerationFailedError: it cannot, or it wrote what the turns do not say.
        """


class InCallOf(Protocol):
    """Does work as a call of an identity would, with a time limit, and returns its result."""

    async def __call__(self, identity: Identity, work: Callable[[], Coroutine[Any, Any, T]], /) -> T:
        """Return the result.

        Raises:
            GroundwireError: as the work.
        """


@dataclass(slots=True)
class Recording:
    """Records exchanges one after the other, each conversation in its order, until it is stopped.

    Summaries follow by themselves, one at a time: what is said meanwhile can be found without waiting for a model.

    Args:
        outbox: has what is to be recorded.
        records: where it goes.
        in_call_of: does work in the name of whom it is done for.
        summary_every: exchanges of a conversation that one summary covers.
        consolidates: whether memories are derived with each summary.
        writer: writes the summaries, None for what quotes; what it cannot write is quoted.
    """

    outbox: Outbox
    records: Records
    in_call_of: InCallOf
    summary_every: int
    consolidates: bool
    writer: SummaryWriter | None = None
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _has_failed: bool = False
    _to_summarise: asyncio.Queue[tuple[Unrecorded, int]] = field(default_factory=asyncio.Queue)
    # Of those whose turns are written: they are recorded once their summaries are, too.
    _awaiting_summary: set[int] = field(default_factory=set)
    # Those of them whose summary has failed, and the conversations that could not be written: until a pause ends.
    _unsummarised: set[int] = field(default_factory=set)
    _stuck: set[tuple[str, Conversation]] = field(default_factory=set)

    def start(self) -> None:
        """Start on the running event loop, with the exchanges that an earlier process left."""
        self._tasks = [
            asyncio.create_task(self._run(), name="recording"),
            asyncio.create_task(self._summarise_all(), name="summaries"),
        ]

    def close(self) -> None:
        """Stop; the next process records what is left. Call this on the event loop."""
        for task in self._tasks:
            task.cancel()

    def wake(self) -> None:
        """Announce that there is something to record."""
        self._arrived.set()

    async def consolidate_recorded(
        self, caller: Identity, conversation: Conversation, first: int, last: int | None
    ) -> list[Remembered]:
        """Write the turns that are still to be recorded, and do as `consolidate` in the name of the caller.

        Raises:
            GroundwireError: as `Records`.
        """
        async for exchange in self._unrecorded():
            if (exchange.tenant, exchange.conversation) == (caller.tenant, conversation):
                # The task may write the same just now, under the same ids. Summaries are left to it.
                await self.in_call_of(exchange.identity, partial(self._write_exchange, exchange))
        # Within the same scope as the task, so that what both write is one request.
        recorder = recorder_of(caller.tenant, caller.subject, conversation.scope)
        return await self.in_call_of(recorder, lambda: self.consolidate(conversation, first, last))

    async def consolidate(
        self, conversation: Conversation, first: int = 1, last: int | None = None
    ) -> list[Remembered]:
        """Derive memories from the turns of some exchanges, and return what became of each statement.

        What says the same as a memory of the scope confirms that one, once for each turn.

        Raises:
            GroundwireError: as `Records`.
        """
        turns = await self.records.turns(conversation, first, last)
        remembered: list[Remembered] = []
        for derived in derive_memories(turns):
            # The form that ids of memories have, made of what it says, so that a repetition finds its own record.
            digest = made_id(derived.turn.record_id, derived.text).replace("-", "")[:8]
            record_id = f"chunk-{derived.turn.time:%Y-%m-%d}-{digest}"
            similar = await self.records.similar_memories(conversation, derived.text)
            same = next((each for each in similar if says_the_same(each.text, derived.text)), None)
            if same is None or same.record_id == record_id:
                await self.records.write_memory(conversation, derived, record_id)
                remembered.append(Remembered(record_id, derived, is_new=same is None))
            else:
                record_id = same.record_id
                if record_id not in derived.turn.supports:
                    # Another process may be deriving from the same turn.
                    write_id = made_id("confirm", derived.turn.record_id, record_id)
                    await self.records.confirm_memory(conversation, record_id, write_id)
                remembered.append(Remembered(record_id, derived, is_new=False))
            if record_id not in derived.turn.supports:
                await self.records.support(conversation, derived.turn.record_id, record_id)
        return remembered

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        pause_s, again_at = 1.0, math.inf
        while True:
            self._arrived.clear()
            try:
                async for exchange in self._unrecorded():
                    place = (exchange.tenant, exchange.conversation)
                    # Later exchanges of its conversation wait, to keep the order; those of other conversations do not.
                    if place not in self._stuck and not await self._record_safely(exchange):
                        self._stuck.add(place)
                has_left = bool(self._stuck or self._unsummarised)
            except Exception as error:  # noqa: BLE001 - the task must outlive any failure
                has_left = True
                self._complain(error)
            if has_left and again_at == math.inf:
                again_at, pause_s = loop.time() + pause_s, min(2 * pause_s, _LONGEST_PAUSE_S)
            elif not has_left and not self._awaiting_summary:
                self._has_failed, pause_s, again_at = False, 1.0, math.inf
            with suppress(TimeoutError):
                async with asyncio.timeout(min(_LOOK_EVERY_S, max(0.0, again_at - loop.time()))):
                    await self._arrived.wait()
            # New exchanges are recorded at once: a conversation that fails does not hold up others.
            if loop.time() >= again_at:
                self._awaiting_summary -= self._unsummarised
                self._unsummarised.clear()
                self._stuck.clear()
                again_at = math.inf

    async def _unrecorded(self) -> AsyncGenerator[Unrecorded, None]:
        after = 0
        while batch := await self.outbox.unrecorded(after, _EXCHANGES_AT_A_TIME):
            after = batch[-1].number
            for exchange in batch:
                yield exchange

    async def _record_safely(self, exchange: Unrecorded) -> bool:
        """Write the turns of an exchange and return whether that is done with; what can never be recorded is.

        With a summary due it is recorded when that is written, so that a crash does not lose it.
        """
        if exchange.number in self._awaiting_summary:
            return True
        index = 0

        async def write() -> bool:
            nonlocal index
            index = await self._write_exchange(exchange)
            return index >= self.summary_every and bool(await self._due(exchange.conversation, index))

        try:
            is_due = await self.in_call_of(exchange.identity, write)
        except _HOPELESS as error:
            _log.warning(
                "an exchange cannot be recorded", conversation_id=exchange.session.conversation_id, error=str(error)
            )
            is_due = False
        except Exception as error:  # noqa: BLE001 - a defect that one conversation shows is not to stop the others
            self._complain(error)
            return False
        if is_due:
            self._awaiting_summary.add(exchange.number)
            self._to_summarise.put_nowait((exchange, index))
        else:
            await self.outbox.recorded(exchange.number)
        return True

    async def _summarise_all(self) -> None:
        while True:
            exchange, index = await self._to_summarise.get()
            try:
                try:
                    await self.in_call_of(exchange.identity, partial(self._summarise, exchange.conversation, index))
                except _HOPELESS as error:
                    conversation_id = exchange.session.conversation_id
                    _log.warning(
                        "a conversation cannot be summarised", conversation_id=conversation_id, error=str(error)
                    )
                await self.outbox.recorded(exchange.number)
                self._awaiting_summary.discard(exchange.number)
            except Exception as error:  # noqa: BLE001 - the task must outlive any failure
                self._complain(error)
                # The other task tries the exchange again after its pause.
                self._unsummarised.add(exchange.number)
                self._arrived.set()

    async def _due(self, conversation: Conversation, last: int) -> list[Summary]:
        return list(due_summaries(await self.records.summaries(conversation), last, self.summary_every))

    async def _summarise(self, conversation: Conversation, last: int) -> None:
        """Write the summaries that are missing up to the exchange `last`, and the memories that follow from it."""
        for due in await self._due(conversation, last):
            turns = await self.records.turns(conversation, due.first, due.last)
            if not turns:
                continue
            record_id = made_id(conversation.collection, conversation.conversation_id, str(due.index))
            written = None
            if self.writer is not None:
                try:
                    written = await self.writer.summarise(turns)
                except GenerationFailedError as error:
                    _log.warning("the model failed, so a summary is quoted", failure=str(error))
            if written is None:
                # Reading two hundred long turns takes half a second, during which the event loop would be blocked.
                written = await asyncio.to_thread(summarise, turns)
            # A document that the summary quotes may just be deleted for good: the next exchange writes one without it.
            with suppress(DocumentNotFoundError):
                await self.records.write_summary(conversation, due, written, turns[-1].time, f"summary-{record_id}")
            if self.consolidates:
                await self.consolidate(conversation, due.first, due.last)

    async def _write_exchange(self, exchange: Unrecorded) -> int:
        turns = [_turn(exchange, exchange.question, "user"), _turn(exchange, exchange.answer, "assistant")]
        written = turns[:1] if exchange.answer.redacted else turns
        try:
            return await self._write_turns(exchange.conversation, written, made_id(turns[0].record_id))
        except RequestIdReusedError:
            # Written before with other content, because it was redacted in between.
            return await self.records.turn_number(exchange.conversation, turns[0].record_id)

    async def _write_turns(self, conversation: Conversation, turns: Sequence[Turn], write_id: str) -> int:
        """Write those turns of an exchange that can be written, and return its number."""
        try:
            return await self.records.write_exchange(conversation, turns, write_id)
        except DocumentNotFoundError:
            if len(turns) == 1:
                raise
            writable = turns[:1]  # the answer quotes what was deleted for good since
        except InvalidRequestError:
            # A pasted text, or a long answer of a chat model: what a record can hold of it is better than nothing.
            writable = [replace(each, text=shortened(each)) for each in turns]
            if writable == turns:
                raise
            # Another request than the one that was refused: repeated after a crash, each finds its own answer.
            write_id = made_id(write_id, "shortened")
        return await self._write_turns(conversation, writable, write_id)

    def _complain(self, error: Exception) -> None:
        if not isinstance(error, GroundwireError):
            _log.error("exchanges cannot be recorded because of a defect and are tried again", exc_info=error)
        elif not self._has_failed:
            _log.warning("exchanges cannot be recorded now and are tried again", error=str(error))
        self._has_failed = True


def due_summaries(written: Sequence[Summary], last: int, every: int) -> Iterator[Summary]:
    """Yield the summaries that are missing up to the exchange `last`, one for `every` exchanges.

    Those between others are missing because they quoted what was deleted for good: they get their numbers again, and
    the exchanges in between.
    """
    number = done = 0
    # Whoever may write to the scope may have written one of exchanges that there are not.
    for each in (one for one in written if one.first <= last):
        while number + 1 < each.index and done + 1 < each.first:
            number += 1
            is_last = number + 1 == each.index
            due = Summary(number, done + 1, each.first - 1 if is_last else min(done + every, each.first - 1))
            yield due
            done = due.last
        number, done = each.index, each.last
    while last - done >= every:
        number, done = number + 1, done + every
        yield Summary(number, done - every + 1, done)


def _turn(exchange: Unrecorded, message: Message, side: str) -> Turn:
    record_id = f"turn-{made_id(exchange.session.session_id, exchange.question.message_id)}-{side}"
    is_refusal = message.answer is not None and bool(message.answer.refusal_reason)
    return Turn(record_id, message.role, message.content, message.time, is_refusal, quoted=message.cited)


def made_id(*parts: str) -> str:
    """Return a UUID that is always the same for the same parts."""
    return str(uuid.uuid5(_IDS, "\n".join(parts)))
