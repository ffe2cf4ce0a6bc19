"""Adapters of the VectorStore port, one per engine; `factory.open_vector_store` picks one by URL."""
