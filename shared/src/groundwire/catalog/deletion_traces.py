"""What a deletion should have removed, to be searched for afterwards."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    RowMapping,
    Select,
    bindparam,
    exists,
    func,
    or_,
    select,
)

from groundwire.catalog.bookkeeping_tables import embeddings
from groundwire.catalog.database import Database
from groundwire.catalog.embedding_rows import unneeded_embeddings
from groundwire.catalog.generation_keys import count_indexed, numbers_of
from groundwire.catalog.lexical_search import count_among
from groundwire.catalog.quoting_messages import count_quoting_messages
from groundwire.catalog.tables import chunks, documents, generations, text_segments
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection

_PER_QUERY = 5000
_GIVEN = select(func.json_each(bindparam("given")).table_valued("value").c.value)


@dataclass(frozen=True, slots=True)
class DeletionTraces:
    """What a deletion concerned; `embedding_hashes` are of vectors nobody else needed, `indexed` counts chunks.

    `permanent`: rows and texts must be gone, and answers that quote them, not only what searches find.
    """

    tenant: str
    collection: str
    collection_uid: str
    engine_name: str
    document_ids: Sequence[str]
    collection_key: int
    document_keys: Sequence[int]
    generation_keys: Sequence[int]
    numbers: Sequence[int]
    indexed: int
    identity_digest: str
    embedding_hashes: Sequence[str]
    permanent: bool


def trace_document(
    connection: Connection, row: RowMapping, leaving: Select[tuple[int]], *, permanent: bool
) -> DeletionTraces:
    """Note what the deletion of a document concerns, before it: generations by their keys, their chunks and vectors.

    Args:
        connection: of the transaction that deletes.
        row: what `visible_row` or `hidden_row` returned.
        leaving: the statement for the keys of the generations.
        permanent: whether they go for good.
    """
    digest = row["identity_digest"]
    return DeletionTraces(
        tenant=row["tenant"],
        collection=row["collection"],
        collection_uid=row["collection_uid"],
        engine_name=row["engine_name"],
        document_ids=[row["document_id"]],
        collection_key=row["collection_key"],
        document_keys=[row["document_key"]],
        generation_keys=_keys(connection, leaving),
        numbers=numbers_of(connection, leaving),
        indexed=count_indexed(connection, leaving),
        identity_digest=digest,
        embedding_hashes=unneeded_embeddings(connection, digest, leaving) if permanent else (),
        permanent=permanent,
    )


def trace_collection(connection: Connection, key: int, collection: Collection) -> DeletionTraces:
    """Note what the deletion of a collection concerns, before it."""
    of_all = select(generations.c.generation_key).where(generations.c.collection_key == key)
    rows = select(documents.c.document_key, documents.c.document_id).where(documents.c.collection_key == key)
    found = connection.execute(rows).all()
    digest = collection.identity.digest
    return DeletionTraces(
        tenant=collection.tenant,
        collection=collection.name,
        collection_uid=collection.uid,
        engine_name=collection.engine_name,
        document_ids=[row.document_id for row in found],
        collection_key=key,
        document_keys=[row.document_key for row in found],
        generation_keys=_keys(connection, of_all),
        numbers=numbers_of(connection, of_all),
        indexed=count_indexed(connection, of_all),
        identity_digest=digest,
        embedding_hashes=unneeded_embeddings(connection, digest, of_all),
        permanent=True,
    )


class Leftovers:
    """A final search through the catalog."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def scrub(self, budget: Budget) -> bool:
        """Let the files of the catalog hold nothing of what was deleted; tell whether that is so."""
        return self._database.scrub(budget)

    def count(self, traces: DeletionTraces) -> dict[str, int]:
        """Return how many entries are left, by store: all but the vector engine."""
        with self._database.read() as connection:
            return {
                "catalog": _rows(connection, traces),
                "full_text": count_among(connection, traces.collection_key, traces.numbers),
                "texts": _texts(connection, traces),
                "embedding_cache": _vectors(connection, traces),
                "sessions": _messages(connection, traces),
            }


def _keys(connection: Connection, statement: Select[Any]) -> list[int]:
    return [int(key) for key in connection.execute(statement).scalars()]


def _rows(connection: Connection, traces: DeletionTraces) -> int:
    of_documents = documents.c.document_key.in_(_GIVEN)
    if not traces.permanent:
        return _count(connection, of_documents & (documents.c.live_generation > 0), traces.document_keys)
    # A row without any content stays while another ingest of the document is under way.
    with_content = or_(documents.c.live_generation > 0, documents.c.deleted_generation > 0)
    return (
        _count(connection, of_documents & with_content, traces.document_keys)
        + _count(connection, generations.c.generation_key.in_(_GIVEN), traces.generation_keys)
        + _count(connection, chunks.c.chunk_number.in_(_GIVEN), traces.numbers)
    )


def _texts(connection: Connection, traces: DeletionTraces) -> int:
    of_texts = text_segments.c.generation_key.in_(_GIVEN)
    return _count(connection, of_texts, traces.generation_keys) if traces.permanent else 0


def _vectors(connection: Connection, traces: DeletionTraces) -> int:
    needed = exists(select(1).where(chunks.c.embedding_hash == embeddings.c.embedding_hash))
    of_model = embeddings.c.identity_digest == traces.identity_digest
    left = of_model & embeddings.c.embedding_hash.in_(_GIVEN) & ~needed
    return _count(connection, left, traces.embedding_hashes)


def _messages(connection: Connection, traces: DeletionTraces) -> int:
    if not traces.permanent:
        return 0
    # What is there again under the same id may be quoted again.
    again = select(documents.c.document_id).where(
        documents.c.tenant == traces.tenant, documents.c.live_generation > 0, documents.c.document_id.in_(_GIVEN)
    )
    there = set(connection.execute(again, {"given": json.dumps(list(traces.document_ids))}).scalars())
    gone = [document_id for document_id in traces.document_ids if document_id not in there]
    return count_quoting_messages(connection, traces.tenant, gone)


def _count(connection: Connection, condition: ColumnElement[bool], given: Sequence[Any]) -> int:
    statement = select(func.count()).where(condition)
    parts = (json.dumps(list(given[start : start + _PER_QUERY])) for start in range(0, len(given), _PER_QUERY))
    return sum(int(connection.execute(statement, {"given": part}).scalar_one()) for part in parts)
