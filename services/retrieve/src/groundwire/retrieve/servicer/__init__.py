"""gRPC edge of the retrieve service; calls it does not define answer UNIMPLEMENTED."""
# ruff: noqa: ARG002, N802 - names and signatures of the methods are the contract's

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2_grpc as pb_grpc
from groundwire.retrieve.servicer.expand_calls import ExpandCalls
from groundwire.retrieve.servicer.log_calls import LogCalls
from groundwire.retrieve.servicer.question_calls import QuestionCalls
from groundwire.retrieve.servicer.search_calls import SearchCalls
from groundwire.rpc import request_context
from groundwire.rpc.workers import Workers

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True)
class RetrieveServicer(pb_grpc.RetrieveServiceServicer):
    """Runs each call in one worker thread; the event loop only hands messages over."""

    search_calls: SearchCalls
    expand_calls: ExpandCalls
    question_calls: QuestionCalls
    log_calls: LogCalls
    workers: Workers

    async def Retrieve(self, request: pb.RetrieveRequest, context: Any) -> pb.RetrieveResponse:
        """Return the most relevant chunks."""
        started = time.perf_counter()
        repeated = self.search_calls.repeat(request, started)
        if repeated is not None:
            return repeated
        return await self._run(lambda message: self.search_calls.retrieve(message, started), request)

    async def BatchRetrieve(self, request: pb.BatchRetrieveRequest, context: Any) -> pb.BatchRetrieveResponse:
        """Run several searches."""
        started = time.perf_counter()
        return await self._run(lambda message: self.search_calls.batch_retrieve(message, started), request)

    async def Expand(self, request: pb.ExpandRequest, context: Any) -> pb.ExpandResponse:
        """Return the surroundings of chunks."""
        return await self._run(self.expand_calls.expand, request)

    async def ParseQuery(self, request: pb.ParseQueryRequest, context: Any) -> pb.ParseQueryResponse:
        """Split a question into a query and a filter."""
        return await self._run(self.question_calls.parse, request)

    async def ListQueryLogs(self, request: pb.ListQueryLogsRequest, context: Any) -> pb.ListQueryLogsResponse:
        """Return a page of logged queries."""
        return await self._run(self.log_calls.list, request)

    async def GetPipelineStats(self, request: pb.GetPipelineStatsRequest, context: Any) -> pb.GetPipelineStatsResponse:
        """Return the figures of this process."""
        return await self._run(self.log_calls.stats, request)

    async def _run(self, call: Callable[[RequestT], ResponseT], request: RequestT) -> ResponseT:
        return await self.workers.run(request_context.current().budget, call, request)
