"""gRPC edge of the retrieve service; calls it does not define answer UNIMPLEMENTED."""

from dataclasses import dataclass
from typing import Any

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2_grpc as pb_grpc
from groundwire.kernel.clock import Clock
from groundwire.retrieve.search_chunks import SearchChunks
from groundwire.retrieve.wire.requests import RequestLimits, parse_retrieve_request
from groundwire.retrieve.wire.responses import to_retrieve_response
from groundwire.rpc import request_context
from groundwire.rpc.workers import Workers


@dataclass(frozen=True)
class RetrieveServicer(pb_grpc.RetrieveServiceServicer):
    """Runs each call in one worker thread; the event loop only hands messages over."""

    search_chunks: SearchChunks
    limits: RequestLimits
    workers: Workers
    clock: Clock

    async def Retrieve(  # noqa: N802 - the name of the contract
        self,
        request: pb.RetrieveRequest,
        context: Any,  # noqa: ARG002 - the signature of the contract
    ) -> pb.RetrieveResponse:
        """Return the most relevant chunks."""
        return await self.workers.run(request_context.current().budget, self._retrieve, request)

    def _retrieve(self, request: pb.RetrieveRequest) -> pb.RetrieveResponse:
        current = request_context.current()
        search = parse_retrieve_request(request, current.tenant, self.limits, self.clock.now())
        return to_retrieve_response(request, self.search_chunks(search, current.budget), search.order)
