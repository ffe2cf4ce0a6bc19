"""Chunkers, which cut texts by a policy. `cuts.TextChunker` documents the guarantees they all give."""
