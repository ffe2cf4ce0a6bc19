"""The stored vectors of chunks, for exact comparison whatever the engine holds."""

import json
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, text

from groundwire.kernel.embedder import EmbeddingIdentity, Vectors

# CROSS JOIN keeps the order: without it SQLite may begin with all vectors of the model.
_VECTORS = text(
    """
    SELECT chunk_number, vector FROM json_each(:numbers) AS given
    CROSS JOIN chunks ON chunk_number = given.value
    CROSS JOIN embeddings ON identity_digest = :identity AND embeddings.embedding_hash = chunks.embedding_hash
    """
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
