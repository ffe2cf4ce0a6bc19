"""The SessionStore in the catalog: sessions survive restarts and are shared by replicas."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import groupby
from typing import ParamSpec, TypeVar

from groundwire.answer.recording import Unrecorded
from groundwire.answer.sessions import (
    CATALOG,
    Exchange,
    KeptAnswer,
    Message,
    Placed,
    Session,
    without_found,
)
from groundwire.api.answer.v1 import answer_pb2
from groundwire.catalog import sessions as session_rows
from groundwire.catalog.database import Database
from groundwire.catalog.idempotency import Ledger
from groundwire.catalog.sessions import Sessions
from groundwire.kernel.budget import current_budget
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.identifiers import RequestKey
from groundwire.kernel.session import AnswerFilter, SessionFilter
from groundwire.rpc.workers import Workers

Params = ParamSpec("Params")
ResultT = TypeVar("ResultT")

# As many as one call to retrieve takes.
_DOCUMENTS_AT_A_TIME = 1000


class CatalogSessions:
    """Stores sessions and remembered calls in the catalog, in worker threads.

    The methods are documented at `SessionStore` (`answer/sessions.py`) and `Outbox` (`answer/recording.py`).
    `purged` returns those of some documents, by id, that the tenant of the current call has deleted for good. It is
    None where the documents are in the same catalog: their deletion takes their texts out of sessions itself.
    """

    def __init__(
        self,
        catalog: Database,
        workers: Workers,
        purged: Callable[[Sequence[str]], Awaitable[frozenset[str]]] | None = None,
    ) -> None:
        self._sessions = Sessions(catalog)
        self._ledger = Ledger(catalog)
        self._workers = workers
        self._purged = purged

    async def answered(self, tenant: str, key: RequestKey) -> bytes | None:
        return await self._run(self._ledger.find, tenant, key)

    async def create(self, tenant: str, session: Session, receipt: Receipt[Session] | None = None) -> Session:
        return await self._run(self._sessions.create, tenant, session, receipt)

    async def get(self, tenant: str, session_id: str) -> Session:
        def read() -> Session:
            session = self._sessions.get(tenant, session_id)
            messages = tuple(map(_to_message, self._sessions.messages(tenant, session_id)))
            unrecorded = self._sessions.count_unrecorded(tenant, session_id) if session.conversation_id else 0
            return replace(session, messages=messages, unrecorded=unrecorded)

        session = await self._run(read)
        return replace(session, messages=tuple(await self._readable(tenant, session.messages)))

    async def page(
        self, tenant: str, wanted: SessionFilter, after: tuple[datetime, str] | None, limit: int
    ) -> list[Session]:
        return await self._run(self._sessions.page, tenant, after, limit, wanted)

    async def messages(self, tenant: str, session_id: str, after: int, limit: int) -> list[Placed]:
        rows = await self._run(self._sessions.history, tenant, session_id, after, limit)
        messages = await self._readable(tenant, [_to_message(row) for row in rows])
        return [Placed(row.sequence, message) for row, message in zip(rows, messages, strict=True)]

    async def exchange(self, tenant: str, session_id: str, message_id: str) -> Exchange | None:
        rows = await self._run(self._sessions.exchange, tenant, session_id, message_id)
        found = await self._readable(tenant, [_to_message(row) for row in rows])
        if not found:
            return None
        answers = len(found) > 1 and found[1].related_message_id == message_id
        return Exchange(found[0], found[1] if answers else None)

    async def begin(self, tenant: str, session_id: str, expected_head: str, question: Message) -> None:
        await self._run(self._sessions.append, tenant, session_id, expected_head, [_to_row(question)])

    async def reply(self, tenant: str, session_id: str, answer: Message, replacing: str = "") -> None:
        # Only whole answers are recorded in a conversation.
        is_whole = not answer.abandoned
        await self._run(self._sessions.reply, tenant, session_id, _to_row(answer), replacing, is_whole=is_whole)

    async def answers(
        self, tenant: str, wanted: AnswerFilter, after: tuple[str, int] | None, limit: int
    ) -> list[KeptAnswer]:
        rows = await self._run(self._sessions.answers, tenant, after and after[1], limit, wanted)
        answers = await self._readable(tenant, [_to_message(row.answer) for row in rows])
        return [
            KeptAnswer(
                (CATALOG, row.number), row.session.session_id, row.session.collection, _to_message(row.question), answer
            )
            for row, answer in zip(rows, answers, strict=True)
        ]

    async def end(self, tenant: str, session_id: str, receipt: Receipt[Session] | None = None) -> Session:
        return await self._run(self._sessions.end, tenant, session_id, receipt)

    async def delete(self, tenant: str, session_id: str, receipt: Receipt[int] | None = None) -> int:
        return await self._run(self._sessions.delete, tenant, session_id, receipt)

    async def delete_of_user(self, tenant: str, user_id: str, receipt: Receipt[int] | None = None) -> int:
        return await self._run(self._sessions.delete_of_user, tenant, user_id, receipt)

    async def unrecorded(self, after: int, limit: int) -> list[Unrecorded]:
        rows = await self._run(self._sessions.unrecorded, after, limit)
        return [
            Unrecorded(row.number, row.tenant, row.session, _to_message(row.question), _to_message(row.answer))
            for row in rows
        ]

    async def recorded(self, number: int) -> None:
        await self._run(self._sessions.recorded, number)

    async def _readable(self, tenant: str, messages: Sequence[Message]) -> Sequence[Message]:
        """Return messages without text of documents deleted for good, and remove that text from the store too."""
        documents = sorted({each for message in messages for each in message.cited | message.shown})
        if self._purged is None or not documents:
            return messages
        purged = await self._purged(documents)
        if purged:
            await self._run(self._sessions.redact, tenant, sorted(purged))
        return [message.without(purged) for message in messages]

    async def _run(self, fn: Callable[Params, ResultT], *args: Params.args, **kwargs: Params.kwargs) -> ResultT:
        return await self._workers.run(current_budget(), fn, *args, **kwargs)


def redact_purged(sessions: Sessions, purged: Callable[[str, Sequence[str]], frozenset[str]]) -> None:
    """Remove texts of deleted documents from sessions that are not in the catalog of the documents.

    Goes through all documents whose text is in messages, a thousand at a time. Readers never see such text anyway; this
    removes it from disk.
    """
    after = ("", "")
    while held := sessions.documents(after, _DOCUMENTS_AT_A_TIME):
        after = held[-1]
        for tenant, rows in groupby(held, key=lambda row: row[0]):
            if gone := purged(tenant, [document_id for _, document_id in rows]):
                sessions.redact(tenant, sorted(gone))


def _to_message(row: session_rows.NewMessage) -> Message:
    message = Message(
        row.message_id,
        row.role,
        row.content,
        row.time,
        row.related_message_id,
        redacted=row.state is session_rows.MessageState.REDACTED,
    )
    if row.answer is None:
        return message
    stored = answer_pb2.Answer.FromString(row.answer)
    stored.MergeFromString(row.found or b"")
    return replace(message, answer=stored)


def _to_row(message: Message) -> session_rows.NewMessage:
    row = session_rows.NewMessage(
        message_id=message.message_id,
        role=message.role,
        content=message.content,
        time=message.time,
        related_message_id=message.related_message_id,
    )
    if message.answer is None:
        return row
    # Separate, because it contains texts of documents that the answer does not quote and that may be deleted later.
    found = answer_pb2.Answer(hits=message.answer.hits, documents=message.answer.documents)
    if message.answer.HasField("explain_plan"):
        found.explain_plan.CopyFrom(message.answer.explain_plan)
    return replace(
        row,
        answer=without_found(message.answer).SerializeToString(),
        found=found.SerializeToString(),
        cited=tuple(sorted(message.cited)),
        shown=tuple(sorted(message.shown)),
    )
