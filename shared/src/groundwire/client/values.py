"""Plain Python values in requests and responses: metadata, fields of documents, filters."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields as fields_of
from datetime import UTC, date, datetime, time
from typing import Any, TypeAlias, TypedDict, TypeVar

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor
from google.protobuf.timestamp_pb2 import Timestamp

from groundwire.api.common.v1 import filter_pb2
from groundwire.api.common.v1 import metadata_value_pb2 as pb
from groundwire.api.common.v1.document_pb2 import DocumentFields
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.filter_parsing import parse_filter, parse_filter_text
from groundwire.rpc.value_messages import enum_prefix, to_value

ResultT = TypeVar("ResultT")
MetadataValue: TypeAlias = str | int | float | bool | date | Sequence[str] | Sequence[int] | Sequence[float]
"""A value of metadata. Dates and times come back as ISO 8601 texts, sequences as lists."""
FilterJson: TypeAlias = Mapping[str, Any] | str
"""A filter in its JSON form, such as `{"year": {"$gte": 2024}}`, or the text of it."""

# What a field holds, and what one holds that may have several.
_KINDS_OF_FIELDS = {
    FieldDescriptor.CPPTYPE_STRING: ("a text", "a list of texts"),
    FieldDescriptor.CPPTYPE_INT32: ("a whole number", "a list of whole numbers"),
    FieldDescriptor.CPPTYPE_DOUBLE: ("a number", "a list of numbers"),
    FieldDescriptor.CPPTYPE_BOOL: ("true or false", "a list of truth values"),
}
_KINDS_OF_LISTS = ({bool}, {int}, {float}, {int, float}, {str})


class Fields(TypedDict, total=False):
    """Facts about a document; a field left out is taken from the document itself, or stays as it was.

    A date is its first moment in UTC, a time has a time zone.
    """

    title: str
    creators: Sequence[str]
    subjects: Sequence[str]
    description: str
    date_created: date
    language: str
    category: str
    tags: Sequence[str]
    project: str
    metadata: Mapping[str, MetadataValue]


def fields_message(fields: Fields) -> DocumentFields | None:
    """Return the message for facts about a document; None if there are none.

    Raises:
        InvalidRequestError: naming each field whose value no message can hold.
    """
    if not fields:
        return None
    message = DocumentFields()
    said: Mapping[str, Any] = fields
    for name, value in said.items():
        kind = message.DESCRIPTOR.fields_by_name.get(name)
        if kind is None:
            names = ", ".join(each.name for each in message.DESCRIPTOR.fields)
            raise InvalidRequestError.of(name, f"is not a field of a document; these are {names}")
        if value is None:
            continue
        if name == "metadata":
            for key, each in metadata_messages(value, "").items():
                message.metadata[key].CopyFrom(each)
        elif name == "date_created":
            message.date_created.CopyFrom(timestamp_message(value, name))
        else:
            set_field(message, name, value, name)
    return message


def set_field(message: Any, name: str, value: Any, place: str) -> None:
    """Set a field of a message, which has it, to a plain value or a list of these.

    Raises:
        InvalidRequestError: naming `place`, the field cannot hold the value.
    """
    kind = message.DESCRIPTOR.fields_by_name[name]
    must = _KINDS_OF_FIELDS.get(kind.cpp_type, ("a value of this field", "a list"))[kind.is_repeated]
    # A text is a sequence of texts as well, each of one character.
    if kind.is_repeated and isinstance(value, str | bytes | Mapping):
        raise InvalidRequestError.of(place, f"must be {must}, not {value!r}")
    try:
        message.MergeFrom(type(message)(**{name: value}))
    except TypeError as error:
        raise InvalidRequestError.of(place, f"must be {must}, not {value!r}") from error
    except ValueError as error:
        raise InvalidRequestError.of(place, f"cannot be stored: {error}") from error


def metadata_messages(metadata: Any, place: str) -> dict[str, pb.MetadataValue]:
    """Return the messages of metadata by their keys; `place` is what stands before `metadata` in errors.

    Raises:
        InvalidRequestError: naming the value or key that no message can hold.
    """
    if not isinstance(metadata, Mapping):
        raise InvalidRequestError.of(f"{place}metadata", f"must be a mapping of keys to values, not {metadata!r}")
    for key in metadata:
        if not isinstance(key, str):
            raise InvalidRequestError.of(f"{place}metadata", f"has the key {key!r}, which must be a text")
    return {key: value_message(value, f"{place}metadata[{key!r}]") for key, value in metadata.items()}


def filter_message(condition: FilterJson | None) -> filter_pb2.Filter | None:
    """Return the message of a filter.

    Raises:
        InvalidFilterError: it is no filter.
    """
    if condition is None:
        return None
    # Sent as it was written, so that the server names what is wrong with it as its writer knows it.
    if isinstance(condition, str):
        parse_filter_text(condition)
        return filter_pb2.Filter(json=condition)
    parse_filter(condition)
    return filter_pb2.Filter(json=json.dumps(condition, ensure_ascii=False))


def filter_json(condition: FilterJson) -> Any:
    """Return a filter as Python values, so that it can become part of another.

    Raises:
        InvalidRequestError: it is a text that is no JSON.
    """
    try:
        return json.loads(condition) if isinstance(condition, str) else condition
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError.of("filter", f"is not JSON: {error}") from error


def both_filters(own: Mapping[str, Any], condition: FilterJson | None) -> dict[str, Any]:
    """Return the filter for what two others match; errors name the fields of `condition` as its author wrote them.

    Raises:
        InvalidRequestError: `condition` is a text that is no JSON.
    """
    given = {} if condition is None else filter_json(condition)
    if not isinstance(given, Mapping) or not isinstance(given.get("$and", []), list):
        return {"$and": [own, given]}  # no filter: the server refuses it
    if own.keys().isdisjoint(given):
        return {**own, **given}
    # Last, so that the clauses of `condition` keep their places.
    return {**given, "$and": [*given.get("$and", []), own]}


def purge_filter(condition: FilterJson) -> filter_pb2.Filter | None:
    """Return the message of a filter of what is to be purged, which may be `*` for everything.

    Raises:
        InvalidFilterError: it is no filter.
    """
    return filter_pb2.Filter(json=condition) if condition == "*" else filter_message(condition)


def value_message(value: Any, place: str) -> pb.MetadataValue:
    """Return the message of one value.

    Raises:
        InvalidRequestError: naming `place`, it is null, an object, a list of several kinds or a number too large.
    """
    try:
        match value:
            case str() | int() | float():
                return to_value(value)
            case date():
                return pb.MetadataValue(timestamp_value=timestamp_message(value, place))
            case [*items]:
                kinds = {type(item) for item in items}
                if kinds not in _KINDS_OF_LISTS:
                    expected = "must be a list of texts, of numbers, or of truth values, and not empty"
                    raise InvalidRequestError.of(place, expected)
                return to_value(tuple(items))
    except ValueError as error:
        raise InvalidRequestError.of(place, f"cannot be stored: {error}") from error
    known = "a text, a number, true, false, a date or time, or a list of texts, of numbers or of truth values"
    raise InvalidRequestError.of(place, f"must be {known}, not {None if value is None else type(value).__name__}")


def enum_value(kind: EnumDescriptor, name: str) -> Any:
    """Return the number of the enum value that people call `name`, such as `section-based`; `_` may stand for `-`.

    Raises:
        ValueError: there is none; says which there are.
    """
    prefix = enum_prefix(kind)
    value = kind.values_by_name.get(prefix + str(name).upper().replace("-", "_"))
    if value is None or value.number == 0:
        names = [each.name.removeprefix(prefix).lower().replace("_", "-") for each in kind.values[1:]]
        raise ValueError(f"must be one of {', '.join(names)}, not {name!r}")
    return value.number


def named_value(place: str, kind: Any, name: str) -> Any:
    """Return the value of an enum that people call `name`; `kind` is its wrapper.

    Raises:
        InvalidRequestError: naming `place`, there is none.
    """
    try:
        return enum_value(kind.DESCRIPTOR, name)
    except ValueError as error:
        raise InvalidRequestError.of(place, str(error)) from error


def enum_name(kind: EnumDescriptor, value: int) -> str:
    """Return what people call an enum value, such as `no_results`; empty for the one that stands for nothing."""
    if value == 0:
        return ""
    known = kind.values_by_number.get(value)  # a later version of the server may have more
    return str(value) if known is None else str(known.name.removeprefix(enum_prefix(kind)).lower())


def filled(kind: type[ResultT], message: Any, /, **others: Any) -> ResultT:
    """Return a dataclass whose fields are the `others`, the message itself, and what this holds under their names."""
    dataclass: Any = kind
    given = {"message": message, **others}
    names = [each.name for each in fields_of(dataclass)]
    return kind(**{name: given[name] if name in given else held_by(message, name) for name in names})


def held_by(message: Any, name: str) -> Any:
    """Return the value of a field: metadata as plain values, lists as tuples, times in UTC, and enums as their names.

    It is None where a field that may be absent is.
    """
    field, value = message.DESCRIPTOR.fields_by_name[name], getattr(message, name)
    if field.is_repeated:
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        return plain_metadata(value) if is_map else tuple(value)
    if field.has_presence and not message.HasField(name):
        return None
    if isinstance(value, Timestamp):
        return value.ToDatetime(UTC)
    return value if field.enum_type is None else enum_name(field.enum_type, value)


def plain_metadata(metadata: Mapping[str, pb.MetadataValue]) -> dict[str, MetadataValue]:
    """Return metadata as plain values by their keys, in the order of the keys."""
    return {key: plain_value(metadata[key]) for key in sorted(metadata)}


def plain_value(message: pb.MetadataValue) -> Any:
    """Return the value as JSON holds it; times as ISO 8601 texts."""
    kind = message.WhichOneof("value")
    if kind is None:
        return None
    if kind == "timestamp_value":
        return message.timestamp_value.ToJsonString()
    held: Any = getattr(message, kind)
    return list(held.values) if kind.endswith("_list") else held


def timestamp_message(moment: date, place: str) -> Timestamp:
    """Return the message of a time, or of the first moment of a day in UTC.

    Raises:
        InvalidRequestError: naming `place`, it has no time zone, is no date and no time, or in no year in UTC.
    """
    if not isinstance(moment, date):
        must = "must be a datetime.date, or a datetime.datetime with a time zone"
        raise InvalidRequestError.of(place, f"{must}, not {moment!r}")
    if not isinstance(moment, datetime):
        moment = datetime.combine(moment, time(), UTC)
    if moment.tzinfo is None:
        raise InvalidRequestError.of(place, "must have a time zone, such as tzinfo=datetime.UTC")
    message = Timestamp()
    try:
        message.FromDatetime(moment)
    except OverflowError as error:
        raise InvalidRequestError.of(place, f"must be in the years 1 to 9999 in UTC, not {moment}") from error
    return message
