"""The long calls on stores: they tell how far they are, and can be joined, cancelled and repeated."""

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import Message

from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb
from groundwire.ingest.domain.ingesting import Progress, Report
from groundwire.ingest.domain.operating import CheckEvent, IndexBuilt
from groundwire.ingest.operations import Operations
from groundwire.ingest.remember_request import RememberRequest
from groundwire.ingest.wire.operations import to_finding_message, to_index_build_result, to_report_message
from groundwire.ingest.wire.responses import to_progress
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.kernel.store_findings import StoreFinding
from groundwire.rpc import request_context
from groundwire.rpc.request_keys import request_key
from groundwire.rpc.workers import Workers

ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True, slots=True)
class OperationCalls:
    """Checks, runs and answers in threads of their own: a caller may wait for hours."""

    use: Operations
    remember: RememberRequest
    workers: Workers

    def close(self) -> None:
        """Stop what is going on; nothing of it has changed anything."""
        self.use.runs.close()
        self.workers.close()

    def reindex(self, request: pb.ReindexRequest) -> AsyncGenerator[pb.ReindexResponse, None]:
        """Yield how far a reindexing is, and last what it built."""
        current, name = request_context.current(), parse_collection_name(request.collection)

        def work(report: Report) -> IndexBuilt:
            return self.use.reindex(current.tenant, name, current.budget, report)

        return self._build(request, work, pb.ReindexResponse)

    def reembed(self, request: pb.ReembedRequest) -> AsyncGenerator[pb.ReembedResponse, None]:
        """Yield how far an embedding is, and last what it built."""
        current, name = request_context.current(), parse_collection_name(request.collection)

        def work(report: Report) -> IndexBuilt:
            return self.use.reembed(current.tenant, name, current.budget, report)

        return self._build(request, work, pb.ReembedResponse)

    async def check(self, request: pb.CheckStoreRequest) -> AsyncGenerator[pb.CheckStoreResponse, None]:
        """Yield how far a check is and what it finds, and last a report."""
        current = request_context.current()
        name = parse_collection_name(request.collection) if request.collection else ""
        key = request_key("CheckStore", request)

        def work(report: Callable[[CheckEvent], None]) -> bytes:
            return self.remember(
                current.tenant,
                key,
                lambda _: self.use.check(current.tenant, name, current.budget, report, repair=request.repair),
                lambda found: to_report_message(found).SerializeToString(deterministic=True),
            )

        reported = self.workers.stream(current.budget, work, is_passing=lambda event: isinstance(event, Progress))
        async with aclosing(reported) as events:
            async for event in events:
                yield _check_response(event)

    async def _build(
        self,
        request: pb.ReindexRequest | pb.ReembedRequest,
        work: Callable[[Report], IndexBuilt],
        kind: type[ResponseT],
    ) -> AsyncGenerator[ResponseT, None]:
        current = request_context.current()
        key = request_key(kind.DESCRIPTOR.name.removesuffix("Response"), request)

        def run(report: Callable[[Progress], None]) -> bytes:
            return self.remember(current.tenant, key, lambda _: work(report), _encode)

        async with aclosing(self.workers.stream(current.budget, run, is_passing=lambda _: True)) as events:
            async for event in events:
                yield _response(kind, event)


def _encode(built: IndexBuilt) -> bytes:
    return to_index_build_result(built).SerializeToString(deterministic=True)


def _response(kind: Any, event: Progress | bytes) -> Any:
    if isinstance(event, Progress):
        return kind(progress=to_progress(event))
    return kind(result=pb.IndexBuildResult.FromString(event))


def _check_response(event: CheckEvent | bytes) -> pb.CheckStoreResponse:
    match event:
        case Progress():
            return pb.CheckStoreResponse(progress=to_progress(event))
        case StoreFinding():
            return pb.CheckStoreResponse(finding=to_finding_message(event))
        case _:
            return pb.CheckStoreResponse(report=pb.StoreReport.FromString(event))
