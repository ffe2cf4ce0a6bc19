"""Check and translate what reading calls ask for."""

from groundwire.api.common.v1 import record_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.domain.reading import ChunkQuery, DocumentQuery
from groundwire.kernel.errors import InvalidRequestError, NotAvailableError
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.rpc.filter_messages import parse_filter_message


def parse_chunk_reference(request: pb.GetChunkRequest) -> str | int:
    """Return the id or number of the chunk.

    Raises:
        InvalidRequestError: neither is given.
    """
    kind = request.WhichOneof("reference")
    if kind is None:
        raise InvalidRequestError.of("reference", "must be given: either chunk_id or chunk_number")
    return request.chunk_number if kind == "chunk_number" else request.chunk_id


def parse_chunk_query(request: pb.ListChunksRequest, tenant: str) -> ChunkQuery:
    """Return which chunks are listed.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
        NotAvailableError: naming an option that this version does not offer.
    """
    if any(kind != record_pb2.RECORD_TYPE_DOCUMENT for kind in request.record_types):
        raise NotAvailableError("there are only documents in this version", feature="record_types")
    return ChunkQuery(
        tenant=tenant,
        collection=parse_collection_name(request.collection),
        document_id=request.document_id,
        chunk_id_prefix=request.chunk_id_prefix,
        where=parse_filter_message(request.filter) if request.HasField("filter") else None,
        include_embedding=request.include_embedding,
    )


def parse_document_query(request: pb.ListDocumentsRequest, tenant: str) -> DocumentQuery:
    """Return which documents are listed.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    return DocumentQuery(
        tenant=tenant,
        collection=parse_collection_name(request.collection),
        source_prefix=request.source_prefix,
        where=parse_filter_message(request.filter) if request.HasField("filter") else None,
        include_deleted=request.include_deleted,
    )
