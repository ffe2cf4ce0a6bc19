"""The ingest service: parses documents, embeds them and makes them searchable.

Errors are documented at what raises them, except those common to all: CollectionNotFoundError if the tenant has no
collection of the given name, CallCancelledError and DeadlineError when a `budget` is over, and what the catalog raises
about an etag and a receipt (`catalog/audit.py`).
"""
