"""Figures of collections, counted in the catalog."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, ScalarSelect, func, select

from groundwire.catalog.collection_rows import require_collection
from groundwire.catalog.database import Database
from groundwire.catalog.generation_keys import key_of, live_generation_keys
from groundwire.catalog.tables import chunks, documents
from groundwire.kernel.collection import Collection


@dataclass(frozen=True, slots=True)
class CollectionStatistics:
    """Figures of what is live; the mappings count documents by value, `by_model` chunks.

    `by_project` has those without a project under the empty key. `overlap_share` is the share of the chunks' code
    points that are in the chunk before as well, in [0, 1].
    """

    collection: Collection
    documents: int
    chunks: int
    total_chars: int
    by_format: Mapping[str, int]
    by_project: Mapping[str, int]
    by_model: Mapping[str, int]
    overlap_share: float


class Statistics:
    """Figures of all tenants; each call sees those of one. Reads every chunk of a collection."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, tenant: str, name: str) -> CollectionStatistics:
        """Return the figures of one collection.

        Raises:
            CollectionNotFoundError: the tenant has none of this name.
        """
        with self._database.read() as connection:
            return _statistics(connection, require_collection(connection, tenant, name))


def _statistics(connection: Connection, collection: Collection) -> CollectionStatistics:
    key = key_of(collection)
    groups = (documents.c.doc_type, func.coalesce(documents.c.project, ""))
    sums = (func.count(), func.sum(documents.c.total_chars))
    of_documents = select(*groups, *sums).where(documents.c.collection_key == key, documents.c.live_generation > 0)
    rows = connection.execute(of_documents.group_by(*groups)).all()
    models = _models(connection, key)
    length = sum(row[3] for row in models)
    return CollectionStatistics(
        collection=collection,
        documents=sum(row[2] for row in rows),
        chunks=sum(row[1] for row in models),
        total_chars=sum(row[3] for row in rows),
        by_format=_totals(rows, 0),
        by_project=_totals(rows, 1),
        by_model={row[0]: row[1] for row in models},
        overlap_share=sum(row[2] for row in models) / length if length else 0.0,
    )


def _models(connection: Connection, collection_key: ScalarSelect[int]) -> Sequence[Sequence[Any]]:
    """Return model, chunks, code points shared with the chunk before, and code points of all, for each model."""
    lengths = func.sum(chunks.c.char_end - chunks.c.char_start)
    figures = (func.count(), func.sum(chunks.c.overlap_prev_chars), lengths)
    statement = select(chunks.c.embedding_model, *figures).group_by(chunks.c.embedding_model)
    live = chunks.c.generation_key.in_(live_generation_keys(collection_key))
    # Chunks that stand for whole sections and documents are counted nowhere.
    return connection.execute(statement.where(live, chunks.c.upper == 0)).all()


def _totals(rows: Sequence[Sequence[Any]], group: int) -> dict[str, int]:
    totals: Counter[str] = Counter()
    for row in rows:
        totals[row[group]] += row[2]
    return dict(totals)
