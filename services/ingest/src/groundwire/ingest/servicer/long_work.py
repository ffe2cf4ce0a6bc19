"""What operations do, and how calls begin them: builds of indexes, checks, purges, and documents that are staged."""

import threading
from dataclasses import dataclass

import structlog
from google.longrunning import operations_pb2
from google.protobuf.message import Message

from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb
from groundwire.catalog.operations import Operation
from groundwire.ingest.documents import DocumentIngest
from groundwire.ingest.index_builds import IndexBuilder
from groundwire.ingest.ingesting import IngestRequest, Progress, Report
from groundwire.ingest.purging import DocumentPurge, Purge
from groundwire.ingest.servicer.calls import CallParts
from groundwire.ingest.servicer.operation_runner import OperationRunner, Work
from groundwire.ingest.store_check import CheckEvent, StoreCheck
from groundwire.ingest.uploads import UploadReceiver
from groundwire.ingest.wire.documents import (
    parse_ingest_document,
    parse_purge_filter,
    parse_staged,
)
from groundwire.ingest.wire.operations import (
    MAX_FINDINGS,
    to_index_build_result,
    to_purge_response,
    to_report_message,
)
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import OverloadedError, UnavailableError
from groundwire.kernel.identifiers import RequestKey, parse_collection_name
from groundwire.kernel.store_findings import StoreFinding
from groundwire.rpc import request_context
from groundwire.rpc.request_context import request_key

_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Before it is tried again: an engine or a model may be starting, and nobody is there to repeat the call."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LongUseCases:
    """What operations use."""

    builder: IndexBuilder
    check: StoreCheck
    purge: DocumentPurge
    documents: DocumentIngest
    uploads: UploadReceiver
    parts: CallParts

    def by_method(self) -> dict[str, Work]:
        """Return what operations do, by the name of the call that began them.

        Of a document that a call brought nothing stays once it is ingested; what is known of an upload does, for a
        header that is repeated.
        """
        return {
            "Reindex": Work(self._build_index),
            "Reembed": Work(self._build_index),
            "CheckStore": Work(self._check_store),
            "PurgeDocuments": Work(self._purge_documents),
            "IngestDocument": Work(self._ingest_staged, drop=self.uploads.forget, is_small=True),
            "UploadDocument": Work(self._ingest_staged, drop=self.uploads.finish, is_small=True),
        }

    def _build_index(self, operation: Operation, budget: Budget, report: Report) -> pb.IndexBuildResult:
        build = self.builder.reembed if operation.method == "Reembed" else self.builder.reindex
        return to_index_build_result(build(operation.tenant, operation.collection, budget, report))

    def _check_store(self, operation: Operation, budget: Budget, report: Report) -> pb.StoreReport:
        findings: list[StoreFinding] = []

        def hear(event: CheckEvent) -> None:
            if isinstance(event, Progress):
                report(event)
            elif len(findings) < MAX_FINDINGS:  # the report counts all of them, and has to fit into a message
                findings.append(event)

        repair = pb.CheckStoreRequest.FromString(operation.request).repair
        checked = self.check.check(operation.tenant, operation.collection, budget, hear, repair=repair)
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
        return to_purge_response(self.purge.delete(purge, budget, report) if request.force else self.purge.count(purge))

    def _ingest_staged(self, operation: Operation, budget: Budget, report: Report) -> ingest_pb.IngestDocumentResponse:
        kind = ingest_pb.UploadHeader if operation.method == "UploadDocument" else ingest_pb.IngestDocumentRequest
        request = parse_staged(kind.FromString(operation.request), operation.tenant)
        for pause_s in _PAUSES_S:
            try:
                return self._ingest_once(operation, request, budget, report)
            except (UnavailableError, OverloadedError) as error:
                _log.info("a staged document is tried again", pause_s=pause_s, error=error.message)
                nothing = threading.Condition()  # a pause that ends at once when the operation is cancelled
                with nothing:
                    budget.wait_for(nothing, lambda: False, pause_s)
        return self._ingest_once(operation, request, budget, report)

    def _ingest_once(
        self, operation: Operation, request: IngestRequest, budget: Budget, report: Report
    ) -> ingest_pb.IngestDocumentResponse:
        """Ingest the document unless that was done before the process died, which must not be done a second time."""
        key = RequestKey(f"operation:{operation.operation_id}", operation.method, "")
        with self.uploads.kept(operation.tenant, operation.operation_id) as original:
            result = self.parts.once.ingest(
                operation.tenant,
                key,
                lambda receipt: self.documents.ingest(request, original, budget, report, receipt),
            )
        response = ingest_pb.IngestDocumentResponse(result=result)
        return self.parts.write_tokens.add(response, operation.collection, operation.tenant)


@dataclass(frozen=True, slots=True)
class LongWork:
    """Checks requests for long work and begins it; an operation that ingests has the id of its staged bytes."""

    use: LongUseCases
    operations: OperationRunner

    def begin_on_collection(
        self, request: pb.ReindexRequest | pb.ReembedRequest | pb.CheckStoreRequest
    ) -> operations_pb2.Operation:
        """Begin work on a collection; only a check may name none, which means all of them."""
        is_on_all = isinstance(request, pb.CheckStoreRequest) and not request.collection
        collection = "" if is_on_all else parse_collection_name(request.collection)

        def checked(_operation_id: str) -> Message:
            if collection:
                self.use.check.collections.get(request_context.current().tenant, collection)
            return request

        method = request.DESCRIPTOR.name.removesuffix("Request")
        return self.operations.begin(method, request_key(method, request), collection, checked)

    def begin_purge(self, request: ingest_pb.PurgeDocumentsRequest) -> operations_pb2.Operation:
        """Begin to delete the documents that a filter matches, or to count them."""
        collection, where = parse_collection_name(request.collection), parse_purge_filter(request)

        def checked(_operation_id: str) -> ingest_pb.PurgeDocumentsRequest:
            self.use.purge.check(request_context.current().tenant, collection, where)
            return request

        return self.operations.begin("PurgeDocuments", request_key("PurgeDocuments", request), collection, checked)

    def begin_ingest(self, request: ingest_pb.IngestDocumentRequest) -> operations_pb2.Operation:
        """Store the bytes of a document durably and begin to ingest it."""
        tenant, collection = request_context.current().tenant, parse_collection_name(request.collection)

        def staged(operation_id: str) -> ingest_pb.IngestDocumentRequest:
            parsed, original = parse_ingest_document(request, tenant)
            self.use.documents.preparer.admit_bytes(parsed, original)
            self.use.uploads.keep(tenant, operation_id, original.read())
            described = ingest_pb.IngestDocumentRequest()
            described.CopyFrom(request)
            # The bytes are staged; which field they came in stays, for errors that name it.
            if request.WhichOneof("body") == "text":
                described.text = ""
            else:
                described.content = b""
            return described

        return self.operations.begin("IngestDocument", request_key("IngestDocument", request), collection, staged)
