"""Translate schemas, metadata that is to be validated, and figures."""

import json
from collections.abc import Mapping
from typing import Any

from groundwire.api.common.v1.metadata_value_pb2 import MetadataValue
from groundwire.api.ingest.v1 import schema_pb2, stats_pb2
from groundwire.ingest.get_stats import Stats
from groundwire.ingest.wire.collections import to_identity_message
from groundwire.kernel.errors import InvalidRequestError
from groundwire.rpc.metadata_messages import to_metadata
from groundwire.rpc.times import parse_timestamp
from groundwire.schemas import OWN_KEYS, Schema

_PREFIX = f"{OWN_KEYS}."


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
        by_record_type=_counts({"document": counted.documents} if counted.documents else {}),
        by_format=_counts(counted.by_format),
        by_project=_counts(counted.by_project),
        by_embedding_model=_counts(counted.by_model),
        embedding=to_identity_message(counted.collection.identity),
        metric="cosine",
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
