"""The call that stores ready-made chunks: message in, message out, blocking."""

from dataclasses import dataclass

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.domain.ingesting import IngestResult, Progress
from groundwire.ingest.put_chunks import PutChunks
from groundwire.ingest.remember_request import RememberRequest
from groundwire.ingest.servicer.write_tokens import WriteTokens
from groundwire.ingest.wire.ready_chunks import parse_put_chunks
from groundwire.ingest.wire.responses import to_ingest_result
from groundwire.rpc import request_context
from groundwire.rpc.request_keys import request_key


@dataclass(frozen=True, slots=True)
class PutChunksCall:
    """Checks, runs and answers; the tenant and the budget are those of the current call."""

    put_chunks: PutChunks
    remember: RememberRequest
    write_tokens: WriteTokens

    def __call__(self, request: pb.PutChunksRequest) -> pb.PutChunksResponse:
        """Store a document with its chunks."""
        current = request_context.current()
        wanted, ready = parse_put_chunks(request, current.tenant)

        def encode(result: IngestResult) -> bytes:
            return pb.PutChunksResponse(result=to_ingest_result(result)).SerializeToString(deterministic=True)

        answer = self.remember(
            current.tenant,
            request_key("PutChunks", request),
            lambda receipt: self.put_chunks(wanted, ready, current.budget, _unheard, receipt),
            encode,
        )
        return self.write_tokens.add(pb.PutChunksResponse.FromString(answer), request.collection)


def _unheard(_: Progress) -> None:
    """Drop the progress of a call that cannot tell it."""
