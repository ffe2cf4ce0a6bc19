"""The table of calls that the clients offer, one line each."""

from grpc_health.v1 import health_pb2

from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as retrieve_pb
from groundwire.client.calls import StreamCall, UnaryCall

_INGEST = "/groundwire.api.ingest.v1.IngestService/"
_RETRIEVE = "/groundwire.api.retrieve.v1.RetrieveService/"
_ANSWER = "/groundwire.api.answer.v1.AnswerService/"


class Contract:
    """What each call does stands in the comments of the protos and of the request messages."""

    create_collection = UnaryCall(
        _INGEST + "CreateCollection", ingest_pb.CreateCollectionRequest, ingest_pb.CreateCollectionResponse
    )
    get_collection = UnaryCall(
        _INGEST + "GetCollection", ingest_pb.GetCollectionRequest, ingest_pb.GetCollectionResponse
    )
    list_collections = UnaryCall(
        _INGEST + "ListCollections", ingest_pb.ListCollectionsRequest, ingest_pb.ListCollectionsResponse
    )
    update_collection = UnaryCall(
        _INGEST + "UpdateCollection", ingest_pb.UpdateCollectionRequest, ingest_pb.UpdateCollectionResponse
    )
    delete_collection = UnaryCall(
        _INGEST + "DeleteCollection", ingest_pb.DeleteCollectionRequest, ingest_pb.DeleteCollectionResponse
    )
    ingest_document = UnaryCall(
        _INGEST + "IngestDocument", ingest_pb.IngestDocumentRequest, ingest_pb.IngestDocumentResponse
    )
    plan_ingest = UnaryCall(_INGEST + "PlanIngest", ingest_pb.PlanIngestRequest, ingest_pb.PlanIngestResponse)
    get_document = UnaryCall(_INGEST + "GetDocument", ingest_pb.GetDocumentRequest, ingest_pb.GetDocumentResponse)
    list_documents = UnaryCall(
        _INGEST + "ListDocuments", ingest_pb.ListDocumentsRequest, ingest_pb.ListDocumentsResponse
    )
    document_text = StreamCall(
        _INGEST + "GetDocumentText", ingest_pb.GetDocumentTextRequest, ingest_pb.GetDocumentTextResponse
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
    get_chunk = UnaryCall(_INGEST + "GetChunk", ingest_pb.GetChunkRequest, ingest_pb.GetChunkResponse)
    list_chunks = UnaryCall(_INGEST + "ListChunks", ingest_pb.ListChunksRequest, ingest_pb.ListChunksResponse)
    update_chunk = UnaryCall(_INGEST + "UpdateChunk", ingest_pb.UpdateChunkRequest, ingest_pb.UpdateChunkResponse)
    put_chunks = UnaryCall(_INGEST + "PutChunks", ingest_pb.PutChunksRequest, ingest_pb.PutChunksResponse)
    schema = UnaryCall(_INGEST + "GetSchema", ingest_pb.GetSchemaRequest, ingest_pb.GetSchemaResponse)
    validate_metadata = UnaryCall(
        _INGEST + "ValidateMetadata", ingest_pb.ValidateMetadataRequest, ingest_pb.ValidateMetadataResponse
    )
    stats = UnaryCall(_INGEST + "GetStats", ingest_pb.GetStatsRequest, ingest_pb.GetStatsResponse)
    housekeeping = UnaryCall(
        _INGEST + "GetHousekeeping", ingest_pb.GetHousekeepingRequest, ingest_pb.GetHousekeepingResponse
    )
    reindex = StreamCall(_INGEST + "Reindex", ingest_pb.ReindexRequest, ingest_pb.ReindexResponse)
    reembed = StreamCall(_INGEST + "Reembed", ingest_pb.ReembedRequest, ingest_pb.ReembedResponse)
    check_store = StreamCall(_INGEST + "CheckStore", ingest_pb.CheckStoreRequest, ingest_pb.CheckStoreResponse)

    retrieve = UnaryCall(_RETRIEVE + "Retrieve", retrieve_pb.RetrieveRequest, retrieve_pb.RetrieveResponse)
    batch_retrieve = UnaryCall(
        _RETRIEVE + "BatchRetrieve", retrieve_pb.BatchRetrieveRequest, retrieve_pb.BatchRetrieveResponse
    )
    expand = UnaryCall(_RETRIEVE + "Expand", retrieve_pb.ExpandRequest, retrieve_pb.ExpandResponse)
    parse_query = UnaryCall(_RETRIEVE + "ParseQuery", retrieve_pb.ParseQueryRequest, retrieve_pb.ParseQueryResponse)
    list_query_logs = UnaryCall(
        _RETRIEVE + "ListQueryLogs", retrieve_pb.ListQueryLogsRequest, retrieve_pb.ListQueryLogsResponse
    )
    pipeline_stats = UnaryCall(
        _RETRIEVE + "GetPipelineStats", retrieve_pb.GetPipelineStatsRequest, retrieve_pb.GetPipelineStatsResponse
    )

    create_session = UnaryCall(
        _ANSWER + "CreateSession", answer_pb.CreateSessionRequest, answer_pb.CreateSessionResponse
    )
    get_session = UnaryCall(_ANSWER + "GetSession", answer_pb.GetSessionRequest, answer_pb.GetSessionResponse)
    list_sessions = UnaryCall(_ANSWER + "ListSessions", answer_pb.ListSessionsRequest, answer_pb.ListSessionsResponse)
    end_session = UnaryCall(_ANSWER + "EndSession", answer_pb.EndSessionRequest, answer_pb.EndSessionResponse)
    ask = UnaryCall(_ANSWER + "Ask", answer_pb.AskRequest, answer_pb.AskResponse)
    ask_stream = StreamCall(_ANSWER + "AskStream", answer_pb.AskStreamRequest, answer_pb.AskStreamResponse)
    verify_citations = UnaryCall(
        _ANSWER + "VerifyCitations", answer_pb.VerifyCitationsRequest, answer_pb.VerifyCitationsResponse
    )

    health = UnaryCall("/grpc.health.v1.Health/Check", health_pb2.HealthCheckRequest, health_pb2.HealthCheckResponse)
