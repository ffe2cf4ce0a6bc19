"""What ParseQuery does in a worker thread."""

from dataclasses import dataclass

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.clock import Clock
from groundwire.retrieve.parse_question import ParseQuestion
from groundwire.retrieve.wire.questions import check_parse_request, question_time, to_parse_response
from groundwire.rpc import request_context


@dataclass(frozen=True, slots=True)
class QuestionCalls:
    """Checks, runs and answers; `max_query_chars` bounds what collections may allow."""

    parse_question: ParseQuestion
    max_query_chars: int
    clock: Clock

    def parse(self, request: pb.ParseQueryRequest) -> pb.ParseQueryResponse:
        """Split a question into a query and a filter."""
        current = request_context.current()
        check_parse_request(request, self.max_query_chars)
        asked = question_time(request, self.clock.now())
        parsed = self.parse_question(current.tenant, request.collection, request.question, asked, current.budget)
        return to_parse_response(parsed)
