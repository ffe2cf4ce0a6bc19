"""Translate collections."""

from groundwire.api.ingest.v1 import collection_pb2 as pb
from groundwire.ingest.read_collections import CollectionFigures
from groundwire.ingest.wire.collection_settings import to_settings_message
from groundwire.kernel.collection import ProfileName
from groundwire.rpc.document_messages import to_identity_message
from groundwire.rpc.times import to_timestamp

_PROFILE_MODELS = {
    ProfileName.CONVERSATIONS: 768,
    ProfileName.WEB: 1024,
    ProfileName.BOOK: 1024,
}
"""Dimensions of the models of the source designs (C01); other profiles take the server's default."""


def to_collection_message(found: CollectionFigures, vector_engine: str, max_document_bytes: int) -> pb.Collection:
    """Return the message of a collection; `max_document_bytes` is the server's limit, for one that sets none."""
    collection = found.collection
    own_dimensions = _PROFILE_MODELS.get(collection.profile)
    settings = to_settings_message(collection.settings)
    if not settings.limits.HasField("max_document_bytes"):
        settings.limits.max_document_bytes = max_document_bytes
    return pb.Collection(
        name=collection.name,
        profile=pb.Profile.Value(f"PROFILE_{collection.profile.name}"),
        embedding=to_identity_message(collection.identity),
        settings=settings,
        create_time=to_timestamp(collection.create_time),
        update_time=to_timestamp(collection.update_time),
        document_count=found.documents,
        chunk_count=found.chunks,
        total_chars=found.total_chars,
        vector_engine=vector_engine,
        etag=collection.etag,
        uses_default_embedder=own_dimensions is not None and own_dimensions != collection.identity.dimensions,
    )
