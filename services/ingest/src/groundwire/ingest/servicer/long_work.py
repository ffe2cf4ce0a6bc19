"""The calls that begin long work, and what their operations do: message in, message out, blocking."""

from dataclasses import dataclass

from google.longrunning import operations_pb2
from google.protobuf.message import Message

from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb
from groundwire.catalog.operations import Operation
from groundwire.ingest.domain.ingesting import Progress, Report
from groundwire.ingest.domain.operating import CheckEvent
from groundwire.ingest.operations import Operations
from groundwire.ingest.purge_documents import Purge
from groundwire.ingest.servicer.operation_calls import OperationCalls, Work
from groundwire.ingest.servicer.staged_ingest import StagedIngest
from groundwire.ingest.wire.documents import parse_purge_filter
from groundwire.ingest.wire.operations import (
    MAX_FINDINGS,
    to_index_build_result,
    to_purge_response,
    to_report_message,
)
from groundwire.kernel.budget import Budget
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.kernel.store_findings import StoreFinding
from groundwire.rpc import request_context
from groundwire.rpc.request_context import request_key


@dataclass(frozen=True, slots=True)
class LongWork:
    """What operations do, by the name of the call that began them."""

    use: Operations
    staged: StagedIngest

    def by_method(self) -> dict[str, Work]:
        """Return what each method does."""
        return {
            "Reindex": Work(self._reindex),
            "Reembed": Work(self._reembed),
            "CheckStore": Work(self._check_store),
            "PurgeDocuments": Work(self._purge_documents),
            "IngestDocument": self.staged.work(of_upload=False),
            "UploadDocument": self.staged.work(of_upload=True),
        }

    def _reindex(self, operation: Operation, budget: Budget, report: Report) -> pb.IndexBuildResult:
        return to_index_build_result(self.use.reindex(operation.tenant, operation.collection, budget, report))

    def _reembed(self, operation: Operation, budget: Budget, report: Report) -> pb.IndexBuildResult:
        return to_index_build_result(self.use.reembed(operation.tenant, operation.collection, budget, report))

    def _check_store(self, operation: Operation, budget: Budget, report: Report) -> pb.StoreReport:
        findings: list[StoreFinding] = []

        def hear(event: CheckEvent) -> None:
            if isinstance(event, Progress):
                report(event)
            elif len(findings) < MAX_FINDINGS:
                findings.append(event)

        repair = pb.CheckStoreRequest.FromString(operation.request).repair
        checked = self.use.check(operation.tenant, operation.collection, budget, hear, repair=repair)
        return to_report_message(checked, findings)

    def _purge_documents(
        self, operation: Operation, budget: Budget, report: Report
    ) -> ingest_pb.PurgeDocumentsResponse:
        request = ingest_pb.PurgeDocumentsRequest.FromString(operation.request)
        purge = Purge(
            operation.tenant,
            operation.collection,
            parse_purge_filter(request),
            operation.operation_id,
            operation.create_time,
            operation.done_count,
        )
        return to_purge_response(
            self.use.purge(purge, budget, report) if request.force else self.use.purge.count(purge)
        )


@dataclass(frozen=True, slots=True)
class LongCalls:
    """Checks requests for long work and begins it."""

    use: Operations
    staged: StagedIngest
    operations: OperationCalls

    def reindex(self, request: pb.ReindexRequest) -> operations_pb2.Operation:
        """Begin to build the indexes of a collection anew."""
        return self._begin(request, parse_collection_name(request.collection))

    def reembed(self, request: pb.ReembedRequest) -> operations_pb2.Operation:
        """Begin to embed a collection anew."""
        return self._begin(request, parse_collection_name(request.collection))

    def check_store(self, request: pb.CheckStoreRequest) -> operations_pb2.Operation:
        """Begin to compare the stores with the catalog."""
        return self._begin(request, parse_collection_name(request.collection) if request.collection else "")

    def purge_documents(self, request: ingest_pb.PurgeDocumentsRequest) -> operations_pb2.Operation:
        """Begin to delete the documents that a filter matches, or to count them."""
        collection, where = parse_collection_name(request.collection), parse_purge_filter(request)

        def checked(_operation_id: str) -> ingest_pb.PurgeDocumentsRequest:
            self.use.purge.check(request_context.current().tenant, collection, where)
            return request

        return self.operations.begin("PurgeDocuments", request_key("PurgeDocuments", request), collection, checked)

    def ingest_document(self, request: ingest_pb.IngestDocumentRequest) -> ingest_pb.IngestDocumentResponse:
        """Store the bytes of a document and begin to ingest it."""
        tenant, collection = request_context.current().tenant, parse_collection_name(request.collection)
        operation = self.operations.begin(
            "IngestDocument",
            request_key("IngestDocument", request),
            collection,
            lambda operation_id: self.staged.stage(request, tenant, operation_id),
        )
        return ingest_pb.IngestDocumentResponse(operation=operation)

    def _begin(
        self, request: pb.ReindexRequest | pb.ReembedRequest | pb.CheckStoreRequest, collection: str
    ) -> operations_pb2.Operation:
        def checked(_operation_id: str) -> Message:
            if collection:
                self.use.check.collections.get(request_context.current().tenant, collection)
            return request

        method = request.DESCRIPTOR.name.removesuffix("Request")
        return self.operations.begin(method, request_key(method, request), collection, checked)
