"""gRPC edge of the answer service."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message

from groundwire.answer.ask_in_session import AskInSession
from groundwire.answer.ask_question import AskQuestion
from groundwire.answer.create_session import CreateSession
from groundwire.answer.domain.answer import Answer, AnswerEvent, Final
from groundwire.answer.domain.asked_question import AskedQuestion
from groundwire.answer.ports import SessionStore
from groundwire.answer.remember_request import RememberRequest
from groundwire.answer.verify_citations import VerifyCitations
from groundwire.answer.wire import answers, citations, questions, sessions
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import answer_service_pb2_grpc as pb_grpc
from groundwire.rpc import request_context
from groundwire.rpc.pagination import PageTokens, page_size
from groundwire.rpc.request_keys import request_key


@dataclass(frozen=True, slots=True)
class UseCases:
    """What the servicer calls."""

    ask_question: AskQuestion
    ask_in_session: AskInSession
    create_session: CreateSession
    sessions: SessionStore
    remember: RememberRequest
    verify_citations: VerifyCitations


class AnswerServicer(pb_grpc.AnswerServiceServicer):
    """Sessions and answers."""

    def __init__(self, use_cases: UseCases, page_tokens: PageTokens, max_question_chars: int) -> None:
        self._use = use_cases
        self._page_tokens = page_tokens
        self._max_question_chars = max_question_chars

    async def CreateSession(self, request: pb.CreateSessionRequest, _context: Any) -> pb.CreateSessionResponse:  # noqa: N802 - name of the contract
        """Start a session."""
        new, tenant = sessions.parse_create_request(request), _tenant()
        answer = await self._use.remember(
            tenant,
            request_key("CreateSession", request),
            lambda receipt: self._use.create_session(tenant, new, receipt),
            lambda session: _encoded(pb.CreateSessionResponse(session=sessions.to_session(session, brief=True))),
        )
        return pb.CreateSessionResponse.FromString(answer)

    async def GetSession(self, request: pb.GetSessionRequest, _context: Any) -> pb.GetSessionResponse:  # noqa: N802 - the same
        """Return a session with its window."""
        session = await self._use.sessions.get(_tenant(), sessions.parse_session_id(request))
        return pb.GetSessionResponse(session=sessions.to_session(session))

    async def ListSessions(self, request: pb.ListSessionsRequest, _context: Any) -> pb.ListSessionsResponse:  # noqa: N802 - the same
        """Return a page of sessions."""
        tenant, size = _tenant(), page_size(request.page_size)
        after = sessions.parse_position(self._page_tokens.read(request.page_token, tenant=tenant, request=request))
        found = await self._use.sessions.page(tenant, sessions.parse_list_request(request), after, size + 1)
        page = found[:size]
        messages = ((sessions.to_session(each, brief=True), sessions.to_position(each)) for each in page)
        last = sessions.to_position(page[-1]) if len(found) > size else None
        listed, token = self._page_tokens.fill(messages, last, tenant=tenant, request=request)
        return pb.ListSessionsResponse(sessions=listed, next_page_token=token)

    async def ListMessages(self, request: pb.ListMessagesRequest, _context: Any) -> pb.ListMessagesResponse:  # noqa: N802 - the same
        """Return a page of the messages of a session."""
        tenant, size, session_id = _tenant(), page_size(request.page_size), sessions.parse_session_id(request)
        position = self._page_tokens.read(request.page_token, tenant=tenant, request=request)
        after = 0 if position is None else int(position[0])
        found = await self._use.sessions.messages(tenant, session_id, after, size + 1)
        page = found[:size]
        placed = ((sessions.to_message(each.message), (each.place,)) for each in page)
        last = (page[-1].place,) if len(found) > size else None
        messages, token = self._page_tokens.fill(placed, last, tenant=tenant, request=request)
        return pb.ListMessagesResponse(messages=messages, next_page_token=token)

    async def EndSession(self, request: pb.EndSessionRequest, _context: Any) -> pb.EndSessionResponse:  # noqa: N802 - the same
        """End a session."""
        session_id, tenant = sessions.parse_session_id(request), _tenant()
        answer = await self._use.remember(
            tenant,
            request_key("EndSession", request),
            lambda receipt: self._use.sessions.end(tenant, session_id, receipt),
            lambda session: _encoded(pb.EndSessionResponse(session=sessions.to_session(session, brief=True))),
        )
        return pb.EndSessionResponse.FromString(answer)

    async def DeleteSession(self, request: pb.DeleteSessionRequest, _context: Any) -> pb.DeleteSessionResponse:  # noqa: N802 - the same
        """Delete a session with its messages."""
        session_id, tenant = sessions.parse_session_id(request), _tenant()
        answer = await self._use.remember(
            tenant,
            request_key("DeleteSession", request),
            lambda receipt: self._use.sessions.delete(tenant, session_id, receipt),
            lambda count: _encoded(pb.DeleteSessionResponse(deleted_message_count=count)),
        )
        return pb.DeleteSessionResponse.FromString(answer)

    async def DeleteSessions(self, request: pb.DeleteSessionsRequest, _context: Any) -> pb.DeleteSessionsResponse:  # noqa: N802 - the same
        """Delete all sessions of a user."""
        user_id, tenant = sessions.parse_user_id(request), _tenant()
        answer = await self._use.remember(
            tenant,
            request_key("DeleteSessions", request),
            lambda receipt: self._use.sessions.delete_of_user(tenant, user_id, receipt),
            lambda count: _encoded(pb.DeleteSessionsResponse(deleted_session_count=count)),
        )
        return pb.DeleteSessionsResponse.FromString(answer)

    async def Ask(self, request: pb.AskRequest, _context: Any) -> pb.AskResponse:  # noqa: N802 - the same
        """Answer a question."""
        ask = questions.parse_ask_request(request, self._max_question_chars)
        async with aclosing(self._events(ask, questions.expected_head(request))) as events:
            answer = await _answer_of(events)
        return answers.to_ask_response(answer)

    async def AskStream(  # noqa: N802 - the same
        self, request: pb.AskStreamRequest, _context: Any
    ) -> AsyncGenerator[pb.AskStreamResponse, None]:
        """Answer a question, event by event."""
        ask = questions.parse_stream_request(request, self._max_question_chars)
        async with aclosing(self._events(ask, questions.expected_head(request.ask))) as events:
            sequence = 0
            async for event in events:
                sequence += 1
                yield answers.to_stream_response(sequence, event)

    async def VerifyCitations(self, request: pb.VerifyCitationsRequest, _context: Any) -> pb.VerifyCitationsResponse:  # noqa: N802 - the same
        """Compare citations with what is stored."""
        found = await self._use.verify_citations(_tenant(), citations.parse_verify_request(request))
        return citations.to_verify_response(found)

    def _events(self, ask: AskedQuestion, expected_head: str | None) -> AsyncGenerator[AnswerEvent, None]:
        if ask.session_id:
            return self._use.ask_in_session(_tenant(), ask, expected_head)
        return self._use.ask_question(_tenant(), ask)


def _tenant() -> str:
    return request_context.current().tenant


def _encoded(message: Message) -> bytes:
    return message.SerializeToString(deterministic=True)


async def _answer_of(events: AsyncIterator[AnswerEvent]) -> Answer:
    """Return the answer in the last event."""
    answer = None
    async for event in events:
        if isinstance(event, Final):
            answer = event.answer
    if answer is None:
        raise RuntimeError("the events of an answer ended without the answer")
    return answer
