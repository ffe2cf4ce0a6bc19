"""Collections: their settings, their positions and their figures."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.database import POSITION_NOW, advance_position, in_transaction
from groundwire.catalog.deletions import Deleted, Deletion, delete_collection, insert_deletion
from groundwire.catalog.dialects import execute
from groundwire.catalog.idempotency import settle
from groundwire.catalog.rows import (
    IS_STORED,
    IS_VISIBLE,
    SELECT_COLLECTION,
    collection_key,
    collection_values,
    find_collection,
    key_of,
    require_collection,
    settings_value,
    to_collection,
    visible_generation_keys,
)
from groundwire.catalog.schema import chunks, collections, documents, records
from groundwire.kernel.collection import Collection, CollectionSettings
from groundwire.kernel.errors import AlreadyExistsError, CollectionNotFoundError, ConflictError, PreconditionError
from groundwire.kernel.exactly_once import Receipt

_INSERT = insert(collections)
_POSITION = select(collections.c.uid, POSITION_NOW).where(
    collections.c.tenant == bindparam("tenant"), collections.c.name == bindparam("name")
)


@dataclass(frozen=True, slots=True)
class CollectionCounts:
    """How much is live in a collection; chunks that stand for whole sections and documents are not counted.

    `records` are those of the documents that are records.
    """

    documents: int
    records: int
    chunks: int
    total_chars: int


@dataclass(frozen=True, slots=True)
class CollectionPosition:
    """A position of the catalog, and the uid of a collection that existed then."""

    uid: str
    position: int


@dataclass(frozen=True, slots=True)
class CollectionStatistics:
    """Figures of what is live; the mappings count documents by value, `by_model` chunks.

    Records count as documents, but in `by_record_type` alone of the mappings. `by_project` has those without a project
    under the empty key. `overlap_share` is the share of the chunks' code points that are in the chunk before as well,
    in [0, 1].
    """

    collection: Collection
    documents: int
    chunks: int
    total_chars: int
    by_format: Mapping[str, int]
    by_project: Mapping[str, int]
    by_record_type: Mapping[str, int]
    by_model: Mapping[str, int]
    overlap_share: float


class Collections(Aggregate):
    """Collections of all tenants; each call sees those of one."""

    @in_transaction
    def create(
        self, connection: Connection, collection: Collection, receipt: Receipt[Collection] | None = None
    ) -> Collection:
        """Store a collection; one of the same name and settings is returned as it is.

        Raises:
            AlreadyExistsError: the name is taken by a collection with other settings.
        """
        found = find_collection(connection, collection.tenant, collection.name)
        if found is not None:
            given = (collection.profile, collection.identity, collection.settings)
            if given != (found.profile, found.identity, found.settings):
                message = f"collection {collection.name!r} exists with other settings"
                raise AlreadyExistsError(message, resource=collection.name)
            # Stored here too: a repetition must get this answer even if the collection changes in between.
            settle(connection, self._database.steady, collection.tenant, receipt, found)
            return found
        execute(connection, _INSERT, collection_values(collection))
        # Read back, because times are stored in milliseconds: later calls must return the same.
        stored = require_collection(connection, collection.tenant, collection.name)
        self._audit.record(connection, stored.tenant, "create_collection", stored.name, receipt, stored)
        return stored

    def get(self, tenant: str, name: str) -> Collection:
        found = self.find(tenant, name)
        if found is None:
            raise CollectionNotFoundError(name)
        return found

    def find(self, tenant: str, name: str) -> Collection | None:
        rows = self._database.rows(SELECT_COLLECTION, {"tenant": tenant, "collection": name})
        return to_collection(rows[0]._mapping) if rows else None  # noqa: SLF001 - SQLAlchemy's name for what is public

    def position(self, tenant: str, name: str) -> CollectionPosition:
        """Return the current position; a write that was acknowledged is at or before each that is read afterwards."""
        for uid, position in self._database.rows(_POSITION, {"tenant": tenant, "name": name}):
            return CollectionPosition(uid, position)
        raise CollectionNotFoundError(name)

    def of_engine(self, engine_name: str) -> Collection:
        """Return the collection that an engine collection serves, whichever tenant's.

        Raises:
            CollectionNotFoundError: none; it was deleted, or another engine collection serves it now.
        """
        served = select(collections).where(collections.c.engine_name == engine_name)
        found = self._database.query(served).mappings().first()
        if found is None:
            raise CollectionNotFoundError(engine_name)
        return to_collection(found)

    def engine_names(self) -> list[str]:
        """Return the names of the engine collections that serve, of all tenants."""
        return list(self._database.query(select(collections.c.engine_name)).scalars())

    def larger_than(self, chunk_count: int) -> list[Collection]:
        """Return the collections of all tenants with more live chunks than that; reads every document."""
        summed = select(documents.c.collection_key).where(IS_VISIBLE).group_by(documents.c.collection_key)
        large = summed.having(func.sum(documents.c.chunk_count) > chunk_count)
        statement = select(collections).where(collections.c.collection_key.in_(large))
        return [to_collection(row) for row in self._database.query(statement).mappings()]

    def page(self, tenant: str, after_name: str, limit: int) -> list[Collection]:
        """Return up to `limit` collections with names above `after_name` (empty for the first), by name."""
        # By name, not by offset: creations and deletions between two pages do not shift the entries.
        statement = (
            select(collections)
            .where(collections.c.tenant == tenant, collections.c.name > after_name)
            .order_by(collections.c.name)
            .limit(limit)
        )
        return [to_collection(row) for row in self._database.query(statement).mappings()]

    @in_transaction
    def update(
        self,
        connection: Connection,
        tenant: str,
        name: str,
        change: Callable[[Collection], CollectionSettings],
        receipt: Receipt[Collection] | None = None,
        *,
        etag: str = "",
    ) -> Collection:
        """Give a collection the settings that `change` makes of it, in one transaction; errors of `change` pass."""
        found = require_collection(connection, tenant, name)
        _refuse_other_etag(found, etag)
        settings = change(found)
        if settings != found.settings:
            key = collection_key(connection, tenant, name)
            values = {"settings": settings_value(settings), "update_time": self._now()}
            connection.execute(update(collections).where(collections.c.collection_key == key).values(values))
            # Views and vocabularies cache a collection with its settings until its position moves.
            advance_position(connection, key, keeps_history=True)
        stored = require_collection(connection, tenant, name)
        self._audit.record(connection, tenant, "update_collection", name, receipt, stored)
        return stored

    @in_transaction
    def delete(
        self,
        connection: Connection,
        tenant: str,
        name: str,
        receipt: Receipt[Deletion] | None = None,
        *,
        only_empty: bool = False,
        etag: str = "",
    ) -> Deleted:
        """Remove a collection; its engine collection is queued to be dropped.

        Raises:
            PreconditionError: with `only_empty`, when it has documents, perhaps ones that were deleted softly.
        """
        now = self._now()
        found = require_collection(connection, tenant, name)
        _refuse_other_etag(found, etag)
        if only_empty:
            of_collection = documents.c.collection_key == collection_key(connection, tenant, name)
            counted = select(func.count()).select_from(documents).where(of_collection, IS_STORED)
            if count := connection.execute(counted).scalar_one():
                also = f"{count} with those that can be restored; force deletes them too"
                raise PreconditionError(f"collection {name!r} has documents, {also}", resource=name)
        deleted = delete_collection(connection, found, now)
        insert_deletion(connection, deleted, self._database.steady.now_ms())
        self._audit.record(connection, tenant, "delete_collection", name, receipt, deleted.deletion)
        return deleted

    def counts(self, tenant: str, name: str) -> CollectionCounts:
        sums = (func.sum(documents.c.chunk_count), func.sum(documents.c.total_chars))
        with self._database.read() as connection:
            key = collection_key(connection, tenant, name)
            statement = select(func.count(), func.count(documents.c.record), *(func.coalesce(each, 0) for each in sums))
            row = connection.execute(statement.where(documents.c.collection_key == key, IS_VISIBLE)).one()
        return CollectionCounts(*map(int, row))

    def statistics(self, tenant: str, name: str) -> CollectionStatistics:
        """Return figures of what is live in a collection; reads every chunk of it."""
        with self._database.read() as connection:
            collection = require_collection(connection, tenant, name)
            key = key_of(collection)
            groups = (documents.c.doc_type, func.coalesce(documents.c.project, ""), records.c.record_type)
            sums = (func.count(), func.sum(documents.c.total_chars))
            of_documents = (
                select(*groups, *sums)
                .join_from(documents, records, records.c.document_key == documents.c.document_key, isouter=True)
                .where(documents.c.collection_key == key, IS_VISIBLE)
            )
            rows = connection.execute(of_documents.group_by(*groups)).all()
            lengths = (func.sum(chunks.c.overlap_prev_chars), func.sum(chunks.c.char_end - chunks.c.char_start))
            # Chunks that stand for whole sections and documents are counted nowhere.
            of_chunks = (chunks.c.generation_key.in_(visible_generation_keys(key)), chunks.c.upper == 0)
            by_model = select(chunks.c.embedding_model, func.count(), *lengths).where(*of_chunks)
            models = connection.execute(by_model.group_by(chunks.c.embedding_model)).all()
        length = sum(row[3] for row in models)
        own = [row for row in rows if row[2] is None]
        return CollectionStatistics(
            collection=collection,
            documents=sum(row[3] for row in rows),
            chunks=sum(row[1] for row in models),
            total_chars=sum(row[4] for row in rows),
            by_format=_documents_by(own, 0),
            by_project=_documents_by(own, 1),
            by_record_type=_documents_by([row for row in rows if row[2] is not None], 2),
            by_model={row[0]: row[1] for row in models},
            overlap_share=sum(row[2] for row in models) / length if length else 0.0,
        )


def _refuse_other_etag(found: Collection, etag: str) -> None:
    if etag and found.etag != etag:
        raise ConflictError("the collection has another etag by now: read it again", resource=found.name)


def _documents_by(rows: Sequence[Sequence[Any]], group: int) -> dict[Any, int]:
    totals: Counter[Any] = Counter()
    for row in rows:
        totals[row[group]] += row[3]
    return dict(totals)
