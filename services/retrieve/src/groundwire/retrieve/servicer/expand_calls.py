"""What Expand does in a worker thread."""

from dataclasses import dataclass

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.retrieve.expand_chunks import ExpandChunks
from groundwire.retrieve.wire.expansions import parse_expand_request, to_passage_message
from groundwire.rpc import request_context
from groundwire.rpc.pagination import as_many_as_fit


@dataclass(frozen=True, slots=True)
class ExpandCalls:
    """Checks, runs and answers."""

    expand_chunks: ExpandChunks

    def expand(self, request: pb.ExpandRequest) -> pb.ExpandResponse:
        """Return the surroundings of chunks."""
        current = request_context.current()
        references, rule = parse_expand_request(request)
        passages = self.expand_chunks(current.tenant, request.collection, references, rule, current.budget)
        fitting = as_many_as_fit(map(to_passage_message, passages))
        omitted = [chunk.chunk_id for passage in passages[len(fitting) :] for chunk in passage.requested]
        return pb.ExpandResponse(passages=fitting, omitted_chunk_ids=omitted)
