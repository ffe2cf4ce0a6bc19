"""Queries of one Chroma collection that the plain calls do not answer reliably."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from groundwire.kernel.embedder import Vectors
from groundwire.vectorstores.clean_cut import best
from groundwire.vectorstores.stored_fields import Stored

_PAGE = 5000


def nearest(collection: Any, vector: Vectors, limit: int, selection: dict[str, Any]) -> list[tuple[int, float]]:
    """Return (number, cosine) of the most similar records, best first, ties by number.

    No walk through a graph reaches all of many equal vectors: of 600 it finds about 310. So after a reply that is
    shorter than asked for all records that the selection keeps are compared one by one.

    Args:
        collection: of Chroma.
        vector: float32, shape (dimensions,).
        limit: at least 1.
        selection: `where` or `ids` or both, as Chroma's `query` takes them.
    """

    def query(count: int) -> list[tuple[int, float]]:
        reply = collection.query(query_embeddings=[vector], n_results=count, include=["distances"], **selection)
        reached = [
            (int(number), 1.0 - distance)
            for number, distance in zip(reply["ids"][0], reply["distances"][0], strict=True)
        ]
        if len(reached) == count:
            return reached
        selected = _selected(collection, selection)
        return reached if len(selected) == len(reached) else _compared(collection, vector, sorted(selected))[:count]

    return best(query, limit)


def nearest_of(
    collection: Any, vector: Vectors, limit: int, selection: dict[str, Any], ids: Sequence[str]
) -> list[tuple[int, float]]:
    """Return the most similar of some records, unknown ones ignored; see `nearest`.

    A query over an unknown id fails as a whole, and nearly always all are known: looking them up first would cost
    more than the query.
    """
    from chromadb.errors import ChromaError  # noqa: PLC0415 - only the engine process loads it

    try:
        return nearest(collection, vector, limit, selection | {"ids": list(ids)})
    except ChromaError:
        known = existing(collection, ids)
        return nearest(collection, vector, limit, selection | {"ids": known}) if known else []


def existing(collection: Any, ids: Sequence[str], **where: Any) -> list[str]:
    """Return those of the ids that exist, and match `where`: a query over an unknown id fails as a whole."""
    found: list[str] = []
    for start in range(0, len(ids), _PAGE):
        found.extend(collection.get(ids=list(ids[start : start + _PAGE]), include=[], **where)["ids"])
    return found


def records(collection: Any, numbers: Sequence[int]) -> tuple[list[int], Vectors, list[Stored]]:
    """Return those of the records that exist by number: float32 of shape (found, dimensions), stored fields."""
    ids = [str(number) for number in numbers]
    if not ids:
        return [], np.zeros((0, 0), dtype=np.float32), []
    reply = collection.get(ids=ids, include=["embeddings", "metadatas"])
    order = sorted(range(len(reply["ids"])), key=lambda row: int(reply["ids"][row]))
    vectors = np.array([reply["embeddings"][row] for row in order], dtype=np.float32)
    return [int(reply["ids"][row]) for row in order], vectors, [dict(reply["metadatas"][row] or {}) for row in order]


def _selected(collection: Any, selection: dict[str, Any]) -> set[int]:
    """Return the numbers of the records that a selection keeps."""
    if "ids" not in selection:
        return set(map(int, collection.get(include=[], **selection)["ids"]))
    where = {key: condition for key, condition in selection.items() if key != "ids"}
    return set(map(int, existing(collection, selection["ids"], **where)))


def _compared(collection: Any, vector: Vectors, numbers: Sequence[int]) -> list[tuple[int, float]]:
    """Return (number, cosine) of records, most similar first."""
    compared: list[tuple[int, float]] = []
    for start in range(0, len(numbers), _PAGE):
        found, vectors, _ = records(collection, numbers[start : start + _PAGE])
        if found:
            # Not `@`, which may round equal rows differently: they would no longer be equal.
            cosines = np.einsum("ij,j->i", vectors, vector) / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector))
            compared.extend(zip(found, cosines.tolist(), strict=True))
    return sorted(compared, key=lambda point: -point[1])


def all_numbers(collection: Any) -> list[int]:
    """Return the numbers of all records, ascending; call while nobody writes."""
    return sorted(number for page in _pages(collection) for number in page)


def _pages(collection: Any) -> Iterator[list[int]]:
    for start in range(0, collection.count(), _PAGE):
        yield [int(number) for number in collection.get(limit=_PAGE, offset=start, include=[])["ids"]]
