"""Chunks of live generations: by id, by document, by number, by filter."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, bindparam, func, select

from groundwire.catalog.bookkeeping_tables import embeddings
from groundwire.catalog.chunk_rows import SELECT_LIVE_CHUNKS, to_stored_chunk
from groundwire.catalog.collection_rows import collection_key
from groundwire.catalog.database import Database
from groundwire.catalog.document_rows import SELECT_DOCUMENTS_OF_COLLECTION
from groundwire.catalog.filter_split import chunks_matching
from groundwire.catalog.generation_keys import live_generation_keys
from groundwire.catalog.metadata_fields import metadata_fields
from groundwire.catalog.tables import chunks, collections, documents
from groundwire.kernel.document import Document
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import DocumentNotFoundError
from groundwire.kernel.filter_fields import FieldKind
from groundwire.kernel.filters import And, Filter
from groundwire.kernel.hit import StoredChunk

# A page is cut to size as a message; this keeps the contents of a thousand of the longest chunks out of memory.
_PAGE_CHARS = 4 << 20
_SLICE = 100
_OF_TENANT = SELECT_LIVE_CHUNKS.where(collections.c.tenant == bindparam("tenant"))
_BY_NUMBERS = _OF_TENANT.where(
    collections.c.name == bindparam("collection"),
    chunks.c.chunk_number.in_(select(func.json_each(bindparam("wanted")).table_valued("value").c.value)),
)
_BY_ANY_NUMBERS = _OF_TENANT.where(
    chunks.c.chunk_number.in_(select(func.json_each(bindparam("wanted")).table_valued("value").c.value)),
)
_BY_IDS = _OF_TENANT.where(
    chunks.c.tenant == bindparam("tenant"),
    chunks.c.chunk_id.in_(select(func.json_each(bindparam("wanted")).table_valued("value").c.value)),
)
_OF_DOCUMENT = (
    SELECT_LIVE_CHUNKS.where(chunks.c.document_key == bindparam("document"), chunks.c.sequence_num > bindparam("after"))
    .order_by(chunks.c.sequence_num)
    .limit(bindparam("limit"))
)
_DOCUMENT = SELECT_DOCUMENTS_OF_COLLECTION.where(documents.c.document_id == bindparam("document_id"))


@dataclass(frozen=True, slots=True)
class ListedChunks:
    """Chunks in order; `vectors` has theirs by embedding hash: float32, shape (dimensions,), read-only.

    `is_last` says that no chunk follows.
    """

    chunks: Sequence[StoredChunk]
    vectors: Mapping[str, Vectors]
    is_last: bool


class Chunks:
    """Live chunks of all tenants; each call sees those of one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._fields: dict[int, tuple[int, dict[str, FieldKind]]] = {}

    def find(self, tenant: str, references: Sequence[str | int]) -> list[StoredChunk]:
        """Return those of the chunks with these ids or numbers that are live, in whatever collection, in no order."""
        with self._database.read() as connection:
            return _chunks_of(connection, tenant, references)

    def find_with_vectors(
        self, tenant: str, collection: str, references: Sequence[str | int]
    ) -> tuple[list[StoredChunk], dict[str, Vectors]]:
        """Return those of the chunks that are live in the collection, in no order, and their vectors by embedding hash.

        All are of one moment: the vector of a chunk goes when its document is deleted.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """
        with self._database.read() as connection:
            key = collection_key(connection, tenant, collection)
            live = _chunks_of(connection, tenant, references)
            found = [stored for stored in live if stored.document.collection == collection]
            return found, _vectors_of(connection, key, found)

    def page(
        self, tenant: str, collection: str, document_id: str, after_sequence: int, limit: int
    ) -> list[StoredChunk]:
        """Return up to `limit` chunks of a document with sequence numbers above `after_sequence` (-1: all), in order.

        Raises:
            DocumentNotFoundError: the collection has no such document.
        """
        given = {"tenant": tenant, "collection": collection, "document_id": document_id}
        with self._database.read() as connection:
            row = connection.execute(_DOCUMENT, given).first()
            if row is None:
                raise DocumentNotFoundError(document_id)
            wanted = {"document": row[0], "after": after_sequence, "limit": limit}
            rows = connection.execute(_OF_DOCUMENT, wanted).all()
        seen: dict[int, Document] = {}
        return [to_stored_chunk(row, seen) for row in rows]

    def live(self, tenant: str, collection: str, numbers: Sequence[int]) -> dict[int, StoredChunk]:
        """Return those of the chunks that are live in the collection, by number, in the order given; one query."""
        with self._database.read() as connection:
            return live_chunks(connection, tenant, collection, numbers)

    def listed(
        self,
        tenant: str,
        collection: str,
        *,
        document_id: str,
        where: Filter | None,
        after: int,
        limit: int,
        include_vectors: bool,
    ) -> ListedChunks:
        """Return up to `limit` live chunks, all of one moment, so that a page never lacks what was replaced meanwhile.

        There are fewer, but one at least, where their contents are longer than a page can be.

        Args:
            tenant: whose collection it is.
            collection: its name.
            document_id: the document they must belong to; empty for any.
            where: the filter they must match; None lists the chunks of the document in the order of its text.
            after: a chunk number, or without a filter a sequence number, that the first one is above.
            limit: at least 1.
            include_vectors: also return their vectors.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
            DocumentNotFoundError: the collection has no such document.
        """
        given = {"tenant": tenant, "collection": collection, "document_id": document_id}
        seen: dict[int, Document] = {}
        with self._database.read() as connection:
            key = collection_key(connection, tenant, collection)
            document = connection.execute(_DOCUMENT, given).first() if document_id else None
            if document_id and document is None:
                raise DocumentNotFoundError(document_id)
            if where is None and document is not None:
                wanted = {"document": document[0], "after": after, "limit": limit + 1}
                rows = connection.execute(_OF_DOCUMENT, wanted)
                found, is_last = _page_of((to_stored_chunk(row, seen) for row in rows), limit)
                rows.close()
            else:
                numbers = _matching(connection, key, where or And(()), after, limit + 1)
                slices = (numbers[at : at + _SLICE] for at in range(0, len(numbers), _SLICE))
                live = (live_chunks(connection, tenant, collection, each).values() for each in slices)
                found, is_last = _page_of((stored for each in live for stored in each), limit)
            vectors = _vectors_of(connection, key, found) if include_vectors else {}
        return ListedChunks(found, vectors, is_last)

    def fields(self, tenant: str, collection: str) -> dict[str, FieldKind]:
        """Return the metadata fields that visible documents brought along, with what they hold.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """
        with self._database.read() as connection:
            key, position = collection_key(connection, tenant, collection), self._database.position(connection)
            cached = self._fields.get(key)
            if cached is None or cached[0] != position:
                cached = (position, metadata_fields(connection, key))
                self._fields[key] = cached
            return dict(cached[1])


def _chunks_of(connection: Connection, tenant: str, references: Sequence[str | int]) -> list[StoredChunk]:
    ids = [reference for reference in references if isinstance(reference, str)]
    numbers = [reference for reference in references if isinstance(reference, int)]
    seen: dict[int, Document] = {}
    return [
        to_stored_chunk(row, seen)
        for statement, wanted in ((_BY_IDS, ids), (_BY_ANY_NUMBERS, numbers))
        if wanted
        for row in connection.execute(statement, {"tenant": tenant, "wanted": json.dumps(wanted)})
    ]


def _page_of(rows: Iterable[StoredChunk], limit: int) -> tuple[list[StoredChunk], bool]:
    """Take a page from chunks in order, and tell whether they are all in it."""
    found: list[StoredChunk] = []
    chars = 0
    for stored in rows:
        chars += len(stored.chunk.content)
        if len(found) == limit or (found and chars > _PAGE_CHARS):
            return found, False
        found.append(stored)
    return found, True


def _matching(connection: Connection, key: int, where: Filter, after: int, limit: int) -> list[int]:
    """Return the numbers above `after` of live chunks that match, ascending, at most `limit`."""
    found = (
        select(chunks.c.chunk_number)
        .where(chunks.c.chunk_number > after, chunks_matching(live_generation_keys(key), where))
        .order_by(chunks.c.chunk_number)
        .limit(limit)
        .subquery()
    )
    # One row instead of many thousand: the interpreter lock is taken once.
    stored = connection.execute(select(func.json_group_array(found.c.chunk_number))).scalar_one()
    return sorted(json.loads(stored))


def _vectors_of(connection: Connection, key: int, found: Sequence[StoredChunk]) -> dict[str, Vectors]:
    hashes = func.json_each(json.dumps([stored.chunk.embedding_hash for stored in found])).table_valued("value")
    statement = select(embeddings.c.embedding_hash, embeddings.c.vector).where(
        embeddings.c.identity_digest
        == select(collections.c.identity_digest).where(collections.c.collection_key == key).scalar_subquery(),
        embeddings.c.embedding_hash.in_(select(hashes.c.value)),
    )
    return {row.embedding_hash: np.frombuffer(row.vector, dtype="<f4") for row in connection.execute(statement)}


def live_chunks(connection: Connection, tenant: str, collection: str, numbers: Sequence[int]) -> dict[int, StoredChunk]:
    """Return those of the chunks that are live in the collection, by number, in the order given; one query."""
    given = {"tenant": tenant, "collection": collection, "wanted": json.dumps(list(numbers))}
    seen: dict[int, Document] = {}
    found = {row[0]: to_stored_chunk(row, seen) for row in connection.execute(_BY_NUMBERS, given)}
    return {number: found[number] for number in numbers if number in found}
