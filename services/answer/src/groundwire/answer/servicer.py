"""gRPC edge of the answer service."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from groundwire.answer.ask_in_session import AskInSession
from groundwire.answer.ask_question import AskQuestion
from groundwire.answer.create_session import CreateSession
from groundwire.answer.domain.answer import Answer, AnswerEvent, Final
from groundwire.answer.domain.asked_question import AskedQuestion
from groundwire.answer.end_session import EndSession
from groundwire.answer.get_session import GetSession
from groundwire.answer.list_sessions import ListSessions
from groundwire.answer.verify_citations import VerifyCitations
from groundwire.answer.wire import answers, citations, questions, sessions
from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.answer.v1 import answer_service_pb2_grpc as pb_grpc
from groundwire.rpc import request_context
from groundwire.rpc.pagination import PageTokens, page_size


@dataclass(frozen=True, slots=True)
class UseCases:
    """What the servicer calls."""

    ask_question: AskQuestion
    ask_in_session: AskInSession
    create_session: CreateSession
    get_session: GetSession
    list_sessions: ListSessions
    end_session: EndSession
    verify_citations: VerifyCitations


class AnswerServicer(pb_grpc.AnswerServiceServicer):
    """Sessions and answers."""

    def __init__(self, use_cases: UseCases, page_tokens: PageTokens, max_question_chars: int) -> None:
        self._use = use_cases
        self._page_tokens = page_tokens
        self._max_question_chars = max_question_chars

    async def CreateSession(self, request: pb.CreateSessionRequest, _context: Any) -> pb.CreateSessionResponse:  # noqa: N802 - name of the contract
        """Start a session."""
        session = await self._use.create_session(_tenant(), sessions.parse_create_request(request))
        return pb.CreateSessionResponse(session=sessions.to_session(session))

    async def GetSession(self, request: pb.GetSessionRequest, _context: Any) -> pb.GetSessionResponse:  # noqa: N802 - the same
        """Return a session with its window."""
        session = await self._use.get_session(_tenant(), sessions.parse_session_id(request))
        return pb.GetSessionResponse(session=sessions.to_session(session))

    async def ListSessions(self, request: pb.ListSessionsRequest, _context: Any) -> pb.ListSessionsResponse:  # noqa: N802 - the same
        """Return a page of sessions."""
        tenant, size = _tenant(), page_size(request.page_size)
        after = sessions.parse_position(self._page_tokens.read(request.page_token, tenant=tenant, request=request))
        found = await self._use.list_sessions(tenant, sessions.parse_list_request(request), after, size + 1)
        response = pb.ListSessionsResponse(sessions=[sessions.to_session(each, brief=True) for each in found[:size]])
        if len(found) > size:
            last = sessions.to_position(found[size - 1])
            response.next_page_token = self._page_tokens.issue(last, tenant=tenant, request=request)
        return response

    async def EndSession(self, request: pb.EndSessionRequest, _context: Any) -> pb.EndSessionResponse:  # noqa: N802 - the same
        """End a session."""
        session = await self._use.end_session(_tenant(), sessions.parse_session_id(request))
        return pb.EndSessionResponse(session=sessions.to_session(session))

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


async def _answer_of(events: AsyncIterator[AnswerEvent]) -> Answer:
    """Return the answer in the last event."""
    answer = None
    async for event in events:
        if isinstance(event, Final):
            answer = event.answer
    if answer is None:
        raise RuntimeError("the events of an answer ended without the answer")
    return answer
