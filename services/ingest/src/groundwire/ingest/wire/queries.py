"""Check and translate what reading calls ask for."""

from groundwire.api.common.v1 import record_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.domain.reading import ChunkQuery
from groundwire.kernel.errors import InvalidRequestError, NotAvailableError
from groundwire.kernel.identifiers import parse_collection_name


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
    if request.HasField("filter"):
        raise NotAvailableError("listings cannot be filtered in this version", feature="filter")
    return ChunkQuery(
        tenant=tenant,
        collection=parse_collection_name(request.collection),
        document_id=request.document_id,
        chunk_id_prefix=request.chunk_id_prefix,
        include_embedding=request.include_embedding,
    )


def refuse_unavailable_listing(request: pb.ListDocumentsRequest) -> None:
    """Return if only options are given that this version has; none is ignored silently.

    Raises:
        NotAvailableError: naming the option.
    """
    if request.HasField("filter"):
        raise NotAvailableError("listings cannot be filtered in this version", feature="filter")
    if request.include_deleted:
        raise NotAvailableError("documents are deleted for good in this version", feature="include_deleted")
