"""Answers that are kept: in sessions, and of single questions in sessions of their own; and which of them are stale."""

from collections.abc import Mapping
from dataclasses import dataclass

from groundwire.answer.ports import Library, Workers
from groundwire.answer.sessions import AnswerFilter, KeptAnswer, SessionStore
from groundwire.answer.verification import ClaimedCitation, Verification, verify_citations
from groundwire.kernel.errors import NotFoundError
from groundwire.kernel.session import Role

_READ_AT_A_TIME = 100
_MOST_READ = 1000
"""Answers that one page looks at, so that a call for the few stale ones among many ends in time."""


@dataclass(frozen=True, slots=True)
class ListedAnswer:
    """An answer and whether a document that it cites has changed since or is gone."""

    kept: KeptAnswer
    is_stale: bool


async def list_answers(
    sessions: SessionStore,
    library: Library,
    tenant: str,
    wanted: AnswerFilter,
    after: tuple[str, int] | None,
    limit: int,
    *,
    only_stale: bool,
) -> tuple[list[ListedAnswer], tuple[str, int] | None]:
    """Return up to `limit` answers behind `after`, the newest first, and where the next page begins, None at the end.

    There may be fewer although more follow: a page looks at 1,000 answers.
    """
    listed: list[ListedAnswer] = []
    for _ in range(_MOST_READ // _READ_AT_A_TIME):
        batch = await sessions.answers(tenant, wanted, after, _READ_AT_A_TIME)
        cited = {document_id for kept in batch for document_id in kept.reply.cited}
        live = await library.live_generations(cited) if cited else {}
        for kept in batch:
            after = kept.position
            entry = ListedAnswer(kept, _is_stale(kept, live))
            if only_stale and not entry.is_stale:
                continue
            if len(listed) == limit:
                return listed, listed[-1].kept.position
            listed.append(entry)
        if len(batch) < _READ_AT_A_TIME:
            return listed, None
    return listed, after


async def get_answer(
    sessions: SessionStore, library: Library, workers: Workers, tenant: str, session_id: str, answer_id: str
) -> tuple[ListedAnswer, list[Verification]]:
    """Return the answer of this id or to the question of this id, and what became of its citations, in their order.

    Raises:
        SessionNotFoundError: there is no such session.
        NotFoundError: the session has no such answer.
    """
    exchange = await sessions.exchange(tenant, session_id, answer_id)
    if exchange is not None and exchange.message.role is Role.ASSISTANT:
        exchange = await sessions.exchange(tenant, session_id, exchange.message.related_message_id)
    if exchange is None or exchange.answer is None:
        raise NotFoundError(answer_id)
    session = await sessions.get(tenant, session_id)
    kept = KeptAnswer(("", 0), session_id, session.collection, exchange.message, exchange.answer)
    live = await library.live_generations(kept.reply.cited)
    citations = kept.reply.answer.citations if kept.reply.answer else ()
    claimed = [
        ClaimedCitation(
            collection=each.collection,
            document_id=each.document_id,
            generation=each.generation,
            chars=(each.span.start, each.span.end),
            bytes_=(each.span.start_byte, each.span.end_byte),
            quote=each.quote,
        )
        for each in citations
    ]
    return ListedAnswer(kept, _is_stale(kept, live)), await verify_citations(library, workers, claimed)


def _is_stale(kept: KeptAnswer, live: Mapping[str, int]) -> bool:
    """Tell whether the documents it cites are not what they were; `live` has the generations of those there are."""
    citations = kept.reply.answer.citations if kept.reply.answer else ()
    return kept.reply.redacted or any(live.get(each.document_id) != each.generation for each in citations)
