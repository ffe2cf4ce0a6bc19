"""Collections to rows and back."""

from collections.abc import Mapping
from dataclasses import asdict
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from groundwire.catalog.tables import collections
from groundwire.kernel.clock import epoch_ms, from_epoch_ms
from groundwire.kernel.collection import (
    ChunkerKind,
    ChunkingPolicy,
    ChunkUnit,
    Collection,
    CollectionLimits,
    CollectionSettings,
    DuplicateChunkPolicy,
    FieldDescription,
    FieldType,
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
        "settings": settings_value(collection.settings),
        "create_time": epoch_ms(collection.create_time),
        "update_time": epoch_ms(collection.update_time),
    }


def settings_value(settings: CollectionSettings) -> dict[str, Any]:
    """Return the settings as the column holds them; the retention in seconds."""
    return {**asdict(settings), "generation_retention": settings.generation_retention.total_seconds()}


def to_collection(row: RowMapping) -> Collection:
    """Make a collection of its row."""
    c = collections.c
    return Collection(
        uid=row[c.uid],
        tenant=row[c.tenant],
        name=row[c.name],
        engine_name=row[c.engine_name],
        profile=ProfileName(row[c.profile]),
        identity=EmbeddingIdentity(**row[c.identity]),
        settings=_to_settings(row[c.settings]),
        create_time=from_epoch_ms(row[c.create_time]),
        update_time=from_epoch_ms(row[c.update_time]),
    )


def _to_settings(stored: Mapping[str, Any]) -> CollectionSettings:
    retrieval = stored["retrieval"]
    return CollectionSettings(
        chunking=to_chunking(stored["chunking"]),
        retrieval=RetrievalDefaults(**{**retrieval, "mode": SearchMode(retrieval["mode"])}),
        limits=CollectionLimits(**stored["limits"]),
        approved_source_prefixes=tuple(stored["approved_source_prefixes"]),
        generation_retention=timedelta(seconds=stored["generation_retention"]),
        duplicate_chunks=DuplicateChunkPolicy(stored["duplicate_chunks"]),
        content_description=stored["content_description"],
        field_descriptions=tuple(
            FieldDescription(each["name"], each["description"], FieldType(each["type"]), tuple(each["allowed_values"]))
            for each in stored["field_descriptions"]
        ),
    )


def to_chunking(stored: Mapping[str, Any]) -> ChunkingPolicy:
    """Make a chunking policy of its stored values."""
    given = {**stored, "unit": ChunkUnit(stored["unit"]), "chunker": ChunkerKind(stored["chunker"])}
    return ChunkingPolicy(**given)
