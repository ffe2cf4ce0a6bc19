"""Chunkers: each cuts a text by one policy. What all of them promise is said at `cuts.TextChunker`."""
