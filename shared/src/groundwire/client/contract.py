"""The calls of the clients: a table with one line for each, and the classes that turn its lines into typed methods.

`client.list_chunks(collection="rust", page_size=100)` takes the fields of the request message as keywords and returns
the response message, an iterator of them, or an awaitable, depending on client and call.
`client.get_document.send(request, timeout_s=5)` sends a request that you have made yourself.
"""

import uuid
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Generic, ParamSpec, Self, overload

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
    LONGEST_S,
    AsyncCaller,
    AsyncTransport,
    RequestT,
    ResponseT,
    SyncCaller,
    Transport,
    valid_texts,
)
from groundwire.kernel.errors import InvalidRequestError

Params = ParamSpec("Params")


@dataclass(frozen=True, slots=True)
class _Bound(Generic[Params, RequestT]):
    """A call on one channel: makes the request and invokes the method."""

    make: Callable[Params, RequestT]
    invoke: Callable[..., Any]
    limit_s: float | None
    transport: Transport

    def message(self, *args: Params.args, **kwargs: Params.kwargs) -> RequestT:
        """Return the request with these fields.

        Raises:
            TypeError: a field cannot hold such a value; names the field, which the library of the messages does not.
            InvalidRequestError: the same of a number that is out of range, and of a text with half a character. Or the
                request has no such field.
        """
        try:
            with valid_texts(kwargs):
                return self.make(*args, **kwargs)
        except (TypeError, ValueError) as error:
            make: Any = self.make
            fields = make.DESCRIPTOR.fields_by_name
            for name, value in kwargs.items():
                if name not in fields:
                    problem = f"is not a field of the request; these are {', '.join(fields)}"
                    raise InvalidRequestError.of(name, problem) from None
                try:
                    make(**{name: value})
                except TypeError:
                    raise TypeError(f"{name} cannot hold {value!r}: {error}") from error
                except ValueError:
                    raise InvalidRequestError.of(name, f"cannot hold {value!r}: {error}") from error
            raise

    def start(self, request: RequestT, timeout_s: float | None) -> Any:
        """Send a copy of the request with a request id, if it can have one and has none."""
        return self.invoke(
            with_request_id(request),
            timeout=self.limit_s if timeout_s is None else min(timeout_s, LONGEST_S),
            metadata=self.transport.sent_metadata(),
        )


class SyncUnary(_Bound[Params, RequestT], Generic[Params, RequestT, ResponseT]):
    """A call with one response."""

    __slots__ = ()

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> ResponseT:
        """Send the request with these fields and return the response."""
        return self.send(self.message(*args, **kwargs))

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
        return await self.send(self.message(*args, **kwargs))

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
        return self.send(self.message(*args, **kwargs))

    def send(self, request: RequestT, *, timeout_s: float | None = None) -> Generator[ResponseT, None, None]:
        """Send a request and yield the responses; errors are those of `groundwire.kernel.errors`."""
        with self.transport.typed_errors():
            call = self.start(request, timeout_s)
            try:
                yield from call
            finally:
                call.cancel()  # or the server would keep working for nobody; no effect at the end of the stream


class AsyncStream(_Bound[Params, RequestT], Generic[Params, RequestT, ResponseT]):
    """A call with a stream of responses; closing the iterator early cancels it."""

    __slots__ = ()

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> AsyncGenerator[ResponseT, None]:
        """Send the request with these fields and yield the responses."""
        return self.send(self.message(*args, **kwargs))

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
    """One method of the contract: its request class as a function of its fields, and its response class."""

    kinds: ClassVar[tuple[Callable[..., Any], Callable[..., Any]]]
    """The bound call of a blocking client, and that of an asynchronous one."""
    streams: ClassVar[str]
    """How gRPC calls such a method: `unary_unary` or `unary_stream`."""

    def __init__(self, request: Callable[Params, RequestT], response: type[ResponseT]) -> None:
        self.request = request
        self.response = response

    @cached_property
    def path(self) -> str:
        """Return the path of the method that takes these requests, `/package.Service/Method`.

        Looked up at the first call: looking up all of them would slow down the import of the client.
        """
        given: Any = self.request
        message = given.DESCRIPTOR
        methods = (method for service in message.file.services_by_name.values() for method in service.methods)
        method = next(method for method in methods if method.input_type is message)
        return f"/{method.containing_service.full_name}/{method.name}"

    def bound(self, transport: Transport) -> Any:
        # Opening a method on a channel costs more than a small call, so each is opened once.
        bound = transport.bound_calls.get(self)
        if bound is None:
            kind = self.kinds[isinstance(transport, AsyncTransport)]
            invoke = transport.open_method(self.path, self.streams, self.response)
            bound = kind(self.request, invoke, transport.limit_s(self.path), transport)
            # Two threads may open the same method at a time, which does no harm.
            transport.bound_calls[self] = bound
        return bound

    def of(self, client: Any) -> Any:
        """Return the call on the client's channel; on the class, this line of the table."""
        return self if client is None else self.bound(client._transport)  # noqa: SLF001 - it is part of the client


class UnaryCall(_Call[Params, RequestT, ResponseT]):
    """A method with one request and one response."""

    kinds = SyncUnary, AsyncUnary
    streams = "unary_unary"

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: SyncCaller, owner: type) -> SyncUnary[Params, RequestT, ResponseT]: ...
    @overload
    def __get__(self, client: AsyncCaller, owner: type) -> AsyncUnary[Params, RequestT, ResponseT]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self.of(client)


class StreamCall(_Call[Params, RequestT, ResponseT]):
    """A method with one request and a stream of responses."""

    kinds = SyncStream, AsyncStream
    streams = "unary_stream"

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: SyncCaller, owner: type) -> SyncStream[Params, RequestT, ResponseT]: ...
    @overload
    def __get__(self, client: AsyncCaller, owner: type) -> AsyncStream[Params, RequestT, ResponseT]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        return self.of(client)


def with_request_id(request: RequestT) -> RequestT:
    """Return the request; one that can have a request id and has none is copied and gets a new one.

    The id makes the retries of the channel safe.
    """
    given: Any = request
    if "request_id" not in request.DESCRIPTOR.fields_by_name or given.request_id:
        return request
    # A copy, because the caller may send the same message again as another request.
    copy: Any = type(request)()
    copy.CopyFrom(request)
    copy.request_id = str(uuid.uuid4())
    identified: RequestT = copy
    return identified


class Contract:
    """The comments of the protos say what each call does."""

    create_collection = UnaryCall(collections_pb.CreateCollectionRequest, collections_pb.CreateCollectionResponse)
    get_collection = UnaryCall(collections_pb.GetCollectionRequest, collections_pb.GetCollectionResponse)
    list_collections = UnaryCall(collections_pb.ListCollectionsRequest, collections_pb.ListCollectionsResponse)
    update_collection = UnaryCall(collections_pb.UpdateCollectionRequest, collections_pb.UpdateCollectionResponse)
    delete_collection = UnaryCall(collections_pb.DeleteCollectionRequest, collections_pb.DeleteCollectionResponse)
    ingest_document = UnaryCall(ingest_pb.IngestDocumentRequest, ingest_pb.IngestDocumentResponse)
    batch_ingest_documents = UnaryCall(ingest_pb.BatchIngestDocumentsRequest, ingest_pb.BatchIngestDocumentsResponse)
    plan_ingest = UnaryCall(ingest_pb.PlanIngestRequest, ingest_pb.PlanIngestResponse)
    get_document = UnaryCall(library_pb.GetDocumentRequest, library_pb.GetDocumentResponse)
    list_documents = UnaryCall(library_pb.ListDocumentsRequest, library_pb.ListDocumentsResponse)
    document_text = StreamCall(library_pb.GetDocumentTextRequest, library_pb.GetDocumentTextResponse)
    delete_document = UnaryCall(ingest_pb.DeleteDocumentRequest, ingest_pb.DeleteDocumentResponse)
    update_document = UnaryCall(ingest_pb.UpdateDocumentRequest, ingest_pb.UpdateDocumentResponse)
    restore_document = UnaryCall(ingest_pb.RestoreDocumentRequest, ingest_pb.RestoreDocumentResponse)
    read_spans = UnaryCall(library_pb.ReadSpansRequest, library_pb.ReadSpansResponse)
    locate_sources = UnaryCall(library_pb.LocateSourcesRequest, library_pb.LocateSourcesResponse)
    describe_collection = UnaryCall(library_pb.DescribeCollectionRequest, library_pb.DescribeCollectionResponse)
    get_chunk = UnaryCall(library_pb.GetChunkRequest, library_pb.GetChunkResponse)
    batch_get_chunks = UnaryCall(library_pb.BatchGetChunksRequest, library_pb.BatchGetChunksResponse)
    list_chunks = UnaryCall(library_pb.ListChunksRequest, library_pb.ListChunksResponse)
    update_chunk = UnaryCall(ingest_pb.UpdateChunkRequest, ingest_pb.UpdateChunkResponse)
    purge_documents = UnaryCall(ingest_pb.PurgeDocumentsRequest, operations_pb.Operation)
    batch_upsert_records = UnaryCall(records_pb.BatchUpsertRecordsRequest, records_pb.BatchUpsertRecordsResponse)
    get_record = UnaryCall(records_pb.GetRecordRequest, records_pb.GetRecordResponse)
    list_records = UnaryCall(records_pb.ListRecordsRequest, records_pb.ListRecordsResponse)
    update_record = UnaryCall(records_pb.UpdateRecordRequest, records_pb.UpdateRecordResponse)
    delete_records = UnaryCall(records_pb.DeleteRecordsRequest, records_pb.DeleteRecordsResponse)
    restore_records = UnaryCall(records_pb.RestoreRecordsRequest, records_pb.RestoreRecordsResponse)
    add_links = UnaryCall(records_pb.AddLinksRequest, records_pb.AddLinksResponse)
    remove_links = UnaryCall(records_pb.RemoveLinksRequest, records_pb.RemoveLinksResponse)
    schema = UnaryCall(library_pb.GetSchemaRequest, library_pb.GetSchemaResponse)
    validate_metadata = UnaryCall(library_pb.ValidateMetadataRequest, library_pb.ValidateMetadataResponse)
    list_stats = UnaryCall(library_pb.ListStatsRequest, library_pb.ListStatsResponse)
    housekeeping = UnaryCall(maintenance_pb.GetHousekeepingRequest, maintenance_pb.GetHousekeepingResponse)
    reindex = UnaryCall(maintenance_pb.ReindexRequest, operations_pb.Operation)
    reembed = UnaryCall(maintenance_pb.ReembedRequest, operations_pb.Operation)
    check_store = UnaryCall(maintenance_pb.CheckStoreRequest, operations_pb.Operation)
    get_operation = UnaryCall(operations_pb.GetOperationRequest, operations_pb.Operation)
    list_operations = UnaryCall(operations_pb.ListOperationsRequest, operations_pb.ListOperationsResponse)
    wait_operation = UnaryCall(operations_pb.WaitOperationRequest, operations_pb.Operation)
    cancel_operation = UnaryCall(operations_pb.CancelOperationRequest, empty_pb2.Empty)
    delete_operation = UnaryCall(operations_pb.DeleteOperationRequest, empty_pb2.Empty)

    retrieve = UnaryCall(retrieve_pb.RetrieveRequest, retrieve_pb.RetrieveResponse)
    batch_retrieve = UnaryCall(retrieve_pb.BatchRetrieveRequest, retrieve_pb.BatchRetrieveResponse)
    expand = UnaryCall(retrieve_pb.ExpandRequest, retrieve_pb.ExpandResponse)
    retrieve_context = UnaryCall(retrieve_pb.RetrieveContextRequest, retrieve_pb.RetrieveContextResponse)
    parse_query = UnaryCall(retrieve_pb.ParseQueryRequest, retrieve_pb.ParseQueryResponse)
    embed_texts = UnaryCall(retrieve_pb.EmbedTextsRequest, retrieve_pb.EmbedTextsResponse)
    list_query_logs = UnaryCall(library_pb.ListQueryLogsRequest, library_pb.ListQueryLogsResponse)
    list_audit_entries = UnaryCall(library_pb.ListAuditEntriesRequest, library_pb.ListAuditEntriesResponse)
    pipeline_stats = UnaryCall(library_pb.GetPipelineStatsRequest, library_pb.GetPipelineStatsResponse)

    create_session = UnaryCall(answer_pb.CreateSessionRequest, answer_pb.CreateSessionResponse)
    get_session = UnaryCall(answer_pb.GetSessionRequest, answer_pb.GetSessionResponse)
    list_sessions = UnaryCall(answer_pb.ListSessionsRequest, answer_pb.ListSessionsResponse)
    list_messages = UnaryCall(answer_pb.ListMessagesRequest, answer_pb.ListMessagesResponse)
    end_session = UnaryCall(answer_pb.EndSessionRequest, answer_pb.EndSessionResponse)
    delete_session = UnaryCall(answer_pb.DeleteSessionRequest, answer_pb.DeleteSessionResponse)
    delete_sessions = UnaryCall(answer_pb.DeleteSessionsRequest, answer_pb.DeleteSessionsResponse)
    ask = UnaryCall(answer_pb.AskRequest, answer_pb.AskResponse)
    ask_stream = StreamCall(answer_pb.AskStreamRequest, answer_pb.AskStreamResponse)
    get_answer = UnaryCall(answer_pb.GetAnswerRequest, answer_pb.GetAnswerResponse)
    list_answers = UnaryCall(answer_pb.ListAnswersRequest, answer_pb.ListAnswersResponse)
    consolidate_conversation = UnaryCall(
        answer_pb.ConsolidateConversationRequest, answer_pb.ConsolidateConversationResponse
    )
    ground_text = UnaryCall(answer_pb.GroundTextRequest, answer_pb.GroundTextResponse)
    format_citations = UnaryCall(answer_pb.FormatCitationsRequest, answer_pb.FormatCitationsResponse)
    verify_citations = UnaryCall(answer_pb.VerifyCitationsRequest, answer_pb.VerifyCitationsResponse)

    server_info = UnaryCall(server_pb.GetServerInfoRequest, server_pb.GetServerInfoResponse)
    health = UnaryCall(health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse)
