"""One blocking method for each call of the contract: message in, message out."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from groundwire.api.ingest.v1 import deletion_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.catalog.deletions import Deletion, Deletions
from groundwire.catalog.generations import Receipt
from groundwire.ingest.delete_document import DeleteDocument
from groundwire.ingest.domain.ingesting import IngestResult, Progress
from groundwire.ingest.domain.reading import TextSlice
from groundwire.ingest.ingest_document import IngestDocument
from groundwire.ingest.list_documents import ListDocuments
from groundwire.ingest.plan_ingest import PlanIngest
from groundwire.ingest.read_chunks import GetChunk, ListChunks
from groundwire.ingest.read_documents import GetDocument, ReadDocumentText
from groundwire.ingest.remember_request import RememberRequest
from groundwire.ingest.servicer.paging import next_token, page_size_of
from groundwire.ingest.servicer.write_tokens import WriteTokens
from groundwire.ingest.wire.plans import parse_plan_ingest, to_plan_response
from groundwire.ingest.wire.queries import parse_chunk_query, parse_chunk_reference, parse_document_query
from groundwire.ingest.wire.requests import parse_ingest_document, request_key
from groundwire.ingest.wire.responses import (
    to_chunk_message,
    to_deletion_receipt,
    to_document_message,
    to_ingest_result,
)
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.identifiers import parse_collection_name, parse_source_uri
from groundwire.rpc import request_context
from groundwire.rpc.pagination import PageTokens


@dataclass(frozen=True, slots=True)
class UseCases:
    """What the calls use."""

    ingest_document: IngestDocument
    plan_ingest: PlanIngest
    get_document: GetDocument
    list_documents: ListDocuments
    read_document_text: ReadDocumentText
    delete_document: DeleteDocument
    deletions: Deletions
    get_chunk: GetChunk
    list_chunks: ListChunks
    remember: RememberRequest


@dataclass(frozen=True, slots=True)
class Calls:
    """Checks, runs and answers; the tenant and the budget are those of the current call."""

    use: UseCases
    tokens: PageTokens
    write_tokens: WriteTokens

    def ingest_document(self, request: pb.IngestDocumentRequest) -> pb.IngestDocumentResponse:
        """Ingest a document."""
        current = request_context.current()
        wanted, original = parse_ingest_document(request, current.tenant)

        def encode(result: IngestResult) -> bytes:
            return pb.IngestDocumentResponse(result=to_ingest_result(result)).SerializeToString(deterministic=True)

        answer = self.use.remember(
            current.tenant,
            request_key("IngestDocument", request),
            lambda receipt: self.use.ingest_document(wanted, original, current.budget, _unheard, receipt),
            encode,
        )
        return self.write_tokens.add(pb.IngestDocumentResponse.FromString(answer), wanted.collection)

    def plan_ingest(self, request: pb.PlanIngestRequest) -> pb.PlanIngestResponse:
        """Say what ingesting a document would do."""
        current = request_context.current()
        wanted, original = parse_plan_ingest(request, current.tenant)
        return to_plan_response(self.use.plan_ingest(wanted, original, current.budget))

    def get_document(self, request: pb.GetDocumentRequest) -> pb.GetDocumentResponse:
        """Return a document."""
        tenant, collection = request_context.current().tenant, parse_collection_name(request.collection)
        kind = request.WhichOneof("reference")
        if kind is None:
            raise InvalidRequestError.of("reference", "must be given: either document_id or source_uri")
        if kind == "source_uri":
            source_uri = parse_source_uri(request.source_uri)
            document = self.use.get_document.by_source(tenant, collection, source_uri)
        else:
            document = self.use.get_document.by_id(tenant, collection, request.document_id)
        found = self.use.get_document.with_details(
            tenant, document, include_chunk_ids=request.include_chunk_ids, include_text=request.include_text
        )
        return pb.GetDocumentResponse(
            document=to_document_message(found.document), chunk_ids=found.chunk_ids, text=found.text
        )

    def list_documents(self, request: pb.ListDocumentsRequest) -> pb.ListDocumentsResponse:
        """Return a page of documents."""
        tenant = request_context.current().tenant
        query = parse_document_query(request, tenant)
        position = self.tokens.read(request.page_token, tenant=tenant, request=request)
        after = (str(position[0]), str(position[1])) if position else None
        page = self.use.list_documents(query, after, page_size_of(request.page_size))
        return pb.ListDocumentsResponse(
            documents=[to_document_message(document) for document in page.items],
            next_page_token=next_token(self.tokens, page.next_position, tenant, request),
        )

    def read_document_text(self, request: pb.GetDocumentTextRequest) -> Iterator[TextSlice]:
        """Return the parts of a text."""
        return self.use.read_document_text(
            request_context.current().tenant,
            parse_collection_name(request.collection),
            request.document_id,
            request.generation,
            request.start,
            request.end if request.HasField("end") else None,
        )

    def delete_document(self, request: pb.DeleteDocumentRequest) -> pb.DeleteDocumentResponse:
        """Delete a document."""
        current, collection = request_context.current(), parse_collection_name(request.collection)
        permanent = request.permanent if request.HasField("permanent") else None

        def encode(deletion: Deletion) -> bytes:
            return pb.DeleteDocumentResponse(receipt=to_deletion_receipt(deletion)).SerializeToString(
                deterministic=True
            )

        def work(receipt: Callable[[Deletion], Receipt] | None) -> Deletion:
            return self.use.delete_document(
                current.tenant, collection, request.document_id, permanent, current.budget, receipt
            )

        key = request_key("DeleteDocument", request)
        answer = pb.DeleteDocumentResponse.FromString(self.use.remember(current.tenant, key, work, encode))
        bring_up_to_date(answer.receipt, self.use.deletions)
        return self.write_tokens.add(answer, collection)

    def get_chunk(self, request: pb.GetChunkRequest) -> pb.GetChunkResponse:
        """Return a chunk."""
        tenant, collection = request_context.current().tenant, parse_collection_name(request.collection)
        found = self.use.get_chunk(
            tenant, collection, parse_chunk_reference(request), include_embedding=request.include_embedding
        )
        return pb.GetChunkResponse(chunk=to_chunk_message(found), document=to_document_message(found.stored.document))

    def list_chunks(self, request: pb.ListChunksRequest) -> pb.ListChunksResponse:
        """Return a page of chunks."""
        tenant = request_context.current().tenant
        query = parse_chunk_query(request, tenant)
        position = self.tokens.read(request.page_token, tenant=tenant, request=request)
        page = self.use.list_chunks(query, int(position[0]) if position else None, page_size_of(request.page_size))
        return pb.ListChunksResponse(
            chunks=[to_chunk_message(found) for found in page.items],
            next_page_token=next_token(self.tokens, page.next_position, tenant, request),
        )


def bring_up_to_date(receipt: deletion_pb2.DeletionReceipt, deletions: Deletions) -> None:
    """Let a receipt, which may be that of an earlier call, say how far the deletion is now."""
    deletion = deletions.find(request_context.current().tenant, receipt.receipt_id)
    if deletion is not None:
        receipt.CopyFrom(to_deletion_receipt(deletion))


def _unheard(_: Progress) -> None:
    """Drop the progress of a call that cannot tell it."""
