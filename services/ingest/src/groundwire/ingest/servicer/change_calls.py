"""The calls that change, delete and restore documents and chunks: message in, message out, blocking."""

from dataclasses import dataclass

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.changes import Changes
from groundwire.ingest.remember_request import RememberRequest
from groundwire.ingest.servicer.write_tokens import WriteTokens
from groundwire.ingest.wire.changes import parse_chunk_change, parse_document_change
from groundwire.kernel.document import Document
from groundwire.kernel.hit import StoredChunk
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.rpc import request_context
from groundwire.rpc.chunk_messages import to_chunk_message
from groundwire.rpc.document_messages import to_document_message
from groundwire.rpc.request_keys import request_key


@dataclass(frozen=True, slots=True)
class ChangeCalls:
    """Checks, runs and answers; the tenant and the budget are those of the current call."""

    use: Changes
    remember: RememberRequest
    write_tokens: WriteTokens

    def update_document(self, request: pb.UpdateDocumentRequest) -> pb.UpdateDocumentResponse:
        """Change what was said about a document."""
        current, collection = request_context.current(), parse_collection_name(request.collection)
        change = parse_document_change(request)

        def encode(document: Document) -> bytes:
            message = to_document_message(document)
            return pb.UpdateDocumentResponse(document=message).SerializeToString(deterministic=True)

        answer = self.remember(
            current.tenant,
            request_key("UpdateDocument", request),
            lambda receipt: self.use.update_document(
                current.tenant,
                collection,
                request.document_id,
                change,
                request.expected_generation or None,
                current.budget,
                receipt,
            ),
            encode,
        )
        return self.write_tokens.add(pb.UpdateDocumentResponse.FromString(answer), collection)

    def restore_document(self, request: pb.RestoreDocumentRequest) -> pb.RestoreDocumentResponse:
        """Bring back a document that was deleted softly."""
        current, collection = request_context.current(), parse_collection_name(request.collection)

        def encode(document: Document) -> bytes:
            message = to_document_message(document)
            return pb.RestoreDocumentResponse(document=message).SerializeToString(deterministic=True)

        answer = self.remember(
            current.tenant,
            request_key("RestoreDocument", request),
            lambda receipt: self.use.restore_document(
                current.tenant, collection, request.document_id, current.budget, receipt
            ),
            encode,
        )
        return self.write_tokens.add(pb.RestoreDocumentResponse.FromString(answer), collection)

    def update_chunk(self, request: pb.UpdateChunkRequest) -> pb.UpdateChunkResponse:
        """Change tags and metadata of a chunk."""
        current, collection = request_context.current(), parse_collection_name(request.collection)
        change = parse_chunk_change(request)

        def encode(stored: StoredChunk) -> bytes:
            message = to_chunk_message(stored)
            return pb.UpdateChunkResponse(chunk=message).SerializeToString(deterministic=True)

        answer = self.remember(
            current.tenant,
            request_key("UpdateChunk", request),
            lambda receipt: self.use.update_chunk(
                current.tenant, collection, request.chunk_id, change, current.budget, receipt
            ),
            encode,
        )
        return self.write_tokens.add(pb.UpdateChunkResponse.FromString(answer), collection)
