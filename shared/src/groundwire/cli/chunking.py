"""Overrides of chunking from the command line."""

from dataclasses import dataclass

from groundwire.api.ingest.v1.collection_pb2 import Chunker, ChunkingPolicy


@dataclass(frozen=True, slots=True)
class ChunkingOverrides:
    """What is given instead of the collection's rules; None is not given. Sizes are in the collection's unit."""

    chunker: str | None = None
    target_size: int | None = None
    minimum_size: int | None = None
    maximum_size: int | None = None
    overlap_ratio: float | None = None

    def message(self) -> ChunkingPolicy | None:
        """Return the message of what is given, None when nothing is."""
        if self == ChunkingOverrides():
            return None
        kind = "UNSPECIFIED" if self.chunker is None else self.chunker.upper()
        return ChunkingPolicy(
            chunker=Chunker.Value(f"CHUNKER_{kind}"),
            target_size=self.target_size,
            minimum_size=self.minimum_size,
            maximum_size=self.maximum_size,
            overlap_ratio=self.overlap_ratio,
        )
