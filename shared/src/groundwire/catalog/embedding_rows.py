"""When known vectors were made, and removal of those that only leaving generations need."""

import json
from collections.abc import Sequence

from sqlalchemy import Connection, Select, delete, exists, func, select

from groundwire.catalog.bookkeeping_tables import embeddings
from groundwire.catalog.tables import chunks
from groundwire.kernel.embedder import EmbeddingIdentity


def embedding_times(
    connection: Connection, identity: EmbeddingIdentity, embedding_hashes: Sequence[str]
) -> dict[str, int]:
    """Return when the known ones of some vectors were made, in milliseconds since 1970, by embedding hash."""
    given = func.json_each(json.dumps(list(embedding_hashes))).table_valued("value")
    statement = select(embeddings.c.embedding_hash, embeddings.c.created_time).where(
        embeddings.c.identity_digest == identity.digest, embeddings.c.embedding_hash.in_(select(given.c.value))
    )
    return {row.embedding_hash: row.created_time for row in connection.execute(statement)}


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
