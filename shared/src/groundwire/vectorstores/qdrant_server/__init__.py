"""VectorStore on a Qdrant server."""
