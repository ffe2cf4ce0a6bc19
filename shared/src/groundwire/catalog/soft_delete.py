"""Hides a document so that nothing finds it, and brings it back exactly."""

from sqlalchemy import ColumnElement, Connection, RowMapping, delete, select, update

from groundwire.catalog.chunk_rows import SELECT_CHUNKS, to_stored_chunk
from groundwire.catalog.deletion_traces import trace_document
from groundwire.catalog.deletions import Deleted
from groundwire.catalog.generation_keys import IS_INDEXED, IS_LIVE, numbers_of
from groundwire.catalog.generations import GenerationState
from groundwire.catalog.lexical_index import add_chunks, remove_chunks
from groundwire.catalog.outbox import queue_matched_points
from groundwire.catalog.positions import advance_position
from groundwire.catalog.tables import chunks, documents, generations
from groundwire.catalog.visible_rows import refuse_other_etag, visible_row
from groundwire.kernel.document import Document
from groundwire.kernel.errors import AlreadyExistsError
from groundwire.kernel.hit import StoredChunk


def hide_document(
    connection: Connection, tenant: str, collection: str, document_id: str, etag: str, now: int
) -> Deleted:
    """Take a document from readers, the full-text index and, through the outbox, the engine; keep its rows.

    Superseded generations keep their texts and lose their chunks: readers of the past do not see what is deleted.
    """
    row = visible_row(connection, tenant, collection, document_id)
    refuse_other_etag(connection, row, etag)
    key = row["document_key"]
    position = advance_position(connection, row["collection_key"])
    past = select(generations.c.generation_key).where(
        generations.c.document_key == key, generations.c.state == GenerationState.SUPERSEDED.value
    )
    remove_chunks(connection, generations.c.document_key == key)
    connection.execute(delete(chunks).where(chunks.c.generation_key.in_(past)))
    live = (generations.c.document_key == key, generations.c.state == GenerationState.LIVE.value)
    leaving = select(generations.c.generation_key).where(*live)
    traces = trace_document(connection, row, leaving, permanent=False)
    hidden = {"state": GenerationState.DELETED.value, "live_to": position}
    connection.execute(update(generations).where(*live).values(hidden))
    values = {"live_generation": 0, "deleted_generation": row["live_generation"], "delete_time": now}
    connection.execute(update(documents).where(documents.c.document_key == key).values(values))
    tasks = queue_matched_points(connection, tenant, row["engine_name"], traces.numbers)
    return Deleted.now(traces, tasks, now, texts=0, embeddings=0, messages=0)


def hidden_numbers(connection: Connection, row: RowMapping) -> list[int]:
    """Return the numbers of the chunks that come back with a hidden document, ascending."""
    return numbers_of(connection, select(generations.c.generation_key).where(*_hidden(row)))


def hidden_chunks(connection: Connection, row: RowMapping, after_sequence: int, limit: int) -> list[StoredChunk]:
    """Return up to `limit` indexed chunks that come back, those behind a sequence number, in order."""
    of_document = SELECT_CHUNKS.where(*_hidden(row), IS_INDEXED, chunks.c.sequence_num > after_sequence)
    seen: dict[int, Document] = {}
    rows = connection.execute(of_document.order_by(chunks.c.sequence_num).limit(limit))
    return [to_stored_chunk(each, seen) for each in rows]


def bring_back_document(connection: Connection, row: RowMapping) -> None:
    """Let readers see a hidden document again, as it was; `row` is read in this transaction.

    Raises:
        AlreadyExistsError: another document has its source now.
    """
    taken = select(documents.c.document_id).where(
        documents.c.collection_key == row["collection_key"],
        documents.c.source_path == row["source_path"],
        documents.c.live_generation > 0,
    )
    other = connection.execute(taken).scalar()
    if other is not None:
        raise AlreadyExistsError(f"document {other!r} has the source {row['source_path']!r} now", resource=other)
    position = advance_position(connection, row["collection_key"], keeps_history=True)
    live = {"state": GenerationState.LIVE.value, "live_from": position, "live_to": None}
    connection.execute(update(generations).where(*_hidden(row)).values(live))
    add_chunks(connection, (generations.c.document_key == row["document_key"]) & IS_LIVE)
    values = {"live_generation": row["deleted_generation"], "deleted_generation": 0, "delete_time": None}
    connection.execute(update(documents).where(documents.c.document_key == row["document_key"]).values(values))


def _hidden(row: RowMapping) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    is_hidden = generations.c.state == GenerationState.DELETED.value
    return generations.c.document_key == row["document_key"], is_hidden
