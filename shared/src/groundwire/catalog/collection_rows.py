"""Collections to rows and back."""

from dataclasses import asdict
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from groundwire.catalog.tables import collections
from groundwire.kernel.clock import epoch_ms, from_epoch_ms
from groundwire.kernel.collection import (
    ChunkingPolicy,
    ChunkUnit,
    Collection,
    ProfileName,
    RetrievalDefaults,
    SearchMode,
)
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.errors import CollectionNotFoundError


def find_collection(connection: Connection, tenant: str, name: str) -> Collection | None:
    """Return the collection of this name, if the tenant has it."""
    statement = select(collections).where(collections.c.tenant == tenant, collections.c.name == name)
    row = connection.execute(statement).mappings().first()
    return None if row is None else to_collection(row)


def require_collection(connection: Connection, tenant: str, name: str) -> Collection:
    """Return the collection of this name, or raise CollectionNotFoundError."""
    found = find_collection(connection, tenant, name)
    if found is None:
        raise CollectionNotFoundError(name)
    return found


def collection_key(connection: Connection, tenant: str, name: str) -> int:
    """Return the key of the collection of this name, or raise CollectionNotFoundError."""
    statement = select(collections.c.collection_key).where(collections.c.tenant == tenant, collections.c.name == name)
    key = connection.execute(statement).scalar()
    if key is None:
        raise CollectionNotFoundError(name)
    return int(key)


def collection_values(collection: Collection) -> dict[str, Any]:
    """Return the columns of a collection."""
    return {
        "uid": collection.uid,
        "tenant": collection.tenant,
        "name": collection.name,
        "engine_name": collection.engine_name,
        "profile": collection.profile.value,
        "identity": asdict(collection.identity),
        "identity_digest": collection.identity.digest,
        "chunking": asdict(collection.chunking),
        "retrieval": asdict(collection.retrieval),
        "created_time": epoch_ms(collection.created_time),
    }


def to_collection(row: RowMapping) -> Collection:
    """Make a collection of its row."""
    c = collections.c
    chunking, retrieval = row[c.chunking], row[c.retrieval]
    return Collection(
        uid=row[c.uid],
        tenant=row[c.tenant],
        name=row[c.name],
        engine_name=row[c.engine_name],
        profile=ProfileName(row[c.profile]),
        identity=EmbeddingIdentity(**row[c.identity]),
        chunking=ChunkingPolicy(**{**chunking, "unit": ChunkUnit(chunking["unit"])}),
        retrieval=RetrievalDefaults(**{**retrieval, "mode": SearchMode(retrieval["mode"])}),
        created_time=from_epoch_ms(row[c.created_time]),
    )
