"""The embedded process: all three services, one catalog, one vector store, one embedder."""
