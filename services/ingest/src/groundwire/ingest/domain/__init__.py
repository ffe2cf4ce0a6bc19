"""Pure rules of ingest: what a document is, how its structure is found, and where it is cut."""
