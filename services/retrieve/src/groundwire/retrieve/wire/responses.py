"""Turn the result of a search into the messages of the contract."""

import math
from typing import Final

from groundwire.api.common.v1 import degraded_stage_pb2, search_mode_pb2
from groundwire.api.common.v1.hit_pb2 import Hit, HitView, MemoryScore
from groundwire.api.retrieve.v1 import retrieve_report_pb2 as report_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.collection import SearchMode
from groundwire.kernel.filters import contract_name
from groundwire.retrieve.expansion import Passage
from groundwire.retrieve.flat_view import flat_view
from groundwire.retrieve.search_types import ResultOrder, SearchHit, SearchResult, SearchState, SearchTimes
from groundwire.retrieve.self_query.questions import ParsedQuestion
from groundwire.retrieve.wire.explain import to_explain_plan
from groundwire.retrieve.wire.requests import QUERY_TYPE_VALUES
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.rpc.messages import chunk_in_view, documents_in_view, to_chunk_message, to_span
from groundwire.rpc.value_messages import parse_timestamp, to_duration, to_metadata, to_timestamp

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
_TIMES: Final = ("query_embedding_time", "search_time", "total_time", "query_time", "process_time", "states")
_STATES = {state: report_pb.QueryState.Value(f"QUERY_STATE_{state.value}") for state in SearchState}


def to_retrieve_response(request: pb.RetrieveRequest, result: SearchResult, order: ResultOrder) -> pb.RetrieveResponse:
    """Return the response with what the request asks for; the report says all that is known of the search itself."""
    options, mode = request.options, result.plan.mode
    response = pb.RetrieveResponse(
        results=[to_hit(hit, options.view, has_words=mode is not SearchMode.VECTOR) for hit in result.hits],
        documents=documents_in_view((hit.stored.document for hit in result.hits), options.view),
        snapshot=result.position,
        consistency_token=result.consistency_token,
    )
    if options.include_flat_view:
        for message, hit in zip(response.results, result.hits, strict=True):
            for key, value in to_metadata(flat_view(hit.stored, result.plan.collection.profile)).items():
                message.flat_view[key].CopyFrom(value)
    if options.include_report:
        plan = result.plan
        scores = [hit.score.relevance for hit in result.hits]
        report = report_pb.RetrieveReport(
            query_text=request.query,
            retrieval_count=len(result.hits),
            quality=report_pb.QualityMetrics(
                average_relevance=sum(scores) / len(scores) if scores else 0.0,
                minimum_relevance=min(scores, default=0.0),
                maximum_relevance=max(scores, default=0.0),
                candidate_count=result.counts.candidates,
                below_threshold_count=result.counts.below_threshold,
                rejected_count=result.counts.rejected,
                incomplete_count=result.counts.incomplete,
                duplicate_count=result.counts.duplicates,
                stale_count=result.counts.stale,
                coverage=result.coverage(),
            ),
            mode=_MODES[plan.mode],
            order_by=_ORDERS[order],
            query_type=QUERY_TYPE_VALUES[plan.query_type],
            applied_query_type=QUERY_TYPE_VALUES[plan.applied_type],
            embedding_model=plan.collection.identity.model_name,
        )
        if plan.where is not None:
            report.applied_filter.CopyFrom(to_filter_message(plan.where))
        report.chosen_sections.extend(
            report_pb.ChosenSection(
                document_id=chosen.section.document_id,
                hierarchy_path=chosen.section.path,
                score=chosen.score,
                first_sequence_num=chosen.section.first,
                last_sequence_num=chosen.section.last,
            )
            for chosen in result.chosen_sections
        )
        response.report.CopyFrom(report)
        set_times(response, request, result.times)
    if result.evidence is not None:
        response.explain_plan.CopyFrom(to_explain_plan(result.evidence, result.plan))
    if result.self_query_failed:
        response.degraded_stages.append(degraded_stage_pb2.DEGRADED_STAGE_SELF_QUERY)
    if result.lacks_dense:
        response.degraded_stages.append(degraded_stage_pb2.DEGRADED_STAGE_DENSE)
    return response


def add_log_id(response: pb.RetrieveResponse, log_id: str | None) -> None:
    """Add the log id; None means that logging failed, which the response says."""
    if log_id is None:
        response.degraded_stages.append(degraded_stage_pb2.DEGRADED_STAGE_RECORDING)
    response.log_id = log_id or ""


def cut_to_size(response: pb.RetrieveResponse, max_bytes: int) -> pb.RetrieveResponse:
    """Leave out the last results, and documents of no other result, until the response has at most `max_bytes`."""
    while response.results and response.ByteSize() > max_bytes:
        document_id = response.results.pop().chunk.document_id
        response.omitted_result_count += 1
        # In the order of their first hit, so that the document of the last one is last, if it is its only hit.
        if (
            response.documents
            and response.documents[-1].document_id == document_id
            and all(hit.chunk.document_id != document_id for hit in response.results)
        ):
            response.documents.pop()
    return response


def set_times(response: pb.RetrieveResponse, request: pb.RetrieveRequest, times: SearchTimes) -> None:
    """Replace all times of a response, which only its report tells."""
    if not response.HasField("report"):
        return
    report = response.report
    clear_times(report)
    received, processed = times.states[0][1], times.states[-1][1]
    asked = parse_timestamp(request.query_time, "query_time") if request.HasField("query_time") else received
    report.query_embedding_time.CopyFrom(to_duration(times.embedding_s))
    report.search_time.CopyFrom(to_duration(times.search_s))
    report.total_time.CopyFrom(to_duration(times.total_s))
    report.query_time.CopyFrom(to_timestamp(asked))
    report.process_time.CopyFrom(to_timestamp(max(processed, asked)))
    report.states.extend(
        report_pb.QueryStateChange(state=_STATES[state], reach_time=to_timestamp(at)) for state, at in times.states
    )


def clear_times(report: report_pb.RetrieveReport) -> None:
    """Take out all that `set_times` sets."""
    for field in _TIMES:
        report.ClearField(field)


def to_hit(hit: SearchHit, view: "HitView.ValueType", *, has_words: bool = True) -> Hit:
    """Return the message of a result; `has_words` says that the search looked for words."""
    memory = None
    if hit.memory is not None:
        values = {name: getattr(hit.memory, name) for name in MemoryScore.DESCRIPTOR.fields_by_name}
        memory = MemoryScore(**{name: value for name, value in values.items() if math.isfinite(value)})
    return Hit(
        rank=hit.rank,
        relevance_score=hit.score.relevance,
        similarity=hit.score.similarity,
        lexical_score=hit.score.lexical if has_words else None,
        chunk=chunk_in_view(hit.stored, view),
        memory_score=memory,
    )


def to_parse_response(parsed: ParsedQuestion) -> pb.ParseQueryResponse:
    response = pb.ParseQueryResponse(
        semantic_query=parsed.extraction.semantic_query,
        field_names=map(contract_name, parsed.extraction.field_names),
        query_type=QUERY_TYPE_VALUES[parsed.query_type],
        extractor=parsed.extractor,
        fell_back=parsed.fell_back,
    )
    if parsed.extraction.where is not None:
        response.filter.CopyFrom(to_filter_message(parsed.extraction.where))
    return response


def to_passage_message(passage: Passage) -> pb.ExpandedPassage:
    return pb.ExpandedPassage(
        requested_chunk_ids=[chunk.chunk_id for chunk in passage.requested],
        document_id=passage.requested[0].document.document_id,
        generation=passage.requested[0].generation,
        span=to_span(passage.span),
        content=passage.content,
        chunks=[to_chunk_message(chunk) for chunk in passage.chunks],
        hierarchy_path=passage.path,
        truncated=passage.truncated,
    )
