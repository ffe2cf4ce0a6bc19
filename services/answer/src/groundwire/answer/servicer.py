"""gRPC edge of the answer service."""
# ruff: noqa: N802 - names of the methods are the contract's

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

from google.protobuf.message import Message

from groundwire.answer import messages
from groundwire.answer.answers import numbered
from groundwire.answer.ask import Answerer, AskedQuestion
from groundwire.answer.citation_styles import format_citations
from groundwire.answer.conversing import QuestionStream
from groundwire.answer.ground_text import TextGrounder
from groundwire.answer.ports import Library
from groundwire.answer.recording import Recording
from groundwire.answer.sessions import SessionStore, create_session, open_session, start_session
from groundwire.answer.verification import get_answer, list_answers, verify_citations
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import answer_service_pb2_grpc as pb_grpc
from groundwire.api.answer.v1 import citation_pb2
from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import Clock
from groundwire.kernel.errors import ConflictError, InvalidRequestError, NotAvailableError, fields_below
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.identifiers import parse_uuid
from groundwire.rpc import request_context
from groundwire.rpc.calls import as_groundwire_error
from groundwire.rpc.error_status import to_status
from groundwire.rpc.methods import CALL_LIMITS, DeadlineTable, Work
from groundwire.rpc.pagination import PageTokens, page_size
from groundwire.rpc.request_context import request_key
from groundwire.rpc.workers import Workers

ResponseT = TypeVar("ResponseT", bound=Message)
ResultT = TypeVar("ResultT")


@dataclass(frozen=True, kw_only=True)
class AnswerServicer(pb_grpc.AnswerServiceServicer):
    """Serves sessions and answers."""

    answerer: Answerer
    text_grounder: TextGrounder
    sessions: SessionStore
    library: Library
    recording: Recording | None
    workers: Workers
    clock: Clock
    page_tokens: PageTokens
    idle_timeout: timedelta
    max_question_chars: int
    heartbeat_s: float
    # As many as concurrent searches, but separate: conversations must not crowd out searches.
    _questions_of_streams: asyncio.Semaphore = field(
        default_factory=lambda: asyncio.Semaphore(CALL_LIMITS[Work.SEARCH]), init=False
    )

    async def CreateSession(self, request: pb.CreateSessionRequest, _context: Any) -> pb.CreateSessionResponse:
        new, tenant = messages.parse_create_request(request), _tenant()
        if new.conversation_id:
            self._require_recording()
            request_context.current().identity.require_scope(new.scope)
        session = start_session(str(uuid.uuid4()), new, self.idle_timeout, self.clock.now())
        return await self._once(
            request,
            pb.CreateSessionResponse,
            lambda receipt: create_session(self.sessions, self.library, tenant, session, receipt),
            lambda stored: pb.CreateSessionResponse(session=messages.to_session(stored, brief=True)),
        )

    async def GetSession(self, request: pb.GetSessionRequest, _context: Any) -> pb.GetSessionResponse:
        session = await self.sessions.get(_tenant(), parse_uuid(request.session_id, "session_id"))
        return pb.GetSessionResponse(session=messages.to_session(session))

    async def ListSessions(self, request: pb.ListSessionsRequest, _context: Any) -> pb.ListSessionsResponse:
        position, limit = self.page_tokens.begin(request)
        after, wanted = messages.parse_position(position), messages.parse_list_request(request)
        rows = await self.sessions.page(_tenant(), wanted, after, limit)
        if not rows and after is None:
            await self._refuse_unknown(request.collection)
        listed, token = self.page_tokens.page(
            request, rows, limit, lambda row: messages.to_session(row, brief=True), messages.to_position
        )
        return pb.ListSessionsResponse(sessions=listed, next_page_token=token)

    async def ListMessages(self, request: pb.ListMessagesRequest, _context: Any) -> pb.ListMessagesResponse:
        session_id = parse_uuid(request.session_id, "session_id")
        position, limit = self.page_tokens.begin(request)
        rows = await self.sessions.messages(_tenant(), session_id, int(position[0]) if position else 0, limit)
        listed, token = self.page_tokens.page(
            request, rows, limit, lambda row: messages.to_message(row.message), lambda row: (row.place,)
        )
        return pb.ListMessagesResponse(messages=listed, next_page_token=token)

    async def EndSession(self, request: pb.EndSessionRequest, _context: Any) -> pb.EndSessionResponse:
        session_id, tenant = parse_uuid(request.session_id, "session_id"), _tenant()
        return await self._once(
            request,
            pb.EndSessionResponse,
            lambda receipt: self.sessions.end(tenant, session_id, receipt),
            lambda session: pb.EndSessionResponse(session=messages.to_session(session, brief=True)),
        )

    async def DeleteSession(self, request: pb.DeleteSessionRequest, _context: Any) -> pb.DeleteSessionResponse:
        session_id, tenant = parse_uuid(request.session_id, "session_id"), _tenant()
        return await self._once(
            request,
            pb.DeleteSessionResponse,
            lambda receipt: self.sessions.delete(tenant, session_id, receipt),
            lambda count: pb.DeleteSessionResponse(deleted_message_count=count),
        )

    async def DeleteSessions(self, request: pb.DeleteSessionsRequest, _context: Any) -> pb.DeleteSessionsResponse:
        user_id, tenant = messages.parse_user_id(request), _tenant()
        return await self._once(
            request,
            pb.DeleteSessionsResponse,
            lambda receipt: self.sessions.delete_of_user(tenant, user_id, receipt),
            lambda count: pb.DeleteSessionsResponse(deleted_session_count=count),
        )

    async def _refuse_unknown(self, collection: str) -> None:
        """Return if no collection is named, or there is this one: an empty list must not hide a typing error.

        Only asked of empty lists, because sessions may outlive their collection in a database of their own.

        Raises:
            CollectionNotFoundError: there is no such collection.
        """
        if collection:
            await self.library.profile_of(collection)

    async def _once(
        self,
        request: Message,
        kind: type[ResponseT],
        work: Callable[[Receipt[ResultT] | None], Awaitable[ResultT]],
        respond: Callable[[ResultT], ResponseT],
    ) -> ResponseT:
        """Return the response to `work`, which stores the receipt it gets, or the one of an earlier call.

        Every repetition of a request id gets the same bytes.

        Raises:
            RequestIdReusedError: the id was used for another method or body.
        """
        # Keyed by the caller: one owner of sessions must not get the remembered responses of another.
        subject = request_context.current().identity.subject
        key = request_key(kind.__name__.removesuffix("Response"), request, subject)
        if key is None:
            return respond(await work(None))

        tenant = _tenant()
        earlier = await self.sessions.answered(tenant, key)
        if earlier is None:
            try:
                return respond(
                    await work(Receipt(key, lambda made: respond(made).SerializeToString(deterministic=True)))
                )
            except ConflictError:
                # The same call may have been completed between the lookup and the effect.
                earlier = await self.sessions.answered(tenant, key)
                if earlier is None:
                    raise  # another call conflicts
        return kind.FromString(earlier)

    async def Ask(self, request: pb.AskRequest, _context: Any) -> pb.AskResponse:
        ask = messages.parse_ask_request(request, self.max_question_chars)
        async with aclosing(self._events(ask)) as events:
            answer = None
            async for event in events:
                if event.HasField("final"):
                    answer = event.final.answer
            if answer is None:
                raise RuntimeError("the events of an answer ended without the answer")
        return pb.AskResponse(answer=answer)

    async def AskStream(
        self, request: pb.AskStreamRequest, _context: Any
    ) -> AsyncGenerator[pb.AskStreamResponse, None]:
        ask = messages.parse_stream_request(request, self.max_question_chars)
        after, sequence = request.after_sequence, 0
        events = self._events(ask, is_resumed=after > 0)
        with messages.below_ask():
            async with aclosing(numbered(events)) as numbered_events:
                async for event in numbered_events:
                    sequence = max(sequence, event.sequence)
                    if event.HasField("heartbeat") or event.sequence > after:
                        yield pb.AskStreamResponse(event=event)
        if sequence < after:
            raise InvalidRequestError.of("after_sequence", f"the answer has {sequence} events")

    async def Converse(
        self, requests: AsyncIterator[pb.ConverseRequest], context: Any
    ) -> AsyncGenerator[pb.ConverseResponse, None]:
        incoming, tenant = aiter(requests), _tenant()
        first = await anext(incoming, None)
        if first is None or not first.HasField("opening"):
            raise InvalidRequestError.of("opening", "must be the first message")
        if first.opening.HasField("create"):
            with fields_below("opening.create", pb.CreateSessionRequest.DESCRIPTOR.fields_by_name):
                created = await self.CreateSession(first.opening.create, context)
            session_id = created.session.session_id
        else:
            session_id = parse_uuid(first.opening.session_id, "opening.session_id")
        opened = await open_session(self.sessions, tenant, session_id)
        yield pb.ConverseResponse(session=messages.to_session(opened, brief=True))
        stream = QuestionStream(
            answer=self._answer_of_stream,
            check=lambda: open_session(self.sessions, tenant, session_id),
            failed=lambda question, error: pb.ConverseResponse(
                message_id=question, error=to_status(as_groundwire_error(error, "Converse"))
            ),
            at_a_time=self._questions_of_streams,
            limit_s=DeadlineTable().limit_s("AskStream"),
            heartbeat_s=self.heartbeat_s,
        )
        parsed = messages.parse_conversation(incoming, session_id, self.max_question_chars)
        async with aclosing(stream.run(parsed)) as responses:
            async for response in responses:
                yield response
        if first.opening.end_session_on_close:
            await self.sessions.end(tenant, session_id)

    async def _answer_of_stream(self, ask: AskedQuestion, budget: Budget) -> AsyncGenerator[pb.AnswerEvent, None]:
        """Yield the events of an answer, in a task of its own."""
        request_context.bind(replace(request_context.current(), budget=budget))
        with messages.below_ask():
            async with aclosing(self._events(ask)) as events:
                async for event in events:
                    yield event

    async def GetAnswer(self, request: pb.GetAnswerRequest, _context: Any) -> pb.GetAnswerResponse:
        session_id, answer_id = parse_uuid(request.session_id, "session_id"), parse_uuid(request.answer_id, "answer_id")
        listed, verifications = await get_answer(
            self.sessions, self.library, self.workers, _tenant(), session_id, answer_id
        )
        return pb.GetAnswerResponse(answer=messages.to_kept_answer(listed), verifications=verifications)

    async def ListAnswers(self, request: pb.ListAnswersRequest, _context: Any) -> pb.ListAnswersResponse:
        tenant, size, wanted = _tenant(), page_size(request.page_size), messages.parse_answers_request(request)
        position = self.page_tokens.read(request.page_token, tenant=tenant, request=request)
        after = messages.parse_answer_position(position)
        page, following = await list_answers(
            self.sessions,
            self.library,
            tenant,
            wanted,
            after,
            size,
            only_stale=request.stale,
            document_id=request.document_id,
        )
        if not page and following is None and after is None:
            await self._refuse_unknown(request.collection)
        entries = ((messages.to_kept_answer(each), each.kept.position) for each in page)
        listed, token = self.page_tokens.fill(entries, following, tenant=tenant, request=request)
        return pb.ListAnswersResponse(answers=listed, next_page_token=token)

    async def ConsolidateConversation(
        self, request: pb.ConsolidateConversationRequest, _context: Any
    ) -> pb.ConsolidateConversationResponse:
        conversation, first, last = messages.parse_consolidate_request(request)
        recording = self._require_recording()
        caller = request_context.current().identity
        caller.require_scope(conversation.scope)
        await self.library.profile_of(conversation.collection)
        return messages.to_consolidate_response(await recording.consolidate_recorded(caller, conversation, first, last))

    async def GroundText(self, request: pb.GroundTextRequest, _context: Any) -> pb.GroundTextResponse:
        messages.check_ground_request(request)
        return await self.text_grounder.ground(request)

    async def VerifyCitations(self, request: pb.VerifyCitationsRequest, _context: Any) -> pb.VerifyCitationsResponse:
        if len(request.citations) > messages.MAX_CITATIONS:
            raise InvalidRequestError.of("citations", f"must be at most {messages.MAX_CITATIONS} citations")
        verifications = await verify_citations(self.library, self.workers, request.citations)
        is_exact = all(each.verdict == citation_pb2.CITATION_VERDICT_EXACT for each in verifications)
        return pb.VerifyCitationsResponse(verifications=verifications, all_verified=is_exact)

    async def FormatCitations(self, request: pb.FormatCitationsRequest, _context: Any) -> pb.FormatCitationsResponse:
        # In a worker: a request of the maximum length would block the event loop for too long.
        return await self.workers.run(request_context.current().budget, format_citations, request)

    def _require_recording(self) -> Recording:
        if self.recording is None:
            raise NotAvailableError("this server has no ingest service to record conversations with", feature="records")
        return self.recording

    def _events(self, ask: AskedQuestion, *, is_resumed: bool = False) -> AsyncGenerator[pb.AnswerEvent, None]:
        if ask.keep_for is not None:
            return self.answerer.answer_and_keep(_tenant(), ask)
        if ask.splits_topics:
            return self.answerer.answer_on_topic(_tenant(), ask, is_resumed=is_resumed)
        if ask.session_id:
            return self.answerer.answer_in_session(_tenant(), ask, is_resumed=is_resumed)
        return self.answerer.answer(ask)


def _tenant() -> str:
    return request_context.current().tenant
