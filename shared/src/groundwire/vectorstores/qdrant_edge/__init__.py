"""VectorStore on qdrant-edge, the Qdrant engine as a library, run in a separate process."""
