"""Messages of what is read: documents, chunks, spans, figures and the query log.

What breaks a rule raises InvalidRequestError, which names the field.
"""

from collections.abc import Mapping, Sequence, Sized
from datetime import datetime

from groundwire.api.common.v1 import chunk_pb2, search_mode_pb2
from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.api.retrieve.v1 import query_log_pb2, stats_pb2
from groundwire.kernel.chunk import StoredChunk
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import ChunkNotFoundError, FieldViolation, GroundwireError, InvalidRequestError
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.kernel.identity import Identity
from groundwire.kernel.latencies import Latencies
from groundwire.kernel.query_log import LoggedQuery
from groundwire.retrieve.library import (
    ChunkQuery,
    ChunkWithVector,
    DocumentLocation,
    DocumentQuery,
    SpanQuery,
    SpanText,
    Stats,
    TextSlice,
)
from groundwire.retrieve.query_log import LONGEST_WINDOW_S, PipelineFigures
from groundwire.retrieve.wire.requests import QUERY_TYPE_VALUES
from groundwire.rpc.error_status import to_status
from groundwire.rpc.filter_messages import parse_filter_message
from groundwire.rpc.messages import parse_reference, to_chunk_message, to_identity_message, to_span
from groundwire.rpc.pagination import MAX_PAGE_SIZE
from groundwire.rpc.value_messages import parse_timestamp, to_duration, to_timestamp

_PROJECTS_SHOWN = 100
MAX_SPAN_CHARS = 262_144
"""Most code points of one span, so that any one fits into a response."""


def parse_chunk_references(references: Sequence[chunk_pb2.ChunkReference], field: str) -> list[str | int]:
    """Return the ids or numbers of chunks; `field` is the name of the list.

    Raises:
        InvalidRequestError: there are not 1 to 1,000, or one has neither id nor number.
    """
    _check_count(references, field)
    return _parse_references(references, field)


def parse_located(request: pb.LocateSourcesRequest) -> tuple[list[str], list[str | int]]:
    """Return the ids of documents and the ids or numbers of chunks that are looked for.

    Raises:
        InvalidRequestError: there are none or more than 1,000 of either, or one is empty.
    """
    if not request.document_ids and not request.chunks:
        raise InvalidRequestError.of("document_ids", "must not be empty, unless chunks are given")
    for entries, field in ((request.document_ids, "document_ids"), (request.chunks, "chunks")):
        if entries:
            _check_count(entries, field)
    return list(request.document_ids), _parse_references(request.chunks, "chunks")


def _parse_references(references: Sequence[chunk_pb2.ChunkReference], field: str) -> list[str | int]:
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
    # Collected, so that one error names every wrong span.
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
    if isinstance(found, ChunkNotFoundError):
        return pb.BatchGetChunksOutcome(error=to_status(found))
    return pb.BatchGetChunksOutcome(chunk=to_chunk_message(found.stored, found.vector))


def to_span_outcome(read: SpanText | GroundwireError) -> pb.ReadSpansOutcome:
    if isinstance(read, GroundwireError):
        return pb.ReadSpansOutcome(error=to_status(read))
    found = pb.SpanText(
        text=read.text,
        span=to_span(read.span),
        document_id=read.document_id,
        generation=read.generation,
        page_numbers=read.page_numbers,
    )
    return pb.ReadSpansOutcome(found=found)


def to_chunk_location(stored: StoredChunk | None) -> pb.ChunkLocation:
    """Return the message of where a chunk stands, an empty one for None."""
    if stored is None:
        return pb.ChunkLocation()
    return pb.ChunkLocation(
        chunk_id=stored.chunk_id,
        chunk_number=stored.chunk_number,
        collection=stored.document.collection,
        document_id=stored.document.document_id,
        generation=stored.generation,
        span=to_span(stored.chunk.span),
    )


def to_document_location(found: DocumentLocation) -> pb.DocumentLocation:
    return pb.DocumentLocation(
        document_id=found.document_id,
        collection=found.collection,
        live_generation=found.live_generation,
        purged=found.purged,
    )


def to_description(collection: Collection) -> pb.DescribeCollectionResponse:
    """Return what a caller has to know of a collection."""
    return pb.DescribeCollectionResponse(
        collection=collection.name,
        profile=collection.profile.value,
        max_query_chars=collection.settings.limits.max_query_chars,
        embedding=to_identity_message(collection.identity),
    )


def parse_chunk_query(request: pb.ListChunksRequest, caller: Identity) -> ChunkQuery:
    return ChunkQuery(
        caller=caller,
        collection=parse_collection_name(request.collection),
        reference=parse_reference(request.reference) if request.HasField("reference") else None,
        chunk_id_prefix=request.chunk_id_prefix,
        where=parse_filter_message(request.filter) if request.HasField("filter") else None,
        include_embedding=request.include_embedding,
    )


def parse_document_query(request: pb.ListDocumentsRequest, caller: Identity) -> DocumentQuery:
    return DocumentQuery(
        caller=caller,
        collection=parse_collection_name(request.collection),
        source_prefix=request.source_prefix,
        where=parse_filter_message(request.filter) if request.HasField("filter") else None,
        include_deleted=request.include_deleted,
    )


def to_text_message(part: TextSlice) -> pb.GetDocumentTextResponse:
    return pb.GetDocumentTextResponse(
        text=part.text, span=to_span(part.span), generation=part.generation, total_chars=part.total_chars
    )


def to_stats_message(stats: Stats) -> stats_pb2.CollectionStats:
    counted = stats.counted
    # A collection may have any number of projects: those with most documents, of equal ones the first by name.
    projects = sorted(counted.by_project.items(), key=lambda each: (-each[1], each[0]))
    return stats_pb2.CollectionStats(
        collection=counted.collection.name,
        document_count=counted.documents,
        chunk_count=counted.chunks,
        total_chars=counted.total_chars,
        by_format=_counts(counted.by_format),
        by_project=_counts(dict(projects[:_PROJECTS_SHOWN])),
        project_count=sum(1 for project in counted.by_project if project),
        by_embedding_model=_counts(counted.by_model),
        embedding=to_identity_message(counted.collection.identity),
        vector_count=stats.vectors,
        overlap_share=counted.overlap_share,
        average_vectors_per_document=stats.vectors / counted.documents if counted.documents else 0.0,
    )


def _counts(counts: Mapping[str, int]) -> list[stats_pb2.KeyCount]:
    return [stats_pb2.KeyCount(key=key, count=counts[key]) for key in sorted(counts)]


def parse_log_query(request: pb.ListQueryLogsRequest) -> tuple[str | None, datetime | None, datetime | None]:
    """Return which entries are listed: of one collection or all (None), received from one time on, before another."""
    start = parse_timestamp(request.start_time, "start_time") if request.HasField("start_time") else None
    end = parse_timestamp(request.end_time, "end_time") if request.HasField("end_time") else None
    if start is not None and end is not None and end < start:
        raise InvalidRequestError.of("end_time", "must not be before start_time")
    return _collection(request.collection), start, end


def parse_stats_request(request: pb.GetPipelineStatsRequest) -> tuple[str | None, float | None]:
    """Return the collection, None for all, and the window in seconds, None for all the time."""
    collection = _collection(request.collection)
    if not request.HasField("window"):
        return collection, None
    seconds = request.window.seconds + request.window.nanos / 1e9
    if not 0 < seconds <= LONGEST_WINDOW_S:
        raise InvalidRequestError.of("window", "must be above zero and at most an hour")
    return collection, seconds


def to_log_message(entry: LoggedQuery) -> query_log_pb2.QueryLog:
    mode = entry.mode.name if entry.mode else "UNSPECIFIED"
    return query_log_pb2.QueryLog(
        log_id=entry.log_id,
        query=entry.query,
        query_type=QUERY_TYPE_VALUES[entry.query_type] if entry.query_type else search_mode_pb2.QUERY_TYPE_UNSPECIFIED,
        result_count=entry.result_count,
        average_relevance=entry.average_relevance,
        processing_time=to_duration(entry.processing_s),
        log_time=to_timestamp(entry.log_time),
        user_agent=entry.user_agent,
        collection=entry.collection,
        mode=search_mode_pb2.SearchMode.Value(f"SEARCH_MODE_{mode}"),
        error_reason=entry.error_reason,
    )


def to_stats_response(figures: PipelineFigures, since: datetime, vector_engine: str) -> pb.GetPipelineStatsResponse:
    """Return the response; `since` is when counting began."""
    return pb.GetPipelineStatsResponse(
        request_count=figures.requests,
        error_count=figures.errors,
        empty_count=figures.empties,
        rejected_count=figures.rejected,
        average_relevance=min(1.0, figures.average_relevance),
        total_latency=_latency(figures.total),
        embedding_latency=_latency(figures.embedding),
        search_latency=_latency(figures.search),
        engine_latency=_latency(figures.engine),
        start_time=to_timestamp(since),
        vector_engine=vector_engine,
    )


def _collection(name: str) -> str | None:
    return parse_collection_name(name) if name else None


def _latency(latencies: Latencies) -> query_log_pb2.LatencySummary:
    return query_log_pb2.LatencySummary(
        count=latencies.count,
        mean=to_duration(latencies.mean_s),
        p50=to_duration(latencies.quantile_s(0.5)),
        p95=to_duration(latencies.quantile_s(0.95)),
        p99=to_duration(latencies.quantile_s(0.99)),
        maximum=to_duration(latencies.maximum_s),
    )
