"""What ListQueryLogs and GetPipelineStats do in a worker thread."""

from dataclasses import dataclass
from datetime import datetime

from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.catalog.collections import Collections
from groundwire.catalog.query_log import QueryLogs
from groundwire.kernel.clock import Clock
from groundwire.retrieve.pipeline import Pipeline
from groundwire.retrieve.query_log import QueryRecorder
from groundwire.retrieve.wire.logs import (
    parse_log_query,
    parse_stats_request,
    stats_begin,
    to_log_message,
    to_stats_response,
)
from groundwire.rpc import request_context
from groundwire.rpc.pagination import PageTokens, page_size


@dataclass(frozen=True, slots=True)
class LogCalls:
    """Reads the log and the figures; `started` is when counting began."""

    logs: QueryLogs
    recorder: QueryRecorder
    pipeline: Pipeline
    collections: Collections
    tokens: PageTokens
    vector_engine: str
    started: datetime
    clock: Clock

    def list(self, request: pb.ListQueryLogsRequest) -> pb.ListQueryLogsResponse:
        """Return a page of logged queries, newest first."""
        tenant = request_context.current().tenant
        collection, start, end = parse_log_query(request)
        position = self.tokens.read(request.page_token, tenant=tenant, request=request)
        after = (int(position[0]), int(position[1])) if position else None
        self.recorder.flush()  # what this process recorded before the call is in the list
        limit = page_size(request.page_size)
        page = self.logs.page(tenant, collection=collection, start=start, end=end, after=after, limit=limit)
        messages = zip(map(to_log_message, page.entries), page.positions, strict=True)
        logs, token = self.tokens.fill(messages, page.next_position, tenant=tenant, request=request)
        return pb.ListQueryLogsResponse(logs=logs, next_page_token=token)

    def stats(self, request: pb.GetPipelineStatsRequest) -> pb.GetPipelineStatsResponse:
        """Return the figures of this process."""
        tenant = request_context.current().tenant
        collection, window_s = parse_stats_request(request)
        if collection is not None:
            self.collections.get(tenant, collection)
        figures = self.pipeline.read(tenant, collection, window_s)
        return to_stats_response(figures, stats_begin(self.started, self.clock.now(), window_s), self.vector_engine)
