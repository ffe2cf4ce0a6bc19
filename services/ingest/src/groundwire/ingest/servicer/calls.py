"""One blocking method for each call of the contract: message in, message out."""

from collections.abc import Callable
from dataclasses import dataclass

from groundwire.api.ingest.v1 import deletion_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.catalog.deletions import Deletion, Deletions
from groundwire.catalog.generations import Receipt
from groundwire.ingest.delete_document import DeleteDocument
from groundwire.ingest.domain.ingesting import IngestResult, Progress
from groundwire.ingest.ingest_document import IngestDocument
from groundwire.ingest.plan_ingest import PlanIngest
from groundwire.ingest.remember_request import RememberRequest
from groundwire.ingest.servicer.write_tokens import WriteTokens
from groundwire.ingest.wire.plans import parse_plan_ingest, to_plan_response
from groundwire.ingest.wire.requests import parse_ingest_document
from groundwire.ingest.wire.responses import to_deletion_receipt, to_ingest_result
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.rpc import request_context
from groundwire.rpc.request_keys import request_key


@dataclass(frozen=True, slots=True)
class UseCases:
    """What the calls use."""

    ingest_document: IngestDocument
    plan_ingest: PlanIngest
    delete_document: DeleteDocument
    deletions: Deletions
    remember: RememberRequest


@dataclass(frozen=True, slots=True)
class Calls:
    """Checks, runs and answers; the tenant and the budget are those of the current call."""

    use: UseCases
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


def bring_up_to_date(receipt: deletion_pb2.DeletionReceipt, deletions: Deletions) -> None:
    """Let a receipt, which may be that of an earlier call, say how far the deletion is now."""
    deletion = deletions.find(request_context.current().tenant, receipt.receipt_id)
    if deletion is not None:
        receipt.CopyFrom(to_deletion_receipt(deletion))


def _unheard(_: Progress) -> None:
    """Drop the progress of a call that cannot tell it."""
