"""Translate between long work on stores and the messages of the contract."""

from collections.abc import Mapping

from groundwire.api.common.v1 import error_reason_pb2
from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb
from groundwire.ingest.domain.operating import IndexBuilt, StoreReport
from groundwire.ingest.housekeeping import Failure, JobFigures
from groundwire.kernel.store_findings import StoreFinding
from groundwire.rpc.document_messages import to_identity_message


def to_index_build_result(built: IndexBuilt) -> pb.IndexBuildResult:
    """Return the message of what a new index holds."""
    return pb.IndexBuildResult(
        vector_count=built.vectors,
        embedded_count=built.embedded,
        embedding=to_identity_message(built.identity),
    )


def to_finding_message(finding: StoreFinding) -> pb.StoreFinding:
    """Return the message of something that is wrong."""
    return pb.StoreFinding(
        kind=pb.StoreFindingKind.Value(f"STORE_FINDING_KIND_{finding.kind.value}"),
        collection=finding.collection,
        subject=finding.subject,
        message=finding.message,
        repaired=finding.repaired,
    )


def to_report_message(report: StoreReport) -> pb.StoreReport:
    """Return the message of what a check found in all."""
    return pb.StoreReport(
        checked_count=report.checked,
        finding_count=report.findings,
        repaired_count=report.repaired,
        consistent=report.repaired == report.findings,
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
        message=failure.message,
    )
    message.start_time.FromDatetime(failure.since)
    message.retry_delay.FromNanoseconds(round(failure.retry_in_s * 1e9))
    return message
