"""Collections, records and filters of Chroma, embedded and on servers, with every setting that matters written out."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias, assert_never

import numpy as np

from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import UnsupportedFilterError
from groundwire.kernel.filters import (
    BUILT_IN_FIELDS,
    And,
    Comparator,
    Comparison,
    Containment,
    Exists,
    FieldKind,
    Filter,
    Like,
    Membership,
    Not,
    Or,
    Scalar,
)
from groundwire.vectorstores.points import batches, best, check_same
from groundwire.vectorstores.stored_fields import LISTS, TERMS_FIELD, TEXTS, Stored, comparable, integer_bound

_DIMENSIONS = "dimensions"
_IS_COMPLETE = "is_complete"
_METRIC = "cosine"
# Candidates of building and searching the graph; Chroma's 100 finds fewer of the best.
_EF = 200


class Facts(NamedTuple):
    """What Chroma says about a collection; `dimensions` is 0 where we did not make it.

    `is_complete` is false for a collection that is being filled from the catalog.
    """

    metric: str
    dimensions: int
    is_complete: bool = True


def open_client(folder: str) -> Any:
    """Open the library on a folder, without telemetry or any connection."""
    import chromadb  # noqa: PLC0415 - only the engine process loads it
    from chromadb.config import Settings  # noqa: PLC0415 - the same

    return chromadb.PersistentClient(path=folder, settings=Settings(anonymized_telemetry=False))


def make_collection(client: Any, name: str, dimensions: int, *, is_complete: bool = True) -> Any:
    """Make a collection for cosine; Chroma itself learns the dimensions with the first vector."""
    return client.create_collection(
        name,
        # Otherwise Chroma would download its default model.
        embedding_function=None,
        configuration={"hnsw": {"space": _METRIC, "ef_construction": _EF, "ef_search": _EF}},
        metadata={_DIMENSIONS: dimensions, _IS_COMPLETE: is_complete},
    )


def set_complete(collection: Any) -> None:
    collection.modify(metadata={**collection.metadata, _IS_COMPLETE: True})


def facts_of(collection: Any) -> Facts:
    """Read back what a collection was made with."""
    hnsw = collection.configuration_json.get("hnsw") or {}
    metadata = collection.metadata or {}
    return Facts(
        str(hnsw.get("space", "l2")), int(metadata.get(_DIMENSIONS, 0)), bool(metadata.get(_IS_COMPLETE, True))
    )


def checked_dimensions_of(collection: str, facts: Facts) -> int:
    """Return the vector length of a collection if its metric is cosine: Chroma silently ignores ours.

    Raises:
        StoreMismatchError: it is another one.
    """
    check_same(collection, "metric", facts.metric, _METRIC)
    return facts.dimensions


_PAGE = 5000


def nearest(collection: Any, vector: Vectors, limit: int, selection: dict[str, Any]) -> list[tuple[int, float]]:
    """Return (number, cosine) of the most similar records, best first, ties by number.

    A walk through a graph does not reach all of many equal vectors: of 600 it finds about 310. So when a reply is
    shorter than asked for, all selected records are compared one by one.

    `selection` is `where` or `ids` or both, as Chroma's `query` takes them.
    """

    def query(count: int) -> list[tuple[int, float]]:
        reply = collection.query(query_embeddings=[vector], n_results=count, include=["distances"], **selection)
        reached = [
            (int(number), 1.0 - distance)
            for number, distance in zip(reply["ids"][0], reply["distances"][0], strict=True)
        ]
        if len(reached) == count:
            return reached
        where = {key: condition for key, condition in selection.items() if key != "ids"}
        if "ids" in selection:
            ids = existing(collection, selection["ids"], **where)
        else:
            ids = collection.get(include=[], **where)["ids"]
        selected = sorted({int(number) for number in ids})
        if len(selected) == len(reached):
            return reached
        compared: list[tuple[int, float]] = []
        for batch in batches(selected, _PAGE):
            found, vectors, _ = records(collection, batch)
            if found:
                # Not `@`, which may round equal rows differently: they would no longer be equal.
                lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector)
                # What has no direction is like nothing.
                cosines = np.einsum("ij,j->i", vectors, vector) / np.where(lengths > 0, lengths, 1.0)
                compared.extend(zip(found, cosines.tolist(), strict=True))
        return sorted(compared, key=lambda point: -point[1])[:count]

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
    found: list[tuple[int, Any, Stored]] = []
    for batch in batches(numbers, _PAGE):
        reply = collection.get(ids=[str(number) for number in batch], include=["embeddings", "metadatas"])
        rows = zip(reply["ids"], reply["embeddings"], reply["metadatas"], strict=True)
        found += [(int(number), vector, dict(stored or {})) for number, vector, stored in rows]
    # Chroma returns records in an order of its own, whatever was asked for.
    found.sort(key=lambda record: record[0])
    vectors = np.array([vector for _, vector, _ in found], dtype=np.float32)
    return [number for number, _, _ in found], vectors, [stored for _, _, stored in found]


def all_numbers(collection: Any) -> list[int]:
    """Return the numbers of all records, ascending; call while nobody writes."""
    pages = (
        collection.get(limit=_PAGE, offset=start, include=[])["ids"] for start in range(0, collection.count(), _PAGE)
    )
    return sorted(int(number) for page in pages for number in page)


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


# Its SQLite takes expressions of up to 1,000 levels, and each condition that is joined adds one.
_MOST_JOINED = 500
Where: TypeAlias = dict[str, Any] | bool
"""A `where` of Chroma, or True for no condition and False for one that nothing satisfies."""


def compile_filter(condition: Filter, *, negated: bool = False) -> Where:
    """Return the `where` that keeps exactly the records the reference evaluator keeps (or drops, `negated`).

    Chroma wants `$and` and `$or` with two members or more, no empty `$in`, and lists matched by `$contains`. It has
    neither `$not` nor a test for presence, so negations are pushed down to the leaves, where `$ne`, `$nin`
    and `$not_contains` keep records without the field, as ours do. The caller's own fields are matched by
    their terms (`groundwire.vectorstores.stored_fields`). Only forms that version 1.5 evaluates exactly are used.

    Raises:
        UnsupportedFilterError: for patterns, presence, substrings, orderings of lists, of the caller's own fields
            and under a negation, and more values than can be joined.
    """
    match condition:
        case And(clauses):
            return _combine([compile_filter(clause, negated=negated) for clause in clauses], is_and=not negated)
        case Or(clauses):
            return _combine([compile_filter(clause, negated=negated) for clause in clauses], is_and=negated)
        case Not(clause):
            return compile_filter(clause, negated=not negated)
        case Comparison(field, Comparator.EQ | Comparator.NE as comparator, value):
            return _one_of(field, (value,), is_excluded=negated is not (comparator is Comparator.NE))
        case Comparison(field, comparator, value):
            kind = BUILT_IN_FIELDS.get(field)
            # Under a negation records without the field would have to stay, and Chroma would drop them.
            if negated or kind is None or kind is FieldKind.INTEGER_LIST or (kind in TEXTS and isinstance(value, str)):
                raise _unsupported(f"{comparator} under a negation, on a list, a text or a metadata field")
            bound = integer_bound(kind, comparator, value)
            return False if bound is None else {field: {f"${bound[0]}": bound[1]}}
        case Membership(field, values, is_excluded):
            return _one_of(field, values, is_excluded=negated is not is_excluded)
        case Containment(field, value, is_excluded):
            kind = BUILT_IN_FIELDS.get(field)
            if kind is None or kind is FieldKind.TEXT:
                raise _unsupported("$contains on a text or on a metadata field")
            # Only a list contains something: on all other fields nothing matches, or everything under a negation.
            keeps_others = negated is not is_excluded
            return _one_of(field, (value,), is_excluded=keeps_others) if kind in LISTS else keeps_others
        case Like():
            raise _unsupported("$like")
        case Exists():
            raise _unsupported("$exists")
        case _:
            assert_never(condition)


def _combine(parts: list[Where], *, is_and: bool) -> Where:
    """Join by and (or by or): deciding constants win, others vanish, a single member stands alone."""
    if any(part is (not is_and) for part in parts):
        return not is_and
    conditions = [part for part in parts if not isinstance(part, bool)]
    if len(conditions) > 1:
        return {"$and" if is_and else "$or": conditions}
    return conditions[0] if conditions else is_and


def _one_of(field: str, values: Sequence[Scalar], *, is_excluded: bool) -> Where:
    kind = BUILT_IN_FIELDS.get(field)
    candidates = comparable(field, values)
    if kind is None or kind in LISTS:
        if len(candidates) > _MOST_JOINED:
            raise _unsupported(f"more than {_MOST_JOINED} values of a list or of a metadata field")
        holder, operator = TERMS_FIELD if kind is None else field, "$not_contains" if is_excluded else "$contains"
        return _combine([{holder: {operator: value}} for value in candidates], is_and=is_excluded)
    return {field: {"$nin" if is_excluded else "$in": candidates}} if candidates else is_excluded


def _unsupported(clause: str) -> UnsupportedFilterError:
    return UnsupportedFilterError(f"chroma cannot evaluate {clause}", clause=clause, engine="chroma")
