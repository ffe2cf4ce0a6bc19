"""Chunks of live generations: by id, by document, by number, by filter."""

import json
from collections.abc import Sequence

from sqlalchemy import Connection, Select, case, func, select, true

from groundwire.catalog.chunk_rows import select_live_chunks, to_stored_chunk
from groundwire.catalog.collection_rows import collection_key
from groundwire.catalog.database import Database
from groundwire.catalog.filters_sql import to_sql
from groundwire.catalog.tables import chunks, collections, documents
from groundwire.kernel.document import Document
from groundwire.kernel.errors import ChunkNotFoundError, DocumentNotFoundError
from groundwire.kernel.filter_fields import FieldKind
from groundwire.kernel.filters import Filter
from groundwire.kernel.hit import StoredChunk


class Chunks:
    """Live chunks of all tenants; each call sees those of one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._fields: dict[int, tuple[int, dict[str, FieldKind]]] = {}

    def get(self, tenant: str, chunk_id_or_number: str | int) -> StoredChunk:
        """Return a chunk by its id or its number.

        Raises:
            ChunkNotFoundError: no live generation of the tenant has it.
        """
        by_number = isinstance(chunk_id_or_number, int)
        column = chunks.c.chunk_number if by_number else chunks.c.chunk_id
        if by_number and not 0 < int(chunk_id_or_number) < 2**53:
            raise ChunkNotFoundError(str(chunk_id_or_number))
        with self._database.read() as connection:
            row = connection.execute(select_live_chunks(tenant).where(column == chunk_id_or_number)).mappings().first()
        if row is None:
            raise ChunkNotFoundError(str(chunk_id_or_number))
        return to_stored_chunk(row, {})

    def page(
        self, tenant: str, collection: str, document_id: str, after_sequence: int, limit: int
    ) -> list[StoredChunk]:
        """Return up to `limit` chunks of a document with sequence numbers above `after_sequence` (-1: all), in order.

        Raises:
            DocumentNotFoundError: the collection has no such document.
        """
        of_this = (documents.c.document_id == document_id, collections.c.name == collection)
        statement = select_live_chunks(tenant).where(*of_this, chunks.c.sequence_num > after_sequence)
        seen: dict[int, Document] = {}
        with self._database.read() as connection:
            rows = connection.execute(statement.order_by(chunks.c.sequence_num).limit(limit)).mappings()
            found = [to_stored_chunk(row, seen) for row in rows]
            if not found and connection.execute(_document(tenant, collection, document_id)).first() is None:
                raise DocumentNotFoundError(document_id)
        return found

    def live(self, tenant: str, collection: str, numbers: Sequence[int]) -> dict[int, StoredChunk]:
        """Return those of the chunks that are live in the collection, by number, in the order given; one query."""
        given = func.json_each(json.dumps(list(numbers))).table_valued("value")
        statement = select_live_chunks(tenant).where(
            collections.c.name == collection, chunks.c.chunk_number.in_(select(given.c.value))
        )
        seen: dict[int, Document] = {}
        with self._database.read() as connection:
            rows = connection.execute(statement).mappings()
            found = {row[chunks.c.chunk_number]: to_stored_chunk(row, seen) for row in rows}
        return {number: found[number] for number in numbers if number in found}

    def matching(self, tenant: str, collection: str, where: Filter, limit: int | None) -> list[int]:
        """Return the numbers of live chunks whose payload matches a filter, ascending, at most `limit`.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """
        with self._database.read() as connection:
            key = collection_key(connection, tenant, collection)
            statement = (
                select(chunks.c.chunk_number)
                .where(chunks.c.collection_key == key, chunks.c.live == 1, to_sql(where, chunks.c.payload))
                .order_by(chunks.c.chunk_number)
                .limit(limit)
            )
            return list(connection.execute(statement).scalars())

    def fields(self, tenant: str, collection: str) -> dict[str, FieldKind]:
        """Return the metadata fields that visible documents brought along, with what they hold.

        A field that holds several kinds has the one of most documents. Truth values and all numbers are INTEGER.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """
        with self._database.read() as connection:
            key, position = collection_key(connection, tenant, collection), self._database.position(connection)
            cached = self._fields.get(key)
            if cached is None or cached[0] != position:
                cached = (position, _fields(connection, key))
                self._fields[key] = cached
            return dict(cached[1])


def _fields(connection: Connection, key: int) -> dict[str, FieldKind]:
    each = func.json_each(documents.c.metadata).table_valued("key", "value", "type")
    of_element = func.json_type(each.c.value, "$[0]")
    kind = case((each.c.type == "array", "list of " + of_element), else_=each.c.type)
    statement = (
        select(each.c.key, kind, func.count())
        .select_from(documents)
        .join(each, true())
        .where(documents.c.collection_key == key, documents.c.live_generation > 0)
        .group_by(each.c.key, kind)
        .order_by(each.c.key, func.count(), kind)
    )
    # Of several rows for a name the last, most frequent one stays.
    return {name: _kind(stored) for name, stored, _ in connection.execute(statement)}


def _kind(stored: str) -> FieldKind:
    is_text, is_list = stored.endswith("text"), stored.startswith("list of ")
    if is_list:
        return FieldKind.TEXT_LIST if is_text else FieldKind.INTEGER_LIST
    return FieldKind.TEXT if is_text else FieldKind.INTEGER


def _document(tenant: str, collection: str, document_id: str) -> Select[tuple[int]]:
    return (
        select(documents.c.document_key)
        .join(collections, documents.c.collection_key == collections.c.collection_key)
        .where(
            documents.c.tenant == tenant,
            documents.c.document_id == document_id,
            documents.c.live_generation > 0,
            collections.c.name == collection,
        )
    )
