"""Translate what is read: queries, parts of texts, and figures."""

from collections.abc import Mapping

from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.api.retrieve.v1 import stats_pb2
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.retrieve.library import ChunkQuery, DocumentQuery, Stats, TextSlice
from groundwire.rpc.chunk_messages import to_span
from groundwire.rpc.document_messages import parse_reference, to_identity_message
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
    """
    return ChunkQuery(
        tenant=tenant,
        collection=parse_collection_name(request.collection),
        reference=parse_reference(request.reference) if request.HasField("reference") else None,
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


def to_text_message(part: TextSlice) -> pb.GetDocumentTextResponse:
    """Return the message of a part of a text."""
    return pb.GetDocumentTextResponse(
        text=part.text, span=to_span(part.span), generation=part.generation, total_chars=part.total_chars
    )


def to_stats_message(stats: Stats) -> stats_pb2.CollectionStats:
    """Return the message of the figures of a collection."""
    counted = stats.counted
    return stats_pb2.CollectionStats(
        collection=counted.collection.name,
        document_count=counted.documents,
        chunk_count=counted.chunks,
        total_chars=counted.total_chars,
        by_format=_counts(counted.by_format),
        by_project=_counts(counted.by_project),
        by_embedding_model=_counts(counted.by_model),
        embedding=to_identity_message(counted.collection.identity),
        vector_count=stats.vectors,
        overlap_share=counted.overlap_share,
        average_vectors_per_document=stats.vectors / counted.documents if counted.documents else 0.0,
    )


def _counts(counts: Mapping[str, int]) -> list[stats_pb2.KeyCount]:
    return [stats_pb2.KeyCount(key=key, count=counts[key]) for key in sorted(counts)]
