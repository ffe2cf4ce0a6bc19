"""When known vectors were made, and removal of those that only leaving generations need."""

import json
from collections.abc import Sequence

from sqlalchemy import Connection, Select, delete, exists, func, literal_column, select

from groundwire.catalog.bookkeeping_tables import embeddings
from groundwire.catalog.generation_keys import key_of
from groundwire.catalog.tables import chunks, generations
from groundwire.kernel.collection import Collection


def embedding_times(connection: Connection, collection: Collection, embedding_hashes: Sequence[str]) -> dict[str, int]:
    """Return when those of some vectors that a collection uses were made, in milliseconds since 1970, by hash.

    Vectors are stored once for all collections. What callers are told leaves out those that only others use, because
    it would tell what texts these hold.
    """
    given = func.json_each(json.dumps(list(embedding_hashes))).table_valued("value")
    of_collection = (
        exists()
        .where(chunks.c.embedding_hash == embeddings.c.embedding_hash)
        .where(chunks.c.generation_key == generations.c.generation_key)
        .where(generations.c.collection_key == key_of(collection), generations.c.state != literal_column("'PENDING'"))
    )
    statement = select(embeddings.c.embedding_hash, embeddings.c.create_time).where(
        embeddings.c.identity_digest == collection.identity.digest,
        embeddings.c.embedding_hash.in_(select(given.c.value)),
        of_collection,
    )
    return {row.embedding_hash: row.create_time for row in connection.execute(statement)}


def unneeded_embeddings(connection: Connection, identity_digest: str, leaving: Select[tuple[int]]) -> list[str]:
    """Return the hashes of the stored vectors that only chunks of the `leaving` generations (their keys) have."""
    other = chunks.alias("other")
    needed = exists(
        select(1).where(other.c.embedding_hash == embeddings.c.embedding_hash, other.c.generation_key.not_in(leaving))
    )
    of_leaving = select(chunks.c.embedding_hash).where(chunks.c.generation_key.in_(leaving))
    hashes = select(func.json_group_array(embeddings.c.embedding_hash)).where(
        embeddings.c.identity_digest == identity_digest, embeddings.c.embedding_hash.in_(of_leaving), ~needed
    )
    found: list[str] = json.loads(connection.execute(hashes).scalar_one())
    return found


def forget_embeddings(connection: Connection, identity_digest: str, embedding_hashes: Sequence[str]) -> int:
    """Remove stored vectors; return how many there were."""
    given = func.json_each(json.dumps(list(embedding_hashes))).table_valued("value")
    unneeded = delete(embeddings).where(
        embeddings.c.identity_digest == identity_digest, embeddings.c.embedding_hash.in_(select(given.c.value))
    )
    return connection.execute(unneeded).rowcount
