"""Translate between long work on stores and the messages of the contract."""

import uuid
from collections.abc import Mapping, Sequence

from google.longrunning import operations_pb2

from groundwire.api.common.v1 import error_reason_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2
from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb
from groundwire.catalog.operations import Operation
from groundwire.ingest.housekeeping import Failure, JobFigures
from groundwire.ingest.index_builds import IndexBuilt
from groundwire.ingest.ingesting import Progress
from groundwire.ingest.purging import Purged
from groundwire.ingest.store_check import StoreReport
from groundwire.ingest.wire.documents import to_progress
from groundwire.kernel.errors import DocumentNotFoundError, InvalidRequestError
from groundwire.kernel.store_findings import StoreFinding
from groundwire.rpc.error_status import to_status
from groundwire.rpc.messages import to_identity_message
from groundwire.rpc.value_messages import to_timestamp

MAX_FINDINGS = 1000
"""Findings that the report of a check shows; it counts them all."""
_MESSAGE_CHARS = 2000
_COLLECTION_OF_OPERATIONS = "operations/"


def operation_name(operation: Operation) -> str:
    """Return the name that calls know an operation by."""
    return f"{_COLLECTION_OF_OPERATIONS}{operation.operation_id}"


def operation_id_of(name: str) -> str:
    """Return the id of the operation of this name.

    Raises:
        InvalidRequestError: it is no name of an operation.
    """
    try:
        if name.startswith(_COLLECTION_OF_OPERATIONS):
            return str(uuid.UUID(name.removeprefix(_COLLECTION_OF_OPERATIONS)))
    except ValueError:
        pass
    raise InvalidRequestError.of("name", "must be operations/ and a UUID")


def to_operation(operation: Operation, progress: Progress | None) -> operations_pb2.Operation:
    message = operations_pb2.Operation(name=operation_name(operation))
    if operation.outcome is not None:
        message.MergeFromString(operation.outcome)
    if operation.outcome == b"":
        message.done = True
        message.error.CopyFrom(to_status(DocumentNotFoundError(operation.resource_id)))
    metadata = pb.OperationMetadata(
        method=operation.method,
        collection=operation.collection,
        progress=None if progress is None or message.done else to_progress(progress),
        cancel_requested=operation.cancel_requested,
        create_time=to_timestamp(operation.create_time),
        end_time=None if operation.end_time is None else to_timestamp(operation.end_time),
    )
    message.metadata.Pack(metadata)
    return message


def to_index_build_result(built: IndexBuilt) -> pb.IndexBuildResult:
    return pb.IndexBuildResult(
        vector_count=built.vectors,
        embedded_count=built.embedded,
        embedding=to_identity_message(built.identity),
    )


def to_purge_response(purged: Purged) -> ingest_service_pb2.PurgeDocumentsResponse:
    """Return the message of what a purge deleted or counted."""
    return ingest_service_pb2.PurgeDocumentsResponse(purge_count=purged.documents, purge_sample=purged.sample)


def to_finding_message(finding: StoreFinding) -> pb.StoreFinding:
    """Return the message of something that is wrong."""
    return pb.StoreFinding(
        kind=pb.StoreFindingKind.Value(f"STORE_FINDING_KIND_{finding.kind.value}"),
        collection=finding.collection,
        subject=finding.subject,
        message=finding.message,
        repaired=finding.repaired,
    )


def to_report_message(report: StoreReport, findings: Sequence[StoreFinding]) -> pb.StoreReport:
    """Return the message of what a check found in all; `findings` are the first of them."""
    return pb.StoreReport(
        checked_count=report.checked,
        finding_count=report.findings,
        repaired_count=report.repaired,
        consistent=report.repaired == report.findings,
        findings=[to_finding_message(finding) for finding in findings],
    )


def to_job_messages(figures: Mapping[str, JobFigures]) -> list[pb.HousekeepingJob]:
    """Return the messages of what jobs behind the calls have done, by name."""
    jobs = []
    for name, each in sorted(figures.items()):
        job = pb.HousekeepingJob(name=name, run_count=each.runs, failure_count=each.failures, done_count=each.done)
        if each.last_success is not None:
            job.last_success_time.FromDatetime(each.last_success)
        jobs.append(job)
    return jobs


def to_failure_message(failure: Failure) -> pb.HousekeepingFailure:
    """Return the message of a job that fails."""
    message = pb.HousekeepingFailure(
        job=failure.job,
        collection=failure.subject.collection,
        failure_count=failure.count,
        reason=error_reason_pb2.ErrorReason.Value(f"ERROR_REASON_{failure.reason}"),
        message=failure.message[:_MESSAGE_CHARS],
    )
    message.start_time.FromDatetime(failure.since)
    message.retry_delay.FromNanoseconds(round(failure.retry_in_s * 1e9))
    return message
