"""Removes a document so that no reader finds any part of it."""

from sqlalchemy import Connection, RowMapping, delete, func, select, update
from sqlalchemy.dialects.sqlite import insert

from groundwire.catalog.deletion_traces import trace_document
from groundwire.catalog.deletions import Deleted
from groundwire.catalog.document_rows import field_values
from groundwire.catalog.embedding_rows import forget_embeddings
from groundwire.catalog.generations import GenerationState
from groundwire.catalog.ledger import redact_answers
from groundwire.catalog.lexical_index import remove_chunks
from groundwire.catalog.outbox import queue_deleted_points
from groundwire.catalog.positions import advance_position
from groundwire.catalog.publish_generation import drop_empty_document
from groundwire.catalog.quoting_messages import redact_messages
from groundwire.catalog.tables import (
    document_aliases,
    document_tags,
    documents,
    generations,
    tombstones,
)
from groundwire.catalog.visible_rows import hidden_row, refuse_other_etag, visible_row
from groundwire.kernel.document import DocumentFields


def delete_document(
    connection: Connection, tenant: str, collection: str, document_id: str, etag: str, now: int
) -> Deleted:
    """Remove text, chunks, full-text rows and unused vectors; leave a tombstone and queue the points.

    A document that was deleted softly goes as well.
    Pending generations stay until who writes them finds the document changed and takes them back.
    """
    row = hidden_row(connection, tenant, collection, document_id) or visible_row(
        connection, tenant, collection, document_id
    )
    refuse_other_etag(connection, row, etag)
    key = row["document_key"]
    leaving = select(generations.c.generation_key).where(
        generations.c.document_key == key, generations.c.state != GenerationState.PENDING.value
    )
    traces = trace_document(connection, row, leaving, permanent=True)
    tasks = queue_deleted_points(connection, tenant, row["engine_name"], traces.numbers)
    _bury(connection, row, now)
    remove_chunks(connection, generations.c.document_key == key)
    connection.execute(delete(generations).where(generations.c.generation_key.in_(leaving)))
    _hide(connection, key)
    drop_empty_document(connection, key)
    redact_answers(connection, tenant, [document_id])
    return Deleted.now(
        traces,
        tasks,
        now,
        texts=len(traces.generation_keys),
        embeddings=forget_embeddings(connection, row["identity_digest"], traces.embedding_hashes),
        messages=redact_messages(connection, tenant, [document_id]),
    )


def _bury(connection: Connection, row: RowMapping, now: int) -> None:
    written = select(func.max(generations.c.generation)).where(generations.c.document_key == row["document_key"])
    values = {
        "last_generation": connection.execute(written).scalar_one(),
        "position": advance_position(connection, row["collection_key"]),
        "deleted_time": now,
    }
    statement = insert(tombstones).values(tenant=row["tenant"], document_id=row["document_id"], **values)
    connection.execute(statement.on_conflict_do_update(index_elements=["tenant", "document_id"], set_=values))


def _hide(connection: Connection, key: int) -> None:
    """Empty the row, which outlives this transaction only while a generation is pending."""
    connection.execute(delete(document_aliases).where(document_aliases.c.document_key == key))
    connection.execute(delete(document_tags).where(document_tags.c.document_key == key))
    connection.execute(
        update(documents)
        .where(documents.c.document_key == key)
        .values(
            live_generation=0,
            deleted_generation=0,
            delete_time=None,
            chunk_count=0,
            total_chars=0,
            total_bytes=0,
            source_version=None,
            alias_count=0,
            **field_values(DocumentFields()),
        )
    )
