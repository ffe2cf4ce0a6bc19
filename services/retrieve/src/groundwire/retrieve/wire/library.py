"""Translate what is read: queries, parts of texts, schemas, metadata that is to be checked, and figures."""

import json
from collections.abc import Mapping
from typing import Any

from groundwire.api.common.v1.metadata_value_pb2 import MetadataValue
from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.api.retrieve.v1 import schema_pb2, stats_pb2
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.retrieve.library import ChunkQuery, DocumentQuery, Stats, TextSlice
from groundwire.rpc.chunk_messages import to_span
from groundwire.rpc.document_messages import parse_reference, to_identity_message
from groundwire.rpc.filter_messages import parse_filter_message
from groundwire.rpc.metadata_messages import to_metadata
from groundwire.rpc.times import parse_timestamp
from groundwire.schemas import OWN_KEYS, Schema

_PREFIX = f"{OWN_KEYS}."


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


def to_schema_entry(schema: Schema) -> schema_pb2.SchemaEntry:
    """Return the message of a schema."""
    return schema_pb2.SchemaEntry(
        document_type=schema.document_type,
        schema_json=json.dumps(schema.json_schema, ensure_ascii=False),
        fields=schema.fields,
        required_fields=schema.required_fields,
        example_json=json.dumps(schema.example, ensure_ascii=False),
    )


def parse_flat_metadata(messages: Mapping[str, MetadataValue]) -> dict[str, Any]:
    """Return plain values; keys `custom.KEY` become the caller's own keys.

    Raises:
        InvalidRequestError: a value is not set, or is a time out of range.
    """
    parsed: dict[str, Any] = {}
    for key in sorted(messages):
        value = _plain(key, messages[key])
        if key.startswith(_PREFIX):
            parsed.setdefault(OWN_KEYS, {})[key.removeprefix(_PREFIX)] = value
        else:
            parsed[key] = value
    return parsed


def to_flat_metadata(metadata: Mapping[str, Any]) -> dict[str, MetadataValue]:
    """Return the messages of valid metadata; empty lists are left out."""
    own = {_PREFIX + key: value for key, value in metadata.get(OWN_KEYS, {}).items()}
    flat = {key: value for key, value in metadata.items() if key != OWN_KEYS} | own
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in flat.items()}
    return to_metadata({key: value for key, value in values.items() if value != ()})


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


def _plain(key: str, message: MetadataValue) -> Any:
    kind = message.WhichOneof("value")
    place = f"metadata[{key!r}]"
    if kind is None:
        raise InvalidRequestError.of(place, "must have a value")
    if kind == "timestamp_value":
        return parse_timestamp(message.timestamp_value, place)
    held = getattr(message, kind)
    return list(held.values) if kind.endswith("_list") else held
