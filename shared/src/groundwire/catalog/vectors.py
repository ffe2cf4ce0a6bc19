"""Vectors by model and embedded text: the embedding cache and the source of index rebuilds."""

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Connection,
    Integer,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    true,
)

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.dialects import among, array_of, execute, insert_rows, read_array, read_vectors
from groundwire.catalog.encoding import encode_json
from groundwire.catalog.filters import in_scopes
from groundwire.catalog.rows import (
    IS_INDEXED,
    IS_LIVE,
    KEY_OF_UID,
    OWN_COLUMNS,
    GenerationState,
    key_of,
    to_chunk,
    to_payload,
    visible_generation_keys,
)
from groundwire.catalog.schema import chunks, collections, documents, embeddings, generations
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import EmbeddingIdentity, Vectors
from groundwire.kernel.errors import DataLossError
from groundwire.kernel.identity import current_identity
from groundwire.kernel.vector_store import PointBatch
from groundwire.kernel.vectors import unit_rows

_IS_USED = (
    exists()
    .where(chunks.c.embedding_hash == embeddings.c.embedding_hash)
    .where(chunks.c.generation_key == generations.c.generation_key)
    .where(
        generations.c.collection_key == KEY_OF_UID.scalar_subquery(),
        generations.c.state != literal_column("'PENDING'"),
    )
)
_AMONG = (
    embeddings.c.identity_digest == bindparam("digest"),
    among(embeddings.c.embedding_hash, bindparam("hashes")),
)
_TIMES = select(embeddings.c.embedding_hash, embeddings.c.create_time, _IS_USED).where(*_AMONG)
_VECTORS = select(embeddings.c.embedding_hash, embeddings.c.vector).where(*_AMONG)


def unneeded_embeddings(connection: Connection, identity_digest: str, leaving: Select[tuple[int]]) -> list[str]:
    """Return the hashes of the stored vectors that only chunks of the `leaving` generations (their keys) have."""
    other = chunks.alias("other")
    # Vectors are shared by all chunks with the same text, of whatever collection.
    needed = exists(
        select(1).where(other.c.embedding_hash == embeddings.c.embedding_hash, other.c.generation_key.not_in(leaving))
    )
    of_leaving = select(chunks.c.embedding_hash).where(chunks.c.generation_key.in_(leaving))
    hashes = select(array_of(embeddings.c.embedding_hash)).where(
        embeddings.c.identity_digest == identity_digest, embeddings.c.embedding_hash.in_(of_leaving), ~needed
    )
    return read_array(connection, hashes)


def forget_embeddings(connection: Connection, identity_digest: str, embedding_hashes: Sequence[str]) -> int:
    """Remove stored vectors; return how many there were."""
    unneeded = delete(embeddings).where(
        embeddings.c.identity_digest == identity_digest, among(embeddings.c.embedding_hash, embedding_hashes)
    )
    return connection.execute(unneeded).rowcount


_ROWS_PER_TRANSACTION = 1024
_BYTES_PER_NUMBER = 4
UNUSED_RETENTION = timedelta(hours=1)
"""How long a vector that no chunk has is kept: longer than any ingest takes from embedding to writing its chunks."""


@dataclass(frozen=True, slots=True)
class NewVectors:
    """Vectors to be stored, row i for hash i: float32, shape (len(embedding_hashes), dimensions)."""

    identity_digest: str
    embedding_hashes: Sequence[str]
    vectors: Vectors


class VectorCache(Aggregate):
    """Vectors of all collections that share an embedding identity.

    Put every vector of a generation after `begin`, and before `publish` or with it: from `begin` on its chunks keep the
    vectors from being swept.
    """

    def get(self, identity_digest: str, embedding_hashes: Sequence[str]) -> dict[str, Vectors]:
        """Return the known vectors by embedding hash: float32, shape (dimensions,), read-only."""
        given = {"digest": identity_digest, "hashes": encode_json(list(embedding_hashes))}
        return {row.embedding_hash: to_vector(row.vector) for row in self._database.rows(_VECTORS, given)}

    def rows(self, identity_digest: str, embedding_hashes: Sequence[str]) -> Vectors:
        """Return the vectors of all these hashes, row i for hash i.

        Raises:
            DataLossError: one is not stored.
        """
        known = self.get(identity_digest, embedding_hashes)
        if not known.keys() >= set(embedding_hashes):
            raise no_vector()
        return np.stack([known[each] for each in embedding_hashes])

    def times(self, collection: Collection, embedding_hashes: Sequence[str]) -> dict[str, int | None]:
        """Return when the stored ones of some vectors were made, in milliseconds since 1970, by hash.

        Vectors are stored once for all collections. The time is None if only other collections use the vector, or
        records of scopes that the caller may not see: responses leave it out, because counting it would reveal which
        texts these hold.
        """
        given = {
            "tenant": collection.tenant,
            "uid": collection.uid,
            "digest": collection.identity.digest,
            "hashes": encode_json(list(embedding_hashes)),
        }
        scopes = current_identity().scopes
        if scopes is None:
            rows = self._database.rows(_TIMES, given)
        else:
            is_used = _IS_USED.where(in_scopes(generations.c.document_key, scopes))
            statement = _TIMES.with_only_columns(embeddings.c.embedding_hash, embeddings.c.create_time, is_used)
            rows = list(self._database.query(statement, given))
        return {name: made if is_used else None for name, made, is_used in rows}

    def put(self, identity_digest: str, embedding_hashes: Sequence[str], vectors: Vectors) -> None:
        """Store vectors, row i for hash i: float32, shape (len(embedding_hashes), dimensions); known ones stay."""
        now = self._now()
        # In batches, so that other writers get a turn in between.
        for start in range(0, len(embedding_hashes), _ROWS_PER_TRANSACTION):
            part = slice(start, start + _ROWS_PER_TRANSACTION)
            new = NewVectors(identity_digest, embedding_hashes[part], vectors[part])
            steady_ms = self._database.steady.now_ms()
            self._database.write(partial(insert_vectors, new=new, now=now, steady_ms=steady_ms))

    def points(self, collection: Collection, batch: int) -> Iterator[PointBatch]:
        """Iterate over every live point of a collection, `batch` at a time, older generations first.

        Each batch is a snapshot of its own: points published meanwhile may appear, points deleted meanwhile may
        have appeared.

        Raises:
            DataLossError: a chunk has no vector (`missing` lists them).
        """
        generation, sequence = bindparam("generation", type_=Integer), bindparam("sequence", type_=Integer)
        statement = (
            select(
                generations.c.generation_key,
                chunks.c.sequence_num,
                chunks.c.chunk_number,
                chunks.c.payload,
                embeddings.c.vector,
            )
            .join_from(generations, chunks)
            .outerjoin(embeddings, has_vector(collection.identity.digest))
            .where(
                generations.c.collection_key == key_of(collection),
                IS_LIVE,
                IS_INDEXED,
                generations.c.generation_key >= generation,
                or_(generations.c.generation_key > generation, chunks.c.sequence_num > sequence),
            )
            # The order of two indexes, so that nothing is sorted.
            .order_by(generations.c.generation_key, chunks.c.sequence_num)
            .limit(batch)
        )
        # By key, not by offset: a batch begins where the last one ended, whatever was added or removed meanwhile.
        after = {"generation": 0, "sequence": -1}
        while True:
            rows = self._database.query(statement, after).all()
            if not rows:
                return
            yield _to_batch(rows, collection.identity.dimensions)
            after = {"generation": rows[-1].generation_key, "sequence": rows[-1].sequence_num}

    def points_of(self, collection: Collection, numbers: Sequence[int], *, also_unindexed: bool = False) -> PointBatch:
        """Return the points of those of the chunks that are live and indexed, by number, in one snapshot.

        Raises:
            DataLossError: a chunk has no vector (`missing` lists them).
        """
        statement = (
            select(chunks.c.chunk_number, chunks.c.payload, embeddings.c.vector)
            .outerjoin_from(chunks, embeddings, has_vector(collection.identity.digest))
            .where(
                among(chunks.c.chunk_number, map(int, numbers)),
                true() if also_unindexed else IS_INDEXED,
                chunks.c.generation_key.in_(visible_generation_keys(key_of(collection))),
            )
            .order_by(chunks.c.chunk_number)
        )
        return _to_batch(self._database.query(statement).all(), collection.identity.dimensions)

    def missing(self, collection: Collection, limit: int, document_ids: Sequence[str] | None = None) -> list[Chunk]:
        """Return up to `limit` chunks, of some documents or all, that need a vector of the model and have none.

        Besides the chunks that searches find these are the ones that stand for a section or a document (a search from
        the top down compares with them), repeated ones (indexed once what they repeat is gone), and those of
        documents that were deleted softly. Superseded chunks need one only of the model that they were indexed by:
        nobody reads the past across a change of models.
        """
        statement = with_vectors(select(*OWN_COLUMNS).where(lacks_vector(collection)), collection)
        if document_ids is not None:
            # With the tenant, which the index of ids begins with.
            of_these = documents.c.tenant == collection.tenant, among(documents.c.document_id, document_ids)
            keys = select(documents.c.document_key).where(*of_these)
            statement = statement.where(chunks.c.document_key.in_(keys))
        rows = self._database.query(statement.order_by(chunks.c.chunk_number).limit(limit))
        return [to_chunk(row) for row in rows]

    def count_missing(self, collection: Collection) -> int:
        """Return how many chunks `missing` has to list."""
        statement = select(func.count()).where(lacks_vector(collection))
        return int(self._database.query(with_vectors(statement, collection)).scalar_one())

    def sweep(self, identity_digest: str = "") -> int:
        """Remove vectors that no chunk uses any more, unless they are new; return how many.

        A chunk has the vectors of its collection's model, and those of the model `identity_digest`: the one that
        collections may be moved to.
        """
        # Recent vectors may belong to chunks that an ingest is about to write.
        oldest = self._database.steady.now_ms() - UNUSED_RETENTION // timedelta(milliseconds=1)
        used = exists(
            select(1)
            .join_from(chunks, generations)
            .join(collections)
            .where(
                chunks.c.embedding_hash == embeddings.c.embedding_hash,
                or_(
                    embeddings.c.identity_digest == collections.c.identity_digest,
                    embeddings.c.identity_digest == identity_digest,
                ),
            )
        )
        statement = delete(embeddings).where(embeddings.c.create_steady < oldest, ~used)
        return self._database.change(statement)


def insert_vectors(connection: Connection, new: NewVectors, now: int, steady_ms: int) -> None:
    """Store vectors made at `now`, in milliseconds since the epoch and of service; known ones stay."""
    # In a fixed byte order, because the file may be copied to another machine.
    stored = np.ascontiguousarray(new.vectors, dtype="<f4")
    rows = [
        {
            "identity_digest": new.identity_digest,
            "embedding_hash": name,
            "vector": row.tobytes(),
            "create_time": now,
            "create_steady": steady_ms,
        }
        for name, row in zip(new.embedding_hashes, stored, strict=True)
    ]
    insert_rows(connection, embeddings, rows, skip_existing=True)


def vectors_by_hash(
    connection: Connection, identity_digest: str, embedding_hashes: Sequence[str]
) -> dict[str, Vectors]:
    """Return the known ones of some vectors of a model by embedding hash: float32, shape (dimensions,), read-only."""
    given = {"digest": identity_digest, "hashes": encode_json(list(embedding_hashes))}
    return {row.embedding_hash: to_vector(row.vector) for row in execute(connection, _VECTORS, given)}


def has_vector(identity_digest: str | BindParameter[str]) -> ColumnElement[bool]:
    """Return the condition that joins chunks with their vectors of a model."""
    return and_(
        embeddings.c.identity_digest == identity_digest,
        embeddings.c.embedding_hash == chunks.c.embedding_hash,
    )


def with_vectors(statement: Select[Any], collection: Collection) -> Select[Any]:
    """Join chunks with their generations and, where they have one, their vectors."""
    return (
        statement.join_from(chunks, generations)
        .join(collections)
        .outerjoin(embeddings, has_vector(collection.identity.digest))
    )


def lacks_vector(collection: Collection) -> ColumnElement[bool]:
    """Return the condition on `with_vectors` for the chunks that `VectorCache.missing` lists."""
    is_same_model = collections.c.identity_digest == collection.identity.digest
    return and_(
        generations.c.collection_key == key_of(collection),
        or_(
            generations.c.state.in_((GenerationState.LIVE.value, GenerationState.DELETED.value)),
            and_(generations.c.state == GenerationState.SUPERSEDED.value, is_same_model),
        ),
        embeddings.c.embedding_hash.is_(None),
    )


def no_vector(what: str = "vector") -> DataLossError:
    return DataLossError("a chunk has no stored vector; embed it again", what=what)


def _to_batch(rows: Sequence[Any], dimensions: int) -> PointBatch:
    if any(row.vector is None for row in rows):
        raise no_vector()
    if any(len(row.vector) != dimensions * _BYTES_PER_NUMBER for row in rows):
        raise DataLossError("a stored vector has the wrong length; embed the chunk again", what="vector")
    vectors = [to_vector(row.vector) for row in rows]
    return PointBatch(
        numbers=[row.chunk_number for row in rows],
        vectors=np.stack(vectors) if vectors else np.zeros((0, dimensions), dtype=np.float32),
        payloads=[to_payload(row.payload) for row in rows],
    )


def to_vector(stored: bytes) -> Vectors:
    """Make a vector of its stored bytes; read-only."""
    return np.frombuffer(stored, dtype="<f4").astype(np.float32, copy=False)


def unit_vectors_of(
    connection: Connection, identity: EmbeddingIdentity, numbers: Sequence[int] | NDArray[np.int64]
) -> tuple[NDArray[np.int64], Vectors]:
    """Return the vectors of those chunks that have one: numbers, float32 rows of length 1; rows of zeros stay."""
    found, stored = read_vectors(connection, identity.digest, np.asarray(numbers, dtype=np.int64).tolist())
    rows = np.frombuffer(stored, dtype="<f4").astype(np.float32, copy=False).reshape(len(found), identity.dimensions)
    return np.array(found, dtype=np.int64), unit_rows(rows)


class RecentVectors:
    """Caches vectors of chunks, which never change, in one array, from which a hundred are taken at once.

    All are of one model; vectors of another model start an empty cache. The oldest make room for new ones.
    Safe to use from many threads.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._digest = ""
        self._rows = np.zeros((0, 0), dtype=np.float32)
        self._row_of: dict[int, int] = {}
        self._number_at: list[int | None] = []
        self._next = 0

    def get(self, identity: EmbeddingIdentity, numbers: Sequence[int]) -> tuple[NDArray[np.bool_], Vectors]:
        """Return which of the chunks are known, and the vectors of those, in their order."""
        with self._lock:
            if self._digest != identity.digest:
                return np.zeros(len(numbers), dtype=np.bool_), np.zeros((0, identity.dimensions), dtype=np.float32)
            at = np.fromiter(map(self._row_of.get, numbers, repeat(-1)), dtype=np.intp, count=len(numbers))
            is_known = at >= 0
            return is_known, self._rows[at[is_known]]

    def put(self, identity: EmbeddingIdentity, numbers: Sequence[int], rows: Vectors) -> None:
        """Cache vectors, as many of the last ones as there is room for."""
        with self._lock:
            if self._digest != identity.digest:
                capacity = self._max_bytes // (4 * identity.dimensions)
                # The pages are not touched, and so take no memory, until they are filled.
                self._rows = np.empty((capacity, identity.dimensions), dtype=np.float32)
                self._digest, self._row_of, self._number_at, self._next = identity.digest, {}, [None] * capacity, 0
            for number, row in zip(numbers, rows, strict=True) if self._number_at else ():
                at = self._row_of.get(number)
                if at is None:  # another thread may have read it in the meantime
                    at, self._next = self._next, (self._next + 1) % len(self._number_at)
                    if (forgotten := self._number_at[at]) is not None:
                        del self._row_of[forgotten]
                    self._row_of[number], self._number_at[at] = at, number
                self._rows[at] = row
