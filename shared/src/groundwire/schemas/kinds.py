"""The kinds of value that metadata fields hold, checked the same way in every schema."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from groundwire.kernel.document import ISO_639_1, MAX_DESCRIPTION_CHARS, MAX_ENTRIES, MAX_LIST, scalar_problem
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.filters import ALIASES, BUILT_IN_FIELDS
from groundwire.kernel.identifiers import (
    METADATA_KEY,
    SHA256,
    parse_caller_id,
    parse_conversation_id,
    parse_scope,
    parse_source_uri,
)

MAX_TITLE_CHARS = 1024
_INT64 = 2**63
_TIME = {"type": "string", "format": "date-time", "examples": ["2025-12-16T06:00:00+00:00"]}


def now() -> datetime:
    """Return the current time, aware (trap T10)."""
    return datetime.now(UTC)


def parse_time(value: Any) -> datetime:
    """Return the UTC time of an aware datetime, or of ISO 8601 text with an offset; ValueError for anything else."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.fromisoformat(value)
    if not isinstance(value, datetime):
        raise ValueError(  # noqa: TRY004 - pydantic collects ValueError only
            "must be a time in ISO 8601, like 2025-12-16T06:00:00+00:00"
        )
    if value.tzinfo is None:
        raise ValueError("must have an offset, like 2025-12-16T06:00:00+00:00")
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise ValueError("must lie between the years 1 and 9999 in UTC") from None


def with_offset(moment: datetime) -> str:
    """Return the form of records: `2025-12-16T06:00:00+00:00`."""
    return moment.isoformat()


def with_z(moment: datetime) -> str:
    """Return the form of documents and chunks: `2025-12-16T06:00:00Z`."""
    return moment.isoformat().removesuffix("+00:00") + "Z"


def not_blank(value: str) -> str:
    """Return a text that is not blank; ValueError for white space alone, NUL and lone surrogates."""
    if not value.strip():
        raise ValueError("must not be blank")
    return _without_nul(value)


def _without_nul(value: str) -> str:
    if "\x00" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise ValueError("must not contain NUL or half characters")
    return value


def _each_not_blank(values: list[str]) -> list[str]:
    for value in values:
        not_blank(value)
    return values


def _tags(values: list[str]) -> list[str]:
    """Return tags trimmed and unique, in order (requirement C12)."""
    trimmed = [value.strip() for value in _each_not_blank(values)]
    if any("," in tag for tag in trimmed):
        raise ValueError("a tag must not contain a comma")
    return list(dict.fromkeys(trimmed))


def _importance(value: Any) -> Any:
    """Refuse in the words of the source design (requirement S0-27, trap T06)."""
    # By type, because True is an int to Python.
    if type(value) is not int or not 1 <= value <= 5:  # noqa: PLR2004 - the two bounds of the message
        raise ValueError("importance must be between 1 and 5, a whole number")
    return value


def _sha256(value: str) -> str:
    if SHA256.fullmatch(value) is None:
        raise ValueError("must be a SHA-256 of 64 hexadecimal digits")
    return value.lower()


def _language(value: str) -> str:
    if value not in ISO_639_1:
        raise ValueError("must be a code of ISO 639-1, two lower-case letters such as 'en'")
    return value


def _parsed(parse: Callable[[str], str]) -> Callable[[str], str]:
    """Return a parser of the kernel that raises what pydantic collects."""

    def parsed(value: str) -> str:
        try:
            return parse(value)
        except InvalidRequestError as error:
            raise ValueError(error.violations[0].description) from error

    return parsed


def _custom(values: Any) -> Any:
    """Return flat keys of the caller's own; ValueError naming the first that breaks a rule."""
    if not isinstance(values, Mapping):
        raise ValueError("must be an object of flat keys")  # noqa: TRY004 - pydantic collects ValueError only
    if len(values) > MAX_ENTRIES:
        raise ValueError(f"must have at most {MAX_ENTRIES} keys")
    for key, value in values.items():
        if not isinstance(key, str) or METADATA_KEY.fullmatch(key) is None:
            raise ValueError(f"{key!r}: a key must be 1 to 64 of letters, digits and '_.-'")
        if key in BUILT_IN_FIELDS or key in ALIASES:
            raise ValueError(f"{key!r} is the name of a built-in field")
        elements = value if isinstance(value, list) else [value]
        # By type, not by isinstance: a boolean among numbers would be stored as another kind.
        kinds = {type(each) for each in elements}
        if not 1 <= len(elements) <= MAX_LIST or len(kinds) != 1 or not kinds <= {str, bool, int, float}:
            raise ValueError(f"{key!r} must be a text, number or truth value, or a list of 1 to {MAX_LIST} of one kind")
        for each in elements:
            if problem := scalar_problem(each):
                raise ValueError(f"{key!r} {problem}")
            if isinstance(each, int) and not -_INT64 <= each < _INT64:
                raise ValueError(f"{key!r} must fit into 64 bits")
    return dict(values)


RecordTime = Annotated[datetime, BeforeValidator(parse_time), PlainSerializer(with_offset), WithJsonSchema(_TIME)]
DocumentTime = Annotated[datetime, BeforeValidator(parse_time), PlainSerializer(with_z), WithJsonSchema(_TIME)]
Words = Annotated[str, Field(min_length=1, max_length=MAX_TITLE_CHARS), AfterValidator(not_blank)]
Text = Annotated[str, Field(max_length=MAX_DESCRIPTION_CHARS), AfterValidator(_without_nul)]
TextList = Annotated[list[str], Field(max_length=MAX_ENTRIES), AfterValidator(_each_not_blank)]
Tags = Annotated[list[str], Field(max_length=MAX_ENTRIES), AfterValidator(_tags)]
Importance = Annotated[int, Field(ge=1, le=5), BeforeValidator(_importance)]
Confidence = Annotated[float, Field(ge=0.0, le=1.0)]
MemoryKind = Literal["fact", "preference", "pattern", "note", "decision"]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-fA-F]{64}$"), BeforeValidator(lambda value: _sha256(str(value)))]
Language = Annotated[str, Field(pattern=r"^[a-z]{2}$"), BeforeValidator(lambda value: _language(str(value)))]
Conversation = Annotated[str, AfterValidator(_parsed(parse_conversation_id))]
Scope = Annotated[str, AfterValidator(_parsed(parse_scope))]
Source = Annotated[str, AfterValidator(_parsed(parse_source_uri))]
Id = Annotated[str, AfterValidator(_parsed(lambda value: parse_caller_id(value, "id")))]
Count = Annotated[int, Field(ge=0)]
Ordinal = Annotated[int, Field(ge=1)]
Custom = Annotated[
    dict[str, Any],
    BeforeValidator(_custom),
    WithJsonSchema({"type": "object", "maxProperties": MAX_ENTRIES}),
]
