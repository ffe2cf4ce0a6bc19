"""Deletions, their receipts, and restorations of what was deleted softly.

A deletion hides at once, and is complete as soon as no store and no file holds what was deleted.
"""

import json
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Row,
    RowMapping,
    Select,
    and_,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    true,
    update,
)

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.database import advance_position, in_transaction
from groundwire.catalog.dialects import among, replacing
from groundwire.catalog.generations import IndexMovedError, drop_empty_documents
from groundwire.catalog.idempotency import oldest_kept, redact_answers
from groundwire.catalog.lexical_index import add_chunks, remove_chunks
from groundwire.catalog.lexical_search import count_among
from groundwire.catalog.outbox import OutboxKind, queue_drop, queue_points
from groundwire.catalog.records import count_quoting, quoting_records, set_records
from groundwire.catalog.rows import (
    IS_HIDDEN,
    IS_INDEXED,
    IS_LIVE,
    IS_STORED,
    IS_VISIBLE,
    SELECT_CHUNKS,
    SELECT_DOCUMENTS_OF_COLLECTION,
    GenerationState,
    collection_key,
    count_aliases,
    count_indexed,
    document_rows,
    field_values,
    key_of,
    numbers_of,
    optional_time,
    refuse_other_etag,
    require_collection,
    set_tags,
    to_document,
    to_stored_chunks,
)
from groundwire.catalog.schema import (
    chunks,
    collections,
    deletions,
    document_aliases,
    documents,
    embeddings,
    generations,
    index_builds,
    outbox,
    query_logs,
    text_segments,
    tombstones,
)
from groundwire.catalog.sessions import count_quoting_messages, redact_messages
from groundwire.catalog.vectors import forget_embeddings, unneeded_embeddings
from groundwire.kernel.chunk import StoredChunk
from groundwire.kernel.clock import epoch_ms, from_epoch_ms
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document, DocumentFields
from groundwire.kernel.errors import AlreadyExistsError, DocumentNotFoundError, PermissionDeniedError
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.identity import current_identity

_ENTRIES = ("document_ids", "document_keys", "generation_keys", "numbers", "embedding_hashes")


@dataclass(frozen=True, slots=True)
class DeletionTraces:
    """What a deletion concerned; `embedding_hashes` are of vectors that nothing else needed, `indexed` counts chunks.

    `permanent`: rows and texts must be gone, and answers that quote them, not only what searches find.
    """

    tenant: str
    collection: str
    collection_uid: str
    engine_name: str
    document_ids: Sequence[str]
    collection_key: int
    document_keys: Sequence[int]
    generation_keys: Sequence[int]
    numbers: Sequence[int]
    indexed: int
    identity_digest: str
    embedding_hashes: Sequence[str]
    permanent: bool


def trace_documents(
    connection: Connection,
    collection: Collection,
    rows: Sequence[RowMapping],
    leaving: Select[Any],
    *,
    permanent: bool,
) -> DeletionTraces:
    """Collect the traces of documents before they are deleted, from rows with their ids and keys.

    `leaving` is the statement for the keys of the generations that go.
    """
    digest = collection.identity.digest
    return DeletionTraces(
        tenant=collection.tenant,
        collection=collection.name,
        collection_uid=collection.uid,
        engine_name=collection.engine_name,
        document_ids=[row["document_id"] for row in rows],
        collection_key=collection_key(connection, collection.tenant, collection.name),
        document_keys=[row["document_key"] for row in rows],
        generation_keys=[row[0] for row in connection.execute(leaving)],
        numbers=numbers_of(connection, leaving),
        indexed=count_indexed(connection, leaving),
        identity_digest=digest,
        embedding_hashes=unneeded_embeddings(connection, digest, leaving) if permanent else (),
        permanent=permanent,
    )


def _count(
    connection: Connection, column: Column[Any], given: Sequence[Any], which: ColumnElement[bool] | None = None
) -> int:
    """Return how many rows have one of the given values and meet a condition."""
    statement = select(func.count()).where(among(column, given), true() if which is None else which)
    return int(connection.execute(statement).scalar_one()) if given else 0


_IS_WAITING = deletions.c.complete_time.is_(None)


@dataclass(frozen=True, slots=True)
class StoreDeletion:
    """What one store had of what was deleted, and how much of that is `left`; all of it until a final search."""

    store: str
    total: int
    left: int = 0

    @property
    def removed(self) -> int:
        return max(0, self.total - self.left)


@dataclass(frozen=True, slots=True)
class Deletion:
    """What was deleted; no call finds it from `hide_time` on. `complete_time` is None until every store is clean."""

    deletion_id: str
    permanent: bool
    documents: int
    chunks: int
    stores: tuple[StoreDeletion, ...]
    hide_time: datetime
    complete_time: datetime | None = None

    def behind(self, earlier: "Deletion") -> "Deletion":
        """Return the deletion of both, this one being a later step of the same call."""
        stores = tuple(
            replace(each, total=before.total + each.total, left=before.left + each.left)
            for before, each in zip(earlier.stores, self.stores, strict=True)
        )
        documents, chunks = earlier.documents + self.documents, earlier.chunks + self.chunks
        return replace(self, documents=documents, chunks=chunks, stores=stores)

    def searched(self, left: Mapping[str, int], now: datetime) -> "Deletion":
        """Return the deletion with what a final search found, by store."""
        stores = tuple(replace(each, left=left[each.store]) for each in self.stores)
        return replace(self, stores=stores, complete_time=None if any(left.values()) else now)


@dataclass(frozen=True, slots=True)
class Deleted:
    """A deletion, what a final search looks for, and the tasks of the outbox that bring the engine up to it."""

    deletion: Deletion
    traces: DeletionTraces
    tasks: tuple[int, ...] = ()

    @classmethod
    def now(
        cls,
        traces: DeletionTraces,
        tasks: Sequence[int],
        time_ms: int,
        *,
        texts: int = 0,
        embeddings: int = 0,
        messages: int = 0,
        records: int = 0,
    ) -> "Deleted":
        """Make one of what a transaction removed; the engine has yet to do its tasks.

        `records` are those of the documents that went because they quote others.
        """
        stores = (
            StoreDeletion("catalog", len(traces.document_keys) + len(traces.numbers) if traces.permanent else 0),
            StoreDeletion("full_text", traces.indexed),
            StoreDeletion("vectors", traces.indexed, left=traces.indexed),
            StoreDeletion("texts", texts),
            StoreDeletion("embedding_cache", embeddings),
            StoreDeletion("sessions", messages),
            StoreDeletion("records", records),
        )
        deletion = Deletion(
            deletion_id=str(uuid.uuid4()),
            permanent=traces.permanent,
            documents=len(traces.document_keys),
            chunks=len(traces.numbers),
            stores=stores,
            hide_time=from_epoch_ms(time_ms),
        )
        return cls(deletion, traces, tuple(tasks))


class Deletions(Aggregate):
    """Deletions of all tenants: those that are not complete, and for a day the others.

    One is ready to be completed when the engine has done its tasks and no index of its collection is being built: an
    index that was begun before the deletion holds what was deleted.
    """

    def find(self, tenant: str, deletion_id: str) -> Deletion | None:
        """Return a deletion as it is now, None when it was completed more than a day ago."""
        statement = select(deletions).where(deletions.c.tenant == tenant, deletions.c.deletion_id == deletion_id)
        row = self._database.query(statement).first()
        return None if row is None else _to_deletion(row)

    def incomplete(self, tenant: str, limit: int) -> list[Deletion]:
        """Return up to `limit` deletions of a tenant that are not complete, oldest first."""
        statement = select(deletions).where(deletions.c.tenant == tenant, _IS_WAITING).order_by(deletions.c.id)
        return [_to_deletion(row) for row in self._database.query(statement.limit(limit))]

    def ready(self) -> Sequence[Row[Any]]:
        """Return what is ready to be completed, by engine collection, those that wait longest first.

        Of each `engine_name`, `tenant`, the name of the `collection` that deletions were made under, and the ages of
        the first and the last of them: `first_age_ms` and `last_age_ms`, of service.
        """
        now = self._database.steady.now_ms()
        first, last = func.min(deletions.c.hidden_steady), func.max(deletions.c.hidden_steady)
        engine, ready = _engine_and_readiness()
        # Under any of its names: all deletions of an engine collection are completed together.
        name = func.max(deletions.c.collection)
        statement = (
            select(
                engine.label("engine_name"),
                deletions.c.tenant,
                name.label("collection"),
                (now - first).label("first_age_ms"),
                (now - last).label("last_age_ms"),
            )
            .where(ready)
            .group_by(engine, deletions.c.tenant)
            .order_by(first)
        )
        return self._database.query(statement).all()

    def ready_of_engine(self, engine_name: str) -> list[Deleted]:
        """Return the deletions that are ready and wait for an engine collection, oldest first."""
        engine, ready = _engine_and_readiness()
        statement = select(deletions).where(ready, engine == engine_name).order_by(deletions.c.id)
        return [Deleted(_to_deletion(row), _to_traces(row.traces)) for row in self._database.query(statement)]

    def ready_now(self, tenant: str, deletion_id: str) -> tuple[str, Deleted] | None:
        """Return a deletion and the engine collection that it waits for, None unless it is ready."""
        engine, ready = _engine_and_readiness()
        of_id = deletions.c.tenant == tenant, deletions.c.deletion_id == deletion_id
        row = self._database.query(select(deletions, engine.label("serving_name")).where(*of_id, ready)).first()
        return None if row is None else (row.serving_name, Deleted(_to_deletion(row), _to_traces(row.traces)))

    def left_of(self, deleted: Deleted) -> dict[str, int]:
        """Return how many entries a final search finds, by store: all but the vector engine."""
        traces = deleted.traces
        needed = exists(select(1).where(chunks.c.embedding_hash == embeddings.c.embedding_hash))
        # A newer vector belongs to a later write of the same text; if that is gone too, `VectorCache.sweep` removes it.
        is_older = embeddings.c.create_time <= epoch_ms(deleted.deletion.hide_time)
        unneeded = (embeddings.c.identity_digest == traces.identity_digest) & is_older & ~needed
        with self._database.read() as connection:
            left = {
                "catalog": _count(connection, documents.c.document_key, traces.document_keys, IS_VISIBLE),
                "full_text": count_among(connection, traces.collection_key, traces.numbers),
                "texts": 0,
                "embedding_cache": _count(connection, embeddings.c.embedding_hash, traces.embedding_hashes, unneeded),
                "sessions": 0,
                "records": 0,
            }
            if traces.permanent:
                # An empty row stays while another ingest of the document is under way.
                left["catalog"] += (
                    _count(connection, documents.c.document_key, traces.document_keys, IS_HIDDEN)
                    + _count(connection, generations.c.generation_key, traces.generation_keys)
                    + _count(connection, chunks.c.chunk_number, traces.numbers)
                )
                left["texts"] = _count(connection, text_segments.c.generation_key, traces.generation_keys)
                # A document that exists again under the same id may be quoted again.
                again = select(documents.c.document_id).where(
                    documents.c.tenant == traces.tenant, IS_STORED, among(documents.c.document_id, traces.document_ids)
                )
                gone = set(traces.document_ids) - set(connection.execute(again).scalars())
                left["sessions"] = count_quoting_messages(connection, traces.tenant, sorted(gone))
                left["records"] = count_quoting(connection, traces.collection_key, sorted(gone))
        return left

    @in_transaction
    def note(self, connection: Connection, tenant: str, searched: Sequence[Deletion]) -> None:
        """Store what final searches found; a complete deletion keeps no trace of what was deleted."""
        for each in searched:
            # Unless a further step was added in the meantime.
            of_id = (
                deletions.c.tenant == tenant,
                deletions.c.deletion_id == each.deletion_id,
                deletions.c.documents == each.documents,
            )
            values: dict[str, Any] = {"stores": _stores(each)}
            if each.complete_time is not None:
                values |= {"complete_time": epoch_ms(each.complete_time), "traces": b""}
            connection.execute(update(deletions).where(*of_id).values(values))

    def forget(self, tenant: str, deletion_id: str) -> None:
        of_id = deletions.c.tenant == tenant, deletions.c.deletion_id == deletion_id
        self._database.change(delete(deletions).where(*of_id))

    def sweep(self) -> int:
        """Remove complete deletions whose idempotency keys have expired; return how many."""
        old = deletions.c.hidden_steady < oldest_kept(self._database.steady)
        return self._database.change(delete(deletions).where(~_IS_WAITING, old))


def insert_deletion(
    connection: Connection, deleted: Deleted, steady_ms: int, *, unfinished_id: str = "", is_last: bool = True
) -> Deleted:
    """Store the receipt of a deletion that is to be completed, in the transaction that deletes, and return it.

    That of a deletion in several steps has the `unfinished_id`, counts all steps so far, and gets an id of its own with
    the step that `is_last`: nobody finds it by the first one any more. The traces that are returned are of this step.
    """
    of_id = deletions.c.tenant == deleted.traces.tenant, deletions.c.deletion_id == unfinished_id
    earlier = connection.execute(select(deletions).where(*of_id)).first() if unfinished_id else None
    deletion, traces = deleted.deletion, deleted.traces
    if not is_last:
        deletion = replace(deletion, deletion_id=unfinished_id)
    engine_name, stored, last_task = traces.engine_name, b"", 0
    if earlier is not None:
        deletion = deletion.behind(_to_deletion(earlier))
        # The index may have been rebuilt under another name since the first step.
        engine_name, stored, last_task = earlier.engine_name, earlier.traces, earlier.last_task
    values = {
        "deletion_id": deletion.deletion_id,
        "tenant": traces.tenant,
        "collection": traces.collection,
        "collection_uid": traces.collection_uid,
        "engine_name": engine_name,
        "permanent": int(deletion.permanent),
        "documents": deletion.documents,
        "chunks": deletion.chunks,
        "stores": _stores(deletion),
        # A large document has thousands of chunk numbers; they are kept until the last file is clean.
        "traces": stored + zlib.compress(json.dumps(asdict(traces)).encode(), 1),
        "last_task": max(deleted.tasks, default=last_task),
        "hide_time": epoch_ms(deletion.hide_time),
        "hidden_steady": steady_ms,
        "complete_time": None,
    }
    statement = insert(deletions) if earlier is None else update(deletions).where(*of_id)
    connection.execute(statement.values(values))
    return replace(deleted, deletion=deletion)


def _engine_and_readiness() -> tuple[ColumnElement[str], ColumnElement[bool]]:
    """Return the engine collection that serves the collection of a deletion now, and whether it can be scrubbed."""
    serving: Select[tuple[str]] = select(collections.c.engine_name).where(
        collections.c.uid == deletions.c.collection_uid
    )
    # Of the deletion in question also where it stands inside another subquery.
    engine = func.coalesce(serving.correlate(deletions).scalar_subquery(), deletions.c.engine_name)
    is_built = exists(select(1).where(index_builds.c.collection_uid == deletions.c.collection_uid))
    # Later tasks do not count, or they could delay a receipt forever; but an engine collection that was replaced
    # meanwhile has to be gone.
    is_due = or_(outbox.c.id <= deletions.c.last_task, outbox.c.kind == OutboxKind.DROP_COLLECTION.value)
    has_tasks = exists(select(1).where(outbox.c.engine_name.in_([engine, deletions.c.engine_name]), is_due))
    return engine, _IS_WAITING & ~is_built & ~has_tasks


def _stores(deletion: Deletion) -> list[list[Any]]:
    return [[each.store, each.total, each.left] for each in deletion.stores]


def _to_traces(stored: bytes) -> DeletionTraces:
    """Return what all steps of a deletion concerned; each has written its traces behind those of the steps before."""
    steps: list[dict[str, Any]] = []
    while stored:
        decompressing = zlib.decompressobj()
        steps.append(json.loads(decompressing.decompress(stored)))
        stored = decompressing.unused_data
    joined = {name: [entry for step in steps for entry in step[name]] for name in _ENTRIES}
    return DeletionTraces(**steps[0] | joined | {"indexed": sum(step["indexed"] for step in steps)})


def _to_deletion(row: Row[Any]) -> Deletion:
    return Deletion(
        deletion_id=row.deletion_id,
        permanent=bool(row.permanent),
        documents=row.documents,
        chunks=row.chunks,
        stores=tuple(StoreDeletion(*each) for each in row.stores),
        hide_time=from_epoch_ms(row.hide_time),
        complete_time=optional_time(row.complete_time),
    )


def hide_documents(connection: Connection, collection: Collection, rows: Sequence[RowMapping], now: int) -> Deleted:
    """Hide documents from readers, the full-text index and, through the outbox, the engine; keep their rows.

    Superseded generations keep their texts and lose their chunks: readers of the past do not see what is deleted.
    """
    keys = [row["document_key"] for row in rows]
    of_documents = among(generations.c.document_key, keys)
    leaving = select(generations.c.generation_key).where(of_documents, IS_LIVE)
    traces = trace_documents(connection, collection, rows, leaving, permanent=False)
    if not rows:
        return Deleted.now(traces, [], now)
    # Without history: readers of the past must not see what is hidden either.
    position = advance_position(connection, traces.collection_key)
    # Before the states change: the index finds chunks by the states live and superseded.
    remove_chunks(connection, of_documents)
    past = select(generations.c.generation_key).where(
        of_documents, generations.c.state == GenerationState.SUPERSEDED.value
    )
    connection.execute(delete(chunks).where(chunks.c.generation_key.in_(past)))
    hidden = {"state": GenerationState.DELETED.value, "live_to": position}
    connection.execute(update(generations).where(of_documents, IS_LIVE).values(hidden))
    values = {"live_generation": 0, "deleted_generation": documents.c.live_generation, "delete_time": now}
    connection.execute(update(documents).where(among(documents.c.document_key, keys)).values(values))
    tasks = queue_points(connection, OutboxKind.MATCH_POINTS, collection.tenant, collection.engine_name, traces.numbers)
    return Deleted.now(traces, tasks, now)


def quoting_rows(connection: Connection, collection: Collection, document_ids: Sequence[str]) -> Sequence[RowMapping]:
    """Return `document_rows` of the records that quote documents, which are deleted for good with them.

    Raises:
        PermissionDeniedError: one of them is of a scope that the current caller may not see.
    """
    tenant, name = collection.tenant, collection.name
    quoting = quoting_records(connection, collection_key(connection, tenant, name), document_ids)
    rows = document_rows(connection, tenant, name, sorted(quoting), IS_STORED) if quoting else ()
    if not all(current_identity().allows_scope((row["record"] or {}).get("scope", "")) for row in rows):
        # The receipt would count them, too.
        message = "records of scopes that the credential does not allow quote it, and would be deleted with it"
        raise PermissionDeniedError(message, right="all scopes")
    return rows


def _bury(connection: Connection, tenant: str, rows: Sequence[RowMapping], position: int, now: int) -> None:
    """Leave the tombstones of documents whose generations are about to be deleted."""
    of_documents = among(generations.c.document_key, [row["document_key"] for row in rows])
    last = select(generations.c.document_key, func.max(generations.c.generation)).where(of_documents)
    last_of = dict(connection.execute(last.group_by(generations.c.document_key)).all())
    buried = [
        {
            "tenant": tenant,
            "document_id": row["document_id"],
            "last_generation": last_of[row["document_key"]],
            "position": position,
            "deleted_time": now,
        }
        for row in rows
        if row["document_key"] in last_of  # else nothing of it was ever stored
    ]
    if buried:
        changed = ("last_generation", "position", "deleted_time")
        connection.execute(replacing(connection, tombstones, ("tenant", "document_id"), changed), buried)


def delete_documents(connection: Connection, collection: Collection, rows: Sequence[RowMapping], now: int) -> Deleted:
    """Remove texts, chunks, full-text rows and unused vectors of documents; leave tombstones and queue the points.

    The records that quote them go with them: no part of a text outlives it. Pending generations stay until their
    writer finds the document changed and takes them back. The number of statements does not depend on the number of
    documents, whose `rows` are those of `document_rows`.

    Raises:
        PermissionDeniedError: a record that quotes one of them is of a scope that the current caller may not see.
    """
    tenant = collection.tenant
    quoting = quoting_rows(connection, collection, [row["document_id"] for row in rows])
    rows = [*rows, *quoting]
    keys = [row["document_key"] for row in rows]
    of_documents = among(generations.c.document_key, keys)
    leaving = select(generations.c.generation_key).where(
        of_documents, generations.c.state != GenerationState.PENDING.value
    )
    # Before the rows are gone.
    traces = trace_documents(connection, collection, rows, leaving, permanent=True)
    if not rows:
        return Deleted.now(traces, [], now)
    # Through the outbox, because a deletion does not wait for an engine that may be unavailable.
    tasks = queue_points(connection, OutboxKind.DELETE_POINTS, tenant, collection.engine_name, traces.numbers)
    position = advance_position(connection, traces.collection_key)
    _bury(connection, tenant, rows, position, now)
    # Before the rows are deleted: the words of the chunks tell which index rows have to be rewritten.
    remove_chunks(connection, of_documents)
    connection.execute(delete(generations).where(generations.c.generation_key.in_(leaving)))
    # A row stays only while a generation is pending, and none of its content survives.
    connection.execute(delete(document_aliases).where(among(document_aliases.c.document_key, keys)))
    set_tags(connection, {}, keys)
    nothing = DocumentFields()
    of_rows = [(row["document_key"], row["source_path"], nothing) for row in rows]
    set_records(connection, traces.collection_key, of_rows, keys)
    emptied = {
        **field_values(nothing),
        **dict.fromkeys(("live_generation", "deleted_generation", "alias_count"), 0),
        **dict.fromkeys(("chunk_count", "total_chars", "total_bytes"), 0),
        **dict.fromkeys(("delete_time", "source_version"), None),
    }
    connection.execute(update(documents).where(among(documents.c.document_key, keys)).values(emptied))
    drop_empty_documents(connection, keys)
    redact_answers(connection, tenant, traces.document_ids)
    return Deleted.now(
        traces,
        tasks,
        now,
        texts=len(traces.generation_keys),
        embeddings=forget_embeddings(connection, traces.identity_digest, traces.embedding_hashes),
        messages=redact_messages(connection, tenant, traces.document_ids),
        records=len(quoting),
    )


def delete_collection(connection: Connection, collection: Collection, now: int) -> Deleted:
    """Remove rows, texts, unused vectors and logged queries; queue the engine collection to be dropped."""
    key = connection.execute(select(key_of(collection))).scalar_one()
    rows = select(documents.c.document_key, documents.c.document_id).where(documents.c.collection_key == key)
    leaving = select(generations.c.generation_key).where(generations.c.collection_key == key)
    found = connection.execute(rows).mappings().all()
    traces = trace_documents(connection, collection, found, leaving, permanent=True)
    task = queue_drop(connection, collection.tenant, collection.engine_name)
    # The row that holds the change goes, but the position must move for the caches that are keyed by it.
    position = advance_position(connection, key)
    # Sessions that are kept elsewhere, and answers that are being made, learn from it that the texts are gone.
    _bury(connection, collection.tenant, found, position, now)
    connection.execute(delete(collections).where(collections.c.collection_key == key))
    connection.execute(delete(query_logs).where(query_logs.c.collection_uid == collection.uid))
    redact_answers(connection, collection.tenant, traces.document_ids)
    return Deleted.now(
        traces,
        [task],
        now,
        texts=len(traces.generation_keys),
        embeddings=forget_embeddings(connection, collection.identity.digest, traces.embedding_hashes),
        messages=redact_messages(connection, collection.tenant, traces.document_ids),
    )


@dataclass(frozen=True, slots=True)
class Restoration:
    """A restoration under way. If it fails, the tasks in the outbox remove its points again."""

    collection: Collection
    document_ids: tuple[str, ...]
    tasks: tuple[int, ...]


class Restorations(Aggregate):
    """Restorations of all tenants; each call sees those of one."""

    @in_transaction
    def begin(
        self, connection: Connection, tenant: str, collection: str, document_ids: Sequence[str], etag: str = ""
    ) -> Restoration | None:
        """Announce that the points of those that are hidden are about to be written; None when all are visible.

        Nothing of a document changes while it is hidden, so that its etag need not be compared again at the end.

        Raises:
            DocumentNotFoundError: the collection has no such document.
        """
        hidden = document_rows(connection, tenant, collection, document_ids, IS_HIDDEN)
        stored = {
            row["document_id"]: row for row in document_rows(connection, tenant, collection, document_ids, IS_VISIBLE)
        }
        stored |= {row["document_id"]: row for row in hidden}
        for document_id in document_ids:
            if document_id not in stored:
                raise DocumentNotFoundError(document_id)
            refuse_other_etag(connection, stored[document_id], etag)
        if not hidden:
            return None
        numbers = numbers_of(connection, select(generations.c.generation_key).where(_of_hidden(hidden)))
        # If the restoration fails, these tasks remove the points again, so that engine and catalog agree.
        tasks = queue_points(connection, OutboxKind.MATCH_POINTS, tenant, hidden[0]["engine_name"], numbers)
        ids = tuple(row["document_id"] for row in hidden)
        return Restoration(require_collection(connection, tenant, collection), ids, tuple(tasks))

    def chunks(self, restoration: Restoration, after: int, limit: int) -> Sequence[StoredChunk]:
        """Return up to `limit` of the chunks whose points are to be written, by number, those behind `after`."""
        tenant, name = restoration.collection.tenant, restoration.collection.name
        with self._database.read() as connection:
            rows = document_rows(connection, tenant, name, restoration.document_ids, IS_HIDDEN)
            statement = SELECT_CHUNKS.where(_of_hidden(rows), IS_INDEXED, chunks.c.chunk_number > after)
            return list(to_stored_chunks(connection.execute(statement.order_by(chunks.c.chunk_number).limit(limit))))

    @in_transaction
    def finish(
        self, connection: Connection, restoration: Restoration, receipt: Receipt[Document] | None = None
    ) -> list[Document]:
        """Let readers see the documents again, exactly as they were; call it when the engine has all their points.

        `receipt` is of a call that restores one document.

        Raises:
            DocumentNotFoundError: one was deleted for good, or restored or replaced meanwhile.
            AlreadyExistsError: another document has the source of one now.
            IndexMovedError: the points are in an engine collection that does not serve any more.
        """
        tenant, name = restoration.collection.tenant, restoration.collection.name
        rows = document_rows(connection, tenant, name, restoration.document_ids, IS_HIDDEN)
        for document_id in set(restoration.document_ids).difference(row["document_id"] for row in rows):
            raise DocumentNotFoundError(document_id)
        if rows[0]["engine_name"] != restoration.collection.engine_name:
            raise IndexMovedError(require_collection(connection, tenant, name))
        collection = rows[0]["collection_key"]
        keys, sources = ([row[column] for row in rows] for column in ("document_key", "source_path"))
        taken = select(documents.c.document_id, documents.c.source_path).where(
            documents.c.collection_key == collection, among(documents.c.source_path, sources), IS_VISIBLE
        )
        alias = document_aliases.c
        of_aliases = alias.collection_key == collection, among(alias.source_path, sources)
        taken_as_alias = (
            select(documents.c.document_id, alias.source_path)
            .join_from(document_aliases, documents)
            .where(*of_aliases, IS_VISIBLE)
        )
        for statement in (taken, taken_as_alias):
            if (other := connection.execute(statement).first()) is not None:
                said = f"document {other.document_id!r} has the source {other.source_path!r} now"
                raise AlreadyExistsError(said, resource=other.document_id)
        # What is deleted softly itself gives the source up, or two documents would have it.
        given_up = delete(document_aliases).where(*of_aliases).returning(alias.document_key)
        for owner in connection.execute(given_up).scalars().all():
            count_aliases(connection, [owner], -1)
        position = advance_position(connection, collection, keeps_history=True)
        live = {"state": GenerationState.LIVE.value, "live_from": position, "live_to": None}
        connection.execute(update(generations).where(_of_hidden(rows)).values(live))
        add_chunks(connection, among(generations.c.document_key, keys) & IS_LIVE)
        values = {"live_generation": documents.c.deleted_generation, "deleted_generation": 0, "delete_time": None}
        connection.execute(update(documents).where(among(documents.c.document_key, keys)).values(values))
        # The tasks of `begin` would only write the same points again.
        connection.execute(delete(outbox).where(among(outbox.c.id, restoration.tasks)))
        restored = SELECT_DOCUMENTS_OF_COLLECTION.where(among(documents.c.document_key, keys))
        given = {"tenant": tenant, "collection": name}
        returned = [to_document(row) for row in connection.execute(restored, given)]
        request_id = self._audit.settle(connection, tenant, receipt, returned[0])
        self._audit.record_all(connection, tenant, "restore_document", restoration.document_ids, request_id)
        return returned


def _of_hidden(rows: Sequence[RowMapping]) -> ColumnElement[bool]:
    """Return the condition for the generations that come back with documents."""
    of_documents = among(generations.c.document_key, [row["document_key"] for row in rows])
    return and_(of_documents, generations.c.state == GenerationState.DELETED.value)
