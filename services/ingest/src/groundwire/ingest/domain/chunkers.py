"""The chunkers by kind."""

from groundwire.ingest.domain.cuts import TextChunker
from groundwire.ingest.domain.fixed_chunking import FixedChunker
from groundwire.ingest.domain.hierarchy_chunking import HierarchyChunker
from groundwire.ingest.domain.pieces import Splitter
from groundwire.ingest.domain.sentence_chunking import SentenceChunker
from groundwire.ingest.domain.structure_chunking import StructureChunker
from groundwire.kernel.collection import ChunkerKind, ChunkingPolicy


def chunker_for(policy: ChunkingPolicy, splitter: Splitter) -> TextChunker:
    """Return the chunker that a policy asks for."""
    match policy.chunker:
        case ChunkerKind.STRUCTURE:
            return StructureChunker(policy, splitter)
        case ChunkerKind.SENTENCE:
            return SentenceChunker(policy, splitter)
        case ChunkerKind.HIERARCHY:
            return HierarchyChunker(policy, splitter)
        case ChunkerKind.FIXED:
            return FixedChunker(policy, splitter)
