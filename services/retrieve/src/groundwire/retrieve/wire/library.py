"""Translate what is read: queries, parts of texts, and figures."""

from collections.abc import Mapping, Sequence, Sized

from groundwire.api.common.v1 import chunk_pb2
from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.api.retrieve.v1 import stats_pb2
from groundwire.kernel.errors import ChunkNotFoundError, FieldViolation, GroundwireError, InvalidRequestError
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.retrieve.library import (
    ChunkQuery,
    ChunkWithVector,
    DocumentQuery,
    SpanQuery,
    SpanText,
    Stats,
    TextSlice,
)
from groundwire.rpc.error_status import to_status
from groundwire.rpc.filter_messages import parse_filter_message
from groundwire.rpc.messages import parse_reference, to_chunk_message, to_identity_message, to_span
from groundwire.rpc.pagination import MAX_PAGE_SIZE

_PROJECTS_SHOWN = 100
MAX_SPAN_CHARS = 262_144
"""Most code points of one span, so that any one fits into a response."""


def parse_chunk_references(references: Sequence[chunk_pb2.ChunkReference], field: str) -> list[str | int]:
    """Return the ids or numbers of chunks; `field` is the name of the list.

    Raises:
        InvalidRequestError: there are not 1 to 1,000, or one has neither id nor number.
    """
    _check_count(references, field)
    kinds = [reference.WhichOneof("reference") for reference in references]
    missing = [number for number, kind in enumerate(kinds) if kind is None]
    if missing:
        message = "must have either chunk_id or chunk_number"
        raise InvalidRequestError([FieldViolation(f"{field}[{number}]", message) for number in missing])
    return [getattr(reference, kind or "") for reference, kind in zip(references, kinds, strict=True)]


def parse_span_queries(request: pb.ReadSpansRequest) -> list[SpanQuery]:
    """Return what to read.

    Raises:
        InvalidRequestError: there are not 1 to 1,000 spans, or one names no document or is no range.
    """
    _check_count(request.spans, "spans")
    queries, violations = [], list[FieldViolation]()
    for number, each in enumerate(request.spans):
        span = each.span
        try:
            reference = parse_reference(each.reference)
        except InvalidRequestError as error:
            violations += [
                FieldViolation(f"spans[{number}].{wrong.field}", wrong.description) for wrong in error.violations
            ]
            continue
        if not (0 <= span.start < span.end and span.end - span.start <= MAX_SPAN_CHARS):
            rule = f"must begin at 0 or later and have 1 to {MAX_SPAN_CHARS} code points"
            violations.append(FieldViolation(f"spans[{number}].span", rule))
        if each.generation < 0:
            violations.append(FieldViolation(f"spans[{number}].generation", "must not be negative"))
        queries.append(SpanQuery(reference, each.generation, span.start, span.end, (span.start_byte, span.end_byte)))
    if violations:
        raise InvalidRequestError(violations)
    return queries


def _check_count(entries: Sized, field: str) -> None:
    if not 1 <= len(entries) <= MAX_PAGE_SIZE:
        raise InvalidRequestError.of(field, f"must be 1 to {MAX_PAGE_SIZE}")


def to_chunk_outcome(found: ChunkWithVector | ChunkNotFoundError) -> pb.BatchGetChunksOutcome:
    """Return the message of what became of one chunk of a batch."""
    if isinstance(found, ChunkNotFoundError):
        return pb.BatchGetChunksOutcome(error=to_status(found))
    return pb.BatchGetChunksOutcome(chunk=to_chunk_message(found.stored, found.vector))


def to_span_outcome(read: SpanText | GroundwireError) -> pb.ReadSpansOutcome:
    """Return the message of what became of one span."""
    if isinstance(read, GroundwireError):
        return pb.ReadSpansOutcome(error=to_status(read))
    found = pb.SpanText(
        text=read.text, span=to_span(read.span), document_id=read.document_id, generation=read.generation
    )
    return pb.ReadSpansOutcome(found=found)


def parse_chunk_query(request: pb.ListChunksRequest, tenant: str) -> ChunkQuery:
    """Return which chunks are listed.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    return ChunkQuery(
        tenant=tenant,
        collection=parse_collection_name(request.collection),
        reference=parse_reference(request.reference) if request.HasField("reference") else None,
        chunk_id_prefix=request.chunk_id_prefix,
        where=parse_filter_message(request.filter) if request.HasField("filter") else None,
        include_embedding=request.include_embedding,
    )


def parse_document_query(request: pb.ListDocumentsRequest, tenant: str) -> DocumentQuery:
    """Return which documents are listed.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    return DocumentQuery(
        tenant=tenant,
        collection=parse_collection_name(request.collection),
        source_prefix=request.source_prefix,
        where=parse_filter_message(request.filter) if request.HasField("filter") else None,
        include_deleted=request.include_deleted,
    )


def to_text_message(part: TextSlice) -> pb.GetDocumentTextResponse:
    """Return the message of a part of a text."""
    return pb.GetDocumentTextResponse(
        text=part.text, span=to_span(part.span), generation=part.generation, total_chars=part.total_chars
    )


def to_stats_message(stats: Stats) -> stats_pb2.CollectionStats:
    """Return the message of the figures of a collection."""
    counted = stats.counted
    return stats_pb2.CollectionStats(
        collection=counted.collection.name,
        document_count=counted.documents,
        chunk_count=counted.chunks,
        total_chars=counted.total_chars,
        by_format=_counts(counted.by_format),
        by_project=_counts(_most(counted.by_project)),
        project_count=sum(1 for project in counted.by_project if project),
        by_embedding_model=_counts(counted.by_model),
        embedding=to_identity_message(counted.collection.identity),
        vector_count=stats.vectors,
        overlap_share=counted.overlap_share,
        average_vectors_per_document=stats.vectors / counted.documents if counted.documents else 0.0,
    )


def _most(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the keys with most, of equal ones the first in order; a collection may have any number of projects."""
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0]))[:_PROJECTS_SHOWN])


def _counts(counts: Mapping[str, int]) -> list[stats_pb2.KeyCount]:
    return [stats_pb2.KeyCount(key=key, count=counts[key]) for key in sorted(counts)]
