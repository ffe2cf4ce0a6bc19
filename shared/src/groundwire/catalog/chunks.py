"""Chunks of live generations: by id, by document, by number, by filter, with what stands around them; repeated ones."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, exists, func, literal_column, select, true, update

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.database import Database, advance_position, in_transaction
from groundwire.catalog.dialects import among, array_of, read_array, read_compiled
from groundwire.catalog.encoding import encode_json
from groundwire.catalog.filters import Scopes, chunks_matching, in_scopes
from groundwire.catalog.lexical_index import add_chunks, numbered
from groundwire.catalog.rows import (
    CHUNK_COLUMNS,
    DOCUMENT_COLUMNS,
    IS_INDEXED,
    IS_LIVE,
    SELECT_DOCUMENTS_OF_COLLECTION,
    SELECT_LIVE_CHUNKS,
    collection_key,
    key_of,
    require_collection,
    then,
    to_stored_chunks,
    visible_generation_keys,
)
from groundwire.catalog.schema import chunks, collections, documents, generations
from groundwire.catalog.texts import live_text
from groundwire.catalog.vectors import vectors_by_hash
from groundwire.catalog.vocabularies import metadata_fields
from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.kernel.chunk import ChunkLocation, StoredChunk
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import ChunkNotFoundError, DocumentNotFoundError
from groundwire.kernel.filters import And, FieldKind, Filter
from groundwire.kernel.spans import Span

# Pages are cut to message size; this bound keeps a thousand of the longest chunks from filling the memory.
_PAGE_CHARS = 4 << 20
_SLICE = 100
_OF_TENANT = SELECT_LIVE_CHUNKS.where(collections.c.tenant == bindparam("tenant"))
_BY_NUMBERS = _OF_TENANT.where(
    collections.c.name == bindparam("collection"),
    among(chunks.c.chunk_number, bindparam("values")),
)
_BY_ANY_NUMBERS = _OF_TENANT.where(
    among(chunks.c.chunk_number, bindparam("values")),
)
_BY_IDS = _OF_TENANT.where(
    chunks.c.tenant == bindparam("tenant"),
    among(chunks.c.chunk_id, bindparam("values")),
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


_CACHED_FIELDS = 1000


class Chunks(Aggregate):
    """Live chunks of all tenants; each call sees those of one."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._fields: BoundedCache[tuple[int, Scopes | None], tuple[int, dict[str, FieldKind]]] = BoundedCache(
            _CACHED_FIELDS
        )

    def find(self, tenant: str, references: Sequence[str | int]) -> list[StoredChunk]:
        """Return those of the chunks with these ids or numbers that are live, in whatever collection, in no order."""
        with self._database.read() as connection:
            return _chunks_of(connection, tenant, references)

    def find_with_vectors(
        self, tenant: str, collection: str, references: Sequence[str | int]
    ) -> tuple[list[StoredChunk], dict[str, Vectors]]:
        """Return those of the chunks that are live in the collection, in no order, and their vectors by embedding hash.

        All are of one moment: the vector of a chunk goes when its document is deleted.
        """
        with self._database.read() as connection:
            live = _chunks_of(connection, tenant, references)
            found = [stored for stored in live if stored.document.collection == collection]
            return found, _vectors_of(connection, tenant, collection, found)

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
            of_document = {"document": row[0], "after": after_sequence, "limit": limit}
            rows = connection.execute(_OF_DOCUMENT, of_document).all()
        return list(to_stored_chunks(rows))

    @contextmanager
    def passages(self, tenant: str, collection: str) -> Iterator["PassageReader"]:
        """Open a reader of one collection as it is now."""
        with self._database.read() as connection:
            yield PassageReader(connection, require_collection(connection, tenant, collection))

    def listed(
        self,
        tenant: str,
        collection: str,
        *,
        scopes: Scopes | None = None,
        document_id: str,
        where: Filter | None,
        after: int,
        limit: int,
        include_vectors: bool,
    ) -> ListedChunks:
        """Return up to `limit` live chunks, all of one moment, so that a page never lacks what was replaced meanwhile.

        There are fewer, but one at least, where their contents are longer than a page can be.

        Without a filter those of one document are listed in the order of its text, above the sequence number `after`;
        with one, those above the chunk number `after`. Empty `document_id` means any, `scopes` None all.

        Raises:
            DocumentNotFoundError: the collection has no such document.
        """
        given = {"tenant": tenant, "collection": collection, "document_id": document_id}
        with self._database.read() as connection:
            key = collection_key(connection, tenant, collection)
            document = connection.execute(_DOCUMENT, given).first() if document_id else None
            if document_id and document is None:
                raise DocumentNotFoundError(document_id)
            if where is None and document is not None:
                of_document = {"document": document[0], "after": after, "limit": limit + 1}
                # Read lazily: a page with long contents ends early, and the rest is never decoded.
                rows = connection.execute(_OF_DOCUMENT, of_document)
                found, is_last = _page_of(to_stored_chunks(rows), limit)
                rows.close()
            else:
                # Numbers first: contents are read in slices, and only as far as the page goes.
                matching = (
                    select(chunks.c.chunk_number)
                    .where(
                        chunks.c.chunk_number > after,
                        chunks_matching(visible_generation_keys(key), where or And(())),
                        in_scopes(chunks.c.document_key, scopes),
                    )
                    .order_by(chunks.c.chunk_number)
                    .limit(limit + 1)
                    .subquery()
                )
                numbers = sorted(read_array(connection, select(array_of(matching.c.chunk_number))))
                slices = (numbers[at : at + _SLICE] for at in range(0, len(numbers), _SLICE))
                live = (_live_chunks(connection, tenant, collection, each) for each in slices)
                found, is_last = _page_of((stored for each in live for stored in each), limit)
            vectors = _vectors_of(connection, tenant, collection, found) if include_vectors else {}
        return ListedChunks(found, vectors, is_last)

    def fields(self, tenant: str, collection: str, scopes: Scopes | None = None) -> dict[str, FieldKind]:
        """Return the metadata fields that visible documents, and records of these scopes, brought along."""
        with self._database.read() as connection:
            key, position = collection_key(connection, tenant, collection), self._database.position(connection)
            cached = self._fields.get((key, scopes))
            # Any change anywhere invalidates it: more often than needed, but never too late.
            if cached is None or cached[0] != position:
                cached = (position, metadata_fields(connection, key, scopes))
                self._fields.put((key, scopes), cached)
            return dict(cached[1])


def _chunks_of(connection: Connection, tenant: str, references: Sequence[str | int]) -> list[StoredChunk]:
    ids = [reference for reference in references if isinstance(reference, str)]
    numbers = [reference for reference in references if isinstance(reference, int)]
    found: list[StoredChunk] = []
    for statement, values in ((_BY_IDS, ids), (_BY_ANY_NUMBERS, numbers)):
        if values:
            rows = connection.execute(statement, {"tenant": tenant, "values": encode_json(values)})
            found += to_stored_chunks(rows)
    return found


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


def _vectors_of(
    connection: Connection, tenant: str, collection: str, found: Sequence[StoredChunk]
) -> dict[str, Vectors]:
    digest = require_collection(connection, tenant, collection).identity.digest
    return vectors_by_hash(connection, digest, [stored.chunk.embedding_hash for stored in found])


def _live_chunks(connection: Connection, tenant: str, collection: str, numbers: Sequence[int]) -> list[StoredChunk]:
    """Return those of the chunks that are live in the collection, in the order given; one query."""
    given = {"tenant": tenant, "collection": collection, "values": encode_json(list(numbers))}
    rows = connection.execute(_BY_NUMBERS, given).all()
    found = {stored.chunk_number: stored for stored in to_stored_chunks(rows)}
    return [found[number] for number in numbers if number in found]


def _with_position(found: Select[Any]) -> Select[Any]:
    """Return the statement for what is found in a collection, and the position at which that had last changed.

    Both are of one moment, without a transaction. It takes the key of the `collection`, and `values` as JSON.
    """
    position = collections.c.changed_position
    # By itself SQLAlchemy would make the collections inside the statement those outside of it.
    return select(position, found.correlate(None).scalar_subquery()).where(
        collections.c.collection_key == bindparam("collection")
    )


# "+ 0" keeps SQLite from beginning with all generations of the collection instead of the few chunks.
LIVE_CHUNKS = _with_position(
    select(array_of(*CHUNK_COLUMNS, chunks.c.document_key))
    .join_from(chunks, generations)
    .where(
        among(chunks.c.chunk_number, bindparam("values")),
        generations.c.collection_key + 0 == bindparam("collection"),
        IS_LIVE,
    )
)
"""Those of the chunks with these numbers that are live, in no order: rows for `to_stored_chunk`."""
DOCUMENTS_BY_KEY = _with_position(
    select(array_of(*DOCUMENT_COLUMNS))
    .join_from(documents, collections)
    .where(among(documents.c.document_key, bindparam("values")))
)
"""The documents with these keys, which stay inside the catalog: rows for `to_document`."""


class ChunkFacts(NamedTuple):
    """Where a chunk stands, and what tells it from others.

    `start` and `end` are code points of the text of its generation. `words_hash` is what chunks with the same words in
    the same order have in common.
    """

    number: int
    document_id: str
    generation: int
    sequence_num: int
    start: int
    end: int
    chapter: str
    section: str | None
    section_title: str
    hierarchy_path: Sequence[str]
    words_hash: int
    source_uri: str

    @property
    def headings(self) -> list[str]:
        """Return the headings that the chunk stands below, in any order."""
        return [heading for heading in (self.chapter, self.section, *self.hierarchy_path) if heading]


_c = chunks.c
_CONTENT_AT = 10
_CHUNK_FACTS = (
    _c.chunk_number,
    documents.c.document_id,
    generations.c.generation,
    _c.sequence_num,
    _c.char_start,
    _c.char_end,
    _c.chapter,
    _c.section,
    _c.section_heading,
    _c.hierarchy_path,
    _c.content,
)


def _facts_statement(source: Any) -> Select[Any]:
    return (
        select(array_of(*_CHUNK_FACTS, source))
        .join_from(chunks, generations)
        .join(documents)
        # "+ 0" keeps SQLite from beginning with all generations of the collection instead of the few chunks.
        .where(among(_c.chunk_number, bindparam("values")), generations.c.collection_key + 0 == bindparam("collection"))
    )


FACTS_NOW = _with_position(_facts_statement(documents.c.source_path).where(IS_LIVE))
"""The facts of those of the chunks with these numbers that are live, in no order: rows for `to_facts`."""
_FACTS_THEN = _facts_statement(then(documents.c.source_path))


def facts_of(stored: StoredChunk) -> ChunkFacts:
    """Return the facts of a chunk that has been read whole; worked out once."""
    known: ChunkFacts | None = stored.memo.get("facts")
    if known is not None:
        return known
    chunk, document = stored.chunk, stored.document
    facts = stored.memo["facts"] = ChunkFacts(
        stored.chunk_number,
        document.document_id,
        stored.generation,
        chunk.sequence_num,
        chunk.span.start,
        chunk.span.end,
        chunk.chapter,
        chunk.section,
        chunk.section_title,
        chunk.hierarchy_path,
        words_hash(chunk.content),
        document.source_uri,
    )
    return facts


def words_hash(content: str) -> int:
    """Return a number that texts with the same words in the same order share, whatever their case and spaces."""
    return hash(" ".join(content.casefold().split()))


def facts_then(connection: Connection, collection_key: int, numbers: Sequence[int]) -> list[Any]:
    """Return the facts of chunks that were visible once, as they were then: rows for `to_facts`."""
    return read_compiled(connection, _FACTS_THEN, {"values": encode_json(list(numbers)), "collection": collection_key})


def to_facts(row: list[Any]) -> ChunkFacts:
    row[_CONTENT_AT] = words_hash(row[_CONTENT_AT])
    return ChunkFacts(*row)


# No chunk has a higher number, and the databases refuse integers of more than 64 bits.
_MAX_NUMBER = 2**53
_PLACE_COLUMNS = (
    _c.sequence_num,
    _c.char_start,
    _c.char_end,
    _c.byte_start,
    _c.byte_end,
    _c.hierarchy_path,
    _c.upper,
    _c.parent,
    _c.sentence_index,
    _c.window_size,
)


# Built once: building and compiling a statement takes longer than most reads.
_OF_DOCUMENT_ID = documents.c.tenant == bindparam("tenant"), documents.c.document_id == bindparam("document_id")
_PLACES_OF_DOCUMENT = (
    select(array_of(*_PLACE_COLUMNS))
    .join_from(chunks, generations)
    .join(documents, _c.document_key == documents.c.document_key)
    .where(IS_LIVE, *_OF_DOCUMENT_ID)
)
_BETWEEN = SELECT_LIVE_CHUNKS.where(
    *_OF_DOCUMENT_ID, _c.sequence_num.between(bindparam("first"), bindparam("last"))
).order_by(_c.sequence_num)


@dataclass(frozen=True, slots=True)
class PassageReader:
    """Reads one collection at one moment; belongs to one thread."""

    connection: Connection
    collection: Collection

    def find(self, reference: str | int) -> StoredChunk:
        """Return a chunk by its id or its number.

        Raises:
            ChunkNotFoundError: no live generation of the collection has it.
        """
        if isinstance(reference, str) or 0 < reference < _MAX_NUMBER:
            for stored in _chunks_of(self.connection, self.collection.tenant, [reference]):
                if stored.document.collection == self.collection.name:
                    return stored
        raise ChunkNotFoundError(str(reference))

    def live(self, numbers: Sequence[int]) -> list[StoredChunk]:
        """Return those of the chunks that are live, in the order given."""
        return _live_chunks(self.connection, self.collection.tenant, self.collection.name, numbers)

    def places(self, document_id: str) -> list[ChunkLocation]:
        """Return where all chunks of a document stand, by rising sequence number."""
        given = {"tenant": self.collection.tenant, "document_id": document_id}
        rows = read_compiled(self.connection, _PLACES_OF_DOCUMENT, given)
        found = [
            ChunkLocation(number, Span(start, end, start_byte, end_byte), tuple(path), bool(upper), *rest)
            for number, start, end, start_byte, end_byte, path, upper, *rest in rows
        ]
        return sorted(found, key=lambda place: place.sequence_num)

    def chunks(self, document_id: str, first: int, last: int) -> list[StoredChunk]:
        """Return the chunks `first` to `last` of a document, by sequence number."""
        given = {"tenant": self.collection.tenant, "document_id": document_id, "first": first, "last": last}
        return list(to_stored_chunks(self.connection.execute(_BETWEEN, given)))

    def text(self, document_id: str, start: int, end: int) -> str:
        """Return the code points start..end of the live text of a document.

        Raises:
            DataLossError: they are not within the text, or a part of it is missing.
        """
        return live_text(self.connection, self.collection.tenant, self.collection.name, document_id, start, end)


_WITH_DUPLICATES = (
    select(collections.c.tenant, collections.c.name)
    .distinct()
    .join_from(generations, collections)
    .where(
        # Not as a join: SQLite would scan every live generation instead of using the index of the few chunks.
        generations.c.generation_key.in_(
            select(chunks.c.generation_key).where(chunks.c.indexed + chunks.c.upper == literal_column("0"))
        ),
        IS_LIVE,
    )
)


class DuplicateChunks(Aggregate):
    """Repeated chunks of all collections; each call sees those of one."""

    def indexed(self, collection: Collection, document_id: str | None, content_hashes: Sequence[str]) -> set[str]:
        """Return those of the contents that live and indexed chunks of other documents of the collection have.

        Records do not count, because not every caller who sees a document sees them.
        """
        statement = (
            select(chunks.c.content_hash)
            .distinct()
            .join_from(chunks, generations)
            .join(documents)
            .where(
                among(chunks.c.content_hash, content_hashes),
                generations.c.collection_key == key_of(collection),
                IS_LIVE,
                IS_INDEXED,
                documents.c.record.is_(None),
                true() if document_id is None else documents.c.document_id != document_id,
            )
        )
        return set(self._database.query(statement).scalars())

    def orphaned(self, collection: Collection, limit: int) -> list[int]:
        """Return the numbers of live chunks that repeat no indexed chunk of the collection any more, ascending.

        Of chunks with equal content only the first is returned; at most `limit` of all.
        """
        first = func.min(chunks.c.chunk_number)
        twin, of_twin = chunks.alias("twin"), generations.alias("of_twin")
        statement = (
            select(first)
            .join_from(chunks, generations)
            .where(
                chunks.c.indexed + chunks.c.upper == 0,
                generations.c.collection_key == key_of(collection),
                IS_LIVE,
                ~exists(
                    select(1)
                    .join_from(twin, of_twin)
                    .join(documents)
                    .where(
                        documents.c.record.is_(None),
                        twin.c.content_hash == chunks.c.content_hash,
                        twin.c.indexed == 1,
                        of_twin.c.collection_key == key_of(collection),
                        of_twin.c.state == "LIVE",
                    )
                ),
            )
            .group_by(chunks.c.content_hash)
            .order_by(first)
            .limit(limit)
        )
        return list(self._database.query(statement).scalars())

    def collections_with_duplicates(self) -> list[tuple[str, str]]:
        """Return tenant and name of the collections that have chunks that are not indexed."""
        return [(row[0], row[1]) for row in self._database.query(_WITH_DUPLICATES)]

    @in_transaction
    def index(self, connection: Connection, collection: Collection, numbers: Sequence[int]) -> bool:
        """Let searches find chunks whose vectors the engine collection has; leaves alone what is not live any more.

        Returns False and changes nothing when the collection is served from another engine collection now.
        """
        # The points were written to this engine collection; the one that serves by now may lack them.
        served = select(collections.c.collection_key).where(collections.c.engine_name == collection.engine_name)
        key = connection.execute(served).scalar()
        if key is None:
            return False
        repeats = (chunks.c.indexed + chunks.c.upper == 0, chunks.c.generation_key.in_(visible_generation_keys(key)))
        found = select(chunks.c.chunk_number).where(numbered(numbers), *repeats)
        new = numbered(connection.execute(found).scalars())
        connection.execute(update(chunks).where(new).values(indexed=1))
        add_chunks(connection, new)
        advance_position(connection, key)
        return True
