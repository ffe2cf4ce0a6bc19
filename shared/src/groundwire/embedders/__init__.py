"""Adapters of the Embedder port; `factory.open_embedder` makes one from a URL."""
