"""The calls that change documents and chunks: message in, message out, blocking."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from google.protobuf.message import Message

from groundwire.api.ingest.v1 import deletion_pb2, ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.catalog.deletions import Deletions
from groundwire.ingest.changes import Changes
from groundwire.ingest.domain.ingesting import Progress
from groundwire.ingest.ingest_document import IngestDocument
from groundwire.ingest.plan_ingest import PlanIngest
from groundwire.ingest.put_chunks import PutChunks
from groundwire.ingest.remember_request import MakeReceipt, RememberRequest
from groundwire.ingest.servicer.write_tokens import WriteTokens
from groundwire.ingest.wire.documents import (
    parse_chunk_change,
    parse_document_change,
    parse_ingest_document,
    parse_plan_ingest,
    to_deletion_receipt,
    to_ingest_result,
    to_plan_response,
)
from groundwire.ingest.wire.ready_chunks import parse_put_chunks
from groundwire.kernel.identifiers import RequestKey, parse_collection_name
from groundwire.rpc import request_context
from groundwire.rpc.messages import parse_reference, to_chunk_message, to_document_message
from groundwire.rpc.request_context import request_key

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True, slots=True)
class UseCases:
    """What the calls use."""

    ingest_document: IngestDocument
    plan_ingest: PlanIngest
    put_chunks: PutChunks
    changes: Changes
    deletions: Deletions
    remember: RememberRequest


@dataclass(frozen=True, slots=True)
class Calls:
    """Checks, runs and answers; the tenant and the budget are those of the current call."""

    use: UseCases
    write_tokens: WriteTokens

    def ingest_document(self, request: pb.IngestDocumentRequest) -> pb.IngestDocumentResponse:
        """Ingest a document."""
        result = self.ingest_once(request, request_key("IngestDocument", request))
        return self.write_tokens.add(pb.IngestDocumentResponse(result=result), request.collection)

    def ingest_once(self, request: pb.IngestDocumentRequest, key: RequestKey | None) -> ingest_result_pb2.IngestResult:
        """Ingest a document, or return the first result of the same key; without a token of the write."""
        current = request_context.current()
        wanted, original = parse_ingest_document(request, current.tenant)
        encoded = self.use.remember(
            current.tenant,
            key,
            lambda receipt: self.use.ingest_document(wanted, original, current.budget, _unheard, receipt),
            lambda result: to_ingest_result(result).SerializeToString(deterministic=True),
        )
        return ingest_result_pb2.IngestResult.FromString(encoded)

    def plan_ingest(self, request: pb.PlanIngestRequest) -> pb.PlanIngestResponse:
        """Say what ingesting a document would do."""
        current = request_context.current()
        wanted, original = parse_plan_ingest(request, current.tenant)
        return to_plan_response(self.use.plan_ingest(wanted, original, current.budget))

    def put_chunks(
        self, header: pb.PutChunksHeader, parts: Iterable[pb.PutChunksPart], parts_digest: str
    ) -> pb.PutChunksResponse:
        """Store a document with its chunks; `parts_digest` is the same for the same document however it was cut."""
        current = request_context.current()
        wanted, ready = parse_put_chunks(header, parts, current.tenant)
        answer = answered_once(
            self.use.remember,
            header,
            pb.PutChunksResponse,
            lambda receipt: self.use.put_chunks(wanted, ready, current.budget, _unheard, receipt),
            lambda result: pb.PutChunksResponse(result=to_ingest_result(result)),
            parts_digest,
        )
        return self.write_tokens.add(answer, wanted.collection)

    def update_document(self, request: pb.UpdateDocumentRequest) -> pb.UpdateDocumentResponse:
        """Change what was said about a document."""
        current, collection = request_context.current(), parse_collection_name(request.collection)
        reference, change = parse_reference(request.reference), parse_document_change(request)
        answer = answered_once(
            self.use.remember,
            request,
            pb.UpdateDocumentResponse,
            lambda receipt: self.use.changes.update_document(
                current.tenant, collection, reference, change, request.document.etag, current.budget, receipt
            ),
            lambda document: pb.UpdateDocumentResponse(document=to_document_message(document)),
        )
        return self.write_tokens.add(answer, collection)

    def delete_document(self, request: pb.DeleteDocumentRequest) -> pb.DeleteDocumentResponse:
        """Delete a document."""
        current, collection = request_context.current(), parse_collection_name(request.collection)
        reference = parse_reference(request.reference)
        answer = answered_once(
            self.use.remember,
            request,
            pb.DeleteDocumentResponse,
            lambda receipt: self.use.changes.delete_document(
                current.tenant,
                collection,
                reference,
                current.budget,
                receipt,
                purge=request.purge,
                etag=request.etag,
            ),
            lambda deletion: pb.DeleteDocumentResponse(receipt=to_deletion_receipt(deletion)),
        )
        bring_up_to_date(answer.receipt, self.use.deletions)
        return self.write_tokens.add(answer, collection)

    def restore_document(self, request: pb.RestoreDocumentRequest) -> pb.RestoreDocumentResponse:
        """Bring back a document that was deleted softly."""
        current, collection = request_context.current(), parse_collection_name(request.collection)
        reference = parse_reference(request.reference)
        answer = answered_once(
            self.use.remember,
            request,
            pb.RestoreDocumentResponse,
            lambda receipt: self.use.changes.restore_document(
                current.tenant, collection, reference, current.budget, receipt, etag=request.etag
            ),
            lambda document: pb.RestoreDocumentResponse(document=to_document_message(document)),
        )
        return self.write_tokens.add(answer, collection)

    def update_chunk(self, request: pb.UpdateChunkRequest) -> pb.UpdateChunkResponse:
        """Change tags and metadata of a chunk."""
        current, collection = request_context.current(), parse_collection_name(request.collection)
        change = parse_chunk_change(request)
        answer = answered_once(
            self.use.remember,
            request,
            pb.UpdateChunkResponse,
            lambda receipt: self.use.changes.update_chunk(
                current.tenant, collection, request.chunk.chunk_id, change, request.chunk.etag, current.budget, receipt
            ),
            lambda stored: pb.UpdateChunkResponse(chunk=to_chunk_message(stored)),
        )
        return self.write_tokens.add(answer, collection)


def answered_once(
    remember: RememberRequest,
    request: Message,
    kind: type[ResponseT],
    work: Callable[[MakeReceipt[T] | None], T],
    answer: Callable[[T], ResponseT],
    content_hash: str = "",
) -> ResponseT:
    """Return what `answer` makes of the result of `work`, or the answer of an earlier call with the same request id.

    `content_hash` stands for what belongs to the request and is not in the message.
    """
    key = request_key(kind.DESCRIPTOR.name.removesuffix("Response"), request, content_hash)
    encoded = remember(
        request_context.current().tenant, key, work, lambda result: answer(result).SerializeToString(deterministic=True)
    )
    return kind.FromString(encoded)


def bring_up_to_date(receipt: deletion_pb2.DeletionReceipt, deletions: Deletions) -> None:
    """Let a receipt, which may be that of an earlier call, say how far the deletion is now."""
    deletion = deletions.find(request_context.current().tenant, receipt.receipt_id)
    if deletion is not None:
        receipt.CopyFrom(to_deletion_receipt(deletion))


def _unheard(_: Progress) -> None:
    """Drop the progress of a call that cannot tell it."""
