"""Answer one question: search, draft, check every citation, compose."""

import time
import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from groundwire.answer.domain.abstaining import REFUSALS
from groundwire.answer.domain.answer import (
    Answer,
    AnswerEvent,
    Cited,
    Final,
    FinishReason,
    RefusalReason,
    Retrieved,
    SearchReport,
    TextDelta,
    Timings,
)
from groundwire.answer.domain.asked_question import AskedQuestion
from groundwire.answer.domain.citing import keep_supported
from groundwire.answer.domain.composing import Composer
from groundwire.answer.domain.confidence import answer_confidence
from groundwire.answer.domain.draft import Statement
from groundwire.answer.ports import CollectionDirectory, Generator, Retrieval, Retriever, Search, SourceTexts
from groundwire.kernel.clock import Clock
from groundwire.kernel.errors import InvalidRequestError


@dataclass(slots=True)
class _Progress:
    """What is known of an answer in the making."""

    composer: Composer
    search: SearchReport
    refusal: RefusalReason | None = None
    begun: float = field(default_factory=time.perf_counter)
    retrieval_s: float = 0.0
    verification_s: float = 0.0
    drafted: float = 0.0


class AskQuestion:
    """Answers questions; keeps nothing."""

    def __init__(
        self,
        *,
        retriever: Retriever,
        generator: Generator,
        texts: SourceTexts,
        collections: CollectionDirectory,
        clock: Clock,
        rag_enabled: bool = True,
    ) -> None:
        self._retriever = retriever
        self._generator = generator
        self._texts = texts
        self._collections = collections
        self._clock = clock
        self._rag_enabled = rag_enabled

    async def __call__(self, tenant: str, ask: AskedQuestion) -> AsyncGenerator[AnswerEvent, None]:
        """Yield the events of an answer; the deltas and citations add up to the answer in the last one.

        Close the generator (`contextlib.aclosing`) to stop the work.

        Raises:
            CollectionNotFoundError: there is no such collection.
            InvalidRequestError: the question is longer than the collection takes.
            GroundwireError: what the retriever raises.
        """
        max_chars = 0
        if self._rag_enabled:
            max_chars = await self._collections.max_query_chars_of(tenant, ask.collection)
            ask = _fitting(ask, max_chars)
        progress = _Progress(Composer(ask.collection, ask.max_answer_chars), SearchReport(ask.wanted))
        retrieval = await self._retrieve(ask, progress, max_chars)
        progress.retrieval_s = time.perf_counter() - progress.begun
        yield Retrieved(progress.search)
        async with aclosing(self._written(tenant, ask, retrieval, progress)) as events:
            async for event in events:
                yield event
        if not progress.composer.citations:
            progress.refusal = progress.refusal or _refusal(ask, retrieval, has_draft=progress.drafted > 0)
            yield TextDelta(REFUSALS[progress.refusal], 0)
        yield Final(self._finished(ask, progress))

    async def _retrieve(self, ask: AskedQuestion, progress: _Progress, max_chars: int) -> Retrieval:
        nothing = Retrieval((), progress.search)
        if not self._rag_enabled:
            progress.refusal = RefusalReason.RETRIEVAL_DISABLED
            return nothing
        places: tuple[tuple[str, str], ...] = ()
        if ask.selected_text.strip():
            places = await self._retriever.places_of(ask.collection, ask.selected_text, max_chars)
            if not places:
                return nothing
        search = Search(ask.collection, ask.wanted, ask.options, ask.chunk_ids, places)
        retrieval = await self._retriever.retrieve(search)
        progress.search = retrieval.search
        return retrieval

    async def _written(
        self, tenant: str, ask: AskedQuestion, retrieval: Retrieval, progress: _Progress
    ) -> AsyncGenerator[AnswerEvent, None]:
        if not retrieval.passages:
            return
        async with aclosing(self._generator.draft(ask.wanted, retrieval.passages)) as drafts:
            async for batch in drafts:
                progress.drafted += len(batch)
                began = time.perf_counter()
                checked = await self._checked(tenant, ask.collection, batch)
                progress.verification_s += time.perf_counter() - began
                for statement in checked:
                    for event in _added(progress.composer, statement):
                        yield event

    async def _checked(self, tenant: str, collection: str, batch: Sequence[Statement]) -> list[Statement]:
        """Return the statements whose sources are stored exactly as claimed; one read for all of them."""
        sources = [source for statement in batch for source in statement.sources]
        stored = iter(await self._texts.stored(tenant, collection, sources))
        return keep_supported(batch, [[next(stored) for _ in statement.sources] for statement in batch])

    def _finished(self, ask: AskedQuestion, progress: _Progress) -> Answer:
        composer, refusal = progress.composer, progress.refusal
        relevances = [citation.relevance for citation in composer.citations]
        return Answer(
            content=REFUSALS[refusal] if refusal else composer.content,
            citations=tuple(composer.citations),
            claims=tuple(composer.claims),
            confidence=answer_confidence(relevances),
            refusal=refusal,
            finish=_finish_reason(progress),
            message_id=str(uuid.uuid4()),
            collection=ask.collection,
            answer_time=self._clock.now(),
            generator=self._generator.name,
            search=progress.search if ask.include_hits else progress.search.without_hits,
            session_id=ask.session_id,
            topic_shift=ask.topic_shift,
            timings=_timings(progress),
        )


def _fitting(ask: AskedQuestion, max_chars: int) -> AskedQuestion:
    """Return the question with a search text that its collection takes: the question alone if need be."""
    if len(ask.question) > max_chars:
        raise InvalidRequestError.of("question", f"must be at most {max_chars} characters, has {len(ask.question)}")
    return ask if len(ask.wanted) <= max_chars else replace(ask, search_text="")


def _added(composer: Composer, statement: Statement) -> list[AnswerEvent]:
    """Append a statement; return its text, then the citations it brought."""
    addition = composer.add(statement)
    if addition is None:
        return []
    return [TextDelta(addition.text, addition.start), *(Cited(citation) for citation in addition.citations)]


def _refusal(ask: AskedQuestion, retrieval: Retrieval, *, has_draft: bool) -> RefusalReason:
    if has_draft:
        return RefusalReason.UNSUPPORTED_CLAIMS
    if ask.is_selective:
        return RefusalReason.OUTSIDE_SELECTION
    return RefusalReason.WEAK_SUPPORT if retrieval.passages else RefusalReason.NO_RESULTS


def _finish_reason(progress: _Progress) -> FinishReason:
    if progress.refusal:
        return FinishReason.REFUSED
    return FinishReason.LENGTH if progress.composer.is_cut else FinishReason.COMPLETE


def _timings(progress: _Progress) -> Timings:
    total_s = time.perf_counter() - progress.begun
    generation_s = max(0.0, total_s - progress.retrieval_s - progress.verification_s)
    return Timings(progress.retrieval_s, generation_s, progress.verification_s, total_s)
