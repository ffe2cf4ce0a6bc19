"""VectorStore on Chroma as a library, for one machine."""
