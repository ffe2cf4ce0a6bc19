"""gRPC edge of the ingest services."""
# ruff: noqa: ARG002, N802 - names and signatures of the methods are the contract's

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from google.longrunning import operations_pb2, operations_pb2_grpc
from google.protobuf import empty_pb2
from google.protobuf.message import Message

from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import collection_service_pb2_grpc as collections_grpc
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1 import ingest_service_pb2_grpc as pb_grpc
from groundwire.api.ingest.v1 import maintenance_service_pb2 as maintenance_pb
from groundwire.api.ingest.v1 import maintenance_service_pb2_grpc as maintenance_grpc
from groundwire.catalog.deletions import Deletions
from groundwire.ingest.housekeeping import Housekeeping
from groundwire.ingest.servicer.calls import Calls
from groundwire.ingest.servicer.chunk_stream import ChunkStream
from groundwire.ingest.servicer.collection_calls import CollectionCalls
from groundwire.ingest.servicer.ingest_batch import IngestBatch
from groundwire.ingest.servicer.long_work import LongCalls
from groundwire.ingest.servicer.operation_calls import OperationCalls
from groundwire.ingest.servicer.pools import Pools
from groundwire.ingest.servicer.upload_stream import UploadStream
from groundwire.ingest.wire.documents import to_deletion_receipt
from groundwire.ingest.wire.operations import to_failure_message, to_job_messages
from groundwire.kernel.errors import InvalidRequestError
from groundwire.rpc import request_context
from groundwire.rpc.pagination import PageTokens, page_size

MessageT = TypeVar("MessageT", bound=Message)
ResponseT = TypeVar("ResponseT")

_SHOWN = 100
_LONGEST_WAIT_S = 600.0
_ANSWER_S = 0.5


@dataclass(frozen=True)
class IngestServicer(pb_grpc.IngestServiceServicer):
    """Runs each call in one thread of its kind; the event loop only hands messages over."""

    calls: Calls
    upload: UploadStream
    chunks: ChunkStream
    long_calls: LongCalls
    pools: Pools

    async def IngestDocument(self, request: pb.IngestDocumentRequest, context: Any) -> pb.IngestDocumentResponse:
        """Ingest a document, or begin to."""
        call = self.long_calls.ingest_document if request.run_async else self.calls.ingest_document
        return await self._run_document(call, request)

    async def BatchIngestDocuments(
        self, request: pb.BatchIngestDocumentsRequest, context: Any
    ) -> pb.BatchIngestDocumentsResponse:
        """Ingest several documents; each succeeds or fails for itself."""
        return await IngestBatch(self.calls, self.pools)(request)

    async def UploadDocument(
        self, request_iterator: AsyncIterator[pb.UploadDocumentRequest], context: Any
    ) -> AsyncGenerator[pb.UploadDocumentResponse, None]:
        """Receive and ingest a document, telling how far it is."""
        current = request_context.current()
        async with aclosing(self.upload(request_iterator, current.tenant, current.budget)) as events:
            async for event in events:
                yield event

    async def PlanIngest(self, request: pb.PlanIngestRequest, context: Any) -> pb.PlanIngestResponse:
        """Say what ingesting a document would do."""
        return await self._run_document(self.calls.plan_ingest, request)

    async def PutChunks(
        self, request_iterator: AsyncIterator[pb.PutChunksRequest], context: Any
    ) -> pb.PutChunksResponse:
        """Receive the chunks of a document and store it with them."""
        current = request_context.current()
        return await self.chunks(request_iterator, current.tenant, current.budget)

    async def PurgeDocuments(self, request: pb.PurgeDocumentsRequest, context: Any) -> operations_pb2.Operation:
        """Begin to delete documents, or to count them."""
        return await self.pools.change(self.long_calls.purge_documents, request)

    async def DeleteDocument(self, request: pb.DeleteDocumentRequest, context: Any) -> pb.DeleteDocumentResponse:
        """Delete a document."""
        return await self.pools.change(self.calls.delete_document, request)

    async def UpdateDocument(self, request: pb.UpdateDocumentRequest, context: Any) -> pb.UpdateDocumentResponse:
        """Change what was said about a document."""
        return await self.pools.change(self.calls.update_document, request)

    async def RestoreDocument(self, request: pb.RestoreDocumentRequest, context: Any) -> pb.RestoreDocumentResponse:
        """Bring back a document that was deleted softly."""
        return await self.pools.change(self.calls.restore_document, request)

    async def UpdateChunk(self, request: pb.UpdateChunkRequest, context: Any) -> pb.UpdateChunkResponse:
        """Change tags and metadata of a chunk."""
        return await self.pools.change(self.calls.update_chunk, request)

    async def _run_document(self, call: Callable[[MessageT], ResponseT], request: MessageT) -> ResponseT:
        workers = self.pools.of_document(request.ByteSize())
        return await workers.run(request_context.current().budget, call, request)


@dataclass(frozen=True)
class CollectionServicer(collections_grpc.CollectionServiceServicer):
    """Reads and changes do not wait for each other."""

    calls: CollectionCalls
    pools: Pools

    async def CreateCollection(
        self, request: collections_pb.CreateCollectionRequest, context: Any
    ) -> collections_pb.CreateCollectionResponse:
        """Create a collection."""
        return await self.pools.change(self.calls.create, request)

    async def GetCollection(
        self, request: collections_pb.GetCollectionRequest, context: Any
    ) -> collections_pb.GetCollectionResponse:
        """Return a collection."""
        return await self.pools.read(self.calls.get, request)

    async def ListCollections(
        self, request: collections_pb.ListCollectionsRequest, context: Any
    ) -> collections_pb.ListCollectionsResponse:
        """Return a page of collections."""
        return await self.pools.read(self.calls.list, request)

    async def UpdateCollection(
        self, request: collections_pb.UpdateCollectionRequest, context: Any
    ) -> collections_pb.UpdateCollectionResponse:
        """Change settings of a collection."""
        return await self.pools.change(self.calls.update, request)

    async def DeleteCollection(
        self, request: collections_pb.DeleteCollectionRequest, context: Any
    ) -> collections_pb.DeleteCollectionResponse:
        """Delete a collection."""
        return await self.pools.change(self.calls.delete, request)


@dataclass(frozen=True)
class MaintenanceServicer(maintenance_grpc.MaintenanceServiceServicer):
    """Begins long work, and says what goes on behind the calls."""

    calls: LongCalls
    housekeeping: Housekeeping
    deletions: Deletions
    pools: Pools

    async def Reindex(self, request: maintenance_pb.ReindexRequest, context: Any) -> operations_pb2.Operation:
        """Begin to build the indexes of a collection anew."""
        return await self.pools.change(self.calls.reindex, request)

    async def Reembed(self, request: maintenance_pb.ReembedRequest, context: Any) -> operations_pb2.Operation:
        """Begin to embed a collection anew."""
        return await self.pools.change(self.calls.reembed, request)

    async def CheckStore(self, request: maintenance_pb.CheckStoreRequest, context: Any) -> operations_pb2.Operation:
        """Begin to compare the stores with the catalog."""
        return await self.pools.change(self.calls.check_store, request)

    async def GetHousekeeping(
        self, request: maintenance_pb.GetHousekeepingRequest, context: Any
    ) -> maintenance_pb.GetHousekeepingResponse:
        """Return what runs behind the calls, and what of it fails."""
        tenant = request_context.current().tenant
        incomplete = await self.pools.reads.run(
            request_context.current().budget, lambda count: self.deletions.incomplete(tenant, count), _SHOWN
        )
        return maintenance_pb.GetHousekeepingResponse(
            jobs=to_job_messages(self.housekeeping.figures()),
            failures=[to_failure_message(failure) for failure in self.housekeeping.failures(tenant)[:_SHOWN]],
            incomplete_deletions=[to_deletion_receipt(each) for each in incomplete],
        )


@dataclass(frozen=True)
class OperationsServicer(operations_pb2_grpc.OperationsServicer):  # type: ignore[misc] # ships no types
    """The standard service of long work."""

    calls: OperationCalls
    pools: Pools
    tokens: PageTokens

    async def GetOperation(self, request: operations_pb2.GetOperationRequest, context: Any) -> operations_pb2.Operation:
        """Return an operation as it is now."""
        return await self.pools.read(self.calls.get, request.name)

    async def ListOperations(
        self, request: operations_pb2.ListOperationsRequest, context: Any
    ) -> operations_pb2.ListOperationsResponse:
        """Return a page of operations, newest first."""
        if request.name not in {"", "operations"}:
            raise InvalidRequestError.of("name", "must be operations or empty")
        if request.filter:
            raise InvalidRequestError.of("filter", "must be empty: operations are not filtered")
        current, size = request_context.current(), page_size(request.page_size)
        position = self.tokens.read(request.page_token, tenant=current.tenant, request=request)
        before = None if position is None else int(position[0])
        entries, more = await self.pools.reads.run(current.budget, self.calls.page, before, size)
        found, token = self.tokens.fill(entries, more, tenant=current.tenant, request=request)
        return operations_pb2.ListOperationsResponse(operations=found, next_page_token=token)

    async def CancelOperation(self, request: operations_pb2.CancelOperationRequest, context: Any) -> empty_pb2.Empty:
        """Tell an operation to stop."""
        await self.pools.change(self.calls.cancel, request.name)
        return empty_pb2.Empty()

    async def DeleteOperation(self, request: operations_pb2.DeleteOperationRequest, context: Any) -> empty_pb2.Empty:
        """Forget an operation that has ended."""
        await self.pools.change(self.calls.delete, request.name)
        return empty_pb2.Empty()

    async def WaitOperation(
        self, request: operations_pb2.WaitOperationRequest, context: Any
    ) -> operations_pb2.Operation:
        """Return an operation at its end, or as it is after `timeout` or shortly before the deadline of the call."""
        budget = request_context.current().budget
        await self.pools.reads.run(budget, self.calls.get, request.name)
        limits_s = [_LONGEST_WAIT_S]
        if request.HasField("timeout"):
            limits_s.append(request.timeout.seconds + request.timeout.nanos / 1e9)  # any, also beyond a timedelta
        left_s = budget.remaining_s()
        if left_s is not None:
            limits_s.append(left_s - _ANSWER_S)
        ended = self.calls.end_of(request.name)
        if ended is not None:
            # Holds no thread: those who watch must not keep others from being answered.
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(ended)), max(0.0, min(limits_s)))
        return await self.pools.reads.run(budget, self.calls.get, request.name)
