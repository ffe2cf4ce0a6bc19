"""Removal of vectors that no chunk refers to any more."""

from collections.abc import Collection

from sqlalchemy import Connection, bindparam, delete, exists, select

from groundwire.catalog.bookkeeping_tables import embeddings
from groundwire.catalog.tables import chunks


def forget_unused_embeddings(connection: Connection, identity_digest: str, hashes: Collection[str]) -> None:
    """Remove the vectors of these contents unless a chunk, live or pending, still has the content."""
    used = exists(select(1).where(chunks.c.content_hash == embeddings.c.content_hash))
    statement = delete(embeddings).where(
        embeddings.c.identity_digest == identity_digest, embeddings.c.content_hash == bindparam("content"), ~used
    )
    if hashes:
        connection.execute(statement, [{"content": content} for content in hashes])
