"""Requests and responses of the query log and of the pipeline's figures."""

from datetime import datetime, timedelta

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.api.retrieve.v1 import query_log_pb2
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.kernel.query_log import LoggedQuery
from groundwire.retrieve.pipeline import LONGEST_WINDOW_S, Latencies, PipelineFigures
from groundwire.retrieve.wire.requests import QUERY_TYPE_VALUES
from groundwire.rpc.value_messages import parse_timestamp, to_duration, to_timestamp


def parse_log_query(request: pb.ListQueryLogsRequest) -> tuple[str | None, datetime | None, datetime | None]:
    """Return which entries are listed: of one collection or all (None), received from one time on and before another.

    Raises:
        InvalidRequestError: naming the fields that break a rule.
    """
    start = parse_timestamp(request.start_time, "start_time") if request.HasField("start_time") else None
    end = parse_timestamp(request.end_time, "end_time") if request.HasField("end_time") else None
    if start is not None and end is not None and end < start:
        raise InvalidRequestError.of("end_time", "must not be before start_time")
    return _collection(request.collection), start, end


def parse_stats_request(request: pb.GetPipelineStatsRequest) -> tuple[str | None, float | None]:
    """Return the collection, None for all, and the window in seconds, None for all the time.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    collection = _collection(request.collection)
    if not request.HasField("window"):
        return collection, None
    seconds = request.window.seconds + request.window.nanos / 1e9
    if not 0 < seconds <= LONGEST_WINDOW_S:
        raise InvalidRequestError.of("window", "must be above zero and at most an hour")
    return collection, seconds


def to_log_message(entry: LoggedQuery) -> query_log_pb2.QueryLog:
    """Return the message of a log entry."""
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


def stats_begin(started: datetime, now: datetime, window_s: float | None) -> datetime:
    """Return when the counting that is asked for began."""
    return started if window_s is None else max(started, now - timedelta(seconds=window_s))


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
