"""Translate chunking policies."""

from typing import TypeVar

from groundwire.api.ingest.v1 import collection_pb2 as pb
from groundwire.ingest.domain.chunking_rules import ChunkingOverrides
from groundwire.kernel.collection import ChunkerKind, ChunkingPolicy, ChunkUnit
from groundwire.kernel.errors import InvalidRequestError

T = TypeVar("T")
_UNITS: dict[int, ChunkUnit | None] = {
    pb.CHUNK_UNIT_UNSPECIFIED: None,
    pb.CHUNK_UNIT_TOKENS: ChunkUnit.TOKENS,
    pb.CHUNK_UNIT_CHARS: ChunkUnit.CHARS,
}
_CHUNKERS: dict[int, ChunkerKind | None] = {
    pb.CHUNKER_UNSPECIFIED: None,
    pb.CHUNKER_STRUCTURE: ChunkerKind.STRUCTURE,
    pb.CHUNKER_SENTENCE: ChunkerKind.SENTENCE,
    pb.CHUNKER_HIERARCHY: ChunkerKind.HIERARCHY,
    pb.CHUNKER_FIXED: ChunkerKind.FIXED,
}


def parse_chunking(message: pb.ChunkingPolicy, field: str) -> ChunkingOverrides:
    """Return what a request says about chunking; `field` is the path of the message in the request.

    Raises:
        InvalidRequestError: an unknown unit or chunker.
    """
    return ChunkingOverrides(
        unit=_known(_UNITS, message.unit, f"{field}.unit"),
        target=message.target_size if message.HasField("target_size") else None,
        minimum=message.minimum_size if message.HasField("minimum_size") else None,
        maximum=message.maximum_size if message.HasField("maximum_size") else None,
        overlap_ratio=message.overlap_ratio if message.HasField("overlap_ratio") else None,
        min_chars=message.min_chars if message.HasField("min_chars") else None,
        chunker=_known(_CHUNKERS, message.chunker, f"{field}.chunker"),
        window_size=message.window_size if message.HasField("window_size") else None,
    )


def to_chunking_message(policy: ChunkingPolicy) -> pb.ChunkingPolicy:
    """Return the message of a policy, every field filled."""
    return pb.ChunkingPolicy(
        unit=pb.ChunkUnit.Value(f"CHUNK_UNIT_{policy.unit.name}"),
        target_size=policy.target,
        minimum_size=policy.minimum,
        maximum_size=policy.maximum,
        overlap_ratio=policy.overlap_ratio,
        min_chars=policy.min_chars,
        chunker=pb.Chunker.Value(f"CHUNKER_{policy.chunker.name}"),
        window_size=policy.window_size,
    )


def _known(values: dict[int, T], value: int, field: str) -> T:
    if value not in values:
        raise InvalidRequestError.of(field, f"unknown value {value}")
    return values[value]
