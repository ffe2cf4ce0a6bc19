"""What Expand does in a worker thread."""

from dataclasses import dataclass

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.retrieve.expand_chunks import ExpandChunks
from groundwire.retrieve.wire.expansions import parse_expand_request, to_passage_message
from groundwire.rpc import request_context


@dataclass(frozen=True, slots=True)
class ExpandCalls:
    """Checks, runs and answers."""

    expand_chunks: ExpandChunks

    def expand(self, request: pb.ExpandRequest) -> pb.ExpandResponse:
        """Return the surroundings of chunks."""
        current = request_context.current()
        references, rule = parse_expand_request(request)
        passages = self.expand_chunks(current.tenant, request.collection, references, rule, current.budget)
        return pb.ExpandResponse(passages=[to_passage_message(passage) for passage in passages])
