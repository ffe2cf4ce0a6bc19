"""Converts and checks the messages of collections: settings and field masks.

Violations raise InvalidRequestError, which names the field.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import timedelta
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.field_mask_pb2 import FieldMask

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.ingest.v1 import collection_pb2 as pb
from groundwire.api.ingest.v1 import collection_service_pb2 as service_pb
from groundwire.ingest.collections import CollectionFigures
from groundwire.ingest.wire.fields import given_values, known, parse_chunking
from groundwire.kernel.collection import (
    DEFAULT_PROFILE,
    PROFILES,
    Collection,
    CollectionSettings,
    DuplicateChunkPolicy,
    FieldDescription,
    FieldType,
    ProfileName,
    SearchMode,
)
from groundwire.kernel.errors import FieldViolation, InvalidRequestError, refuse, refuse_broken
from groundwire.kernel.identifiers import METADATA_KEY, parse_collection_name, parse_source_uri
from groundwire.rpc.messages import to_identity_message
from groundwire.rpc.value_messages import members_by_number, parse_duration, to_timestamp

_MODES = members_by_number(search_mode_pb2.SearchMode, SearchMode)
_DUPLICATES = members_by_number(pb.DuplicateChunkPolicy, DuplicateChunkPolicy)
_FIELD_TYPES = members_by_number(pb.FieldType, FieldType)
PROFILES_BY_NUMBER = members_by_number(pb.Profile, ProfileName)
_TEXTUAL = frozenset({FieldType.STRING, FieldType.STRING_LIST})
_MAX_TOP_K = 100
_MAX_QUERY_CHARS = 8192
_MAX_ENTRIES = 64
_MAX_BYTES = 256 * 1024  # so that a collection always fits into a page
_MAX_VALUES = 256
_MAX_DESCRIPTION_CHARS = 1024
_MAX_RETENTION = timedelta(days=3650)
# Dimensions of the models of the source designs (C01); other profiles take the server's default.
_PROFILE_MODELS = {ProfileName.CONVERSATIONS: 768, ProfileName.WEB: 1024, ProfileName.BOOK: 1024}
# Creating a collection again changes nothing, even if version 0.1.0 made it with another default.
_BOOK_DENSE_WEIGHT_OF_0_1_0 = 0.7
_MAX_WEIGHT = 10.0
_WHOLE = frozenset({"*", "settings"})
_GROUPS = frozenset({"chunking", "retrieval", "limits"})
_FIELDS: Any = pb.CollectionSettings.DESCRIPTOR.fields_by_name
# What the mask of an update may name.
_PATHS = frozenset(
    {f"settings.{name}" for name in _FIELDS}
    | {f"settings.{group}.{inner.name}" for group in _GROUPS for inner in _FIELDS[group].message_type.fields}
)


def parse_create_collection(
    request: service_pb.CreateCollectionRequest,
    tenant: str,
    max_document_bytes: int,
    find: Callable[[str, str], Collection | None],
) -> tuple[str, ProfileName, CollectionSettings]:
    """Return name, profile and settings of the collection to create.

    An existing collection keeps earlier defaults: its profile where none is given, and the weight of vectors of a
    book. So a program that creates its collection at every start still gets it.

    `find` returns a tenant's collection, None when there is none of that name.
    """
    name = parse_collection_name(request.collection)
    given = known(PROFILES_BY_NUMBER, request.profile, "profile")
    existing = find(tenant, name)
    profile = given or (existing.profile if existing else DEFAULT_PROFILE)
    defaults = PROFILES[profile]
    if existing and existing.profile is profile is ProfileName.BOOK:
        stored_weight = existing.settings.retrieval.dense_weight
        if stored_weight == _BOOK_DENSE_WEIGHT_OF_0_1_0:
            defaults = replace(defaults, retrieval=replace(defaults.retrieval, dense_weight=stored_weight))
    settings = parse_settings(request.settings, defaults, max_document_bytes)
    return name, profile, settings


def changed_settings(
    request: service_pb.UpdateCollectionRequest, current: Collection, max_document_bytes: int
) -> CollectionSettings:
    """Return the settings of a collection after the change that the request asks for."""
    refuse(
        FieldViolation(f"update_mask.paths[{number}]", f"unknown path {path!r}")
        for number, path in enumerate(request.update_mask.paths)
        if path not in _WHOLE and path not in _PATHS
    )
    if _WHOLE.intersection(request.update_mask.paths):
        masked = request.collection.settings
    else:
        masked, source = pb.CollectionSettings(), pb.CollectionSettings()
        masked.CopyFrom(to_settings_message(current.settings))
        source.CopyFrom(request.collection.settings)
        # A group that is not given is an empty one: the library would leave alone what the mask names below it.
        for group in _GROUPS:
            getattr(source, group).SetInParent()
        paths = [path.removeprefix("settings.") for path in request.update_mask.paths]
        if not paths:
            # A group such as `limits` is not a path of its own, so that its unset fields stay as they are.
            groups = {
                name: given_values(value)
                for name, value in given_values(request.collection.settings).items()
                if name in _GROUPS
            }
            paths = [f"{group}.{name}" for group, inner in groups.items() for name in inner]
            paths += given_values(request.collection.settings).keys() - _GROUPS
        FieldMask(paths=paths).MergeMessage(source, masked, replace_message_field=True, replace_repeated_field=True)
    try:
        return parse_settings(masked, PROFILES[current.profile], max_document_bytes)
    except InvalidRequestError as error:
        violations = [FieldViolation(f"collection.{each.field}", each.description) for each in error.violations]
        raise InvalidRequestError(violations) from error


def to_collection_message(figures: CollectionFigures) -> pb.Collection:
    """Return the message of a collection; it names the limit of the server where the collection sets none."""
    collection = figures.collection
    own_dimensions = _PROFILE_MODELS.get(collection.profile)
    settings = to_settings_message(collection.settings)
    if not settings.limits.HasField("max_document_bytes"):
        settings.limits.max_document_bytes = figures.max_document_bytes
    return pb.Collection(
        name=collection.name,
        profile=pb.Profile.Value(f"PROFILE_{collection.profile.name}"),
        embedding=to_identity_message(collection.identity),
        settings=settings,
        create_time=to_timestamp(collection.create_time),
        update_time=to_timestamp(collection.update_time),
        document_count=figures.counts.documents,
        record_count=figures.counts.records,
        chunk_count=figures.counts.chunks,
        total_chars=figures.counts.total_chars,
        vector_engine=figures.vector_engine,
        etag=collection.etag,
        uses_default_embedder=own_dimensions is not None and own_dimensions != collection.identity.dimensions,
    )


def to_settings_message(settings: CollectionSettings) -> pb.CollectionSettings:
    """Return the message of settings; a limit that is the server's is left out."""
    mode = search_mode_pb2.SearchMode.Value(f"SEARCH_MODE_{settings.retrieval.mode.name}")
    retention = Duration()
    retention.FromTimedelta(settings.generation_retention)
    return pb.CollectionSettings(
        chunking=pb.ChunkingPolicy(
            unit=pb.ChunkUnit.Value(f"CHUNK_UNIT_{settings.chunking.unit.name}"),
            target_size=settings.chunking.target,
            minimum_size=settings.chunking.minimum,
            maximum_size=settings.chunking.maximum,
            overlap_ratio=settings.chunking.overlap_ratio,
            min_chars=settings.chunking.min_chars,
            chunker=pb.Chunker.Value(f"CHUNKER_{settings.chunking.chunker.name}"),
            window_size=settings.chunking.window_size,
        ),
        retrieval=pb.RetrievalDefaults(**asdict(settings.retrieval) | {"mode": mode}),
        limits=pb.CollectionLimits(**asdict(settings.limits)),
        approved_source_prefixes=settings.approved_source_prefixes,
        generation_retention=retention,
        duplicate_chunk_policy=pb.DuplicateChunkPolicy.Value(
            f"DUPLICATE_CHUNK_POLICY_{settings.duplicate_chunks.name}"
        ),
        content_description=settings.content_description,
        field_descriptions=[
            pb.FieldDescription(**asdict(described) | {"type": pb.FieldType.Value(f"FIELD_TYPE_{described.type.name}")})
            for described in settings.field_descriptions
        ],
    )


def parse_settings(
    message: pb.CollectionSettings, profile: CollectionSettings, max_document_bytes: int
) -> CollectionSettings:
    """Return the settings that a message makes of those of a profile; what is unset keeps the profile's value.

    `max_document_bytes` is the server's limit of a document.
    """
    if message.ByteSize() > _MAX_BYTES:
        raise InvalidRequestError.of("settings", f"must have at most {_MAX_BYTES} bytes")
    duplicates = known(_DUPLICATES, message.duplicate_chunk_policy, "settings.duplicate_chunk_policy")
    prefixes = message.approved_source_prefixes
    if len(prefixes) > _MAX_ENTRIES:
        field = "settings.approved_source_prefixes"
        raise InvalidRequestError.of(field, f"must have at most {_MAX_ENTRIES} entries")
    for number, prefix in enumerate(prefixes):
        parse_source_uri(prefix, f"settings.approved_source_prefixes[{number}]")
    limits = replace(profile.limits, **given_values(message.limits))
    size = limits.max_document_bytes
    rules = {
        f"max_query_chars must be 1 to {_MAX_QUERY_CHARS}": 1 <= limits.max_query_chars <= _MAX_QUERY_CHARS,
        f"max_document_bytes must be 1 to {max_document_bytes}, the limit of the server": size is None
        or 1 <= size <= max_document_bytes,
    }
    refuse_broken("settings.limits.", rules.items())
    mode = known(_MODES, message.retrieval.mode, "settings.retrieval.mode") or profile.retrieval.mode
    memory = replace(profile.retrieval.memory, **given_values(message.retrieval.memory))
    weight = f"must be 0.0 to {_MAX_WEIGHT}"
    rules = {
        f"similarity must be above 0.0 and at most {_MAX_WEIGHT}": 0.0 < memory.similarity <= _MAX_WEIGHT,
        f"importance {weight}": 0.0 <= memory.importance <= _MAX_WEIGHT,
        f"recency {weight}": 0.0 <= memory.recency <= _MAX_WEIGHT,
        "half_life_days must be 0.01 to 36500": 0.01 <= memory.half_life_days <= 36_500,  # noqa: PLR2004 - said
    }
    refuse_broken("settings.retrieval.memory.", rules.items())
    defaults = replace(profile.retrieval, **(given_values(message.retrieval) | {"mode": mode, "memory": memory}))
    rules = {
        f"top_k must be 1 to {_MAX_TOP_K}": 1 <= defaults.top_k <= _MAX_TOP_K,
        "min_relevance must be 0.0 to 1.0": 0.0 <= defaults.min_relevance <= 1.0,
        "dense_weight must be 0.0 to 1.0": 0.0 <= defaults.dense_weight <= 1.0,
    }
    refuse_broken("settings.retrieval.", rules.items())
    return CollectionSettings(
        chunking=parse_chunking(message.chunking, "settings.chunking").over(profile.chunking, "settings.chunking"),
        retrieval=defaults,
        limits=limits,
        approved_source_prefixes=tuple(dict.fromkeys(prefixes)),
        generation_retention=parse_duration(
            message.generation_retention, "settings.generation_retention", timedelta(0), _MAX_RETENTION
        ),
        duplicate_chunks=duplicates or profile.duplicate_chunks,
        content_description=_parse_text(message.content_description, "settings.content_description"),
        field_descriptions=_parse_field_descriptions(message.field_descriptions),
    )


def _parse_field_descriptions(messages: Sequence[pb.FieldDescription]) -> tuple[FieldDescription, ...]:
    path = "settings.field_descriptions"
    if len(messages) > _MAX_ENTRIES:
        raise InvalidRequestError.of(path, f"must have at most {_MAX_ENTRIES} entries")
    described: dict[str, FieldDescription] = {}
    for number, message in enumerate(messages):
        field, values, kind = f"{path}[{number}]", tuple(message.allowed_values), _FIELD_TYPES.get(message.type)
        is_name = METADATA_KEY.fullmatch(message.name) is not None
        is_set = len(set(values)) == len(values) <= _MAX_VALUES and all(value.strip() for value in values)
        rules = {
            "name must be 1 to 64 characters of A-Z, a-z, 0-9, '_', '.' and '-'": is_name,
            "description must not be blank": bool(message.description.strip()),
            "type must be given": kind is not None,
            "allowed_values can be given for texts only": not values or kind in _TEXTUAL,
            f"allowed_values must be at most {_MAX_VALUES}, not blank and unique": is_set,
        }
        refuse_broken(f"{field}.", rules.items())
        description = _parse_text(message.description, f"{field}.description")
        if message.name in described:
            raise InvalidRequestError.of(f"{field}.name", f"{message.name!r} is described twice")
        described[message.name] = FieldDescription(message.name, description, _FIELD_TYPES[message.type], values)
    return tuple(described.values())


def _parse_text(value: str, field: str) -> str:
    if len(value) > _MAX_DESCRIPTION_CHARS or "\x00" in value:
        raise InvalidRequestError.of(field, f"must have at most {_MAX_DESCRIPTION_CHARS} characters and no NUL")
    return value
