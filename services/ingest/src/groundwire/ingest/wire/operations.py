"""Translate between long work on stores and the messages of the contract."""

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.domain.operating import IndexBuilt, StoreReport
from groundwire.ingest.wire.collections import to_identity_message
from groundwire.kernel.store_findings import StoreFinding


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
