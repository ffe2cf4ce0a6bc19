"""Memories as a folder of JSON files, which needs no server: `ChunkStore` and its `Chunk`."""

from groundwire.vault.chunk import Chunk, ChunkLinks, ChunkMetadata
from groundwire.vault.store import ChunkStore, VaultReport

__all__ = ["Chunk", "ChunkLinks", "ChunkMetadata", "ChunkStore", "VaultReport"]
