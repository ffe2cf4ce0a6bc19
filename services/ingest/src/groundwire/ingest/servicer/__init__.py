"""gRPC edge of the ingest service; calls it does not define answer UNIMPLEMENTED."""
# ruff: noqa: ARG002, N802 - names and signatures of the methods are the contract's

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import Message

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1 import ingest_service_pb2_grpc as pb_grpc
from groundwire.ingest.servicer.calls import Calls
from groundwire.ingest.servicer.change_calls import ChangeCalls
from groundwire.ingest.servicer.collection_calls import CollectionCalls
from groundwire.ingest.servicer.inspection_calls import InspectionCalls
from groundwire.ingest.servicer.operation_calls import OperationCalls
from groundwire.ingest.servicer.pools import Pools
from groundwire.ingest.servicer.put_chunks_call import PutChunksCall
from groundwire.ingest.servicer.upload_stream import UploadStream
from groundwire.ingest.wire.responses import to_text_message
from groundwire.rpc import request_context

RequestT = TypeVar("RequestT")
MessageT = TypeVar("MessageT", bound=Message)
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True)
class IngestServicer(pb_grpc.IngestServiceServicer):
    """Runs each call in one thread of its kind; the event loop only hands messages over."""

    calls: Calls
    collection_calls: CollectionCalls
    change_calls: ChangeCalls
    inspection_calls: InspectionCalls
    operation_calls: OperationCalls
    put_chunks: PutChunksCall
    upload: UploadStream
    pools: Pools

    async def CreateCollection(self, request: pb.CreateCollectionRequest, context: Any) -> pb.CreateCollectionResponse:
        """Create a collection."""
        return await self._change(self.collection_calls.create, request)

    async def GetCollection(self, request: pb.GetCollectionRequest, context: Any) -> pb.GetCollectionResponse:
        """Return a collection."""
        return await self._run(self.collection_calls.get, request)

    async def ListCollections(self, request: pb.ListCollectionsRequest, context: Any) -> pb.ListCollectionsResponse:
        """Return a page of collections."""
        return await self._run(self.collection_calls.list, request)

    async def UpdateCollection(self, request: pb.UpdateCollectionRequest, context: Any) -> pb.UpdateCollectionResponse:
        """Change settings of a collection."""
        return await self._change(self.collection_calls.update, request)

    async def DeleteCollection(self, request: pb.DeleteCollectionRequest, context: Any) -> pb.DeleteCollectionResponse:
        """Delete a collection."""
        return await self._change(self.collection_calls.delete, request)

    async def IngestDocument(self, request: pb.IngestDocumentRequest, context: Any) -> pb.IngestDocumentResponse:
        """Ingest a document."""
        return await self._run_document(self.calls.ingest_document, request)

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

    async def PutChunks(self, request: pb.PutChunksRequest, context: Any) -> pb.PutChunksResponse:
        """Store a document with its chunks."""
        return await self._run_document(self.put_chunks, request)

    async def GetDocument(self, request: pb.GetDocumentRequest, context: Any) -> pb.GetDocumentResponse:
        """Return a document."""
        return await self._run(self.calls.get_document, request)

    async def ListDocuments(self, request: pb.ListDocumentsRequest, context: Any) -> pb.ListDocumentsResponse:
        """Return a page of documents."""
        return await self._run(self.calls.list_documents, request)

    async def GetDocumentText(
        self, request: pb.GetDocumentTextRequest, context: Any
    ) -> AsyncIterator[pb.GetDocumentTextResponse]:
        """Return the parts of a text."""
        budget = request_context.current().budget
        parts = self.pools.reads.iterate(budget, lambda: self.calls.read_document_text(request))
        async with aclosing(parts):
            async for part in parts:
                yield to_text_message(part)

    async def DeleteDocument(self, request: pb.DeleteDocumentRequest, context: Any) -> pb.DeleteDocumentResponse:
        """Delete a document."""
        return await self._change(self.calls.delete_document, request)

    async def UpdateDocument(self, request: pb.UpdateDocumentRequest, context: Any) -> pb.UpdateDocumentResponse:
        """Change what was said about a document."""
        return await self._change(self.change_calls.update_document, request)

    async def RestoreDocument(self, request: pb.RestoreDocumentRequest, context: Any) -> pb.RestoreDocumentResponse:
        """Bring back a document that was deleted softly."""
        return await self._change(self.change_calls.restore_document, request)

    async def UpdateChunk(self, request: pb.UpdateChunkRequest, context: Any) -> pb.UpdateChunkResponse:
        """Change tags and metadata of a chunk."""
        return await self._change(self.change_calls.update_chunk, request)

    async def GetChunk(self, request: pb.GetChunkRequest, context: Any) -> pb.GetChunkResponse:
        """Return a chunk."""
        return await self._run(self.calls.get_chunk, request)

    async def ListChunks(self, request: pb.ListChunksRequest, context: Any) -> pb.ListChunksResponse:
        """Return a page of chunks."""
        return await self._run(self.calls.list_chunks, request)

    async def Reindex(self, request: pb.ReindexRequest, context: Any) -> AsyncGenerator[pb.ReindexResponse, None]:
        """Build the indexes of a collection anew, telling how far it is."""
        async with aclosing(self.operation_calls.reindex(request)) as events:
            async for event in events:
                yield event

    async def Reembed(self, request: pb.ReembedRequest, context: Any) -> AsyncGenerator[pb.ReembedResponse, None]:
        """Embed a collection anew, telling how far it is."""
        async with aclosing(self.operation_calls.reembed(request)) as events:
            async for event in events:
                yield event

    async def CheckStore(
        self, request: pb.CheckStoreRequest, context: Any
    ) -> AsyncGenerator[pb.CheckStoreResponse, None]:
        """Compare the stores with the catalog, telling what is wrong."""
        async with aclosing(self.operation_calls.check(request)) as events:
            async for event in events:
                yield event

    async def GetSchema(self, request: pb.GetSchemaRequest, context: Any) -> pb.GetSchemaResponse:
        """Return schemas of metadata."""
        return await self._run(self.inspection_calls.schema, request)

    async def ValidateMetadata(self, request: pb.ValidateMetadataRequest, context: Any) -> pb.ValidateMetadataResponse:
        """Check metadata and fill in defaults."""
        return await self._run(self.inspection_calls.validate, request)

    async def GetStats(self, request: pb.GetStatsRequest, context: Any) -> pb.GetStatsResponse:
        """Return figures of collections."""
        return await self._run(self.inspection_calls.stats, request)

    async def GetHousekeeping(self, request: pb.GetHousekeepingRequest, context: Any) -> pb.GetHousekeepingResponse:
        """Return what runs behind the calls, and what of it fails."""
        return self.inspection_calls.jobs(request)

    async def _run(self, call: Callable[[RequestT], ResponseT], request: RequestT) -> ResponseT:
        return await self.pools.reads.run(request_context.current().budget, call, request)

    async def _change(self, call: Callable[[RequestT], ResponseT], request: RequestT) -> ResponseT:
        return await self.pools.changes.run(request_context.current().budget, call, request)

    async def _run_document(self, call: Callable[[MessageT], ResponseT], request: MessageT) -> ResponseT:
        workers = self.pools.of_document(request.ByteSize())
        return await workers.run(request_context.current().budget, call, request)
