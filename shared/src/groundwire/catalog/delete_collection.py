"""Removes a collection with everything in it."""

from sqlalchemy import Connection, delete, select

from groundwire.catalog.bookkeeping_tables import query_logs
from groundwire.catalog.deletion_traces import trace_collection
from groundwire.catalog.deletions import Deleted
from groundwire.catalog.embedding_rows import forget_embeddings
from groundwire.catalog.generation_keys import key_of
from groundwire.catalog.ledger import redact_answers
from groundwire.catalog.outbox import queue_dropped_collection
from groundwire.catalog.positions import advance_position
from groundwire.catalog.quoting_messages import redact_messages
from groundwire.catalog.tables import collections
from groundwire.kernel.collection import Collection


def delete_collection(connection: Connection, collection: Collection, now: int) -> Deleted:
    """Remove rows, texts, unused vectors and logged queries; queue the engine collection to be dropped."""
    key = connection.execute(select(key_of(collection))).scalar_one()
    traces = trace_collection(connection, key, collection)
    task = queue_dropped_collection(connection, collection)
    connection.execute(delete(collections).where(collections.c.collection_key == key))
    connection.execute(delete(query_logs).where(query_logs.c.collection_uid == collection.uid))
    advance_position(connection, key)
    redact_answers(connection, collection.tenant, traces.document_ids)
    return Deleted.now(
        traces,
        [task],
        now,
        texts=len(traces.generation_keys),
        embeddings=forget_embeddings(connection, collection.identity.digest, traces.embedding_hashes),
        messages=redact_messages(connection, collection.tenant, traces.document_ids),
    )
