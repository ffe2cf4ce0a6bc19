"""Documents that are ingested after the call that brought them: their bytes are staged, an operation ingests them."""

import threading
from dataclasses import dataclass

import structlog

from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.catalog.operations import Operation
from groundwire.ingest.domain.ingesting import IngestRequest, Report
from groundwire.ingest.ingest_document import IngestDocument
from groundwire.ingest.receive_upload import ReceiveUpload
from groundwire.ingest.remember_request import RememberRequest
from groundwire.ingest.servicer.operation_calls import Work
from groundwire.ingest.servicer.write_tokens import WriteTokens
from groundwire.ingest.wire.documents import parse_ingest_document, parse_staged, to_ingest_result
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import OverloadedError, UnavailableError
from groundwire.kernel.identifiers import RequestKey

_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Before it is tried again: an engine or a model may be starting, and nobody is there to repeat the call."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StagedIngest:
    """What is done with a document before its operation, by it, and after it; an upload has the id of its operation."""

    ingest_document: IngestDocument
    remember: RememberRequest
    receive: ReceiveUpload
    write_tokens: WriteTokens

    def stage(self, request: pb.IngestDocumentRequest, tenant: str, operation_id: str) -> pb.IngestDocumentRequest:
        """Store the bytes of a document durably and return the request without them.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: the collection belongs to another model.
            InvalidRequestError: the collection does not take the document.
            ExhaustedError: the tenant has too many bytes on their way in, or the disk is full.
        """
        wanted, original = parse_ingest_document(request, tenant)
        self.ingest_document.prepare.admitted(wanted, original)
        self.receive.keep(tenant, operation_id, original.read())
        described = pb.IngestDocumentRequest()
        described.CopyFrom(request)
        if request.WhichOneof("body") == "text":
            described.text = ""
        else:
            described.content = b""
        return described

    def work(self, *, of_upload: bool) -> Work:
        """Return what an operation does; what is known of an upload stays, for a header that is repeated."""
        return Work(self._ingest, drop=self.receive.finish if of_upload else self.receive.forget, is_small=True)

    def _ingest(self, operation: Operation, budget: Budget, report: Report) -> pb.IngestDocumentResponse:
        kind = pb.UploadHeader if operation.method == "UploadDocument" else pb.IngestDocumentRequest
        request = parse_staged(kind.FromString(operation.request), operation.tenant)
        for pause_s in _PAUSES_S:
            try:
                return self._ingest_once(operation, request, budget, report)
            except (UnavailableError, OverloadedError) as error:
                _log.info("a staged document is tried again", pause_s=pause_s, error=error.message)
                nothing = threading.Condition()
                with nothing:
                    budget.wait_for(nothing, lambda: False, pause_s)
        return self._ingest_once(operation, request, budget, report)

    def _ingest_once(
        self, operation: Operation, request: IngestRequest, budget: Budget, report: Report
    ) -> pb.IngestDocumentResponse:
        """Ingest the document unless that was done before the process died, which must not be done a second time."""
        key = RequestKey(f"operation:{operation.operation_id}", operation.method, "")
        with self.receive.kept(operation.tenant, operation.operation_id) as original:
            encoded = self.remember(
                operation.tenant,
                key,
                lambda receipt: self.ingest_document(request, original, budget, report, receipt),
                lambda result: to_ingest_result(result).SerializeToString(deterministic=True),
            )
        response = pb.IngestDocumentResponse(result=ingest_result_pb2.IngestResult.FromString(encoded))
        return self.write_tokens.add(response, operation.collection, operation.tenant)
