"""Check and translate the settings of collections."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from google.protobuf.duration_pb2 import Duration

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.ingest.v1 import collection_pb2 as pb
from groundwire.ingest.wire.chunking import parse_chunking, to_chunking_message
from groundwire.kernel.collection import (
    CollectionLimits,
    CollectionSettings,
    DuplicateChunkPolicy,
    FieldDescription,
    FieldType,
    RetrievalDefaults,
    SearchMode,
)
from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.identifiers import parse_source_uri
from groundwire.rpc.times import parse_duration

T = TypeVar("T")
_MODES: dict[int, SearchMode] = {
    search_mode_pb2.SEARCH_MODE_HYBRID: SearchMode.HYBRID,
    search_mode_pb2.SEARCH_MODE_VECTOR: SearchMode.VECTOR,
    search_mode_pb2.SEARCH_MODE_LEXICAL: SearchMode.LEXICAL,
}
_DUPLICATES: dict[int, DuplicateChunkPolicy] = {
    pb.DUPLICATE_CHUNK_POLICY_KEEP: DuplicateChunkPolicy.KEEP,
    pb.DUPLICATE_CHUNK_POLICY_SKIP_IN_DOCUMENT: DuplicateChunkPolicy.SKIP_IN_DOCUMENT,
    pb.DUPLICATE_CHUNK_POLICY_SKIP_IN_COLLECTION: DuplicateChunkPolicy.SKIP_IN_COLLECTION,
}
_FIELD_TYPES: dict[int, FieldType] = {getattr(pb, f"FIELD_TYPE_{each.name}"): each for each in FieldType}
_TEXTUAL = frozenset({FieldType.STRING, FieldType.STRING_LIST})
_FIELD_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MAX_TOP_K = 100
_MAX_QUERY_CHARS = 8192
_MAX_ENTRIES = 64
_MAX_BYTES = 256 * 1024  # so that a collection always fits into a page
_MAX_VALUES = 256
_MAX_DESCRIPTION_CHARS = 1024
_MAX_RETENTION = timedelta(days=3650)


@dataclass(frozen=True, slots=True)
class SettingsReader:
    """Reads settings from requests; `max_document_bytes` is the server's limit on documents."""

    max_document_bytes: int

    def __call__(self, message: pb.CollectionSettings, profile: CollectionSettings) -> CollectionSettings:
        """Return the settings that a message makes of those of a profile; what is unset keeps the profile's value.

        Raises:
            InvalidRequestError: naming the fields that break a rule.
        """
        if message.ByteSize() > _MAX_BYTES:
            raise InvalidRequestError.of("settings", f"must have at most {_MAX_BYTES} bytes")
        duplicates = message.duplicate_chunk_policy
        return CollectionSettings(
            chunking=parse_chunking(message.chunking, "settings.chunking").over(profile.chunking, "settings.chunking"),
            retrieval=_parse_retrieval(message.retrieval, profile.retrieval),
            limits=self._limits(message.limits, profile.limits),
            approved_source_prefixes=_parse_prefixes(message.approved_source_prefixes),
            generation_retention=parse_duration(
                message.generation_retention, "settings.generation_retention", timedelta(0), _MAX_RETENTION
            ),
            duplicate_chunks=_known(_DUPLICATES, duplicates, profile.duplicate_chunks, "duplicate_chunk_policy"),
            content_description=_parse_text(message.content_description, "content_description"),
            field_descriptions=_parse_fields(message.field_descriptions),
        )

    def _limits(self, message: pb.CollectionLimits, profile: CollectionLimits) -> CollectionLimits:
        limits = CollectionLimits(
            max_query_chars=message.max_query_chars if message.HasField("max_query_chars") else profile.max_query_chars,
            max_document_bytes=(
                message.max_document_bytes if message.HasField("max_document_bytes") else profile.max_document_bytes
            ),
            require_url=message.require_url if message.HasField("require_url") else profile.require_url,
        )
        size, most = limits.max_document_bytes, self.max_document_bytes
        _refuse(
            "limits",
            {
                f"max_query_chars must be 1 to {_MAX_QUERY_CHARS}": 1 <= limits.max_query_chars <= _MAX_QUERY_CHARS,
                f"max_document_bytes must be 1 to {most}, the limit of the server": size is None or 1 <= size <= most,
            },
        )
        return limits


def _parse_retrieval(message: pb.RetrievalDefaults, profile: RetrievalDefaults) -> RetrievalDefaults:
    defaults = RetrievalDefaults(
        mode=_known(_MODES, message.mode, profile.mode, "retrieval.mode"),
        top_k=message.top_k if message.HasField("top_k") else profile.top_k,
        min_relevance=message.min_relevance if message.HasField("min_relevance") else profile.min_relevance,
        dense_weight=message.dense_weight if message.HasField("dense_weight") else profile.dense_weight,
    )
    _refuse(
        "retrieval",
        {
            f"top_k must be 1 to {_MAX_TOP_K}": 1 <= defaults.top_k <= _MAX_TOP_K,
            "min_relevance must be 0.0 to 1.0": 0.0 <= defaults.min_relevance <= 1.0,
            "dense_weight must be 0.0 to 1.0": 0.0 <= defaults.dense_weight <= 1.0,
        },
    )
    return defaults


def _parse_prefixes(values: Sequence[str]) -> tuple[str, ...]:
    if len(values) > _MAX_ENTRIES:
        raise InvalidRequestError.of("settings.approved_source_prefixes", f"must have at most {_MAX_ENTRIES} entries")
    for number, value in enumerate(values):
        parse_source_uri(value, f"settings.approved_source_prefixes[{number}]")
    return tuple(dict.fromkeys(values))


def _parse_text(value: str, field: str) -> str:
    if len(value) > _MAX_DESCRIPTION_CHARS or "\x00" in value:
        raise InvalidRequestError.of(
            f"settings.{field}", f"must have at most {_MAX_DESCRIPTION_CHARS} characters and no NUL"
        )
    return value


def _parse_fields(messages: Sequence[pb.FieldDescription]) -> tuple[FieldDescription, ...]:
    field = "settings.field_descriptions"
    if len(messages) > _MAX_ENTRIES:
        raise InvalidRequestError.of(field, f"must have at most {_MAX_ENTRIES} entries")
    parsed = tuple(_parse_field(each, f"field_descriptions[{number}]") for number, each in enumerate(messages))
    names = [each.name for each in parsed]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InvalidRequestError.of(f"{field}[{number}].name", f"{name!r} is described twice")
    return parsed


def _parse_field(message: pb.FieldDescription, field: str) -> FieldDescription:
    values = tuple(message.allowed_values)
    kind = _FIELD_TYPES.get(message.type)
    _refuse(
        field,
        {
            "name must be 1 to 64 characters of A-Z, a-z, 0-9, '_', '.' and '-'": bool(
                _FIELD_NAME.fullmatch(message.name)
            ),
            "description must not be blank": bool(message.description.strip()),
            "type must be given": kind is not None,
            "allowed_values can be given for texts only": not values or kind in _TEXTUAL,
            f"allowed_values must be at most {_MAX_VALUES}, not blank and unique": (
                len(set(values)) == len(values) <= _MAX_VALUES and all(value.strip() for value in values)
            ),
        },
    )
    description = _parse_text(message.description, f"{field}.description")
    return FieldDescription(message.name, description, _FIELD_TYPES[message.type], values)


def to_settings_message(settings: CollectionSettings) -> pb.CollectionSettings:
    """Return the message of settings; a limit that is the server's is left out."""
    retrieval = settings.retrieval
    retention = Duration()
    retention.FromTimedelta(settings.generation_retention)
    return pb.CollectionSettings(
        chunking=to_chunking_message(settings.chunking),
        retrieval=pb.RetrievalDefaults(
            mode=search_mode_pb2.SearchMode.Value(f"SEARCH_MODE_{retrieval.mode.name}"),
            top_k=retrieval.top_k,
            min_relevance=retrieval.min_relevance,
            dense_weight=retrieval.dense_weight,
        ),
        limits=_to_limits_message(settings.limits),
        approved_source_prefixes=settings.approved_source_prefixes,
        generation_retention=retention,
        duplicate_chunk_policy=pb.DuplicateChunkPolicy.Value(
            f"DUPLICATE_CHUNK_POLICY_{settings.duplicate_chunks.name}"
        ),
        content_description=settings.content_description,
        field_descriptions=[_to_description_message(each) for each in settings.field_descriptions],
    )


def _to_limits_message(limits: CollectionLimits) -> pb.CollectionLimits:
    return pb.CollectionLimits(
        max_query_chars=limits.max_query_chars,
        max_document_bytes=limits.max_document_bytes,
        require_url=limits.require_url,
    )


def _to_description_message(described: FieldDescription) -> pb.FieldDescription:
    return pb.FieldDescription(
        name=described.name,
        description=described.description,
        type=pb.FieldType.Value(f"FIELD_TYPE_{described.type.name}"),
        allowed_values=described.allowed_values,
    )


def _known(values: Mapping[int, T], value: int, unspecified: T, field: str) -> T:
    if value and value not in values:
        raise InvalidRequestError.of(f"settings.{field}", f"unknown value {value}")
    return values.get(value, unspecified)


def _refuse(part: str, rules: Mapping[str, bool]) -> None:
    broken = [rule.partition(" ") for rule, is_met in rules.items() if not is_met]
    if broken:
        raise InvalidRequestError([FieldViolation(f"settings.{part}.{name}", said) for name, _, said in broken])
