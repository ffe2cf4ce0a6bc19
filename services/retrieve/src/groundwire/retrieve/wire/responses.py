"""Turn the result of a search into the messages of the contract."""

from datetime import datetime

from groundwire.api.common.v1 import document_format_pb2, search_mode_pb2, span_pb2
from groundwire.api.common.v1.hit_pb2 import Hit
from groundwire.api.retrieve.v1 import quality_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.collection import SearchMode
from groundwire.kernel.document import Document, DocumentFormat
from groundwire.kernel.hit import StoredChunk
from groundwire.retrieve.domain.flat_view import flat_view
from groundwire.retrieve.domain.searching import ResultOrder, SearchHit, SearchResult, SearchState, SearchTimes
from groundwire.retrieve.wire.explain import to_explain_plan
from groundwire.retrieve.wire.query_types import QUERY_TYPE_VALUES
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.rpc.metadata_messages import to_metadata
from groundwire.rpc.times import parse_timestamp, to_duration, to_timestamp

_MODES = {
    SearchMode.HYBRID: search_mode_pb2.SEARCH_MODE_HYBRID,
    SearchMode.VECTOR: search_mode_pb2.SEARCH_MODE_VECTOR,
    SearchMode.LEXICAL: search_mode_pb2.SEARCH_MODE_LEXICAL,
}
_ORDERS = {
    ResultOrder.RELEVANCE: search_mode_pb2.ORDER_BY_RELEVANCE,
    ResultOrder.TIMESTAMP_DESC: search_mode_pb2.ORDER_BY_TIMESTAMP_DESC,
    ResultOrder.TIMESTAMP_ASC: search_mode_pb2.ORDER_BY_TIMESTAMP_ASC,
}
_STATES = {state: quality_pb2.QueryState.Value(f"QUERY_STATE_{state.value}") for state in SearchState}
_FORMATS = {
    DocumentFormat.TEXT: document_format_pb2.DOCUMENT_FORMAT_TEXT,
    DocumentFormat.MARKDOWN: document_format_pb2.DOCUMENT_FORMAT_MARKDOWN,
    DocumentFormat.HTML: document_format_pb2.DOCUMENT_FORMAT_HTML,
    DocumentFormat.PDF: document_format_pb2.DOCUMENT_FORMAT_PDF,
    DocumentFormat.DOCX: document_format_pb2.DOCUMENT_FORMAT_DOCX,
    DocumentFormat.RST: document_format_pb2.DOCUMENT_FORMAT_RST,
    DocumentFormat.CSV: document_format_pb2.DOCUMENT_FORMAT_CSV,
    DocumentFormat.JSONL: document_format_pb2.DOCUMENT_FORMAT_JSONL,
}


def to_retrieve_response(request: pb.RetrieveRequest, result: SearchResult, order: ResultOrder) -> pb.RetrieveResponse:
    """Return the response; `query_text` is the query exactly as it was sent."""
    response = pb.RetrieveResponse(
        results=[_to_hit(hit, result.plan.mode) for hit in result.hits],
        query_text=request.query,
        retrieval_count=len(result.hits),
        mode=_MODES[result.plan.mode],
        order_by=_ORDERS[order],
        query_type=QUERY_TYPE_VALUES[result.plan.query_type],
        applied_query_type=QUERY_TYPE_VALUES[result.plan.applied_type],
        quality=_to_quality(result),
        embedding_model=result.plan.collection.identity.model_name,
        snapshot=result.position,
        consistency_token=result.consistency_token,
    )
    set_times(response, request, result.times)
    if result.explanation is not None:
        response.explain_plan.CopyFrom(to_explain_plan(result.explanation, result.plan, order))
    if request.options.include_flat_view:
        _add_flat_views(response, result)
    if result.plan.where is not None:
        response.applied_filter.CopyFrom(to_filter_message(result.plan.where))
    return response


def set_times(response: pb.RetrieveResponse, request: pb.RetrieveRequest, times: SearchTimes) -> None:
    """Replace all times of a response."""
    received, processed = times.states[0][1], times.states[-1][1]
    asked = _asked(request, received)
    response.query_embedding_time.CopyFrom(to_duration(times.embedding_s))
    response.search_time.CopyFrom(to_duration(times.search_s))
    response.total_time.CopyFrom(to_duration(times.total_s))
    response.query_time.CopyFrom(to_timestamp(asked))
    response.process_time.CopyFrom(to_timestamp(max(processed, asked)))
    del response.states[:]
    response.states.extend(_to_states(times))


def _asked(request: pb.RetrieveRequest, received: datetime) -> datetime:
    return parse_timestamp(request.query_time, "query_time") if request.HasField("query_time") else received


def _to_hit(hit: SearchHit, mode: SearchMode) -> Hit:
    message = _chunk_part(hit.stored)
    message.MergeFrom(_document_part(hit.stored.document))
    message.rank = hit.rank
    message.relevance_score = hit.score.relevance
    message.similarity = hit.score.similarity
    if mode is not SearchMode.VECTOR:
        message.lexical_score = hit.score.lexical
    return message


def _add_flat_views(response: pb.RetrieveResponse, result: SearchResult) -> None:
    for message, hit in zip(response.results, result.hits, strict=True):
        for key, value in to_metadata(flat_view(hit.stored, result.plan.collection.profile)).items():
            message.flat_view[key].CopyFrom(value)


def _chunk_part(stored: StoredChunk) -> Hit:
    chunk, span = stored.chunk, stored.chunk.span
    return Hit(
        chunk_id=stored.chunk_id,
        chunk_number=stored.chunk_number,
        generation=stored.generation,
        content=chunk.content,
        span=span_pb2.Span(start=span.start, end=span.end, start_byte=span.start_byte, end_byte=span.end_byte),
        section_heading=chunk.section_title,
        section=chunk.section or "",
        chapter=chunk.chapter,
        page_numbers=chunk.page_numbers,
        sequence_num=chunk.sequence_num,
        hierarchy_path=chunk.hierarchy_path,
        level=chunk.level,
        token_count=chunk.token_count,
        content_hash=chunk.content_hash,
        prev_chunk_id=stored.links.previous or "",
        next_chunk_id=stored.links.following or "",
        overlap_prev_chars=chunk.overlap_prev_chars,
        overlap_next_chars=chunk.overlap_next_chars,
        tags=stored.tags,
        metadata=to_metadata(stored.metadata),
        ingest_time=to_timestamp(stored.ingest_time),
    )


def _document_part(document: Document) -> Hit:
    fields = document.fields
    return Hit(
        document_id=document.document_id,
        source_uri=document.source_uri,
        title=document.display_title,
        format=_FORMATS[document.format],
        creators=fields.creators,
        subjects=fields.subjects,
        description=fields.description or "",
        date_created=to_timestamp(fields.date_created) if fields.date_created else None,
        language=fields.language,
        category=fields.category or "",
        project=fields.project or "",
    )


def _to_quality(result: SearchResult) -> quality_pb2.QualityMetrics:
    scores = [hit.score.relevance for hit in result.hits]
    return quality_pb2.QualityMetrics(
        average_relevance=sum(scores) / len(scores) if scores else 0.0,
        minimum_relevance=min(scores, default=0.0),
        maximum_relevance=max(scores, default=0.0),
        candidate_count=result.counts.candidates,
        below_threshold_count=result.counts.below_threshold,
        rejected_count=result.counts.rejected,
        incomplete_count=result.counts.incomplete,
        duplicate_count=result.counts.duplicates,
        stale_count=result.counts.stale,
        coverage=result.coverage,
    )


def _to_states(times: SearchTimes) -> list[quality_pb2.QueryStateChange]:
    made = {moment: to_timestamp(moment) for _, moment in times.states}
    return [quality_pb2.QueryStateChange(state=_STATES[state], reach_time=made[at]) for state, at in times.states]
