"""Parsing of documents: the parser processes, format recognition, and a reader for each format."""
