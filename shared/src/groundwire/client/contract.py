"""The calls that the clients offer: a table of one line each, and what makes typed methods of its lines.

`client.list_chunks(collection="rust", page_size=100)` takes the fields of the request message as keywords and returns
the response message (or an iterator of them, or an awaitable, as the client and the call are).
`client.get_document.send(request, timeout_s=5)` takes a ready request.
"""

import uuid
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, Self, overload

from google.longrunning import operations_pb2 as operations_pb
from google.protobuf import empty_pb2
from grpc_health.v1 import health_pb2

from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.ingest.v1 import maintenance_service_pb2 as maintenance_pb
from groundwire.api.ingest.v1 import record_service_pb2 as records_pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as retrieve_pb
from groundwire.api.server.v1 import server_service_pb2 as server_pb
from groundwire.client.transport import (
    HEALTH_PATH,
    AsyncCaller,
    AsyncTransport,
    RequestT,
    ResponseT,
    SyncCaller,
    SyncTransport,
    Transport,
)

Params = ParamSpec("Params")


@dataclass(frozen=True, slots=True)
class _Bound(Generic[Params, RequestT]):
    """A call on one channel: makes the request and invokes the method."""

    make: Callable[Params, RequestT]
    invoke: Callable[..., Any]
    limit_s: float | None
    transport: Transport

    def start(self, request: RequestT, timeout_s: float | None) -> Any:
        """Send a copy of the request with a request id, if it can have one and has none."""
        return self.invoke(
            with_request_id(request),
            timeout=self.limit_s if timeout_s is None else timeout_s,
            metadata=self.transport.sent_metadata(),
        )


class SyncUnary(_Bound[Params, RequestT], Generic[Params, RequestT, ResponseT]):
    """A call with one response."""

    __slots__ = ()

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> ResponseT:
        """Send the request with these fields and return the response."""
        return self.send(self.make(*args, **kwargs))

    def send(self, request: RequestT, *, timeout_s: float | None = None) -> ResponseT:
        """Send a request and return the response; errors are those of `groundwire.kernel.errors`."""
        with self.transport.typed_errors():
            response: ResponseT = self.start(request, timeout_s)
        return response


class AsyncUnary(_Bound[Params, RequestT], Generic[Params, RequestT, ResponseT]):
    """A call with one response."""

    __slots__ = ()

    async def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> ResponseT:
        """Send the request with these fields and return the response."""
        return await self.send(self.make(*args, **kwargs))

    async def send(self, request: RequestT, *, timeout_s: float | None = None) -> ResponseT:
        """Send a request and return the response; errors are those of `groundwire.kernel.errors`."""
        with self.transport.typed_errors():
            response: ResponseT = await self.start(request, timeout_s)
        return response


class SyncStream(_Bound[Params, RequestT], Generic[Params, RequestT, ResponseT]):
    """A call with a stream of responses; closing the iterator early cancels it."""

    __slots__ = ()

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> Generator[ResponseT, None, None]:
        """Send the request with these fields and yield the responses."""
        return self.send(self.make(*args, **kwargs))

    def send(self, request: RequestT, *, timeout_s: float | None = None) -> Generator[ResponseT, None, None]:
        """Send a request and yield the responses; errors are those of `groundwire.kernel.errors`."""
        with self.transport.typed_errors():
            call = self.start(request, timeout_s)
            try:
                yield from call
            finally:
                call.cancel()  # the server works on for nobody otherwise; without effect at the end


class AsyncStream(_Bound[Params, RequestT], Generic[Params, RequestT, ResponseT]):
    """A call with a stream of responses; closing the iterator early cancels it."""

    __slots__ = ()

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> AsyncGenerator[ResponseT, None]:
        """Send the request with these fields and yield the responses."""
        return self.send(self.make(*args, **kwargs))

    async def send(self, request: RequestT, *, timeout_s: float | None = None) -> AsyncGenerator[ResponseT, None]:
        """Send a request and yield the responses; errors are those of `groundwire.kernel.errors`."""
        with self.transport.typed_errors():
            call = self.start(request, timeout_s)
            try:
                async for response in call:
                    yield response
            finally:
                call.cancel()


class _Call(Generic[Params, RequestT, ResponseT]):
    """One method of the contract: its path, its request class as a function of its fields, its response class."""

    def __init__(self, path: str, request: Callable[Params, RequestT], response: type[ResponseT]) -> None:
        self.path = path
        self.request = request
        self.response = response

    def _bind(self, transport: Transport, kind: Callable[..., Any], streams: str) -> Any:
        # Opening a method of a channel costs more than a small call; each is opened once.
        bound = transport.bound_calls.get(self.path)
        if bound is None:
            invoke = transport.open_method(self.path, streams, self.response)
            bound = kind(self.request, invoke, transport.limit_s(self.path), transport)
            transport.bound_calls[self.path] = bound
        return bound


class UnaryCall(_Call[Params, RequestT, ResponseT]):
    """A method with one request and one response."""

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: SyncCaller, owner: type) -> SyncUnary[Params, RequestT, ResponseT]: ...
    @overload
    def __get__(self, client: AsyncCaller, owner: type) -> AsyncUnary[Params, RequestT, ResponseT]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """Return the call on the client's channel, or asked of the class this line of the table."""
        if client is None:
            return self
        transport = client._transport  # noqa: SLF001 - the descriptor is part of the client
        return self.blocking(transport) if isinstance(client, SyncCaller) else self.awaited(transport)

    def blocking(self, transport: SyncTransport) -> SyncUnary[Params, RequestT, ResponseT]:
        bound: SyncUnary[Params, RequestT, ResponseT] = self._bind(transport, SyncUnary, "unary_unary")
        return bound

    def awaited(self, transport: AsyncTransport) -> AsyncUnary[Params, RequestT, ResponseT]:
        bound: AsyncUnary[Params, RequestT, ResponseT] = self._bind(transport, AsyncUnary, "unary_unary")
        return bound


class StreamCall(_Call[Params, RequestT, ResponseT]):
    """A method with one request and a stream of responses."""

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: SyncCaller, owner: type) -> SyncStream[Params, RequestT, ResponseT]: ...
    @overload
    def __get__(self, client: AsyncCaller, owner: type) -> AsyncStream[Params, RequestT, ResponseT]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """Return the call on the client's channel, or asked of the class this line of the table."""
        if client is None:
            return self
        transport = client._transport  # noqa: SLF001 - the descriptor is part of the client
        return self.blocking(transport) if isinstance(client, SyncCaller) else self.awaited(transport)

    def blocking(self, transport: SyncTransport) -> SyncStream[Params, RequestT, ResponseT]:
        """Return the call as one to iterate over."""
        bound: SyncStream[Params, RequestT, ResponseT] = self._bind(transport, SyncStream, "unary_stream")
        return bound

    def awaited(self, transport: AsyncTransport) -> AsyncStream[Params, RequestT, ResponseT]:
        """Return the call as one to iterate over with `async for`."""
        bound: AsyncStream[Params, RequestT, ResponseT] = self._bind(transport, AsyncStream, "unary_stream")
        return bound


def with_request_id(request: RequestT) -> RequestT:
    """Return the request, or, where it could have a request id and has none, a copy with a new one.

    The id makes the retries of the channel safe.
    """
    given: Any = request
    if "request_id" not in request.DESCRIPTOR.fields_by_name or given.request_id:
        return request
    # The caller may send the same message again and mean another request.
    copy: Any = type(request)()
    copy.CopyFrom(request)
    copy.request_id = str(uuid.uuid4())
    identified: RequestT = copy
    return identified


_INGEST = "/groundwire.api.ingest.v1.IngestService/"
_COLLECTION = "/groundwire.api.ingest.v1.CollectionService/"
_RECORDS = "/groundwire.api.ingest.v1.RecordService/"
_MAINTENANCE = "/groundwire.api.ingest.v1.MaintenanceService/"
_OPERATIONS = "/google.longrunning.Operations/"
_LIBRARY = "/groundwire.api.retrieve.v1.LibraryService/"
_RETRIEVE = "/groundwire.api.retrieve.v1.RetrieveService/"
_SERVER = "/groundwire.api.server.v1.ServerService/"
_ANSWER = "/groundwire.api.answer.v1.AnswerService/"


class Contract:
    """What each call does stands in the comments of the protos and of the request messages."""

    create_collection = UnaryCall(
        _COLLECTION + "CreateCollection",
        collections_pb.CreateCollectionRequest,
        collections_pb.CreateCollectionResponse,
    )
    get_collection = UnaryCall(
        _COLLECTION + "GetCollection", collections_pb.GetCollectionRequest, collections_pb.GetCollectionResponse
    )
    list_collections = UnaryCall(
        _COLLECTION + "ListCollections",
        collections_pb.ListCollectionsRequest,
        collections_pb.ListCollectionsResponse,
    )
    update_collection = UnaryCall(
        _COLLECTION + "UpdateCollection",
        collections_pb.UpdateCollectionRequest,
        collections_pb.UpdateCollectionResponse,
    )
    delete_collection = UnaryCall(
        _COLLECTION + "DeleteCollection",
        collections_pb.DeleteCollectionRequest,
        collections_pb.DeleteCollectionResponse,
    )
    ingest_document = UnaryCall(
        _INGEST + "IngestDocument", ingest_pb.IngestDocumentRequest, ingest_pb.IngestDocumentResponse
    )
    batch_ingest_documents = UnaryCall(
        _INGEST + "BatchIngestDocuments",
        ingest_pb.BatchIngestDocumentsRequest,
        ingest_pb.BatchIngestDocumentsResponse,
    )
    plan_ingest = UnaryCall(_INGEST + "PlanIngest", ingest_pb.PlanIngestRequest, ingest_pb.PlanIngestResponse)
    get_document = UnaryCall(_LIBRARY + "GetDocument", library_pb.GetDocumentRequest, library_pb.GetDocumentResponse)
    list_documents = UnaryCall(
        _LIBRARY + "ListDocuments", library_pb.ListDocumentsRequest, library_pb.ListDocumentsResponse
    )
    document_text = StreamCall(
        _LIBRARY + "GetDocumentText", library_pb.GetDocumentTextRequest, library_pb.GetDocumentTextResponse
    )
    delete_document = UnaryCall(
        _INGEST + "DeleteDocument", ingest_pb.DeleteDocumentRequest, ingest_pb.DeleteDocumentResponse
    )
    update_document = UnaryCall(
        _INGEST + "UpdateDocument", ingest_pb.UpdateDocumentRequest, ingest_pb.UpdateDocumentResponse
    )
    restore_document = UnaryCall(
        _INGEST + "RestoreDocument", ingest_pb.RestoreDocumentRequest, ingest_pb.RestoreDocumentResponse
    )
    read_spans = UnaryCall(_LIBRARY + "ReadSpans", library_pb.ReadSpansRequest, library_pb.ReadSpansResponse)
    locate_sources = UnaryCall(
        _LIBRARY + "LocateSources", library_pb.LocateSourcesRequest, library_pb.LocateSourcesResponse
    )
    describe_collection = UnaryCall(
        _LIBRARY + "DescribeCollection", library_pb.DescribeCollectionRequest, library_pb.DescribeCollectionResponse
    )
    get_chunk = UnaryCall(_LIBRARY + "GetChunk", library_pb.GetChunkRequest, library_pb.GetChunkResponse)
    batch_get_chunks = UnaryCall(
        _LIBRARY + "BatchGetChunks", library_pb.BatchGetChunksRequest, library_pb.BatchGetChunksResponse
    )
    list_chunks = UnaryCall(_LIBRARY + "ListChunks", library_pb.ListChunksRequest, library_pb.ListChunksResponse)
    update_chunk = UnaryCall(_INGEST + "UpdateChunk", ingest_pb.UpdateChunkRequest, ingest_pb.UpdateChunkResponse)
    purge_documents = UnaryCall(_INGEST + "PurgeDocuments", ingest_pb.PurgeDocumentsRequest, operations_pb.Operation)
    batch_upsert_records = UnaryCall(
        _RECORDS + "BatchUpsertRecords", records_pb.BatchUpsertRecordsRequest, records_pb.BatchUpsertRecordsResponse
    )
    get_record = UnaryCall(_RECORDS + "GetRecord", records_pb.GetRecordRequest, records_pb.GetRecordResponse)
    list_records = UnaryCall(_RECORDS + "ListRecords", records_pb.ListRecordsRequest, records_pb.ListRecordsResponse)
    update_record = UnaryCall(
        _RECORDS + "UpdateRecord", records_pb.UpdateRecordRequest, records_pb.UpdateRecordResponse
    )
    delete_records = UnaryCall(
        _RECORDS + "DeleteRecords", records_pb.DeleteRecordsRequest, records_pb.DeleteRecordsResponse
    )
    restore_records = UnaryCall(
        _RECORDS + "RestoreRecords", records_pb.RestoreRecordsRequest, records_pb.RestoreRecordsResponse
    )
    add_links = UnaryCall(_RECORDS + "AddLinks", records_pb.AddLinksRequest, records_pb.AddLinksResponse)
    remove_links = UnaryCall(_RECORDS + "RemoveLinks", records_pb.RemoveLinksRequest, records_pb.RemoveLinksResponse)
    schema = UnaryCall(_LIBRARY + "GetSchema", library_pb.GetSchemaRequest, library_pb.GetSchemaResponse)
    validate_metadata = UnaryCall(
        _LIBRARY + "ValidateMetadata", library_pb.ValidateMetadataRequest, library_pb.ValidateMetadataResponse
    )
    list_stats = UnaryCall(_LIBRARY + "ListStats", library_pb.ListStatsRequest, library_pb.ListStatsResponse)
    housekeeping = UnaryCall(
        _MAINTENANCE + "GetHousekeeping", maintenance_pb.GetHousekeepingRequest, maintenance_pb.GetHousekeepingResponse
    )
    reindex = UnaryCall(_MAINTENANCE + "Reindex", maintenance_pb.ReindexRequest, operations_pb.Operation)
    reembed = UnaryCall(_MAINTENANCE + "Reembed", maintenance_pb.ReembedRequest, operations_pb.Operation)
    check_store = UnaryCall(_MAINTENANCE + "CheckStore", maintenance_pb.CheckStoreRequest, operations_pb.Operation)
    get_operation = UnaryCall(_OPERATIONS + "GetOperation", operations_pb.GetOperationRequest, operations_pb.Operation)
    list_operations = UnaryCall(
        _OPERATIONS + "ListOperations", operations_pb.ListOperationsRequest, operations_pb.ListOperationsResponse
    )
    wait_operation = UnaryCall(
        _OPERATIONS + "WaitOperation", operations_pb.WaitOperationRequest, operations_pb.Operation
    )
    cancel_operation = UnaryCall(_OPERATIONS + "CancelOperation", operations_pb.CancelOperationRequest, empty_pb2.Empty)
    delete_operation = UnaryCall(_OPERATIONS + "DeleteOperation", operations_pb.DeleteOperationRequest, empty_pb2.Empty)

    retrieve = UnaryCall(_RETRIEVE + "Retrieve", retrieve_pb.RetrieveRequest, retrieve_pb.RetrieveResponse)
    batch_retrieve = UnaryCall(
        _RETRIEVE + "BatchRetrieve", retrieve_pb.BatchRetrieveRequest, retrieve_pb.BatchRetrieveResponse
    )
    expand = UnaryCall(_RETRIEVE + "Expand", retrieve_pb.ExpandRequest, retrieve_pb.ExpandResponse)
    retrieve_context = UnaryCall(
        _RETRIEVE + "RetrieveContext", retrieve_pb.RetrieveContextRequest, retrieve_pb.RetrieveContextResponse
    )
    parse_query = UnaryCall(_RETRIEVE + "ParseQuery", retrieve_pb.ParseQueryRequest, retrieve_pb.ParseQueryResponse)
    embed_texts = UnaryCall(_RETRIEVE + "EmbedTexts", retrieve_pb.EmbedTextsRequest, retrieve_pb.EmbedTextsResponse)
    list_query_logs = UnaryCall(
        _LIBRARY + "ListQueryLogs", library_pb.ListQueryLogsRequest, library_pb.ListQueryLogsResponse
    )
    pipeline_stats = UnaryCall(
        _LIBRARY + "GetPipelineStats", library_pb.GetPipelineStatsRequest, library_pb.GetPipelineStatsResponse
    )

    create_session = UnaryCall(
        _ANSWER + "CreateSession", answer_pb.CreateSessionRequest, answer_pb.CreateSessionResponse
    )
    get_session = UnaryCall(_ANSWER + "GetSession", answer_pb.GetSessionRequest, answer_pb.GetSessionResponse)
    list_sessions = UnaryCall(_ANSWER + "ListSessions", answer_pb.ListSessionsRequest, answer_pb.ListSessionsResponse)
    list_messages = UnaryCall(_ANSWER + "ListMessages", answer_pb.ListMessagesRequest, answer_pb.ListMessagesResponse)
    end_session = UnaryCall(_ANSWER + "EndSession", answer_pb.EndSessionRequest, answer_pb.EndSessionResponse)
    delete_session = UnaryCall(
        _ANSWER + "DeleteSession", answer_pb.DeleteSessionRequest, answer_pb.DeleteSessionResponse
    )
    delete_sessions = UnaryCall(
        _ANSWER + "DeleteSessions", answer_pb.DeleteSessionsRequest, answer_pb.DeleteSessionsResponse
    )
    ask = UnaryCall(_ANSWER + "Ask", answer_pb.AskRequest, answer_pb.AskResponse)
    ask_stream = StreamCall(_ANSWER + "AskStream", answer_pb.AskStreamRequest, answer_pb.AskStreamResponse)
    get_answer = UnaryCall(_ANSWER + "GetAnswer", answer_pb.GetAnswerRequest, answer_pb.GetAnswerResponse)
    list_answers = UnaryCall(_ANSWER + "ListAnswers", answer_pb.ListAnswersRequest, answer_pb.ListAnswersResponse)
    consolidate_conversation = UnaryCall(
        _ANSWER + "ConsolidateConversation",
        answer_pb.ConsolidateConversationRequest,
        answer_pb.ConsolidateConversationResponse,
    )
    ground_text = UnaryCall(_ANSWER + "GroundText", answer_pb.GroundTextRequest, answer_pb.GroundTextResponse)
    format_citations = UnaryCall(
        _ANSWER + "FormatCitations", answer_pb.FormatCitationsRequest, answer_pb.FormatCitationsResponse
    )
    verify_citations = UnaryCall(
        _ANSWER + "VerifyCitations", answer_pb.VerifyCitationsRequest, answer_pb.VerifyCitationsResponse
    )

    server_info = UnaryCall(_SERVER + "GetServerInfo", server_pb.GetServerInfoRequest, server_pb.GetServerInfoResponse)
    health = UnaryCall(HEALTH_PATH, health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse)
