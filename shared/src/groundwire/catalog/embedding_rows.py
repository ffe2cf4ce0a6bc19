"""Removal of the vectors that only leaving generations need."""

from sqlalchemy import Connection, Select, delete, exists, select

from groundwire.catalog.bookkeeping_tables import embeddings
from groundwire.catalog.tables import chunks


def forget_embeddings_of(connection: Connection, identity_digest: str, leaving: Select[tuple[int]]) -> None:
    """Remove the vectors of texts that no chunk has but those of the `leaving` generations (their keys)."""
    other = chunks.alias("other")
    needed = exists(
        select(1).where(other.c.embedding_hash == embeddings.c.embedding_hash, other.c.generation_key.not_in(leaving))
    )
    texts = select(chunks.c.embedding_hash).where(chunks.c.generation_key.in_(leaving))
    connection.execute(
        delete(embeddings).where(
            embeddings.c.identity_digest == identity_digest, embeddings.c.embedding_hash.in_(texts), ~needed
        )
    )
