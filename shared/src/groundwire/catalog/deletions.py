"""Deletions and their receipts: hidden at once, complete as soon as no store and no file holds what was deleted."""

import json
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Row,
    RowMapping,
    Select,
    bindparam,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from groundwire.catalog.database import Database, advance_position
from groundwire.catalog.generations import drop_empty_document
from groundwire.catalog.idempotency import oldest_kept, redact_answers
from groundwire.catalog.lexical_index import remove_chunks
from groundwire.catalog.lexical_search import count_among
from groundwire.catalog.outbox import OutboxKind, queue_deleted_points, queue_dropped_collection
from groundwire.catalog.rows import (
    GenerationState,
    count_indexed,
    field_values,
    hidden_row,
    key_of,
    numbers_of,
    refuse_other_etag,
    visible_row,
)
from groundwire.catalog.schema import (
    chunks,
    collections,
    deletions,
    document_aliases,
    document_tags,
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
from groundwire.catalog.sqlite import among, upsert
from groundwire.catalog.vectors import forget_embeddings, unneeded_embeddings
from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import epoch_ms, from_epoch_ms
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import DocumentFields

_PER_QUERY = 5000
_GIVEN: BindParameter[str] = bindparam("given")


@dataclass(frozen=True, slots=True)
class DeletionTraces:
    """What a deletion concerned; `embedding_hashes` are of vectors nobody else needed, `indexed` counts chunks.

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


def trace_document(
    connection: Connection, row: RowMapping, leaving: Select[tuple[int]], *, permanent: bool
) -> DeletionTraces:
    """Note what the deletion of a document concerns, before it: generations by their keys, their chunks and vectors.

    Args:
        connection: of the transaction that deletes.
        row: what `visible_row` or `hidden_row` returned.
        leaving: the statement for the keys of the generations.
        permanent: whether they go for good.
    """
    digest = row["identity_digest"]
    return DeletionTraces(
        tenant=row["tenant"],
        collection=row["collection"],
        collection_uid=row["collection_uid"],
        engine_name=row["engine_name"],
        document_ids=[row["document_id"]],
        collection_key=row["collection_key"],
        document_keys=[row["document_key"]],
        generation_keys=_keys(connection, leaving),
        numbers=numbers_of(connection, leaving),
        indexed=count_indexed(connection, leaving),
        identity_digest=digest,
        embedding_hashes=unneeded_embeddings(connection, digest, leaving) if permanent else (),
        permanent=permanent,
    )


def trace_collection(connection: Connection, key: int, collection: Collection) -> DeletionTraces:
    """Note what the deletion of a collection concerns, before it."""
    of_all = select(generations.c.generation_key).where(generations.c.collection_key == key)
    rows = select(documents.c.document_key, documents.c.document_id).where(documents.c.collection_key == key)
    found = connection.execute(rows).all()
    digest = collection.identity.digest
    return DeletionTraces(
        tenant=collection.tenant,
        collection=collection.name,
        collection_uid=collection.uid,
        engine_name=collection.engine_name,
        document_ids=[row.document_id for row in found],
        collection_key=key,
        document_keys=[row.document_key for row in found],
        generation_keys=_keys(connection, of_all),
        numbers=numbers_of(connection, of_all),
        indexed=count_indexed(connection, of_all),
        identity_digest=digest,
        embedding_hashes=unneeded_embeddings(connection, digest, of_all),
        permanent=True,
    )


class Leftovers:
    """A final search through the catalog."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def scrub(self, budget: Budget) -> bool:
        """Let the files of the catalog hold nothing of what was deleted; tell whether that is so."""
        return self._database.scrub(budget)

    def count(self, traces: DeletionTraces) -> dict[str, int]:
        """Return how many entries are left, by store: all but the vector engine."""
        with self._database.read() as connection:
            return {
                "catalog": _rows(connection, traces),
                "full_text": count_among(connection, traces.collection_key, traces.numbers),
                "texts": _texts(connection, traces),
                "embedding_cache": _vectors(connection, traces),
                "sessions": _messages(connection, traces),
            }


def _keys(connection: Connection, statement: Select[Any]) -> list[int]:
    return [int(key) for key in connection.execute(statement).scalars()]


def _rows(connection: Connection, traces: DeletionTraces) -> int:
    of_documents = among(documents.c.document_key, _GIVEN)
    if not traces.permanent:
        return _count(connection, of_documents & (documents.c.live_generation > 0), traces.document_keys)
    # A row without any content stays while another ingest of the document is under way.
    with_content = or_(documents.c.live_generation > 0, documents.c.deleted_generation > 0)
    return (
        _count(connection, of_documents & with_content, traces.document_keys)
        + _count(connection, among(generations.c.generation_key, _GIVEN), traces.generation_keys)
        + _count(connection, among(chunks.c.chunk_number, _GIVEN), traces.numbers)
    )


def _texts(connection: Connection, traces: DeletionTraces) -> int:
    of_texts = among(text_segments.c.generation_key, _GIVEN)
    return _count(connection, of_texts, traces.generation_keys) if traces.permanent else 0


def _vectors(connection: Connection, traces: DeletionTraces) -> int:
    needed = exists(select(1).where(chunks.c.embedding_hash == embeddings.c.embedding_hash))
    of_model = embeddings.c.identity_digest == traces.identity_digest
    left = of_model & among(embeddings.c.embedding_hash, _GIVEN) & ~needed
    return _count(connection, left, traces.embedding_hashes)


def _messages(connection: Connection, traces: DeletionTraces) -> int:
    if not traces.permanent:
        return 0
    # What is there again under the same id may be quoted again.
    again = select(documents.c.document_id).where(
        documents.c.tenant == traces.tenant, documents.c.live_generation > 0, among(documents.c.document_id, _GIVEN)
    )
    there = set(connection.execute(again, {"given": json.dumps(list(traces.document_ids))}).scalars())
    gone = [document_id for document_id in traces.document_ids if document_id not in there]
    return count_quoting_messages(connection, traces.tenant, gone)


def _count(connection: Connection, condition: ColumnElement[bool], given: Sequence[Any]) -> int:
    statement = select(func.count()).where(condition)
    parts = (json.dumps(list(given[start : start + _PER_QUERY])) for start in range(0, len(given), _PER_QUERY))
    return sum(int(connection.execute(statement, {"given": part}).scalar_one()) for part in parts)


_IS_WAITING = deletions.c.complete_time.is_(None)


@dataclass(frozen=True, slots=True)
class StoreDeletion:
    """What one store had of what was deleted, and how much of that is `left`; all of it while nobody has looked."""

    store: str
    total: int
    left: int = 0

    @property
    def removed(self) -> int:
        """Return how many entries are gone."""
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

    def searched(self, left: Mapping[str, int], now: datetime) -> "Deletion":
        """Return it with what a final search found, by store."""
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
        cls, traces: DeletionTraces, tasks: Sequence[int], time_ms: int, *, texts: int, embeddings: int, messages: int
    ) -> "Deleted":
        """Make one of what a transaction removed; the engine has not been told yet."""
        stores = (
            StoreDeletion("catalog", len(traces.document_keys) + len(traces.numbers) if traces.permanent else 0),
            StoreDeletion("full_text", traces.indexed),
            StoreDeletion("vectors", traces.indexed, left=traces.indexed),
            StoreDeletion("texts", texts),
            StoreDeletion("embedding_cache", embeddings),
            StoreDeletion("sessions", messages),
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


@dataclass(frozen=True, slots=True)
class WaitingDeletions:
    """Deletions that wait until the files of an engine collection hold nothing of them.

    `collection` is the name that they were made under. The ages are those of the first and of the last one, in
    milliseconds of service.
    """

    engine_name: str
    tenant: str
    collection: str
    first_age_ms: int
    last_age_ms: int


class Deletions:
    """Deletions of all tenants: those that are not complete, and for a day the others.

    One is ready to be completed when the engine has done its tasks and no index of its collection is being built: an
    index that was begun before the deletion holds what was deleted.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, tenant: str, deletion_id: str) -> Deletion | None:
        """Return a deletion as it is now, None when it was completed more than a day ago."""
        statement = select(deletions).where(deletions.c.tenant == tenant, deletions.c.deletion_id == deletion_id)
        with self._database.read() as connection:
            row = connection.execute(statement).first()
        return None if row is None else _to_deletion(row)

    def incomplete(self, tenant: str, limit: int) -> list[Deletion]:
        """Return up to `limit` deletions of a tenant that are not complete, oldest first."""
        statement = select(deletions).where(deletions.c.tenant == tenant, _IS_WAITING).order_by(deletions.c.id)
        with self._database.read() as connection:
            return [_to_deletion(row) for row in connection.execute(statement.limit(limit))]

    def ready(self) -> list[WaitingDeletions]:
        """Return what is ready to be completed, by engine collection, those that wait longest first."""
        now = self._database.steady.now_ms()
        first, last = func.min(deletions.c.hidden_steady), func.max(deletions.c.hidden_steady)
        engine, ready = _engine_and_readiness()
        name = func.max(deletions.c.collection)
        statement = (
            select(engine, deletions.c.tenant, name, now - first, now - last)
            .where(ready)
            .group_by(engine, deletions.c.tenant)
            .order_by(first)
        )
        with self._database.read() as connection:
            return [WaitingDeletions(*row) for row in connection.execute(statement)]

    def ready_of_engine(self, engine_name: str) -> list[Deleted]:
        """Return the deletions that are ready and wait for an engine collection, oldest first."""
        engine, ready = _engine_and_readiness()
        statement = select(deletions).where(ready, engine == engine_name).order_by(deletions.c.id)
        with self._database.read() as connection:
            return [Deleted(_to_deletion(row), _to_traces(row)) for row in connection.execute(statement)]

    def engine_of(self, tenant: str, deletion_id: str) -> str | None:
        """Return the engine collection that a deletion waits for, None unless it is ready."""
        engine, ready = _engine_and_readiness()
        of_id = deletions.c.tenant == tenant, deletions.c.deletion_id == deletion_id
        with self._database.read() as connection:
            return connection.execute(select(engine).where(*of_id, ready)).scalar()

    def note(self, tenant: str, searched: Sequence[Deletion]) -> None:
        """Note what final searches found; what is complete keeps no trace of what was deleted."""

        def work(connection: Connection) -> None:
            for each in searched:
                of_id = deletions.c.tenant == tenant, deletions.c.deletion_id == each.deletion_id
                values: dict[str, Any] = {"stores": _stores(each)}
                if each.complete_time is not None:
                    values |= {"complete_time": epoch_ms(each.complete_time), "traces": b""}
                connection.execute(update(deletions).where(*of_id).values(values))

        self._database.write(work)

    def forget(self, tenant: str, deletion_id: str) -> None:
        """Forget a deletion that was undone."""
        of_id = deletions.c.tenant == tenant, deletions.c.deletion_id == deletion_id
        self._database.write(lambda connection: connection.execute(delete(deletions).where(*of_id)))

    def sweep(self) -> int:
        """Forget the complete ones whose requests are forgotten; return how many."""

        def work(connection: Connection) -> int:
            old = deletions.c.hidden_steady < oldest_kept(self._database.steady)
            return connection.execute(delete(deletions).where(~_IS_WAITING, old)).rowcount

        return self._database.write(work)


def record_deletion(connection: Connection, deleted: Deleted, steady_ms: int) -> None:
    """Remember in the transaction of a deletion that its receipt is to be completed."""
    deletion, traces = deleted.deletion, deleted.traces
    values = {
        "deletion_id": deletion.deletion_id,
        "tenant": traces.tenant,
        "collection": traces.collection,
        "collection_uid": traces.collection_uid,
        "engine_name": traces.engine_name,
        "permanent": int(deletion.permanent),
        "documents": deletion.documents,
        "chunks": deletion.chunks,
        "stores": _stores(deletion),
        "traces": zlib.compress(json.dumps(asdict(traces)).encode(), 1),
        "last_task": max(deleted.tasks, default=0),
        "hide_time": epoch_ms(deletion.hide_time),
        "hidden_steady": steady_ms,
    }
    connection.execute(insert(deletions).values(values))


def _engine_and_readiness() -> tuple[ColumnElement[str], ColumnElement[bool]]:
    """Return the engine collection that serves the collection of a deletion now, and whether it can be scrubbed."""
    serving: Select[tuple[str]] = select(collections.c.engine_name).where(
        collections.c.uid == deletions.c.collection_uid
    )
    engine = func.coalesce(serving.scalar_subquery(), deletions.c.engine_name)
    is_built = exists(select(1).where(index_builds.c.collection_uid == deletions.c.collection_uid))
    # Later tasks are not waited for, or they would hold a receipt up for ever; but an engine collection that was
    # replaced meanwhile has to be gone.
    is_due = or_(outbox.c.id <= deletions.c.last_task, outbox.c.kind == OutboxKind.DROP_COLLECTION.value)
    has_tasks = exists(select(1).where(outbox.c.engine_name.in_([engine, deletions.c.engine_name]), is_due))
    return engine, _IS_WAITING & ~is_built & ~has_tasks


def _stores(deletion: Deletion) -> list[list[Any]]:
    return [[each.store, each.total, each.left] for each in deletion.stores]


def _to_deletion(row: Row[Any]) -> Deletion:
    complete = row.complete_time
    return Deletion(
        deletion_id=row.deletion_id,
        permanent=bool(row.permanent),
        documents=row.documents,
        chunks=row.chunks,
        stores=tuple(StoreDeletion(*each) for each in row.stores),
        hide_time=from_epoch_ms(row.hide_time),
        complete_time=None if complete is None else from_epoch_ms(complete),
    )


def _to_traces(row: Row[Any]) -> DeletionTraces:
    return DeletionTraces(**json.loads(zlib.decompress(row.traces)))


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
    statement = upsert(tombstones).values(tenant=row["tenant"], document_id=row["document_id"], **values)
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
