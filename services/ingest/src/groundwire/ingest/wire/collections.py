"""Translate collections and their settings."""

import math

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.ingest.v1 import collection_pb2 as pb
from groundwire.ingest.domain.reading import CollectionFigures
from groundwire.ingest.wire.fields import to_timestamp
from groundwire.kernel.collection import ChunkingPolicy, ChunkUnit, ProfileName, RetrievalDefaults, SearchMode
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.errors import FieldViolation, InvalidRequestError, NotAvailableError

_UNITS = {
    pb.CHUNK_UNIT_TOKENS: ChunkUnit.TOKENS,
    pb.CHUNK_UNIT_CHARS: ChunkUnit.CHARS,
}
_MODES = {
    search_mode_pb2.SEARCH_MODE_HYBRID: SearchMode.HYBRID,
    search_mode_pb2.SEARCH_MODE_VECTOR: SearchMode.VECTOR,
    search_mode_pb2.SEARCH_MODE_LEXICAL: SearchMode.LEXICAL,
}
_UNAVAILABLE = (
    "limits",
    "approved_source_prefixes",
    "generation_retention",
    "duplicate_chunk_policy",
    "content_description",
    "field_descriptions",
)
_PROFILE_MODELS = {
    ProfileName.CONVERSATIONS: 768,
    ProfileName.WEB: 1024,
    ProfileName.BOOK: 1024,
}
"""Dimensions of the models of the source designs (C01); other profiles take the server's default."""
_MAX_TARGET = 100_000
_MAX_TOP_K = 20
_MAX_OVERLAP = 0.5


def refuse_unavailable_settings(settings: pb.CollectionSettings) -> None:
    """Return if only settings are given that this version has; none is ignored silently.

    Raises:
        NotAvailableError: naming the setting.
    """
    given = {field.name for field, _ in settings.ListFields()}
    chunking = {field.name for field, _ in settings.chunking.ListFields()}
    unavailable = [name for name in _UNAVAILABLE if name in given]
    if "window_size" in chunking or settings.chunking.chunker == pb.CHUNKER_SENTENCE:
        unavailable.append("chunking.chunker")
    for name in unavailable:
        raise NotAvailableError(f"the setting {name!r} is not available in this version", feature=f"settings.{name}")


def parse_chunking(message: pb.ChunkingPolicy, profile: ChunkingPolicy) -> ChunkingPolicy:
    """Return the profile's policy with the caller's overrides.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    policy = ChunkingPolicy(
        unit=_UNITS.get(message.unit, profile.unit),
        target=message.target_size if message.HasField("target_size") else profile.target,
        minimum=message.minimum_size if message.HasField("minimum_size") else profile.minimum,
        maximum=message.maximum_size if message.HasField("maximum_size") else profile.maximum,
        overlap_ratio=message.overlap_ratio if message.HasField("overlap_ratio") else profile.overlap_ratio,
        min_chars=message.min_chars if message.HasField("min_chars") else profile.min_chars,
    )
    rules = {
        "unit": message.unit in {*_UNITS, pb.CHUNK_UNIT_UNSPECIFIED},
        "target_size": 1 <= policy.target <= _MAX_TARGET,
        "minimum_size": 1 <= policy.minimum <= policy.target,
        "maximum_size": policy.maximum >= policy.target,
        "overlap_ratio": math.isfinite(policy.overlap_ratio) and 0.0 <= policy.overlap_ratio < _MAX_OVERLAP,
        "min_chars": policy.min_chars >= 1,
    }
    _refuse("chunking", rules)
    return policy


def parse_retrieval(message: pb.RetrievalDefaults, profile: RetrievalDefaults) -> RetrievalDefaults:
    """Return the profile's defaults with the caller's overrides.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    defaults = RetrievalDefaults(
        mode=_MODES.get(message.mode, profile.mode),
        top_k=message.top_k if message.HasField("top_k") else profile.top_k,
        min_relevance=message.min_relevance if message.HasField("min_relevance") else profile.min_relevance,
        dense_weight=message.dense_weight if message.HasField("dense_weight") else profile.dense_weight,
    )
    rules = {
        "mode": message.mode in {*_MODES, search_mode_pb2.SEARCH_MODE_UNSPECIFIED},
        "top_k": 1 <= defaults.top_k <= _MAX_TOP_K,
        "min_relevance": 0.0 <= defaults.min_relevance <= 1.0,
        "dense_weight": 0.0 <= defaults.dense_weight <= 1.0,
    }
    _refuse("retrieval", rules)
    return defaults


def _refuse(part: str, rules: dict[str, bool]) -> None:
    broken = [
        FieldViolation(f"settings.{part}.{name}", "is out of range") for name, is_met in rules.items() if not is_met
    ]
    if broken:
        raise InvalidRequestError(broken)


def to_collection_message(found: CollectionFigures, vector_engine: str) -> pb.Collection:
    """Return the message of a collection."""
    collection = found.collection
    own_dimensions = _PROFILE_MODELS.get(collection.profile)
    return pb.Collection(
        name=collection.name,
        profile=pb.Profile.Value(f"PROFILE_{collection.profile.name}"),
        embedding=_to_identity(collection.identity),
        settings=pb.CollectionSettings(
            chunking=_to_chunking(collection.chunking), retrieval=_to_retrieval(collection.retrieval)
        ),
        created_time=to_timestamp(collection.created_time),
        update_time=to_timestamp(collection.created_time),
        document_count=found.documents,
        chunk_count=found.chunks,
        total_chars=found.total_chars,
        vector_engine=vector_engine,
        metric="cosine",
        uses_default_embedder=own_dimensions is not None and own_dimensions != collection.identity.dimensions,
    )


def _to_identity(identity: EmbeddingIdentity) -> pb.EmbeddingIdentity:
    return pb.EmbeddingIdentity(
        provider=identity.provider,
        model_name=identity.model_name,
        revision=identity.revision,
        dimensions=identity.dimensions,
        max_sequence_tokens=identity.max_tokens,
        normalized=identity.normalized,
        probe_digest=identity.probe_digest,
    )


def _to_chunking(policy: ChunkingPolicy) -> pb.ChunkingPolicy:
    return pb.ChunkingPolicy(
        unit=pb.ChunkUnit.Value(f"CHUNK_UNIT_{policy.unit.name}"),
        target_size=policy.target,
        minimum_size=policy.minimum,
        maximum_size=policy.maximum,
        overlap_ratio=policy.overlap_ratio,
        min_chars=policy.min_chars,
        chunker=pb.CHUNKER_STRUCTURE,
    )


def _to_retrieval(defaults: RetrievalDefaults) -> pb.RetrievalDefaults:
    return pb.RetrievalDefaults(
        mode=search_mode_pb2.SearchMode.Value(f"SEARCH_MODE_{defaults.mode.name}"),
        top_k=defaults.top_k,
        min_relevance=defaults.min_relevance,
        dense_weight=defaults.dense_weight,
    )
