"""What the checker asks the catalog about the points of an engine collection."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sqlalchemy import and_, delete, func, or_, select, union

from groundwire.catalog.bookkeeping_tables import embeddings, index_builds, outbox
from groundwire.catalog.chunk_rows import to_payload
from groundwire.catalog.database import Database
from groundwire.catalog.generation_keys import IS_INDEXED, IS_LIVE, key_of
from groundwire.catalog.generations import GenerationState
from groundwire.catalog.tables import chunks, collections, documents, generations
from groundwire.catalog.vectors import lacks_vector, with_vectors
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filters import Payload

_BYTES_PER_NUMBER = 4
_LENGTH_TOLERANCE = 0.01


@dataclass(frozen=True, slots=True)
class ExpectedPoint:
    """A point as the catalog has it. `vector` is float32, None when the catalog has none that can be right."""

    number: int
    chunk_id: str
    document_id: str
    embedding_hash: str
    payload: Payload
    vector: Vectors | None


class PointInspection:
    """Reads in batches, each a snapshot of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def expected(self, collection: Collection, after: int, limit: int) -> list[ExpectedPoint]:
        """Return up to `limit` points that should exist, with numbers above `after`, ascending."""
        return self._expected(collection, chunks.c.chunk_number > after, limit)

    def expected_of(self, collection: Collection, numbers: Sequence[int]) -> list[ExpectedPoint]:
        """Return those of the points that should exist, ascending."""
        given = func.json_each(json.dumps(list(numbers))).table_valued("value")
        return self._expected(collection, chunks.c.chunk_number.in_(select(given.c.value)), len(numbers))

    def of_document(self, collection: Collection, document_id: str, limit: int) -> list[int]:
        """Return the numbers of up to `limit` points that should exist of a document, ascending."""
        return [point.number for point in self._expected(collection, documents.c.document_id == document_id, limit)]

    def unexplained(self, collection: Collection, numbers: Sequence[int]) -> list[int]:
        """Return those of the points that no chunk has, none is being written for, and no task will remove."""
        given = func.json_each(json.dumps(list(numbers))).table_valued("value")
        owned = (
            select(chunks.c.chunk_number)
            .join_from(chunks, generations, chunks.c.generation_key == generations.c.generation_key)
            .where(
                chunks.c.chunk_number.in_(select(given.c.value)),
                generations.c.collection_key == key_of(collection),
                or_(generations.c.state == GenerationState.PENDING.value, and_(IS_LIVE, IS_INDEXED)),
            )
        )
        tasks = select(outbox.c.numbers).where(outbox.c.engine_name == collection.engine_name)
        with self._database.read() as connection:
            known = set(connection.execute(owned).scalars())
            for waiting in connection.execute(tasks).scalars():
                known.update(waiting)
        return [number for number in numbers if number not in known]

    def lost_vectors(self, collection: Collection, after: int, limit: int) -> list[tuple[int, str]]:
        """Return number and id of up to `limit` chunks without a point that lack the vector they may come to need.

        Those are chunks of sections and documents, repeated ones, and those of softly deleted documents, with numbers
        above `after`, ascending.
        """
        statement = select(chunks.c.chunk_number, chunks.c.chunk_id).where(
            lacks_vector(collection), ~and_(IS_LIVE, IS_INDEXED), chunks.c.chunk_number > after
        )
        statement = with_vectors(statement, collection).order_by(chunks.c.chunk_number).limit(limit)
        with self._database.read() as connection:
            return [(row.chunk_number, row.chunk_id) for row in connection.execute(statement)]

    def engine_collections(self) -> set[str]:
        """Return the engine collections, of all tenants, that serve, are being built, or will be dropped by a task."""
        statement = union(
            select(collections.c.engine_name), select(index_builds.c.engine_name), select(outbox.c.engine_name)
        )
        with self._database.read() as connection:
            return set(connection.execute(statement).scalars())

    def waiting(self, collection: Collection) -> set[int]:
        """Return the numbers of points that a task will write or remove."""
        tasks = select(outbox.c.numbers).where(outbox.c.engine_name == collection.engine_name)
        with self._database.read() as connection:
            return {number for numbers in connection.execute(tasks).scalars() for number in numbers}

    def changed_position(self, collection: Collection) -> int | None:
        """Return the position of the collection's last change, None when it is gone or another index serves it."""
        statement = select(collections.c.changed_position).where(
            collections.c.uid == collection.uid, collections.c.engine_name == collection.engine_name
        )
        with self._database.read() as connection:
            return connection.execute(statement).scalar()

    def forget_vectors(self, identity_digest: str, embedding_hashes: Sequence[str]) -> None:
        """Remove stored vectors, to be made anew."""
        statement = delete(embeddings).where(
            embeddings.c.identity_digest == identity_digest, embeddings.c.embedding_hash.in_(list(embedding_hashes))
        )
        self._database.write(lambda connection: connection.execute(statement))

    def _expected(self, collection: Collection, which: object, limit: int) -> list[ExpectedPoint]:
        has_vector = and_(
            embeddings.c.identity_digest == collection.identity.digest,
            embeddings.c.embedding_hash == chunks.c.embedding_hash,
        )
        statement = (
            select(
                chunks.c.chunk_number,
                chunks.c.chunk_id,
                documents.c.document_id,
                chunks.c.embedding_hash,
                chunks.c.payload,
                embeddings.c.vector,
            )
            .join_from(chunks, generations, chunks.c.generation_key == generations.c.generation_key)
            .join(documents, chunks.c.document_key == documents.c.document_key)
            .outerjoin(embeddings, has_vector)
            .where(which, generations.c.collection_key == key_of(collection), IS_LIVE, IS_INDEXED)  # type: ignore[arg-type]  # a condition
            .order_by(chunks.c.chunk_number)
            .limit(limit)
        )
        with self._database.read() as connection:
            rows = connection.execute(statement).all()
        dimensions = collection.identity.dimensions
        return [ExpectedPoint(*row[:4], to_payload(row.payload), _sound(row.vector, dimensions)) for row in rows]


def _sound(stored: bytes | None, dimensions: int) -> Vectors | None:
    """Return a vector if it is of the right length, finite, and L2-normalised or all zero."""
    if stored is None or len(stored) != dimensions * _BYTES_PER_NUMBER:
        return None
    vector = np.frombuffer(stored, dtype="<f4").astype(np.float32, copy=False)
    length = float(np.linalg.norm(vector.astype(np.float64)))
    is_unit = abs(length - 1.0) <= _LENGTH_TOLERANCE or not vector.any()
    return vector if np.isfinite(vector).all() and is_unit else None
