"""Makes a pending generation the one that readers see, or takes it back."""

from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, delete, exists, insert, select, update

from groundwire.catalog.begin_generation import changed, refuse_stale_version, refuse_taken_source
from groundwire.catalog.collection_rows import find_collection
from groundwire.catalog.document_rows import count_aliases
from groundwire.catalog.generation_keys import numbers_of
from groundwire.catalog.generations import GenerationState, PendingGeneration
from groundwire.catalog.lexical_index import add_chunks, numbered, release_pending, remove_chunks, supersede_chunks
from groundwire.catalog.outbox import queue_deleted_points, queue_dropped_engine
from groundwire.catalog.positions import advance_position
from groundwire.catalog.tables import chunks, collections, document_aliases, document_tags, documents, generations
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import ConflictError


class IndexMovedError(ConflictError):
    """The collection got another engine collection while the points were written; they have to be written there."""

    def __init__(self, collection: Collection) -> None:
        super().__init__("the index was rebuilt meanwhile", collection=collection.name)
        self.collection = collection


def publish_generation(connection: Connection, pending: PendingGeneration, now: int, steady_ms: int) -> None:
    """Move the live generation of a document to the pending one; `now` is for people, `steady_ms` for ages.

    Raises:
        DocumentChangedError: the live generation moved, the document is gone, or its source is taken.
        IndexMovedError: the points are in an engine collection that does not serve any more.
    """
    _refuse_moved_index(connection, pending.collection)
    row = _pending_row(connection, pending.key)
    document = _document_row(connection, pending, row)
    if row is None or document is None or document["live_generation"] != pending.expected_generation:
        raise changed(pending.document_id)
    if document["live_generation"] and document["source_path"] != row["source_path"]:
        raise changed(pending.document_id)  # the source was deleted meanwhile, and the document stays with another
    refuse_stale_version(pending.document_id, pending.source_version, document["source_version"])
    refuse_taken_source(connection, row["collection_key"], row["source_path"], pending.document_id)
    is_kept = pending.collection.settings.generation_retention > timedelta(0)
    keeps_history = is_kept or pending.expected_generation == 0
    position = advance_position(connection, row["collection_key"], keeps_history=keeps_history)
    _supersede(connection, pending, row["document_key"], position, kept_since=steady_ms if is_kept else None)
    connection.execute(
        update(generations)
        .where(generations.c.generation_key == pending.key)
        .values(state=GenerationState.LIVE.value, live_from=position)
    )
    release_pending(connection, row["collection_key"], pending.key)
    _update_document(connection, pending, row, None if _is_known(document) else now, now)


def take_back_generation(connection: Connection, pending: PendingGeneration) -> None:
    """Remove a pending generation and queue its points; a published one stays as it is."""
    row = _pending_row(connection, pending.key)
    if row is None and _exists(connection, pending.key):
        return
    engine_name = pending.collection.engine_name
    if connection.execute(select(1).where(collections.c.engine_name == engine_name)).first() is None:
        # Deleted or moved while the points were written, which may have made the engine collection anew.
        queue_dropped_engine(connection, pending.tenant, engine_name)
    else:
        queue_deleted_points(connection, pending.tenant, engine_name, pending.numbers)
    if row is not None:
        connection.execute(delete(generations).where(generations.c.generation_key == pending.key))
        drop_empty_document(connection, row["document_key"])


def drop_empty_document(connection: Connection, document_key: int) -> None:
    """Remove the row of a document that is not visible and has no generation left."""
    left = exists(select(1).where(generations.c.document_key == documents.c.document_key))
    connection.execute(
        delete(documents).where(documents.c.document_key == document_key, documents.c.live_generation == 0, ~left)
    )


def _refuse_moved_index(connection: Connection, collection: Collection) -> None:
    found = find_collection(connection, collection.tenant, collection.name)
    if found is not None and found.uid == collection.uid and found.engine_name != collection.engine_name:
        raise IndexMovedError(found)


def _pending_row(connection: Connection, key: int) -> RowMapping | None:
    statement = select(generations).where(
        generations.c.generation_key == key, generations.c.state == GenerationState.PENDING.value
    )
    return connection.execute(statement).mappings().first()


def _exists(connection: Connection, key: int) -> bool:
    found = connection.execute(select(1).where(generations.c.generation_key == key)).first()
    return found is not None


def _document_row(connection: Connection, pending: PendingGeneration, row: RowMapping | None) -> RowMapping | None:
    if row is None:
        return None
    columns = ("live_generation", "deleted_generation", "source_path", "source_version")
    statement = select(*(documents.c[name] for name in columns)).where(
        documents.c.document_key == row["document_key"], documents.c.tenant == pending.tenant
    )
    return connection.execute(statement).mappings().first()


def _supersede(
    connection: Connection, pending: PendingGeneration, document_key: int, position: int, kept_since: int | None
) -> None:
    """Retire the live or softly deleted generation; its text stays, so that old citations can be verified.

    Its points go, also when its chunks are kept for readers of the past: those compare with the vectors of the
    catalog, so that readers of now never meet what is retired (decision 0009).
    """
    is_current = generations.c.state.in_((GenerationState.LIVE.value, GenerationState.DELETED.value))
    current = select(generations.c.generation_key, generations.c.state)
    found = connection.execute(current.where(generations.c.document_key == document_key, is_current)).first()
    if found is None:
        return
    key, kept_since = found.generation_key, None if found.state == GenerationState.DELETED.value else kept_since
    old = numbers_of(connection, select(generations.c.generation_key).where(generations.c.generation_key == key))
    queue_deleted_points(connection, pending.tenant, pending.collection.engine_name, old)
    taken_out: list[int] = []
    if kept_since is None:
        remove_chunks(connection, chunks.c.generation_key == key)
        connection.execute(delete(chunks).where(chunks.c.generation_key == key))
    else:
        taken_out = supersede_chunks(connection, chunks.c.generation_key == key)
    connection.execute(
        update(generations)
        .where(generations.c.generation_key == key)
        .values(state=GenerationState.SUPERSEDED.value, live_to=position, superseded_time=kept_since)
    )
    add_chunks(connection, numbered(taken_out))


def _is_known(document: RowMapping) -> bool:
    return bool(document["live_generation"] or document["deleted_generation"])


def _update_document(
    connection: Connection, pending: PendingGeneration, row: RowMapping, ingested: int | None, now: int
) -> None:
    key = row["document_key"]
    values: dict[str, Any] = {
        **row["fields"],
        "live_generation": row["generation"],
        "last_modified": now,
        "delete_time": None,
        "deleted_generation": 0,
    }
    figures = ("chunk_count", "total_chars", "total_bytes", "rules_digest", "tokenizer", "encoding")
    values |= {name: row[name] for name in ("source_path", "source_hash", "doc_type", *figures)}
    if pending.source_version is not None:
        values["source_version"] = pending.source_version
    if ingested is not None:
        values["ingestion_date"] = ingested
    of_source = (
        document_aliases.c.collection_key == row["collection_key"],
        document_aliases.c.source_path == row["source_path"],
    )
    count_aliases(connection, select(document_aliases.c.document_key).where(*of_source), -1)
    connection.execute(delete(document_aliases).where(*of_source))
    connection.execute(update(documents).where(documents.c.document_key == key).values(values))
    connection.execute(delete(document_tags).where(document_tags.c.document_key == key))
    if tags := [{"document_key": key, "tag": tag} for tag in row["fields"]["tags"]]:
        connection.execute(insert(document_tags), tags)
