"""Overrides of chunking from the command line."""

from groundwire.api.ingest.v1.collection_pb2 import Chunker, ChunkingPolicy


def chunking_overrides(
    chunker: str | None, target_size: int | None, overlap_ratio: float | None
) -> ChunkingPolicy | None:
    """Return the message of what is given, None when nothing is."""
    if chunker is None and target_size is None and overlap_ratio is None:
        return None
    kind = Chunker.CHUNKER_UNSPECIFIED if chunker is None else Chunker.Value(f"CHUNKER_{chunker.upper()}")
    return ChunkingPolicy(chunker=kind, target_size=target_size, overlap_ratio=overlap_ratio)
