"""Answer a question: search, draft, check every citation, compose; in a session, once for each message id."""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, timedelta
from itertools import islice
from typing import Any
from weakref import WeakValueDictionary

import structlog

from groundwire.answer.answers import (
    Composer,
    GenerationFailure,
    answer_confidence,
    is_supported,
    refusal_text,
    replayed,
    retrieved_event,
)
from groundwire.answer.consolidation import asks_nothing
from groundwire.answer.evidence import Closest, Passage, Statement, with_agreeing_sources
from groundwire.answer.intent import (
    document_asked_for,
    named_place,
    numbered_name,
    search_context,
    search_text,
)
from groundwire.answer.ports import GenerationFailedError, Generator, Library, Retrieval, Retriever, Search
from groundwire.answer.question import subject_asked_for
from groundwire.answer.sessions import (
    Exchange,
    Message,
    NewSession,
    Session,
    SessionStore,
    create_session,
    start_session,
)
from groundwire.answer.topics import Topics
from groundwire.api.answer.v1 import answer_pb2
from groundwire.api.answer.v1.answer_service_pb2 import (
    AnswerEvent,
    CitationEvent,
    FinalEvent,
    HeartbeatEvent,
    TextDelta,
)
from groundwire.api.common.v1.degraded_stage_pb2 import DEGRADED_STAGE_GENERATION
from groundwire.kernel.budget import CURRENT_BUDGET, Budget
from groundwire.kernel.clock import Clock
from groundwire.kernel.errors import (
    AlreadyExistsError,
    GroundwireError,
    InvalidFilterError,
    InvalidRequestError,
    PermissionDeniedError,
    SessionHeadMovedError,
    SessionNotFoundError,
)
from groundwire.kernel.identity import current_identity
from groundwire.kernel.latencies import Step
from groundwire.kernel.session import Role
from groundwire.rpc.value_messages import to_duration, to_timestamp

# Another replica may store a message between the look at the head and the question.
_BEGIN_ATTEMPTS = 3
# Name space of the ids of sessions that single questions have of their own.
_OWN_SESSIONS = uuid.UUID("5e8c6f0e-3c1b-4d5f-9a57-2f0f6f1f7b11")
# What comes after the first documents seldom explains what these leave open.
_OPENED_DOCUMENTS = 3
# Of those that say something: a README may begin with more badges than fit into a few chunks.
_OPENING_PASSAGES = 3
# How long storing an abandoned answer may take, although its call has ended.
_ABANDON_S = 5.0
_JUST_SAID = timedelta(seconds=2)
# Half a second in all: what was said longer ago waits for an ingest service that is away, and no answer does.
_RECORDING_LOOKS = 10
_RECORDING_LOOK_S = 0.05

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class AskedQuestion:
    """A question; `search_text` is the text to search for (the question itself if empty), `search_context` its context.

    `options` is the caller's message for the retriever, passed on unread. `max_answer_chars` counts code points.
    `include_hits` adds what was retrieved to the answer. `keep_for` and `user_id` are those of a session that stores a
    single question; `conversation_id` and `scope` those of the session it is asked in. `splits_topics` starts a new
    session if the topic changes. `expected_head` is the newest message that the session must have, None for any.
    `strictness` is the least support of the leading statement of an extractive answer, in [0, 1], None for the
    server's.
    """

    question: str
    collection: str
    message_id: str
    selected_text: str = ""
    options: Any = None
    chunk_ids: tuple[str, ...] = ()
    max_answer_chars: int = 2000
    search_text: str = ""
    search_context: str = ""
    session_id: str = ""
    topic_shift: bool = False
    include_hits: bool = False
    grounding: answer_pb2.GroundingPolicy.ValueType = answer_pb2.GROUNDING_POLICY_STRICT
    keep_for: timedelta | None = None
    user_id: str = ""
    splits_topics: bool = False
    expected_head: str | None = None
    strictness: float | None = None
    conversation_id: str = ""
    scope: str = ""

    @property
    def is_selective(self) -> bool:
        """Return whether the caller said where the answer has to come from."""
        return bool(self.selected_text or self.chunk_ids)


@dataclass(slots=True)
class _Progress:
    """The state of an unfinished answer; `search` holds what the answer reports about its search."""

    composer: Composer
    search: answer_pb2.Answer
    generator: str
    found_documents: frozenset[str] = frozenset()
    refusal: answer_pb2.RefusalReason.ValueType = answer_pb2.REFUSAL_REASON_UNSPECIFIED
    refusal_text: str = ""
    named_documents: frozenset[str] = frozenset()
    topic_shift: bool = False
    closest: Statement | None = None
    has_draft: bool = False
    model_asked: bool = False
    dropped: int = 0
    failure: GenerationFailure | None = None
    begun: float = field(default_factory=time.perf_counter)
    retrieval_s: float = 0.0
    verification_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Answerer:
    """Answers questions, alone or in a session.

    `on_unrecorded` is called when an answer of a conversation is stored. With a `fallback`, `generator` is a model: the
    fallback writes when the model fails before anything was sent, or when nothing it wrote is supported. `drafts`
    counts how many began, and failed for which reason, by the name of the generator.
    """

    retriever: Retriever
    generator: Generator
    library: Library
    topics: Topics
    sessions: SessionStore
    on_unrecorded: Callable[[], None]
    clock: Clock
    max_search_chars: int
    heartbeat_s: float
    rag_enabled: bool = True
    fallback: Generator | None = None
    drafts: Counter[tuple[str, str]] = field(default_factory=Counter)
    # Weak, so that sessions in which nobody asks leave nothing behind.
    _locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = field(default_factory=WeakValueDictionary)
    # The event loop refers to tasks weakly, so one that nothing else holds could vanish before its end.
    _keeping: set[asyncio.Task[None]] = field(default_factory=set)

    async def answer(self, ask: AskedQuestion, progress: _Progress | None = None) -> AsyncGenerator[AnswerEvent, None]:
        """Yield the events of an answer; the deltas and citations add up to the answer in the last one.

        Stores nothing. Close the generator (`contextlib.aclosing`) to end the work; `progress` then has what is done.

        Raises:
            CollectionNotFoundError: there is no such collection.
            InvalidRequestError: the question is longer than the collection takes.
            GroundwireError: what the retriever raises.
        """
        progress = progress or self._nothing_yet(ask)
        retrieval = await self._retrieve(ask)
        progress.search = retrieval.report
        # The report may have hits that are no passages to answer from, and passages that are no hits: records.
        found = frozenset(passage.document_id for passage in retrieval.passages)
        progress.found_documents = found.union(hit.chunk.document_id for hit in retrieval.report.hits)
        progress.retrieval_s = time.perf_counter() - progress.begun
        yield retrieved_event(progress.search)
        if retrieval.passages:
            progress.model_asked = self.fallback is not None
            try:
                async with aclosing(self._drafted(self.generator, ask, retrieval, progress)) as events:
                    async for event in events:
                        yield event
            except GenerationFailedError as error:
                if self.fallback is None:
                    raise
                progress.failure = error.failure
                self.drafts[self.generator.name, error.failure.value.lower()] += 1
                _log.warning("the model failed", model=self.generator.name, failure=str(error))
            # A model that read the passages and drafted nothing says that they do not answer the question. Text that
            # was sent is never revoked, so nothing is put in its place.
            has_failed = progress.failure is not None or progress.has_draft
            if self.fallback is not None and has_failed and not progress.composer.content:
                progress.failure = progress.failure or GenerationFailure.UNSUPPORTED
                progress.generator = self.fallback.name
                async with aclosing(self._drafted(self.fallback, ask, retrieval, progress)) as events:
                    async for event in events:
                        yield event
        if not progress.composer.content:
            if not self.rag_enabled:
                progress.refusal = answer_pb2.REFUSAL_REASON_RETRIEVAL_DISABLED
            elif ask.conversation_id and asks_nothing(ask.question):
                progress.refusal = answer_pb2.REFUSAL_REASON_NO_QUESTION
            elif progress.has_draft:
                progress.refusal = answer_pb2.REFUSAL_REASON_UNSUPPORTED_CLAIMS
            elif ask.is_selective:
                progress.refusal = answer_pb2.REFUSAL_REASON_OUTSIDE_SELECTION
            elif retrieval.passages:
                progress.refusal = answer_pb2.REFUSAL_REASON_WEAK_SUPPORT
            else:
                progress.refusal = answer_pb2.REFUSAL_REASON_NO_RESULTS
            progress.refusal_text, progress.named_documents = refusal_text(
                progress.refusal, retrieval.passages, ask.max_answer_chars, progress.closest
            )
            yield AnswerEvent(text_delta=TextDelta(text=progress.refusal_text))
        yield AnswerEvent(final=FinalEvent(answer=self._finished(ask, progress)))

    def answer_and_keep(self, tenant: str, ask: AskedQuestion) -> AsyncGenerator[AnswerEvent, None]:
        """Return the events of the answer to a single question, stored in a session of its own.

        The same message id has the same session, so a repetition gets the same answer.

        Raises:
            CollectionNotFoundError: there is no such collection.
            GroundwireError: as `answer_in_session`.
        """
        owner = current_identity().owner
        # Callers that choose the same message id do not meet, nor does one whose credential has got other scopes.
        named = " ".join(filter(None, (ask.message_id, owner.subject, owner.scopes_digest)))
        own = str(uuid.uuid5(_OWN_SESSIONS, named))
        new = NewSession(ask.collection, ask.keep_for, ask.user_id)
        return self._answer_in_own(tenant, ask, own, new)

    async def answer_on_topic(
        self, tenant: str, ask: AskedQuestion, *, is_resumed: bool = False
    ) -> AsyncGenerator[AnswerEvent, None]:
        """Yield the events of the answer in the session, or in a new one like it when the question changes the topic.

        Raises:
            GroundwireError: as `answer_in_session`.
        """
        session = await self.sessions.get(tenant, ask.session_id)
        own = str(uuid.uuid5(uuid.UUID(ask.session_id), ask.message_id))
        # A repetition goes to the session of the first call, where its answer is, whatever became of the original one.
        moves_on = False
        if await self.sessions.exchange(tenant, ask.session_id, ask.message_id) is None:
            try:
                await self.sessions.get(tenant, own)
                moves_on = True
            except SessionNotFoundError:
                moves_on = not session.is_closed and await self._shifts_topic(ask, session.messages)
                if moves_on:
                    _refuse_unfit(session, ask)
        if moves_on:
            new = NewSession(
                session.collection,
                session.idle_timeout,
                session.user_id,
                session.labels,
                session.conversation_id,
                session.scope,
            )
            events = self._answer_in_own(tenant, replace(ask, topic_shift=True), own, new, is_resumed=is_resumed)
        else:
            events = self.answer_in_session(tenant, ask, is_resumed=is_resumed)
        async with aclosing(events):
            async for event in events:
                yield event

    async def _answer_in_own(
        self, tenant: str, ask: AskedQuestion, session_id: str, new: NewSession, *, is_resumed: bool = False
    ) -> AsyncGenerator[AnswerEvent, None]:
        """Yield the events of an answer in a session of its own, which is created if there is none with this id.

        Raises:
            AlreadyExistsError: there is one, about another collection or of another user.
            GroundwireError: as `answer_in_session`.
        """
        session = start_session(session_id, new, new.idle_timeout or timedelta(), self.clock.now())
        is_new = False
        try:
            await create_session(self.sessions, self.library, tenant, session)
            is_new = True
        except AlreadyExistsError:
            stored = await self.sessions.get(tenant, session_id)
            if (stored.collection, stored.user_id) != (new.collection, new.user_id):
                message = "the message id was used with another collection or user"
                raise AlreadyExistsError(message, message_id=ask.message_id) from None
        own = replace(ask, session_id=session_id, expected_head=None)
        try:
            async with aclosing(self.answer_in_session(tenant, own, is_resumed=is_resumed)) as events:
                async for event in events:
                    is_new = False  # the search is done, and the question stored
                    yield event
        except GroundwireError:
            if is_new:  # a refused question leaves nothing behind
                await self.sessions.delete(tenant, session_id)
            raise

    async def answer_in_session(
        self, tenant: str, ask: AskedQuestion, *, is_resumed: bool = False
    ) -> AsyncGenerator[AnswerEvent, None]:
        """Yield the events of the answer, or those of the stored answer if the question was answered before.

        Questions of one session wait for each other. The question is stored once the search is done and before
        anything is written, the answer before the last event, so a caller who has the whole answer can rely on it. An
        answer that fails or is abandoned is stored as it is by then (requirement S4-33), and is written anew when the
        question is asked again, unless `is_resumed`: then its events are yielded again.

        Raises:
            SessionNotFoundError: there is no such session.
            SessionExpiredError: it was idle for too long or was ended.
            SessionHeadMovedError: `expected_head` is not its newest message.
            AlreadyExistsError: the message id was used in the session with another question or is that of an answer.
            InvalidRequestError: `is_resumed`, and nothing of an answer is stored.
            GroundwireError: what the retriever raises.
        """
        lock = self._locks.setdefault((tenant, ask.session_id), asyncio.Lock())
        async with lock:
            session = await self.sessions.get(tenant, ask.session_id)
            _refuse_other_collection(session, ask)
            exchange = await self.sessions.exchange(tenant, ask.session_id, ask.message_id)
            earlier = _earlier_reply(exchange, ask)
            if earlier is not None and earlier.answer is not None and (is_resumed or not earlier.abandoned):
                for event in replayed(earlier.answer):
                    yield event
                return
            if is_resumed:
                raise InvalidRequestError.of("after_sequence", "no answer to this question is stored; ask without it")
            _refuse_unfit(session, ask, is_new=exchange is None)
            await self._wait_until_recorded(tenant, session)
            # A question that is asked again is asked in the window that it was asked in.
            ids = [each.message_id for each in session.messages]
            window = session.messages[: ids.index(ask.message_id)] if ask.message_id in ids else session.messages
            prepared = replace(
                ask,
                collection=session.collection,
                search_text=search_text(ask.question, window, self.max_search_chars),
                search_context=search_context(ask.question, window, self.max_search_chars),
                conversation_id=session.conversation_id,
                scope=session.scope,
            )
            progress = self._nothing_yet(prepared)
            replacing = earlier.message_id if earlier else ""
            is_open = False
            # Beside the search, whose query the model then embeds together with what the topics are compared by.
            shift = asyncio.create_task(self._shifts_topic(ask, window))
            try:
                async with aclosing(self.answer(prepared, progress)) as events:
                    async for event in events:
                        if event.HasField("retrieved"):
                            progress.topic_shift = await shift
                            if exchange is None:
                                await self._begin(tenant, session, ask)
                            is_open = True
                        elif event.HasField("final"):
                            reply = _reply(ask.message_id, event.final.answer, progress)
                            await self.sessions.reply(tenant, ask.session_id, reply, replacing)
                            is_open = False
                            if session.conversation_id:
                                self.on_unrecorded()
                        yield event
            finally:
                shift.cancel()
                if is_open:
                    await self._abandon(tenant, prepared, progress, replacing)
                await asyncio.gather(shift, return_exceptions=True)

    async def _shifts_topic(self, ask: AskedQuestion, window: Sequence[Message]) -> bool:
        """Tell whether a question changes the topic; never where retrieval is off, for then no model embeds."""
        return ask.topic_shift or (self.rag_enabled and await self.topics.is_shift(ask.question, window))

    async def _wait_until_recorded(self, tenant: str, session: Session) -> None:
        """Wait up to half a second until recent turns of a conversation are recorded, so the question can find them.

        Older turns wait for an ingest service that is unavailable, and no answer waits for that.
        """
        for _ in range(_RECORDING_LOOKS):
            if not session.unrecorded or self.clock.now() - session.messages[-1].time > _JUST_SAID:
                return
            await asyncio.sleep(_RECORDING_LOOK_S)
            session = await self.sessions.get(tenant, session.session_id)

    def _nothing_yet(self, ask: AskedQuestion) -> _Progress:
        composer = Composer(ask.collection, ask.max_answer_chars)
        return _Progress(composer, answer_pb2.Answer(search_text=ask.search_text or ask.question), self.generator.name)

    async def _retrieve(self, ask: AskedQuestion) -> Retrieval:
        """Search for the question, in the places of the selected text if there is one; find nothing if switched off."""
        refused: InvalidRequestError | None = None
        wanted = ask.search_text or ask.question
        if not self.rag_enabled:
            return Retrieval((), answer_pb2.Answer(search_text=wanted))
        if not ask.selected_text.strip():
            # Most texts are short enough: only after a refusal is it worth a call to learn the limit.
            try:
                return await self._found(ask, wanted, ask.search_context, ())
            except InvalidRequestError as error:
                refused = error
        max_chars = await self.library.max_query_chars_of(ask.collection)
        if len(ask.question) > max_chars:
            raise InvalidRequestError.of("question", f"must be at most {max_chars} characters, has {len(ask.question)}")
        # With the words of an earlier question in front, it may have become longer than the collection allows.
        text = wanted if len(wanted) <= max_chars else ask.question
        context = ask.search_context if len(ask.search_context) <= max_chars else ""
        if refused is not None and (text, context) == (wanted, ask.search_context):
            raise refused
        places: tuple[tuple[str, str], ...] = ()
        if ask.selected_text.strip():
            places = await self.retriever.places_of(ask.collection, ask.selected_text, max_chars)
            if not places:
                return Retrieval((), answer_pb2.Answer(search_text=text, search_context=context))
        return await self._found(ask, text, context, places)

    async def _found(
        self, ask: AskedQuestion, text: str, context: str, places: tuple[tuple[str, str], ...]
    ) -> Retrieval:
        """Search for a text, in `places` unless empty; if the question names a document, look at the whole document.

        Raises:
            InvalidRequestError: the collection takes no text of this length, or the retriever refuses something else.
        """
        search = Search(ask.collection, text, ask.options, ask.chunk_ids, places, context, ask.scope)
        document = None if ask.is_selective else document_asked_for(text)
        name = None if ask.is_selective or ask.scope or document is not None else numbered_name(text)
        if name is not None:
            # What a document says of itself seldom repeats its number, so no search for the number finds it. The filter
            # of the caller may leave no room for names: then it is searched for like all else.
            with suppress(InvalidFilterError):
                retrieval = await self.retriever.retrieve(replace(search, named_like=name.patterns))
                if passages := tuple(each for each in retrieval.passages if name.names(each)):
                    # Its head, with its author and date, is like no question.
                    return await self._with_openings(search, Retrieval(passages, retrieval.report))
        if document == "":
            search = replace(search, summary_of="")
        with Step("answer.search"):
            retrieval = await self.retriever.retrieve(search)
            if document is None and not ask.is_selective and subject_asked_for(text) is not None:
                retrieval = await self._with_openings(search, retrieval)
            if document and (place := named_place(document, retrieval.passages)):
                document_id, chapter = place
                whole = replace(search, summary_of=document_id, places=(place,) if chapter else ())
                retrieval = await self.retriever.retrieve(whole)
        return retrieval

    async def _with_openings(self, search: Search, retrieval: Retrieval) -> Retrieval:
        """Add the beginnings of the documents that were found best, as relevant as what was found of these.

        There a text says what it is about, once, where the rest of it has the word in every sentence.
        """
        best: dict[str, Passage] = {}
        for passage in retrieval.passages:
            best.setdefault(passage.document_id, passage)
        leading = dict(islice(best.items(), _OPENED_DOCUMENTS))
        if not leading:
            return retrieval
        # As above, the filter of the caller may leave no room for more conditions.
        with suppress(InvalidFilterError):
            openings = await self.retriever.retrieve(replace(search, openings_of=tuple(leading)))
            known = {each.chunk_id for each in retrieval.passages}
            told, added = Counter[str](), list[Passage]()
            for each in sorted(openings.passages, key=lambda passage: passage.span.start):
                found = leading[each.document_id]
                if each.chunk_id not in known and told[each.document_id] < _OPENING_PASSAGES:
                    added.append(replace(each, rank=found.rank, relevance=found.relevance))
                told[each.document_id] += each.tells()
            retrieval = replace(retrieval, passages=(*retrieval.passages, *added))
        return retrieval

    async def _drafted(
        self, generator: Generator, ask: AskedQuestion, retrieval: Retrieval, progress: _Progress
    ) -> AsyncGenerator[AnswerEvent, None]:
        """Draft an answer; yield the statements that the policy allows, with sources that equal what is stored."""
        self.drafts[generator.name, "begun"] += 1
        is_annotated = ask.grounding == answer_pb2.GROUNDING_POLICY_ANNOTATE
        drafts = generator.draft(
            progress.search.search_text, retrieval.passages, ask.strictness, progress.search.search_context
        )
        async with aclosing(drafts), aclosing(_with_heartbeats(drafts, self.heartbeat_s)) as batches:
            async for batch in batches:
                if isinstance(batch, AnswerEvent):
                    yield batch
                    continue
                statements = [batch.statement] if isinstance(batch, Closest) else batch
                began = time.perf_counter()
                with Step("answer.verify"):
                    sources = [source for statement in statements for source in statement.quoted]
                    stored = iter(await self.library.stored(ask.collection, sources) if sources else ())
                    found = [[next(stored) for _ in each.quoted] for each in statements]
                    checked = with_agreeing_sources(statements, found)
                progress.verification_s += time.perf_counter() - began
                if isinstance(batch, Closest):
                    progress.closest = next((each for each in checked if each.sources), None)
                    continue
                progress.has_draft = progress.has_draft or bool(batch)
                passed = [each for each in checked if each.sources or is_annotated]
                progress.dropped += len(batch) - len(passed)
                for statement in passed:
                    addition = progress.composer.add(statement)
                    if addition is not None:
                        yield AnswerEvent(text_delta=TextDelta(text=addition.text, start=addition.start))
                        for citation in addition.citations:
                            yield AnswerEvent(citation=CitationEvent(citation=citation))
                if progress.composer.is_cut:
                    return  # nothing that follows would fit

    def _finished(self, ask: AskedQuestion, progress: _Progress) -> answer_pb2.Answer:
        composer, refusal = progress.composer, progress.refusal
        total_s = time.perf_counter() - progress.begun
        generation_s = max(0.0, total_s - progress.retrieval_s - progress.verification_s)
        claims = composer.claims
        unsupported = [claim.answer_span for claim in claims if not is_supported(claim)]
        supported_share = (len(claims) - len(unsupported)) / len(claims) if claims else 1.0
        content = progress.refusal_text if refusal else composer.content
        answer = answer_pb2.Answer(
            content=content,
            citations=composer.citations,
            opposing_citations=composer.cite_opposing(),
            claims=claims,
            unsupported_spans=unsupported,
            # Sentences without a source, which ANNOTATE lets through, make the whole less certain.
            confidence=supported_share * answer_confidence([each.support_score for each in composer.citations]),
            grounded=bool(content) and not refusal and not unsupported,
            refusal_reason=refusal,
            finish_reason=answer_pb2.FINISH_REASON_LENGTH if composer.is_cut else answer_pb2.FINISH_REASON_COMPLETE,
            message_id=str(uuid.uuid4()),
            collection=ask.collection,
            answer_time=to_timestamp(self.clock.now()),
            generator=progress.generator,
            session_id=ask.session_id,
            topic_shift=progress.topic_shift,
            timings=answer_pb2.AnswerTimings(
                retrieval_time=to_duration(progress.retrieval_s),
                generation_time=to_duration(generation_s),
                verification_time=to_duration(progress.verification_s),
                total_time=to_duration(total_s),
            ),
        )
        answer.MergeFrom(progress.search)
        if not ask.include_hits:
            answer.ClearField("hits")
            answer.ClearField("documents")
        if progress.model_asked:
            answer.generation.model = self.generator.name
            answer.generation.dropped_sentence_count = progress.dropped
            if progress.failure is not None:
                answer.generation.failure = answer_pb2.GenerationFailure.Value(f"GENERATION_FAILURE_{progress.failure}")
                answer.degraded_stages.append(DEGRADED_STAGE_GENERATION)
                if progress.generator == self.generator.name:
                    answer.finish_reason = answer_pb2.FINISH_REASON_INTERRUPTED
        if refusal:
            answer.finish_reason = answer_pb2.FINISH_REASON_REFUSED
        return answer

    async def _begin(self, tenant: str, session: Session, ask: AskedQuestion) -> None:
        """Store a question after whatever another replica has stored meanwhile, unless the caller named a head."""
        question = Message(ask.message_id, Role.USER, ask.question, self.clock.now())
        for attempt in range(1, _BEGIN_ATTEMPTS + 1):
            session_id, newest = session.session_id, session.messages[-1] if session.messages else None
            if newest is not None and newest.role is Role.USER:
                # A crash left it without an answer; it gets an empty one, because questions and answers alternate.
                left = AskedQuestion(newest.content, session.collection, newest.message_id, session_id=session_id)
                await self._abandon(tenant, left, self._nothing_yet(left), "")
                session = await self.sessions.get(tenant, session_id)
            try:
                await self.sessions.begin(tenant, session_id, session.head, question)
            except SessionHeadMovedError:
                if ask.expected_head is not None or attempt == _BEGIN_ATTEMPTS:
                    raise
                session = await self.sessions.get(tenant, session_id)
            else:
                return

    async def _abandon(self, tenant: str, ask: AskedQuestion, progress: _Progress, replacing: str) -> None:
        """Store an unfinished answer, even if its call has no time left."""
        answer = self._finished(ask, progress)
        answer.finish_reason = answer_pb2.FINISH_REASON_ABANDONED

        async def keep() -> None:
            CURRENT_BUDGET.set(Budget(_ABANDON_S))
            try:
                await self.sessions.reply(tenant, ask.session_id, _reply(ask.message_id, answer, progress), replacing)
            except (SessionNotFoundError, AlreadyExistsError):
                pass  # it was deleted, or another replica has answered
            except GroundwireError as error:
                _log.warning("an abandoned answer is not stored", session_id=ask.session_id, error=str(error))

        # A separate task, which continues if the call is cancelled again.
        keeping = asyncio.create_task(keep())
        self._keeping.add(keeping)
        keeping.add_done_callback(self._keeping.discard)
        await asyncio.shield(keeping)


def _earlier_reply(used: Exchange | None, ask: AskedQuestion) -> Message | None:
    """Return the stored answer to a message id, None if it was not asked or has no answer yet."""
    if used is None:
        return None
    if used.message.role is not Role.USER:
        raise AlreadyExistsError("the message id belongs to an answer of the session", message_id=ask.message_id)
    if used.message.content != ask.question:
        raise AlreadyExistsError("the message id was used with another question", message_id=ask.message_id)
    if used.answer is not None and used.answer.answer is None:
        raise AlreadyExistsError("the answer was deleted with a document that it quoted", message_id=ask.message_id)
    return used.answer


def _refuse_other_collection(session: Session, ask: AskedQuestion) -> None:
    if ask.collection and ask.collection != session.collection:
        raise InvalidRequestError.of("collection", f"the session is about {session.collection!r}")


def _refuse_unfit(session: Session, ask: AskedQuestion, *, is_new: bool = True) -> None:
    _refuse_other_collection(session, ask)
    if not current_identity().may_ask_in(session.owner):
        # The answer could contain more than the readers of that session may see.
        raise PermissionDeniedError("ask with the credential that began the session", right="ask")
    session.refuse_closed()
    if is_new and ask.expected_head is not None and ask.expected_head != session.head:
        raise session.head_moved(ask.expected_head)


def _reply(question_id: str, answer: answer_pb2.Answer, progress: _Progress) -> Message:
    return Message(
        message_id=answer.message_id,
        role=Role.ASSISTANT,
        content=answer.content,
        time=answer.answer_time.ToDatetime(UTC),
        related_message_id=question_id,
        answer=answer,
        shown=progress.found_documents,
        named=progress.named_documents,
    )


async def _with_heartbeats(
    batches: AsyncGenerator[Sequence[Statement] | Closest, None], every_s: float
) -> AsyncGenerator[Sequence[Statement] | Closest | AnswerEvent, None]:
    """Yield the batches of a draft, and a heartbeat whenever none has come for `every_s` seconds.

    Closing this generator cancels the pending batch, which stops the work inside `batches` at once; closing `batches`
    is left to its creator.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    while True:
        coming = asyncio.ensure_future(anext(batches))
        try:
            while not (await asyncio.wait({coming}, timeout=every_s))[0]:
                yield AnswerEvent(heartbeat=HeartbeatEvent(generation_time=to_duration(clock() - began)))
        finally:
            # Awaited, because a generator that still runs cannot be closed.
            if not coming.done():
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
            elif not coming.cancelled():
                coming.exception()  # looked at even where the call is cancelled now, or the loop logs it as lost
        try:
            batch = coming.result()
        except StopAsyncIteration:
            return
        yield batch
