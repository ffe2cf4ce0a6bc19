"""IngestService: parses requests, runs the use case, answers; streams and batches have modules of their own."""
# ruff: noqa: ARG002, N802 - names and signatures of the methods are the contract's

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from google.longrunning import operations_pb2

from groundwire.api.common.v1 import document_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1 import ingest_service_pb2_grpc as pb_grpc
from groundwire.catalog.deletions import Deletion
from groundwire.catalog.records import Records
from groundwire.ingest.changes import DocumentUpkeep
from groundwire.ingest.documents import DocumentIngest
from groundwire.ingest.servicer.batches import BatchIngest, ingest_once
from groundwire.ingest.servicer.calls import (
    CallParts,
    change,
    document,
    exactly_once,
    with_current_receipt,
    with_write_token,
)
from groundwire.ingest.servicer.chunk_stream import ChunkStream
from groundwire.ingest.servicer.long_work import LongWork
from groundwire.ingest.servicer.upload_stream import UploadStream
from groundwire.ingest.wire.documents import (
    parse_chunk_change,
    parse_document_change,
    parse_plan_ingest,
    to_deletion_receipt,
    to_plan_response,
)
from groundwire.kernel.document import Document, DocumentReference
from groundwire.kernel.errors import ChunkNotFoundError, DocumentNotFoundError, PermissionDeniedError
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.kernel.identity import Right
from groundwire.kernel.stored_chunk import StoredChunk
from groundwire.rpc import request_context
from groundwire.rpc.messages import parse_reference, to_chunk_message, to_document_message
from groundwire.rpc.request_context import request_key


@dataclass(frozen=True)
class IngestServicer(pb_grpc.IngestServiceServicer):
    """Runs each call in one thread of its kind; the event loop only hands messages over."""

    parts: CallParts
    documents: DocumentIngest
    upkeep: DocumentUpkeep
    batches: BatchIngest
    uploads: UploadStream
    chunks: ChunkStream
    records: Records
    long_work: LongWork

    @document
    def IngestDocument(self, request: pb.IngestDocumentRequest) -> pb.IngestDocumentResponse:
        if request.run_async:
            return pb.IngestDocumentResponse(operation=self.long_work.begin_ingest(request))
        result = ingest_once(self.documents, self.parts.once, request, request_key("IngestDocument", request))
        return self.parts.write_tokens.add(pb.IngestDocumentResponse(result=result), request.collection)

    async def BatchIngestDocuments(
        self, request: pb.BatchIngestDocumentsRequest, context: Any
    ) -> pb.BatchIngestDocumentsResponse:
        return await self.batches.ingest(request)

    async def UploadDocument(
        self, request_iterator: AsyncIterator[pb.UploadDocumentRequest], context: Any
    ) -> AsyncGenerator[pb.UploadDocumentResponse, None]:
        current = request_context.current()
        async with aclosing(self.uploads.receive(request_iterator, current.tenant, current.budget)) as events:
            async for event in events:
                yield event

    @document
    def PlanIngest(self, request: pb.PlanIngestRequest) -> pb.PlanIngestResponse:
        current = request_context.current()
        return to_plan_response(self.documents.plan(*parse_plan_ingest(request, current.tenant), current.budget))

    async def PutChunks(
        self, request_iterator: AsyncIterator[pb.PutChunksRequest], context: Any
    ) -> pb.PutChunksResponse:
        current = request_context.current()
        return await self.chunks.receive(request_iterator, current.tenant, current.budget)

    @change
    def PurgeDocuments(self, request: pb.PurgeDocumentsRequest) -> operations_pb2.Operation:
        if request_context.current().identity.scopes is not None:
            # Whoever goes on with it after a restart does not know who asked.
            raise PermissionDeniedError("a credential with scopes deletes records by DeleteRecords", right="all scopes")
        return self.long_work.begin_purge(request)

    @change
    @with_write_token
    @with_current_receipt
    @exactly_once(pb.DeleteDocumentResponse, receipt=to_deletion_receipt)
    def DeleteDocument(self, request: pb.DeleteDocumentRequest, receipt: Receipt[Deletion] | None) -> Deletion:
        current, collection = request_context.current(), parse_collection_name(request.collection)
        if request.purge:
            current.identity.require_right(Right.ADMIN)
        return self.upkeep.delete(
            current.tenant,
            collection,
            self._seen(collection, request.reference),
            current.budget,
            receipt,
            purge=request.purge,
            etag=request.etag,
        )

    @change
    @with_write_token
    @exactly_once(pb.UpdateDocumentResponse, document=to_document_message)
    def UpdateDocument(self, request: pb.UpdateDocumentRequest, receipt: Receipt[Document] | None) -> Document:
        current, collection = request_context.current(), parse_collection_name(request.collection)
        reference, changes = self._seen(collection, request.reference), parse_document_change(request)
        return self.upkeep.update_document(
            current.tenant, collection, reference, changes, request.document.etag, current.budget, receipt
        )

    @change
    @with_write_token
    @exactly_once(pb.RestoreDocumentResponse, document=to_document_message)
    def RestoreDocument(self, request: pb.RestoreDocumentRequest, receipt: Receipt[Document] | None) -> Document:
        current, collection = request_context.current(), parse_collection_name(request.collection)
        reference = self._seen(collection, request.reference)
        return self.upkeep.restore(current.tenant, collection, reference, current.budget, receipt, etag=request.etag)

    @change
    @with_write_token
    @exactly_once(pb.UpdateChunkResponse, chunk=to_chunk_message)
    def UpdateChunk(self, request: pb.UpdateChunkRequest, receipt: Receipt[StoredChunk] | None) -> StoredChunk:
        current, collection, chunk = request_context.current(), parse_collection_name(request.collection), request.chunk
        scope = (
            self.records.scope_of(current.tenant, chunk_id=chunk.chunk_id)
            if current.identity.scopes is not None
            else None
        )
        if scope is not None and not current.identity.allows_scope(scope):
            raise ChunkNotFoundError(chunk.chunk_id)
        return self.upkeep.update_chunk(
            current.tenant,
            collection,
            chunk.chunk_id,
            parse_chunk_change(request),
            chunk.etag,
            current.budget,
            receipt,
        )

    def _seen(self, collection: str, message: document_pb2.DocumentReference) -> DocumentReference:
        """Return which document is meant, deleted softly or not; a record that the caller may not see does not exist.

        Raises:
            DocumentNotFoundError: there is no such document, or the caller may not see it.
            InvalidRequestError: neither id nor source is given, or several deleted documents have the source.
        """
        identity, reference = request_context.current().identity, parse_reference(message)
        if identity.scopes is None:
            return reference
        document_id = self.upkeep.documents.id_with_deleted(identity.tenant, collection, reference)
        scope = self.records.scope_of(identity.tenant, document_id=document_id)
        if scope is not None and not identity.allows_scope(scope):
            raise DocumentNotFoundError(str(reference))
        return reference
