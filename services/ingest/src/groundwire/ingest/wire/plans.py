"""Translate plans of ingests."""

from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.domain.ingesting import IngestRequest
from groundwire.ingest.domain.planning import IngestPlan, PlannedChange, PlannedChunk
from groundwire.ingest.ports import Original
from groundwire.ingest.wire.requests import parse_ingest_document
from groundwire.ingest.wire.responses import to_warnings
from groundwire.rpc.chunk_messages import to_span
from groundwire.rpc.document_messages import to_document_message

MAX_PLANNED_CHUNKS = 1000
"""A plan names no more chunks than this; its counts are those of all."""


def parse_plan_ingest(request: pb.PlanIngestRequest, tenant: str) -> tuple[IngestRequest, Original]:
    """Return what would be ingested.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    same = pb.IngestDocumentRequest(
        collection=request.collection,
        source_uri=request.source_uri,
        format=request.format,
        duplicate_policy=request.duplicate_policy,
    )
    for name in ("fields", "chunking"):
        if request.HasField(name):
            getattr(same, name).CopyFrom(getattr(request, name))
    if request.HasField("source_version"):
        same.source_version = request.source_version
    if (body := request.WhichOneof("body")) is not None:
        setattr(same, body, getattr(request, body))
    return parse_ingest_document(same, tenant)


def to_plan_response(plan: IngestPlan) -> pb.PlanIngestResponse:
    """Return the message of a plan."""
    return pb.PlanIngestResponse(
        outcome=ingest_result_pb2.IngestOutcome.Value(f"INGEST_OUTCOME_{plan.outcome.name}"),
        added_count=plan.count(PlannedChange.ADDED),
        kept_count=plan.count(PlannedChange.KEPT),
        removed_count=plan.count(PlannedChange.REMOVED),
        embedded_count=plan.embedded,
        embedded_token_count=plan.embedded_tokens,
        chunks=[_to_planned(planned) for planned in plan.chunks[:MAX_PLANNED_CHUNKS]],
        current=None if plan.current is None else to_document_message(plan.current),
        warnings=to_warnings(plan.undersized, plan.beyond_model, plan.warnings, plan.ignored),
    )


def _to_planned(planned: PlannedChunk) -> pb.PlannedChunk:
    chunk = planned.chunk
    return pb.PlannedChunk(
        change=pb.PlannedChange.Value(f"PLANNED_CHANGE_{planned.change.name}"),
        span=to_span(chunk.span),
        section_heading=chunk.section_title,
        token_count=chunk.token_count,
        content_hash=chunk.content_hash,
    )
