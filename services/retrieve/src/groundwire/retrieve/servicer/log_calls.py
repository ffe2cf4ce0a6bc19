"""What ListQueryLogs and GetPipelineStats do in a worker thread."""

from dataclasses import dataclass
from datetime import datetime

from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.kernel.clock import Clock
from groundwire.retrieve.domain.pipeline import Pipeline
from groundwire.retrieve.list_query_logs import ListQueryLogs
from groundwire.retrieve.log_ports import CollectionReader
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

    list_query_logs: ListQueryLogs
    pipeline: Pipeline
    collections: CollectionReader
    tokens: PageTokens
    vector_engine: str
    started: datetime
    clock: Clock

    def list(self, request: pb.ListQueryLogsRequest) -> pb.ListQueryLogsResponse:
        """Return a page of logged queries, newest first."""
        tenant = request_context.current().tenant
        query = parse_log_query(request, tenant)
        position = self.tokens.read(request.page_token, tenant=tenant, request=request)
        after = (int(position[0]), int(position[1])) if position else None
        page = self.list_query_logs(query, after, page_size(request.page_size))
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
