"""The ingest service: parses documents, embeds them and makes them searchable.

The errors of use cases are documented at each, except those common to all: CollectionNotFoundError if the tenant has no
collection of the given name, and what the catalog raises about an etag and a receipt (`catalog/audit.py`).
"""
