"""The stored vectors of chunks, for exact comparison whatever the engine holds."""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, bindparam, func, select

from groundwire.catalog.bookkeeping_tables import embeddings
from groundwire.catalog.tables import chunks
from groundwire.kernel.embedder import EmbeddingIdentity, Vectors

_VECTORS = (
    select(chunks.c.chunk_number, embeddings.c.vector)
    .join_from(chunks, embeddings, chunks.c.embedding_hash == embeddings.c.embedding_hash)
    .where(
        embeddings.c.identity_digest == bindparam("identity"),
        chunks.c.chunk_number.in_(select(func.json_each(bindparam("numbers")).table_valued("value").c.value)),
    )
)


def vectors_of(
    connection: Connection, identity: EmbeddingIdentity, numbers: Sequence[int] | NDArray[np.int64]
) -> tuple[NDArray[np.int64], Vectors]:
    """Return the vectors of those chunks that have one: numbers, float32 of shape (found, dimensions)."""
    given = {"identity": identity.digest, "numbers": json.dumps([int(number) for number in numbers])}
    rows = connection.execute(_VECTORS, given).all()
    found = np.array([row[0] for row in rows], dtype=np.int64)
    stored = np.frombuffer(b"".join(row[1] for row in rows), dtype="<f4")
    return found, stored.astype(np.float32, copy=False).reshape(len(rows), identity.dimensions)
