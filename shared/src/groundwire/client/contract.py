"""The table of calls that the clients offer, one line each."""

from google.longrunning import operations_pb2 as operations_pb
from google.protobuf import empty_pb2
from grpc_health.v1 import health_pb2

from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.ingest.v1 import maintenance_service_pb2 as maintenance_pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as retrieve_pb
from groundwire.api.server.v1 import server_service_pb2 as server_pb
from groundwire.client.calls import StreamCall, UnaryCall

_INGEST = "/groundwire.api.ingest.v1.IngestService/"
_COLLECTION = "/groundwire.api.ingest.v1.CollectionService/"
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
    get_chunk = UnaryCall(_LIBRARY + "GetChunk", library_pb.GetChunkRequest, library_pb.GetChunkResponse)
    batch_get_chunks = UnaryCall(
        _LIBRARY + "BatchGetChunks", library_pb.BatchGetChunksRequest, library_pb.BatchGetChunksResponse
    )
    list_chunks = UnaryCall(_LIBRARY + "ListChunks", library_pb.ListChunksRequest, library_pb.ListChunksResponse)
    update_chunk = UnaryCall(_INGEST + "UpdateChunk", ingest_pb.UpdateChunkRequest, ingest_pb.UpdateChunkResponse)
    purge_documents = UnaryCall(_INGEST + "PurgeDocuments", ingest_pb.PurgeDocumentsRequest, operations_pb.Operation)
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
    parse_query = UnaryCall(_RETRIEVE + "ParseQuery", retrieve_pb.ParseQueryRequest, retrieve_pb.ParseQueryResponse)
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
    verify_citations = UnaryCall(
        _ANSWER + "VerifyCitations", answer_pb.VerifyCitationsRequest, answer_pb.VerifyCitationsResponse
    )

    server_info = UnaryCall(_SERVER + "GetServerInfo", server_pb.GetServerInfoRequest, server_pb.GetServerInfoResponse)
    health = UnaryCall("/grpc.health.v1.Health/Check", health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse)
