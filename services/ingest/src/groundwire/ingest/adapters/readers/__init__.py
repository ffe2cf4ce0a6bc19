"""One reader for each format: bytes in, canonical text and outline out."""
