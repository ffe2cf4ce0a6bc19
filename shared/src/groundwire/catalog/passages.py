"""Chunks with what stands around them, all of one snapshot."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, select

from groundwire.catalog.chunk_rows import SELECT_LIVE_CHUNKS, to_stored_chunk
from groundwire.catalog.collection_rows import require_collection
from groundwire.catalog.database import Database
from groundwire.catalog.generation_keys import IS_LIVE
from groundwire.catalog.tables import chunks, collections, documents, generations
from groundwire.catalog.texts import slice_of_generation
from groundwire.kernel.chunk_place import ChunkPlace
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document
from groundwire.kernel.errors import ChunkNotFoundError
from groundwire.kernel.hit import StoredChunk
from groundwire.kernel.spans import Span

_MAX_NUMBER = 2**53
_c = chunks.c
_PLACE_COLUMNS = (
    _c.sequence_num,
    _c.char_start,
    _c.char_end,
    _c.byte_start,
    _c.byte_end,
    _c.hierarchy_path,
    _c.level,
    _c.upper,
    _c.parent,
    _c.sentence_index,
    _c.window_size,
)


class Passages:
    """Opens readers; safe to use from many threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @contextmanager
    def open(self, tenant: str, collection: str) -> Iterator["PassageReader"]:
        """Give a reader of one collection as it is now.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """
        with self._database.read() as connection:
            yield PassageReader(connection, require_collection(connection, tenant, collection))


class PassageReader:
    """Reads one collection at one moment; belongs to one thread."""

    def __init__(self, connection: Connection, collection: Collection) -> None:
        self.collection = collection
        self._connection = connection

    def find(self, reference: str | int) -> StoredChunk:
        """Return a chunk by its id or its number.

        Raises:
            ChunkNotFoundError: no live generation of the collection has it.
        """
        is_number = isinstance(reference, int)
        if is_number and not 0 < int(reference) < _MAX_NUMBER:
            raise ChunkNotFoundError(str(reference))
        statement = SELECT_LIVE_CHUNKS.where(
            collections.c.tenant == self.collection.tenant,
            collections.c.name == self.collection.name,
            (_c.chunk_number if is_number else _c.chunk_id) == reference,
        )
        row = self._connection.execute(statement).first()
        if row is None:
            raise ChunkNotFoundError(str(reference))
        return to_stored_chunk(row, {})

    def places(self, document_id: str) -> list[ChunkPlace]:
        """Return where all chunks of a document stand, by rising sequence number."""
        statement = (
            select(*_PLACE_COLUMNS)
            .join_from(chunks, generations, _c.generation_key == generations.c.generation_key)
            .join(documents, _c.document_key == documents.c.document_key)
            .where(IS_LIVE, documents.c.tenant == self.collection.tenant, documents.c.document_id == document_id)
            .order_by(_c.sequence_num)
        )
        return [_to_place(row) for row in self._connection.execute(statement)]

    def chunks(self, document_id: str, first: int, last: int) -> list[StoredChunk]:
        """Return the chunks `first` to `last` of a document, by sequence number."""
        statement = SELECT_LIVE_CHUNKS.where(
            documents.c.tenant == self.collection.tenant,
            documents.c.document_id == document_id,
            _c.sequence_num.between(first, last),
        ).order_by(_c.sequence_num)
        seen: dict[int, Document] = {}
        return [to_stored_chunk(row, seen) for row in self._connection.execute(statement)]

    def text(self, document_id: str, start: int, end: int) -> str:
        """Return the code points start..end of the live text of a document.

        Raises:
            DataLossError: they are not within the text, or a part of it is missing.
        """
        return slice_of_generation(
            self._connection, self.collection.tenant, self.collection.name, document_id, None, [(start, end)]
        )[0]


def _to_place(row: Any) -> ChunkPlace:
    return ChunkPlace(
        sequence_num=row.sequence_num,
        span=Span(row.char_start, row.char_end, row.byte_start, row.byte_end),
        hierarchy_path=tuple(row.hierarchy_path),
        level=row.level,
        upper=bool(row.upper),
        parent=row.parent,
        sentence_index=row.sentence_index,
        window_size=row.window_size,
    )
