"""Converts and checks the descriptive fields of documents, and what several messages share.

Violations raise InvalidRequestError, which names the field.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from groundwire.api.common.v1 import document_pb2, metadata_value_pb2
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.ingest.ingesting import ChunkingOverrides
from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.collection import ChunkerKind, ChunkUnit
from groundwire.kernel.document import (
    ISO_639_1,
    MAX_DESCRIPTION_CHARS,
    MAX_ENTRIES,
    MAX_LIST,
    MAX_METADATA_BYTES,
    MAX_NAME_CHARS,
    DocumentFields,
    scalar_problem,
)
from groundwire.kernel.errors import FieldViolation, InvalidRequestError, collected, refuse
from groundwire.kernel.filters import ALIASES, BUILT_IN_FIELDS, Scalar, Value
from groundwire.kernel.identifiers import METADATA_KEY, WITHOUT_CONTROLS, has_controls
from groundwire.rpc.value_messages import EnumT, members_by_number, parse_timestamp


def known(values: Mapping[int, EnumT], number: int, field: str) -> EnumT | None:
    """Return the member for the number of an enum, None for 0, which stands for an unset field.

    Raises:
        InvalidRequestError: a newer client sent a number that this version does not know.
    """
    if number and number not in values:
        raise InvalidRequestError.of(field, f"unknown value {number}")
    return values.get(number)


_UNITS = members_by_number(collection_pb2.ChunkUnit, ChunkUnit)
_CHUNKERS = members_by_number(collection_pb2.Chunker, ChunkerKind)
_OVERRIDES = {"target_size": "target", "minimum_size": "minimum", "maximum_size": "maximum"}


def given_values(message: Message) -> dict[str, Any]:
    """Return the set fields of a message with their values; they have the same names as ours."""
    return {field.name: value for field, value in message.ListFields()}


def parse_chunking(message: collection_pb2.ChunkingPolicy, field: str) -> ChunkingOverrides:
    """Return what a request says about chunking; `field` is the path of the message in the request."""
    given = {_OVERRIDES.get(name, name): value for name, value in given_values(message).items()}
    given["unit"] = known(_UNITS, message.unit, f"{field}.unit")
    given["chunker"] = known(_CHUNKERS, message.chunker, f"{field}.chunker")
    return ChunkingOverrides(**given)


class _Checks:
    """Collects every violation, so that the caller learns of all at once."""

    def __init__(self) -> None:
        self.violations: list[FieldViolation] = []

    def refuse(self, field: str, description: str) -> None:
        self.violations.append(FieldViolation(field, description))

    def text(self, field: str, value: str, max_chars: int = MAX_NAME_CHARS) -> str | None:
        """Return the text, None for empty."""
        if len(value) > max_chars:
            self.refuse(field, f"must have at most {max_chars} characters")
        elif has_controls(value):
            self.refuse(field, WITHOUT_CONTROLS)
        return value or None

    def scalar(self, field: str, value: Scalar) -> None:
        if problem := scalar_problem(value):
            self.refuse(field, problem)

    def texts(self, field: str, values: Sequence[str]) -> tuple[str, ...]:
        if len(values) > MAX_ENTRIES:
            self.refuse(field, f"must have at most {MAX_ENTRIES} entries")
        for number, value in enumerate(values):
            if not value.strip():
                self.refuse(f"{field}[{number}]", "must not be blank")
            self.text(f"{field}[{number}]", value)
        return tuple(values)

    def tags(self, field: str, values: Sequence[str]) -> tuple[str, ...]:
        """Return the tags trimmed and unique, in order (requirement C12)."""
        for number, value in enumerate(values):
            if "," in value:
                self.refuse(f"{field}[{number}]", "must not contain a comma")
        return tuple(dict.fromkeys(value.strip() for value in self.texts(field, values)))

    def language(self, field: str, value: str) -> str:
        """Return the ISO 639-1 code, `en` for empty."""
        if value and value not in ISO_639_1:
            self.refuse(field, "must be a code of ISO 639-1, two lower-case letters such as 'en'")
        return value or "en"

    def time(self, field: str, value: Timestamp) -> datetime | None:
        """Return the aware UTC time, to the millisecond."""
        with collected(self.violations):
            moment = parse_timestamp(value, field)
            return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        return None


@contextmanager
def _checking() -> Iterator[_Checks]:
    """Collect violations; raise InvalidRequestError with all of them at the end."""
    checks = _Checks()
    yield checks
    refuse(checks.violations)


def parse_fields(message: document_pb2.DocumentFields, path: str = "fields") -> DocumentFields:
    with _checking() as checks:
        return DocumentFields(
            title=checks.text(f"{path}.title", message.title),
            creators=checks.texts(f"{path}.creators", message.creators),
            subjects=checks.texts(f"{path}.subjects", message.subjects),
            description=checks.text(f"{path}.description", message.description, MAX_DESCRIPTION_CHARS),
            date_created=(
                checks.time(f"{path}.date_created", message.date_created) if message.HasField("date_created") else None
            ),
            language=checks.language(f"{path}.language", message.language),
            category=checks.text(f"{path}.category", message.category),
            tags=checks.tags(f"{path}.tags", message.tags),
            project=checks.text(f"{path}.project", message.project),
            metadata=_parse_metadata(checks, f"{path}.metadata", message.metadata),
        )


def parse_tags(tags: Sequence[str], path: str) -> tuple[str, ...]:
    """Return the tags trimmed and unique, in order; `path` is where the request has them."""
    with _checking() as checks:
        return checks.tags(path, tags)


def parse_metadata(metadata: Mapping[str, metadata_value_pb2.MetadataValue], path: str) -> dict[str, Value]:
    """Return keys and their values; `path` is where the request has them."""
    with _checking() as checks:
        return _parse_metadata(checks, path, metadata)


def _parse_metadata(
    checks: _Checks, path: str, messages: Mapping[str, metadata_value_pb2.MetadataValue]
) -> dict[str, Value]:
    if len(messages) > MAX_ENTRIES:
        checks.refuse(path, f"must have at most {MAX_ENTRIES} keys")
    size = sum(len(key) + value.ByteSize() for key, value in messages.items())
    if size > MAX_METADATA_BYTES:
        checks.refuse(path, f"must have at most {MAX_METADATA_BYTES} bytes, not {size}")
    parsed: dict[str, Value] = {}
    for key in sorted(messages):  # protobuf keeps no order, and the same request is to get the same answer
        place = f"{path}[{key!r}]"
        if METADATA_KEY.fullmatch(key) is None:
            checks.refuse(place, "the key must be 1 to 64 characters of A-Z, a-z, 0-9, '_', '.' and '-'")
        elif key in BUILT_IN_FIELDS or key in ALIASES:
            checks.refuse(place, "is the name of a built-in field")
        message = messages[key]
        kind = message.WhichOneof("value")
        if kind is None:
            checks.refuse(place, "must have a value")
        elif kind == "timestamp_value":
            moment = checks.time(place, message.timestamp_value)
            if moment is not None:
                parsed[key] = epoch_ms(moment)
        elif kind.endswith("_list"):
            values = parsed[key] = tuple(getattr(message, kind).values)
            if not 1 <= len(values) <= MAX_LIST:
                checks.refuse(place, f"must have 1 to {MAX_LIST} values")
            for number, each in enumerate(values):
                checks.scalar(f"{place}[{number}]", each)
        else:
            parsed[key] = getattr(message, kind)
            checks.scalar(place, getattr(message, kind))
    return parsed
