"""The ingest service: takes documents apart, embeds them and makes them searchable.

What use cases raise is said at each, but for what is the same at all of them: CollectionNotFoundError where the tenant
has no collection of the given name, and what the catalog raises about an etag and a receipt (`catalog/aggregate.py`).
"""
