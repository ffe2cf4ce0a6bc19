"""VectorStore on Chroma: as a library, for one machine, and as a server."""
