"""MaintenanceService and the standard Operations service: begin long work, watch it, say what runs behind the calls."""
# ruff: noqa: ARG002, N802 - names and signatures of the methods are the contract's

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from google.longrunning import operations_pb2, operations_pb2_grpc
from google.protobuf import empty_pb2

from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb
from groundwire.api.ingest.v1 import maintenance_service_pb2_grpc as pb_grpc
from groundwire.ingest.housekeeping import Housekeeping
from groundwire.ingest.servicer.calls import CallParts, change, read
from groundwire.ingest.servicer.long_work import LongWork
from groundwire.ingest.servicer.operation_runner import OperationRunner
from groundwire.ingest.wire.documents import to_deletion_receipt
from groundwire.ingest.wire.operations import to_failure_message, to_job_messages
from groundwire.kernel.errors import InvalidRequestError
from groundwire.rpc import request_context
from groundwire.rpc.pagination import PageTokens, page_size

_SHOWN = 100
_LONGEST_WAIT_S = 600.0
_ANSWER_S = 0.5


@dataclass(frozen=True)
class MaintenanceServicer(pb_grpc.MaintenanceServiceServicer):
    """Begins long work, and says what goes on behind the calls."""

    parts: CallParts
    long_work: LongWork
    housekeeping: Housekeeping

    @change
    def Reindex(self, request: pb.ReindexRequest) -> operations_pb2.Operation:
        return self.long_work.begin_on_collection(request)

    @change
    def Reembed(self, request: pb.ReembedRequest) -> operations_pb2.Operation:
        return self.long_work.begin_on_collection(request)

    @change
    def CheckStore(self, request: pb.CheckStoreRequest) -> operations_pb2.Operation:
        return self.long_work.begin_on_collection(request)

    @read
    def GetHousekeeping(self, request: pb.GetHousekeepingRequest) -> pb.GetHousekeepingResponse:
        tenant = request_context.current().tenant
        incomplete = self.parts.deletions.incomplete(tenant, _SHOWN)
        return pb.GetHousekeepingResponse(
            jobs=to_job_messages(self.housekeeping.figures(tenant)),
            failures=[to_failure_message(failure) for failure in self.housekeeping.failures(tenant)[:_SHOWN]],
            incomplete_deletions=[to_deletion_receipt(each) for each in incomplete],
        )


@dataclass(frozen=True)
class OperationsServicer(operations_pb2_grpc.OperationsServicer):  # type: ignore[misc] # ships no types
    """The standard service of long work."""

    parts: CallParts
    operations: OperationRunner
    tokens: PageTokens

    @read
    def GetOperation(self, request: operations_pb2.GetOperationRequest) -> operations_pb2.Operation:
        return self.operations.get(request.name)

    @read
    def ListOperations(self, request: operations_pb2.ListOperationsRequest) -> operations_pb2.ListOperationsResponse:
        if request.name not in {"", "operations"}:
            raise InvalidRequestError.of("name", "must be operations or empty")
        if request.filter:
            raise InvalidRequestError.of("filter", "must be empty: operations are not filtered")
        tenant, size = request_context.current().tenant, page_size(request.page_size)
        position = self.tokens.read(request.page_token, tenant=tenant, request=request)
        entries, more = self.operations.page(None if position is None else int(position[0]), size)
        listed, token = self.tokens.fill(entries, more, tenant=tenant, request=request)
        return operations_pb2.ListOperationsResponse(operations=listed, next_page_token=token)

    @change
    def CancelOperation(self, request: operations_pb2.CancelOperationRequest) -> empty_pb2.Empty:
        self.operations.cancel(request.name)
        return empty_pb2.Empty()

    @change
    def DeleteOperation(self, request: operations_pb2.DeleteOperationRequest) -> empty_pb2.Empty:
        self.operations.delete(request.name)
        return empty_pb2.Empty()

    async def WaitOperation(
        self, request: operations_pb2.WaitOperationRequest, context: Any
    ) -> operations_pb2.Operation:
        """Return an operation at its end, or as it is after `timeout` or shortly before the deadline of the call."""
        budget, reads = request_context.current().budget, self.parts.pools.reads
        await reads.run(budget, self.operations.get, request.name)  # refuses what there is not, before any waiting
        limits_s = [_LONGEST_WAIT_S]
        if request.HasField("timeout"):
            limits_s.append(request.timeout.seconds + request.timeout.nanos / 1e9)  # any, also beyond a timedelta
        left_s = budget.remaining_s()
        if left_s is not None:
            limits_s.append(left_s - _ANSWER_S)
        ended = self.operations.end_of(request.name)
        if ended is not None:
            # Holds no thread: those who watch must not keep others from being answered.
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(ended)), max(0.0, min(limits_s)))
        return await reads.run(budget, self.operations.get, request.name)
