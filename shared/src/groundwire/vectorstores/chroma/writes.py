"""Writes points to a Chroma collection so that each replaces the one of its number, whole."""

from collections.abc import Sequence
from typing import Any

from groundwire.kernel.filter_fields import BUILT_IN_FIELDS
from groundwire.kernel.vector_store import PointBatch
from groundwire.vectorstores.chroma.queries import existing
from groundwire.vectorstores.stored_fields import TERMS_FIELD, stored_fields

_NO_FIELDS: dict[str, Any] = dict.fromkeys((*BUILT_IN_FIELDS, TERMS_FIELD))


def put(collection: Any, points: PointBatch) -> None:
    """Insert the new points and replace the existing ones; call while nobody else writes.

    Chroma's `upsert` merges metadata: fields of the old point would live on. Its `update` removes the
    fields that are None, in one step, but ignores unknown ids; so the two kinds are written apart.
    """
    ids = [str(number) for number in points.numbers]
    known = set(existing(collection, ids))
    old = [row for row, id_ in enumerate(ids) if id_ in known]
    new = [row for row, id_ in enumerate(ids) if id_ not in known]
    stored = [stored_fields(payload) for payload in points.payloads]
    if old:
        replaced = [_NO_FIELDS | stored[row] for row in old]
        collection.update(ids=_pick(ids, old), embeddings=points.vectors[old], metadatas=replaced)
    if new:
        # Chroma refuses an empty dictionary, but takes None for it.
        inserted = [stored[row] or None for row in new]
        collection.upsert(ids=_pick(ids, new), embeddings=points.vectors[new], metadatas=inserted)


def _pick(ids: Sequence[str], rows: Sequence[int]) -> list[str]:
    return [ids[row] for row in rows]
