"""gRPC edge of the retrieve services."""
# ruff: noqa: ARG002, N802 - names and signatures of the methods are the contract's

import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import library_service_pb2_grpc as library_grpc
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2_grpc as pb_grpc
from groundwire.kernel.clock import Clock
from groundwire.retrieve.expansion import ExpandChunks
from groundwire.retrieve.self_query.questions import ParseQuestion
from groundwire.retrieve.servicer.library_calls import LibraryCalls
from groundwire.retrieve.servicer.log_calls import LogCalls
from groundwire.retrieve.servicer.search_calls import SearchCalls
from groundwire.retrieve.wire.expansions import parse_expand_request, to_passage_message
from groundwire.retrieve.wire.questions import check_parse_request, question_time, to_parse_response
from groundwire.rpc import request_context
from groundwire.rpc.pagination import as_many_as_fit
from groundwire.rpc.workers import Workers

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")


@dataclass(frozen=True)
class RetrieveServicer(pb_grpc.RetrieveServiceServicer):
    """Runs each call in one worker thread; the event loop only hands messages over.

    `max_query_chars` bounds what collections may allow.
    """

    search_calls: SearchCalls
    expand_chunks: ExpandChunks
    parse_question: ParseQuestion
    max_query_chars: int
    clock: Clock
    workers: Workers

    async def Retrieve(self, request: pb.RetrieveRequest, context: Any) -> pb.RetrieveResponse:
        """Return the most relevant chunks."""
        started = time.perf_counter()
        repeated = self.search_calls.repeat(request, started)
        if repeated is not None:
            return repeated
        return await self._run(lambda message: self.search_calls.retrieve(message, started), request)

    async def BatchRetrieve(self, request: pb.BatchRetrieveRequest, context: Any) -> pb.BatchRetrieveResponse:
        """Run several searches."""
        started = time.perf_counter()
        return await self._run(lambda message: self.search_calls.batch_retrieve(message, started), request)

    async def Expand(self, request: pb.ExpandRequest, context: Any) -> pb.ExpandResponse:
        """Return the surroundings of chunks."""
        return await self._run(self._expand, request)

    async def ParseQuery(self, request: pb.ParseQueryRequest, context: Any) -> pb.ParseQueryResponse:
        """Split a question into a query and a filter."""
        return await self._run(self._parse, request)

    def _expand(self, request: pb.ExpandRequest) -> pb.ExpandResponse:
        current = request_context.current()
        references, rule = parse_expand_request(request)
        passages = self.expand_chunks.expand(current.tenant, request.collection, references, rule, current.budget)
        fitting = as_many_as_fit(map(to_passage_message, passages))
        omitted = [chunk.chunk_id for passage in passages[len(fitting) :] for chunk in passage.requested]
        return pb.ExpandResponse(passages=fitting, omitted_chunk_ids=omitted)

    def _parse(self, request: pb.ParseQueryRequest) -> pb.ParseQueryResponse:
        current = request_context.current()
        check_parse_request(request, self.max_query_chars)
        asked = question_time(request, self.clock.now())
        parsed = self.parse_question.parse(current.tenant, request.collection, request.question, asked, current.budget)
        return to_parse_response(parsed)

    async def _run(self, call: Callable[[RequestT], ResponseT], request: RequestT) -> ResponseT:
        return await self.workers.run(request_context.current().budget, call, request)


@dataclass(frozen=True)
class LibraryServicer(library_grpc.LibraryServiceServicer):
    """Runs each call in one worker thread."""

    calls: LibraryCalls
    log_calls: LogCalls
    workers: Workers

    async def GetDocument(self, request: library_pb.GetDocumentRequest, context: Any) -> library_pb.GetDocumentResponse:
        """Return a document."""
        return await self._run(self.calls.get_document, request)

    async def ListDocuments(
        self, request: library_pb.ListDocumentsRequest, context: Any
    ) -> library_pb.ListDocumentsResponse:
        """Return a page of documents."""
        return await self._run(self.calls.list_documents, request)

    async def GetDocumentText(
        self, request: library_pb.GetDocumentTextRequest, context: Any
    ) -> AsyncIterator[library_pb.GetDocumentTextResponse]:
        """Return the parts of a text."""
        budget = request_context.current().budget
        async with aclosing(self.workers.iterate(budget, lambda: self.calls.document_text(request))) as parts:
            async for part in parts:
                yield part

    async def ReadSpans(self, request: library_pb.ReadSpansRequest, context: Any) -> library_pb.ReadSpansResponse:
        """Return what stands at spans of texts."""
        return await self._run(self.calls.read_spans, request)

    async def GetChunk(self, request: library_pb.GetChunkRequest, context: Any) -> library_pb.GetChunkResponse:
        """Return a chunk."""
        return await self._run(self.calls.get_chunk, request)

    async def BatchGetChunks(
        self, request: library_pb.BatchGetChunksRequest, context: Any
    ) -> library_pb.BatchGetChunksResponse:
        """Return several chunks."""
        return await self._run(self.calls.batch_get_chunks, request)

    async def ListChunks(self, request: library_pb.ListChunksRequest, context: Any) -> library_pb.ListChunksResponse:
        """Return a page of chunks."""
        return await self._run(self.calls.list_chunks, request)

    async def GetSchema(self, request: library_pb.GetSchemaRequest, context: Any) -> library_pb.GetSchemaResponse:
        """Return schemas of metadata."""
        return await self._run(self.calls.get_schema, request)

    async def ValidateMetadata(
        self, request: library_pb.ValidateMetadataRequest, context: Any
    ) -> library_pb.ValidateMetadataResponse:
        """Check metadata and fill in defaults."""
        return await self._run(self.calls.validate_metadata, request)

    async def ListStats(self, request: library_pb.ListStatsRequest, context: Any) -> library_pb.ListStatsResponse:
        """Return figures of collections."""
        return await self._run(self.calls.list_stats, request)

    async def ListQueryLogs(
        self, request: library_pb.ListQueryLogsRequest, context: Any
    ) -> library_pb.ListQueryLogsResponse:
        """Return a page of logged queries."""
        return await self._run(self.log_calls.list, request)

    async def GetPipelineStats(
        self, request: library_pb.GetPipelineStatsRequest, context: Any
    ) -> library_pb.GetPipelineStatsResponse:
        """Return the figures of this process."""
        return await self._run(self.log_calls.stats, request)

    async def _run(self, call: Callable[[RequestT], ResponseT], request: RequestT) -> ResponseT:
        return await self.workers.run(request_context.current().budget, call, request)
