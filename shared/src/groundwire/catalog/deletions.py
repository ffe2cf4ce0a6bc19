"""Deletions and their receipts: hidden at once, complete as soon as no store and no file holds what was deleted."""

import json
import uuid
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, delete, exists, func, insert, or_, select, update

from groundwire.catalog.bookkeeping_tables import deletions, index_builds, outbox
from groundwire.catalog.database import Database
from groundwire.catalog.deletion_traces import DeletionTraces
from groundwire.catalog.ledger import oldest_kept
from groundwire.catalog.outbox import OutboxKind
from groundwire.catalog.tables import collections
from groundwire.kernel.clock import epoch_ms, from_epoch_ms

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
