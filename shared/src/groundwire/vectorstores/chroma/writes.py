"""Writes records to a Chroma collection so that each replaces the one of its number, whole."""

from collections.abc import Sequence
from typing import Any

from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filters import BUILT_IN_FIELDS
from groundwire.vectorstores.chroma.queries import existing
from groundwire.vectorstores.slicing import batches
from groundwire.vectorstores.stored_fields import TERMS_FIELD, Stored

_NO_FIELDS: dict[str, Any] = dict.fromkeys((*BUILT_IN_FIELDS, TERMS_FIELD))
_DELETE_BATCH = 250


def put(collection: Any, numbers: Sequence[int], vectors: Vectors, stored: Sequence[Stored]) -> None:
    """Insert the new records and replace the existing ones; call while nobody else writes.

    Chroma's `upsert` merges metadata: fields of the old record would live on. Its `update` removes the
    fields that are None, in one step, but ignores unknown ids; so the two kinds are written apart.
    """
    ids = [str(number) for number in numbers]
    known = set(existing(collection, ids))
    old = [row for row, id_ in enumerate(ids) if id_ in known]
    new = [row for row, id_ in enumerate(ids) if id_ not in known]
    if old:
        replaced = [_NO_FIELDS | stored[row] for row in old]
        collection.update(ids=_pick(ids, old), embeddings=vectors[old], metadatas=replaced)
    if new:
        # Chroma refuses an empty dictionary, but takes None for it.
        inserted = [stored[row] or None for row in new]
        collection.upsert(ids=_pick(ids, new), embeddings=vectors[new], metadatas=inserted)


def replace(collection: Any, numbers: Sequence[int], vectors: Vectors, stored: Sequence[Stored]) -> None:
    """Insert or replace records in one call, which only servers can: they drop what is None, also from old records."""
    whole = [_NO_FIELDS | fields for fields in stored]
    collection.upsert(ids=[str(number) for number in numbers], embeddings=vectors, metadatas=whole)


def remove(collection: Any, numbers: Sequence[int]) -> None:
    """Delete records; unknown numbers are ignored."""
    for batch in batches(numbers, _DELETE_BATCH):
        collection.delete(ids=[str(number) for number in batch])


def _pick(ids: Sequence[str], rows: Sequence[int]) -> list[str]:
    return [ids[row] for row in rows]
